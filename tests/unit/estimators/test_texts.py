"""Texts and records in place of features: every estimator has a vectorizer, which is part of its model."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import sparseleaf
from sparseleaf import (
    BlendClassifier,
    GBDTRanker,
    LdSMClassifier,
    MultiGBDTClassifier,
    MultiGBDTRegressor,
    SketchForestClassifier,
    SparseGBDTClassifier,
    TextVectorizer,
)
from sparseleaf.cli.inspect import describe
from sparseleaf.distributed.launch import LocalLauncher

TEXTS = [
    "bake the bread in a hot oven",
    "knead the dough and let the bread rise",
    "a thick soup of onions and stock",
    "the striker scored a goal in the final match",
    "the keeper saved the goal and the match",
    "she won the race on her new bicycle",
] * 5
TAGS = [
    ["food", "baking"],
    ["food", "baking"],
    ["food"],
    ["sport", "football"],
    ["sport", "football"],
    ["sport"],
] * 5
NEW = ["bread from the oven", "", "words never seen"]
RECORDS = [{"title": text.split()[0], "abstract": text, "year": 2000 + len(text)} for text in TEXTS]
FIELDS = TextVectorizer(fields={"title": 2.0, "abstract": 1.0}, numeric="year")


def small(kind, **parameters):
    sizes = {
        SparseGBDTClassifier: {"n_trees": 3, "min_samples_leaf": 1},
        MultiGBDTClassifier: {"n_trees": 3, "min_samples_leaf": 1},
        LdSMClassifier: {"n_trees": 2, "max_nodes": 20, "epochs": 2},
        SketchForestClassifier: {"n_trees": 2},
        BlendClassifier: {},
    }
    if kind is BlendClassifier:
        parameters["estimators"] = [small(SketchForestClassifier), small(MultiGBDTClassifier)]
    return kind(**sizes[kind], **parameters)


CLASSIFIERS = [
    SparseGBDTClassifier,
    MultiGBDTClassifier,
    LdSMClassifier,
    SketchForestClassifier,
    BlendClassifier,
]
every = pytest.mark.parametrize("kind", CLASSIFIERS)


@every
def test_texts_are_the_features_of_the_vectorizer(kind, tmp_path):
    clf = small(kind).fit(TEXTS, TAGS)
    words = TextVectorizer().fit(TEXTS)
    plain = small(kind).fit(words.transform(TEXTS), TAGS)
    labels, scores = clf.predict_topk(NEW, 3)
    expected = plain.predict_topk(words.transform(NEW), 3)
    np.testing.assert_array_equal(labels, expected[0])
    np.testing.assert_array_equal(scores, expected[1])
    assert clf.model_.stages[0].kind == "text"
    assert clf.n_features_in_ == len(words.get_feature_names_out())
    clf.save(tmp_path / "m.safetensors")
    loaded = sparseleaf.load(tmp_path / "m.safetensors")
    for form in (list, tuple, np.array, pd.Series, words.transform):
        np.testing.assert_array_equal(loaded.predict_topk(form(NEW), 3)[1], scores)
    assert loaded.predict(NEW) == clf.predict(NEW)
    assert loaded.score(TEXTS, TAGS) == clf.score(TEXTS, TAGS)
    assert loaded.vectorizer_.get_feature_names_out().tolist() == words.get_feature_names_out().tolist()
    again = clone(loaded).set_params(**({"prefit": False} if kind is BlendClassifier else {}))
    if kind is not BlendClassifier:  # whose members are fitted
        np.testing.assert_array_equal(again.fit(TEXTS, TAGS).predict_topk(NEW, 3)[1], scores)
    else:
        for member in loaded.estimators_:
            assert member.predict_topk(NEW, 2)[0].shape == (3, 2)


@every
def test_records_and_tables(kind, tmp_path):
    clf = small(kind, vectorizer=FIELDS).fit(RECORDS, TAGS)
    scores = clf.predict_topk(RECORDS, 3)[1]
    frame = pd.DataFrame(RECORDS)
    np.testing.assert_array_equal(clf.predict_topk(frame, 3)[1], scores)
    np.testing.assert_array_equal(
        small(kind, vectorizer=FIELDS).fit(frame, TAGS).predict_topk(frame, 3)[1], scores
    )
    clf.save(tmp_path / "m.safetensors")
    loaded = sparseleaf.load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(loaded.predict_topk(frame, 3)[1], scores)
    assert loaded.vectorizer.fields == {"title": 2.0, "abstract": 1.0}
    with pytest.raises(ValueError, match="list of dicts with the fields"):
        clf.predict(NEW)
    with pytest.raises(ValueError, match=r"must have the columns \['title', 'abstract', 'year'\]"):
        clf.predict(frame[["title"]])


@pytest.mark.parametrize(
    "kind", [SparseGBDTClassifier, LdSMClassifier, SketchForestClassifier, MultiGBDTClassifier]
)
def test_validation_sets_and_reranking_take_texts(kind):
    clf = small(kind).fit(TEXTS, TAGS, eval_set=(TEXTS[:6], TAGS[:6]))
    same = small(kind).fit(TEXTS, TAGS, eval_set=[(clf.vectorizer_.transform(TEXTS[:6]), TAGS[:6])])
    assert clf.history_ == same.history_
    assert len(next(iter(clf.history_.values()))) == clf.model_.n_trees
    clf.fit_rerank(TEXTS, TAGS, rerank="cosine", eval_set=(TEXTS[:6], TAGS[:6]))
    assert clf.model_.stages[0].kind == "text"
    assert clf.predict_topk(NEW, 2)[0].shape == (3, 2)
    with pytest.raises(
        ValueError, match=r"eval_set: X must be a list, an array or a Series of str. Got 3 in row 1"
    ):
        small(kind).fit(TEXTS, TAGS, eval_set=(["a", 3], TAGS[:2]))


def test_other_methods_take_texts():
    clf = small(MultiGBDTClassifier).fit(TEXTS, TAGS)
    assert clf.predict_proba(NEW).shape == (3, 4)
    assert clf.decision_function(NEW).shape == (3, 4)
    assert clf.apply(NEW).shape == (3, 3)
    assert clf.shap_values(NEW)[0].shape == (3, clf.n_features_in_, 4)
    assert len(list(small(SketchForestClassifier).fit(TEXTS, TAGS).staged_predict_topk(NEW, 1))) == 2
    for kind in (SparseGBDTClassifier, SketchForestClassifier, MultiGBDTClassifier):
        estimate = small(kind).estimate_memory(TEXTS, TAGS)
        assert estimate.total == small(kind).estimate_memory(clf.vectorizer_.transform(TEXTS), TAGS).total
    sparse = small(SparseGBDTClassifier, projection=None).fit(TEXTS, TAGS)
    assert sparse.decision_function(NEW).shape == (3, 4)
    assert (sparse.feature_importances_ >= 0).sum() == clf.n_features_in_


def test_regression_and_ranking_of_texts():
    lengths = np.array([len(text) for text in TEXTS], float)
    reg = MultiGBDTRegressor(n_trees=5, min_samples_leaf=1).fit(TEXTS, lengths)
    assert reg.score(TEXTS, lengths) > 0.5
    ranker = GBDTRanker(n_trees=3, min_samples_leaf=1).fit(TEXTS, lengths > 35, qid=np.arange(30) // 6)
    assert ranker.predict(NEW).shape == (3,)


def test_continued_training_keeps_the_vectorizer():
    first = small(MultiGBDTClassifier).fit(TEXTS, TAGS)
    more = small(MultiGBDTClassifier).fit(TEXTS[:12], TAGS[:12], init_model=first)
    assert more.model_.n_trees == 6
    assert (
        more.vectorizer_.get_feature_names_out().tolist()
        == first.vectorizer_.get_feature_names_out().tolist()
    )
    warm = small(MultiGBDTClassifier, warm_start=True).fit(TEXTS, TAGS)
    warm.set_params(n_trees=4).fit(TEXTS[:12], TAGS[:12])
    assert warm.model_.n_trees == 4
    assert warm.predict_topk(NEW, 1)[0].shape == (3, 1)


def test_features_come_with_the_vectorizer_that_made_them():
    words = TextVectorizer(ngram_range=(1, 2)).fit(TEXTS)
    clf = small(SketchForestClassifier, vectorizer=words).fit(words.transform(TEXTS), TAGS)
    assert clf.vectorizer_.ngram_range == (1, 2)
    assert clf.predict_topk(NEW, 2)[0].shape == (3, 2)
    assert clf.fit(TEXTS[:3], TAGS[:3]).n_features_in_ < len(words.get_feature_names_out())
    assert len(words.get_feature_names_out()) > clf.n_features_in_, (
        "the user's vectorizer is not fitted again"
    )
    with pytest.raises(ValueError, match="'vectorizer' parameter must be None or fitted if X is features"):
        small(SketchForestClassifier, vectorizer=TextVectorizer()).fit(words.transform(TEXTS), TAGS)
    with pytest.raises(
        ValueError, match=r"X must have \d+ features, as the fitted 'vectorizer', or be texts. Got 3"
    ):
        small(SketchForestClassifier, vectorizer=words).fit(np.ones((30, 3)), TAGS)


def test_a_second_fit_on_features_has_no_vectorizer():
    clf = small(SketchForestClassifier).fit(TEXTS, TAGS)
    clf.fit(np.eye(30), TAGS)
    assert clf.vectorizer_ is None
    assert clf.model_.stages[0].kind != "text"
    with pytest.raises(ValueError, match="X must be features, as in training"):
        clf.predict(TEXTS)


def test_pipelines_of_scikit_learn_keep_working():
    pipe = make_pipeline(TfidfVectorizer(), small(SketchForestClassifier)).fit(TEXTS, TAGS)
    assert pipe.predict(NEW)[0]
    ours = make_pipeline(TextVectorizer(), small(SketchForestClassifier)).fit(TEXTS, TAGS)
    assert ours.predict(TEXTS) == small(SketchForestClassifier).fit(TEXTS, TAGS).predict(TEXTS)


def test_parameters_of_the_vectorizer_can_be_searched():
    grid = {"vectorizer__ngram_range": [(1, 1), (1, 2)]}
    y = ["food" in tags for tags in TAGS]
    search = GridSearchCV(small(SketchForestClassifier, vectorizer=TextVectorizer()), grid, cv=2).fit(
        TEXTS, y
    )
    assert search.best_estimator_.vectorizer_.ngram_range in [(1, 1), (1, 2)]
    clf = small(SketchForestClassifier, vectorizer=TextVectorizer(min_df=2))
    assert SketchForestClassifier.from_settings(clf.get_params()).vectorizer.min_df == 2


@every
def test_mistakes_are_named(kind):
    with pytest.raises(ValueError, match="Got a single str instead; pass"):
        small(kind).fit("one text", TAGS)
    with pytest.raises(ValueError, match=r"Got 3 in row 1 instead"):
        small(kind).fit(["a", 3], TAGS[:2])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        small(kind).fit(TEXTS, TAGS[:3])
    with pytest.raises(ValueError, match=r"'vectorizer' parameter of .* must be a TextVectorizer or None"):
        small(kind, vectorizer=TfidfVectorizer()).fit(TEXTS, TAGS)
    with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
        small(kind).fit(TEXTS, None)
    with pytest.raises(NotFittedError):
        small(kind).predict(TEXTS)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_texts_of_all_sorts():
    clf = small(SketchForestClassifier).fit(
        ["", "a text of words", "日本語のテキスト", "", "x" * 10_000], [["a"], ["b"]] * 2 + [[]]
    )
    assert clf.predict_topk(["", "words", "日本語"], 1)[0].shape == (3, 1)
    with pytest.raises(ValueError, match="X must have terms that the parameters keep"):
        small(SketchForestClassifier).fit(["", ""], [["a"], ["b"]])


def test_blends_share_a_vectorizer(tmp_path):
    forest, trees = (
        small(SketchForestClassifier).fit(TEXTS, TAGS),
        small(MultiGBDTClassifier).fit(TEXTS, TAGS),
    )
    blend = BlendClassifier([forest, trees], weights=[1, 1], prefit=True).fit(TEXTS, TAGS)
    assert blend.model_.stages[0].kind == "text"
    assert all(member.vectorizer is None for member in blend.model_.scorer.members)
    features = forest.vectorizer_.transform(NEW)
    np.testing.assert_array_equal(blend.predict_topk(NEW, 3)[1], blend.predict_topk(features, 3)[1])
    blend.save(tmp_path / "b.safetensors")
    assert describe(tmp_path / "b.safetensors")["text"]["columns"] == {"word": forest.n_features_in_}
    other = small(MultiGBDTClassifier, vectorizer=TextVectorizer(use_idf=False)).fit(TEXTS, TAGS)
    with pytest.raises(ValueError, match="member 2: its vectorizer is not that of member 1"):
        BlendClassifier([forest, other], prefit=True).fit(TEXTS, TAGS)
    plain = small(MultiGBDTClassifier).fit(forest.vectorizer_.transform(TEXTS), TAGS)
    with pytest.raises(ValueError, match="member 2: its vectorizer is not that of member 1"):
        BlendClassifier([forest, plain], prefit=True).fit(TEXTS, TAGS)
    with pytest.raises(ValueError, match="must be classifiers with vectorizer=None"):
        BlendClassifier([SketchForestClassifier(vectorizer=TextVectorizer())]).fit(TEXTS, TAGS)


def test_the_model_does_not_depend_on_threads(tmp_path):
    for n_jobs in (1, 2):
        small(SketchForestClassifier, n_jobs=n_jobs).fit(TEXTS, TAGS).save(tmp_path / f"{n_jobs}.safetensors")
    assert (tmp_path / "1.safetensors").read_bytes() == (tmp_path / "2.safetensors").read_bytes()


def test_training_resumes(tmp_path):
    options = {"checkpoint": tmp_path / "c", "checkpoint_every": 1}
    small(SparseGBDTClassifier).fit(TEXTS, TAGS, **options)
    more = SparseGBDTClassifier(n_trees=5, min_samples_leaf=1).fit(TEXTS, TAGS, **options)
    whole = SparseGBDTClassifier(n_trees=5, min_samples_leaf=1).fit(TEXTS, TAGS)
    np.testing.assert_array_equal(more.predict_topk(NEW, 3)[1], whole.predict_topk(NEW, 3)[1])


def test_partitions_of_texts_are_refused():
    class Ranks(LocalLauncher):
        partitioned = True

    with pytest.raises(ValueError, match="X must be features with engine='mpi'"):
        small(SketchForestClassifier).fit(TEXTS, TAGS, engine=Ranks())
    assert small(SketchForestClassifier).fit(TEXTS, TAGS, engine=LocalLauncher()).predict(NEW)


def test_exported_models_take_features():
    pytest.importorskip("onnx")
    from sparseleaf.export import to_onnx

    clf = small(MultiGBDTClassifier).fit(TEXTS, TAGS)
    (names,) = (one.value for one in to_onnx(clf).metadata_props if one.key == "sparseleaf")
    assert json.loads(names)["features"] == clf.vectorizer_.get_feature_names_out().tolist()
