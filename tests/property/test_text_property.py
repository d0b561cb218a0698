"""TextVectorizer equals scikit-learn's vectorizers on any Unicode text, and a naive twin for all that these lack."""

import re
import unicodedata

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import (
    CountVectorizer,
    HashingVectorizer,
    TfidfTransformer,
    TfidfVectorizer,
)
from sklearn.pipeline import FeatureUnion, make_pipeline

import naive_text
from sparseleaf import TextVectorizer
from sparseleaf.features import stage as stage_module
from sparseleaf.features import terms as terms_module

SAMPLES = [
    "Straße ÖL",
    "İstanbul ıI",
    "ΣΑΣ ΟΔΥΣΣΕΥΣ Σ aΣ Σa",
    "e\u0301te\u0301 a\u0300",
    "日本語のテスト 한국어",
    "ภาษาไทย ข้อมูล",
    "हिन्दी भाषा",
    "שלום עולם العربية",
    "👩‍👩‍👧 ok 👍🏽",
    "foo_bar __ x1 12 3",
    "ﬁ ﷺ ½ Ⅷ",
    "a\u2028b\u00a0c  \t\n d\x1c\x1dx",
    "soft\u00adhyphen",
    "\U00010400\U00010428 𝔘𝔫𝔦 \U0001e900",
    "\x00 \ud7ff\ue000 \U0010ffff",
]
WORDS = st.sampled_from(["cat", "dog", "Cat", "DOG", "ein", "eine", "der", "die", "Haus", "42", "of_", "the"])
TEXT = st.one_of(
    st.lists(WORDS, max_size=12).map(" ".join),
    st.text(max_size=40),
    st.lists(st.sampled_from(SAMPLES), max_size=3).map(" ".join),
    st.tuples(st.sampled_from(SAMPLES), st.text(max_size=10)).map("".join),
)
TEXTS = st.lists(TEXT, min_size=1, max_size=8)
COMBINATIONS = [
    {},
    {"ngram_range": (1, 2)},
    {"ngram_range": (2, 3), "lowercase": False},
    {"analyzer": "char", "ngram_range": (1, 1)},
    {"analyzer": "char", "ngram_range": (2, 4)},
    {"analyzer": "char", "ngram_range": (3, 3), "lowercase": False, "norm": "l1"},
    {"analyzer": "char_wb", "ngram_range": (1, 3)},
    {"analyzer": "char_wb", "ngram_range": (3, 5), "sublinear_tf": True},
    {"analyzer": "char_wb", "ngram_range": (2, 6), "strip_accents": "unicode"},
    {"strip_accents": "unicode"},
    {"strip_accents": "ascii"},
    {"strip_accents": "unicode", "lowercase": False, "ngram_range": (1, 3)},
    {"analyzer": "char", "ngram_range": (2, 2), "strip_accents": "ascii"},
    {"stop_words": ["the", "der", "ein", "ὀδός", "straße"], "ngram_range": (1, 2)},
    {"min_df": 2},
    {"min_df": 0.3, "max_df": 0.8},
    {"max_df": 1},
    {"max_df": 0.5, "min_df": 1, "sublinear_tf": True},
    {"binary": True},
    {"binary": True, "use_idf": False, "norm": None},
    {"sublinear_tf": True, "norm": "l1"},
    {"use_idf": False},
    {"smooth_idf": False, "norm": None},
    {"use_idf": False, "norm": None, "ngram_range": (1, 2)},
    {"sublinear_tf": True, "smooth_idf": False, "norm": "l2", "ngram_range": (1, 2), "strip_accents": "unicode"},
]  # fmt: skip
FEW = settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))


def ours(**options):
    return TextVectorizer(**{"tokenizer": "sklearn", "sublinear_tf": False, "n_jobs": 2} | options)


def fitted(vectorizer, texts):
    """The features, or None if no term is left, which all vectorizers refuse."""
    try:
        return vectorizer.fit_transform(texts)
    except ValueError as error:
        if not re.search("vocabulary|terms|max_df", str(error)):
            raise
        return None


def assert_same(actual, expected):
    assert actual.shape == expected.shape
    assert actual.dtype == np.float32
    expected = expected.astype(np.float32).tocsr()
    expected.sort_indices()
    np.testing.assert_array_equal(actual.indptr, expected.indptr)
    np.testing.assert_array_equal(actual.indices, expected.indices)
    np.testing.assert_array_equal(actual.data, expected.data)


@pytest.mark.parametrize("options", COMBINATIONS, ids=str)
@FEW
@given(texts=TEXTS, others=TEXTS)
@example(texts=SAMPLES, others=SAMPLES[::-1])
def test_identical_to_tfidf_vectorizer(options, texts, others):
    peer, vectorizer = TfidfVectorizer(**options), ours(**options)
    expected, actual = fitted(peer, texts), fitted(vectorizer, texts)
    assert (expected is None) == (actual is None)
    if expected is None:
        return
    assert_same(actual, expected)
    assert vectorizer.get_feature_names_out().tolist() == peer.get_feature_names_out().tolist()
    assert_same(vectorizer.transform(others), peer.transform(others))


