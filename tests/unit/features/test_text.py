"""TextVectorizer: parameters, input forms, columns beside the text, threads, names, scikit-learn's conventions."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

from sparseleaf import TextVectorizer
from sparseleaf.features import TextStage

TEXTS = ["Schäden durch Pilze", "Pilze an Fassaden", "", "Fachwerk, Fassaden und Pilze; Fachwerk"]
RECORDS = [
    {"title": "Pilze", "abstract": "Schäden an Fassaden", "year": 2001, "lang": "de", "kind": 1},
    {"title": "Timber", "abstract": None, "year": 2003.0, "lang": "en"},
    {"title": ["Fachwerk", "Holz"], "abstract": "Holz und Pilze", "year": None, "lang": None, "kind": 1.0},
    {"abstract": float("nan"), "year": "2002", "lang": "de", "kind": "x"},
]
FIELDS = {"title": 2.0, "abstract": 1.0}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"analyzer": "words"}, "must be one of {'word', 'char', 'char_wb'}. Got 'words' instead"),
        ({"ngram_range": (2, 1)}, "'ngram_range' parameter of TextVectorizer must be a pair"),
        ({"ngram_range": (0, 1)}, "must be a pair"),
        ({"ngram_range": 2}, "must be a pair"),
        ({"char_ngram_range": (3, 100)}, "<= 64 or None. Got"),
        ({"char_ngram_range": (2, 3), "analyzer": "char"}, "must be None unless analyzer='word'"),
        ({"char_weight": 0}, "must be a number > 0"),
        ({"tokenizer": "icu"}, "one of {'unicode', 'sklearn'}"),
        ({"lowercase": "yes"}, "must be a bool"),
        ({"strip_accents": "all"}, "one of {'ascii', 'unicode'} or None"),
        ({"stop_words": "english"}, "must be a list of str or None"),
        ({"min_df": 0}, "an int >= 1 .* or a float in"),
        ({"min_df": 1.5}, "Got 1.5 instead"),
        ({"max_df": True}, "Got True instead"),
        ({"max_df": 1, "min_df": 2}, "'max_df' parameter must not be of fewer rows than 'min_df'"),
        ({"max_features": 0}, "an int >= 1 or None"),
        ({"norm": "l3"}, "one of {'l1', 'l2'} or None"),
        ({"n_hash_features": -1}, "an int >= 1 or None"),
        ({"alternate_sign": True}, "must be False with sublinear_tf=True"),
        ({"fields": []}, "a name, a list of distinct names"),
        ({"fields": ["a", "a"]}, "a name, a list of distinct names"),
        ({"fields": {"a": -1}}, "a name, a list of distinct names"),
        ({"numeric": "year"}, "'fields' parameter of TextVectorizer must name the text columns"),
        ({"fields": "a", "categorical": "a"}, "must name different columns. Got 'a' twice"),
    ],
)
def test_invalid_parameters(options, message):
    with pytest.raises(ValueError, match=message):
        TextVectorizer(**options).fit(TEXTS)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ("a text", r"Got a single str instead; pass \[X\]"),
        (["a", None], "Got None in row 1 instead"),
        (["a", b"b"], "Got b'b' in row 1 instead"),
        (np.zeros((2, 2)), "Got an array with 2 dimensions"),
        (sp.csr_matrix((2, 2)), "Got an array with 2 dimensions"),
        (pd.DataFrame({"a": ["x"]}), "name its text columns in 'fields'"),
        (3, "Got 3 instead"),
        ([], "X must have at least one row"),
        (["", " . "], "X must have terms that the parameters keep"),
    ],
)
def test_invalid_texts(X, message):
    with pytest.raises(ValueError, match=message):
        TextVectorizer().fit(X)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (["a text"], r"a list of dicts with the fields \['title', 'abstract'\]. Got 'a text' in row 0"),
        ([{"titel": "a", "abstract": "b"}], "must have the field 'title' in some record"),
        (pd.DataFrame({"title": ["a"]}), r"must have the columns \['title', 'abstract'\]. Got \['title'\]"),
        ({"title": ["a"], "abstract": []}, r"columns of one length. Got \[0, 1\]"),
        ("text", "must be a DataFrame or a list of dicts"),
    ],
)
def test_invalid_records(X, message):
    with pytest.raises(ValueError, match=message):
        TextVectorizer(fields=FIELDS).fit(X)


@pytest.mark.parametrize(
    "form", [list, tuple, np.array, pd.Series, lambda texts: np.array(texts, object), iter]
)
def test_forms_of_texts(form):
    expected = TextVectorizer(min_df=1).fit_transform(TEXTS)
    assert (TextVectorizer(min_df=1).fit_transform(form(TEXTS)) != expected).nnz == 0


def test_forms_of_records():
    pa = pytest.importorskip("pyarrow")
    vectorizer = TextVectorizer(min_df=1, fields=FIELDS, numeric="year", categorical=["lang", "kind"])
    expected = vectorizer.fit_transform(RECORDS)
    frame = pd.DataFrame(RECORDS)
    table = pa.table({"title": ["Pilze", None], "abstract": ["Holz", "Pilze"], "year": [1, None]})
    assert (vectorizer.transform(frame) != expected).nnz == 0
    assert (vectorizer.transform(frame.to_dict("list")) != expected).nnz == 0
    assert (clone(vectorizer).fit_transform(frame) != expected).nnz == 0
    less = TextVectorizer(min_df=1, fields=FIELDS, numeric="year").fit(RECORDS)
    assert (less.transform(table) != less.transform(table.to_pylist())).nnz == 0
    assert less.transform([{}]).shape == (1, less.stage().width)


def test_columns_beside_the_text():
    vectorizer = TextVectorizer(
        min_df=1, fields="title", numeric={"year": 0.5}, categorical={"lang": 2.0, "kind": 1.0}
    )
    X = vectorizer.fit_transform(RECORDS).toarray()
    names = vectorizer.get_feature_names_out().tolist()
    assert names == ["fachwerk", "holz", "pilze", "timber", "year", "lang=de", "lang=en", "kind=1", "kind=x"]
    deviation = np.std([2001, 2003, 2002])
    np.testing.assert_allclose(X[:, 4], [-0.5 / deviation, 0.5 / deviation, 0, 0], rtol=1e-6)
    np.testing.assert_array_equal(X[:, 5:7], [[2, 0], [0, 2], [0, 0], [2, 0]])
    np.testing.assert_array_equal(X[:, 7:], [[1, 0], [0, 0], [1, 0], [0, 1]])
    other = vectorizer.transform([{"title": "Holz", "year": 1e30, "lang": "fr"}]).toarray()[0]
    assert other[4] == 0.5 * 10, "outliers are clipped"
    assert not other[5:].any(), "unknown categories have no column"
    assert vectorizer.stage().names([2, 4, 6, 8]) == ["pilze", "year", "lang=en", "kind=x"]


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("year", "new", "The column 'year' must be numeric. Got 'new' instead"),
        ("year", np.inf, "The column 'year' must be finite"),
        ("lang", ["de"], "The column 'lang' must have one category per row"),
    ],
)
def test_invalid_columns(column, value, message):
    vectorizer = TextVectorizer(fields="title", numeric="year", categorical="lang", min_df=1)
    with pytest.raises(ValueError, match=message):
        vectorizer.fit([{"title": "text", "year": 1, "lang": "de"} | {column: value}])


def test_constant_and_missing_numbers():
    vectorizer = TextVectorizer(fields="t", numeric=["a", "b"], min_df=1)
    X = vectorizer.fit_transform([{"t": "text", "a": 7, "b": None}, {"t": "", "a": 7, "b": None}])
    np.testing.assert_array_equal(X.toarray(), [[1, 0, 0], [0, 0, 0]])


def test_fields_have_names_and_weights():
    shared = TextVectorizer(min_df=1, fields=FIELDS, norm=None, use_idf=False, sublinear_tf=False)
    X = shared.fit_transform(RECORDS).toarray()
    names = shared.get_feature_names_out().tolist()
    assert X[2, names.index("holz")] == 3, "once in the title, with weight 2, and once in the abstract"
    separate = clone(shared).set_params(shared_vocabulary=False, char_ngram_range=(3, 3))
    X = separate.fit_transform(RECORDS).toarray()
    names = separate.get_feature_names_out().tolist()
    assert X[2, names.index("title:holz")] == 2
    assert X[2, names.index("abstract:holz")] == 1
    assert X[2, names.index("title:char: ho")] == 2
    assert separate.stage().names(np.arange(len(names))) == names


def test_weights_of_fields_are_chosen_by_length():
    records = [
        {"title": "ab cd", "abstract": "word " * 16, "note": None},
        {"title": "", "abstract": "word " * 16},
    ]
    vectorizer = TextVectorizer(fields=["title", "abstract", "note"]).fit(records)
    assert vectorizer.fields == ["title", "abstract", "note"], "parameters do not change"
    assert vectorizer.stage().parameters.fields == {"title": 4.0, "abstract": 1.0, "note": 1.0}
    records[0]["title"] = "a" * 1
    records[1]["abstract"] = "word" * 500
    assert vectorizer.fit(records).stage().parameters.fields["title"] == 8.0, "at most"
    separate = TextVectorizer(fields=["title", "abstract"], shared_vocabulary=False).fit(records)
    assert separate.stage().parameters.fields == {"title": 1.0, "abstract": 1.0}


def test_threads_do_not_matter():
    texts = [f"{TEXTS[i % 4]} wort{i % 97} {'x' * (i % 7)} 日本語{i}" for i in range(1500)]
    results = []
    for n_jobs in (1, 2, 5):
        vectorizer = TextVectorizer(
            ngram_range=(1, 2), char_ngram_range=(2, 4), max_features=500, n_jobs=n_jobs
        )
        X = vectorizer.fit_transform(texts)
        again = vectorizer.transform(texts)
        tensors = vectorizer.stage().tensors(True)
        parts = [X.indptr, X.indices, X.data, again.indptr, again.indices, again.data, *tensors.values()]
        results.append([part.tobytes() for part in parts])
    assert results[0] == results[1] == results[2]


def test_batches_do_not_matter(monkeypatch):
    options = {"ngram_range": (1, 2), "min_df": 1}
    texts = TEXTS * 5
    for extra in ({}, {"n_hash_features": 20}):
        whole = TextVectorizer(**options, **extra).fit_transform(texts)
        with monkeypatch.context() as patch:
            patch.setattr("sparseleaf.features.terms.BATCH_ROWS", 3)
            vectorizer = TextVectorizer(**options, **extra)
            assert (vectorizer.fit_transform(texts) != whole).nnz == 0
            assert (vectorizer.transform(texts) != whole).nnz == 0
            assert (vectorizer.fit(texts).transform(texts) != whole).nnz == 0


def test_scikit_learn_conventions():
    vectorizer = TextVectorizer(min_df=1, ngram_range=(1, 2), stop_words=["an"])
    with pytest.raises(NotFittedError):
        vectorizer.transform(TEXTS)
    again = clone(vectorizer)
    assert again.get_params() == vectorizer.get_params()
    X = make_pipeline(vectorizer, MaxAbsScaler()).fit_transform(TEXTS)
    assert X.shape == (4, len(vectorizer.get_feature_names_out()))
    unpickled = pickle.loads(pickle.dumps(vectorizer))
    assert (unpickled.transform(TEXTS) != vectorizer.transform(TEXTS)).nnz == 0
    assert isinstance(vectorizer.stage(), TextStage)


def test_from_stage_restores_the_parameters():
    vectorizer = TextVectorizer(
        min_df=1, fields=FIELDS, numeric={"year": 0.5}, categorical={"lang": 1.0}, stop_words=["an", "und"]
    ).fit(RECORDS)
    restored = TextVectorizer.from_stage(vectorizer.stage())
    without = vectorizer.get_params() | {"stop_words": ("an", "und")}
    assert restored.get_params() == without
    assert (restored.transform(RECORDS) != vectorizer.transform(RECORDS)).nnz == 0
    assert (clone(restored).fit_transform(RECORDS) != vectorizer.transform(RECORDS)).nnz == 0


def test_no_rows_and_unknown_words():
    vectorizer = TextVectorizer(min_df=1).fit(TEXTS)
    assert vectorizer.transform([]).shape == (0, vectorizer.stage().width)
    assert vectorizer.transform(["unbekannt", ""]).nnz == 0


def test_hashed_names_and_columns():
    vectorizer = TextVectorizer(n_hash_features=4).fit(TEXTS)
    assert vectorizer.get_feature_names_out().tolist() == ["#0", "#1", "#2", "#3"]
    assert set(vectorizer.stage().tensors(True)) == {"0.document_counts"}
    assert vectorizer.set_params(use_idf=False).fit(TEXTS).stage().terms[0].document_counts.size == 0


def test_idf():
    peer = TfidfVectorizer(smooth_idf=False).fit(TEXTS)
    block = TextVectorizer(smooth_idf=False, tokenizer="sklearn", min_df=1).fit(TEXTS).stage().terms[0]
    np.testing.assert_allclose(block.idf, peer.idf_, rtol=1e-14)


def test_long_and_odd_texts():
    texts = ["ab " * 100_000, "x" * 300_000, "\x00\x00 a\x00b", "日" * 50_000, "\ud800 ab \udfff"]
    vectorizer = TextVectorizer(min_df=1, use_idf=False, norm=None, sublinear_tf=False)
    X = vectorizer.fit_transform(texts)
    names = vectorizer.get_feature_names_out().tolist()
    assert X[0, names.index("ab")] == 100_000
    assert X[3, names.index("日日")] == 49_999
    assert X[4, names.index("ab")] == 1
    assert "x" * 300_000 in names


def test_texts_without_fields_are_taken_for_the_field_of_the_longest_texts():
    records = [{"title": "bread", "abstract": "how to bake it in an oven"}] * 2
    chosen = TextVectorizer(fields=["title", "abstract"]).fit(records)
    assert chosen.stage().parameters.plain_field == "abstract"
    weighted = TextVectorizer(fields={"title": 1.0, "abstract": 2.0}).fit(records)
    assert weighted.stage().parameters.plain_field == "title"
    assert TextVectorizer().fit(["bread"]).stage().parameters.plain_field is None