@pytest.mark.parametrize("options", [{}, {"binary": True}, {"ngram_range": (1, 2)}], ids=str)
@FEW
@given(texts=TEXTS)
def test_identical_to_count_vectorizer(options, texts):
    expected = fitted(CountVectorizer(**options), texts)
    actual = fitted(ours(use_idf=False, norm=None, **options), texts)
    assert (expected is None) == (actual is None)
    if expected is not None:
        assert_same(actual, expected)


@pytest.mark.parametrize(
    "options",
    [
        {"n_features": 7},
        {"n_features": 2**20, "ngram_range": (1, 2)},
        {"n_features": 13, "alternate_sign": False, "norm": "l1"},
        {"n_features": 31, "binary": True, "norm": None},
        {"n_features": 64, "analyzer": "char_wb", "ngram_range": (2, 3)},
    ],
    ids=str,
)
@FEW
@given(texts=TEXTS)
@example(texts=SAMPLES)
def test_identical_to_hashing_vectorizer(options, texts):
    expected = HashingVectorizer(**options).transform(texts)
    mine = {"alternate_sign": True} | options
    vectorizer = ours(n_hash_features=mine.pop("n_features"), use_idf=False, **mine)
    assert_same(vectorizer.fit_transform(texts), expected)
    assert_same(vectorizer.transform(texts), expected)


@FEW
@given(texts=TEXTS)
def test_hashing_with_idf(texts):
    peer = make_pipeline(
        HashingVectorizer(n_features=50, alternate_sign=False, norm=None), TfidfTransformer(sublinear_tf=True)
    )
    vectorizer = ours(n_hash_features=50, sublinear_tf=True)
    assert_same(vectorizer.fit_transform(texts), peer.fit_transform(texts))
    assert_same(vectorizer.fit(texts).transform(texts), peer.transform(texts))


@FEW
@given(texts=TEXTS)
@example(texts=SAMPLES)
def test_words_and_characters_are_a_feature_union(texts):
    words, characters = (
        TfidfVectorizer(),
        TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 3)),
    )
    union = FeatureUnion([("words", words), ("chars", characters)], transformer_weights={"chars": 0.5})
    expected = fitted(union, texts)
    actual = fitted(ours(char_ngram_range=(2, 3), char_weight=0.5), texts)
    if expected is not None:
        assert_same(actual, expected)


@FEW
@given(texts=TEXTS, most=st.integers(1, 6))
def test_max_features_keeps_the_most_frequent(texts, most):
    counts = fitted(CountVectorizer(), texts)
    if counts is None:
        return
    everything = CountVectorizer().fit(texts).get_feature_names_out()
    totals = np.asarray(counts.sum(axis=0)).ravel()
    best = sorted(range(len(totals)), key=lambda i: (-totals[i], everything[i]))[:most]
    vectorizer = ours(max_features=most, use_idf=False, norm=None)
    actual = vectorizer.fit_transform(texts)
    assert vectorizer.get_feature_names_out().tolist() == sorted(everything[i] for i in best)
    assert_same(actual, counts[:, sorted(best)])


NAIVE = [
    {"tokenizer": "unicode"},
    {"tokenizer": "unicode", "strip_accents": "unicode", "ngram_range": (1, 2)},
    {"tokenizer": "unicode", "stop_words": ["日本", "der"], "lowercase": False},
    {"tokenizer": "unicode", "char_ngram_range": (2, 4), "sublinear_tf": True},
    {"tokenizer": "sklearn", "binary": True},
    {"tokenizer": "sklearn", "n_hash_features": 11},
    {"tokenizer": "unicode", "n_hash_features": 11, "binary": True},
]


def assert_close(actual, expected):
    assert actual.shape == expected.shape
    np.testing.assert_array_equal(actual.indptr, expected.indptr)
    np.testing.assert_array_equal(actual.indices, expected.indices)
    np.testing.assert_array_max_ulp(actual.data, expected.data, 1)


@pytest.mark.parametrize("options", NAIVE, ids=str)
@pytest.mark.parametrize("shared", [True, False], ids=["shared", "separate"])
@FEW
@given(titles=TEXTS, abstracts=TEXTS)
@example(titles=SAMPLES, abstracts=SAMPLES[::-1])
def test_equals_the_naive_twin(options, shared, titles, abstracts):
    records = [{"title": a, "abstract": b} for a, b in zip(titles, abstracts, strict=False)]
    options = options | {"fields": {"title": 2.5, "abstract": 1.0}, "shared_vocabulary": shared}
    actual = fitted(ours(**options), records)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage_module, "_kernels", naive_text)
        patch.setattr(terms_module, "_kernels", naive_text)
        patch.setattr(terms_module, "text_tables", lambda *which: which)
        naive = ours(**options)
        expected = fitted(naive, records)
        assert (actual is None) == (expected is None)
        if expected is None:
            return
        transformed = naive.transform(records[::-1])
    assert_close(actual, expected)
    assert_close(ours(**options).fit(records).transform(records[::-1]), transformed)


@FEW
@given(text=TEXT)
def test_composed_and_decomposed_text_are_the_same(text):
    vectorizer = TextVectorizer(min_df=1).fit(["filler word", unicodedata.normalize("NFC", text)])
    composed, decomposed = vectorizer.transform(
        [unicodedata.normalize("NFC", text), unicodedata.normalize("NFD", text)]
    )
    assert (composed != decomposed).nnz == 0
