"""Explanations add up to the scores, for every estimator, projection, re-ranker and blend."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from sklearn.base import clone
from sklearn.metrics.pairwise import cosine_similarity

import sparseleaf
from smalldata import make_set
from sparseleaf import (
    BlendClassifier,
    GBDTRanker,
    LdSMClassifier,
    ModelFileError,
    MultiGBDTClassifier,
    MultiGBDTRegressor,
    SketchForestClassifier,
    SparseGBDTClassifier,
    TextVectorizer,
)
from sparseleaf.data import make_xc
from sparseleaf.model.attribution import Pairs

COMPAT = Path(__file__).parents[2] / "compat"

RERANKERS = ("centroid", "cosine", "log", "linear", "boosted", "bayes")

CLASSIFIERS = {
    "sparse": lambda rerank: SparseGBDTClassifier(n_trees=6, projection_dim=8, rerank=rerank),
    "ldsm": lambda rerank: LdSMClassifier(n_trees=3, max_nodes=30, epochs=3, rerank=rerank),
    "forest": lambda rerank: SketchForestClassifier(n_trees=3, rerank=rerank),
}


@pytest.fixture(scope="module")
def rows():
    return make_xc(300, 60, 30, labels_per_row=3, nnz_per_row=10, seed=1)


def sums(explanation):
    return explanation.base + np.asarray(explanation.contributions.sum(axis=1)).ravel()


def assert_adds_up(model, X, k=5):
    """Also by component, for the best labels and for others, and for any number of threads."""
    labels, scores = model.predict_topk(X, k)
    explanation = model.explain(X, k=k)
    listed = scores > -np.inf
    assert [one.label for row in explanation for one in row] == labels[listed].tolist()
    np.testing.assert_array_equal(explanation.scores, scores[listed])
    np.testing.assert_allclose(sums(explanation), scores[listed], atol=1e-5)
    for row in explanation[:5]:
        for one in row:
            assert sum(one.components.values()) == pytest.approx(one.score, abs=1e-5)
            assert one.base + one.contributions.sum() == pytest.approx(one.score, abs=1e-5)
            assert np.all(np.diff(np.abs(one.contributions)) <= 0)
    chosen = model.classes_[[3, 0]] if hasattr(model, "classes_") else [1, 0]
    some = model.explain(X, labels=chosen)
    dense = model.model_.outputs(model._features(X), None, 1)
    np.testing.assert_allclose(some.scores, dense[:, some.labels[:2]].ravel(), atol=1e-6)
    np.testing.assert_allclose(sums(some), some.scores, atol=1e-5)
    jobs, model.n_jobs = model.n_jobs, 1
    again = model.explain(X, k=k)
    model.n_jobs = jobs
    assert again.contributions.data.tobytes() == explanation.contributions.data.tobytes()
    assert again.base.tobytes() == explanation.base.tobytes()
    return explanation


@pytest.mark.parametrize("projection", [None, "leml", "pca", "random"])
@pytest.mark.parametrize("sparse", [True, False])
def test_projections(rows, projection, sparse):
    X, Y = rows if sparse else (rows[0].toarray(), rows[1])
    model = SparseGBDTClassifier(
        n_trees=8, projection=projection, projection_dim=6, advanced={"keep_raw": not sparse}
    ).fit(X, Y)
    explanation = assert_adds_up(model, X[:70])
    if projection is not None and sparse:  # only features of the row contribute
        there = X[:70][explanation.rows].astype(bool)
        assert (explanation.contributions.astype(bool) > there).nnz == 0


@pytest.mark.parametrize("rerank", [None, *RERANKERS])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_rerankers(rows, name, rerank):
    X, Y = rows
    model = CLASSIFIERS[name](rerank).fit(X, Y)
    explanation = assert_adds_up(model, X[:20])
    if rerank in ("linear", "boosted"):
        best = explanation[0][0].neighbours
        assert best[0].row == 0  # the row itself is among the training rows
        assert best[0].similarity == pytest.approx(1, abs=0.02)
        assert all(Y[one.row, label.label] for label in explanation[0] for one in label.neighbours)
    else:
        assert not any(one.neighbours for one in explanation[0])


@pytest.mark.parametrize("sparse", [True, False])
def test_multi_output_classifier(rows, sparse):
    X, Y = rows if sparse else (rows[0].toarray(), rows[1])
    model = MultiGBDTClassifier(n_trees=5).fit(X, Y)
    explanation = assert_adds_up(model, X[:20])
    probabilities = model.predict_proba(X[:20])
    assert explanation[3][1].prediction == pytest.approx(probabilities[3, explanation[3][1].label])
    for rerank in ("cosine", "linear", "bayes"):
        model.fit_rerank(X, Y, rerank=rerank, weight=0.4)
        explanation = assert_adds_up(model, X[:20])
        assert explanation[0][0].prediction is None


def test_classes_and_names():
    X, Y = make_xc(200, 30, 8, labels_per_row=1, nnz_per_row=8)
    classes = np.array([f"class {label}" for label in range(8)])[Y.argmax(axis=1).A1]
    model = MultiGBDTClassifier(n_trees=4).fit(pd.DataFrame(X.toarray()).add_prefix("word "), classes)
    frame = pd.DataFrame(X[:5].toarray()).add_prefix("word ")
    explanation = assert_adds_up(model, frame, k=8)
    one = explanation[0][0]
    assert one.label in model.classes_
    assert one.feature_names[0] == f"word {one.features[0]}"
    assert one.values.tolist() == X[0].toarray()[0, one.features].tolist()
    assert sum(label.prediction for label in explanation[0]) == pytest.approx(1)


def test_regressor_and_ranker():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5))
    X[rng.random(X.shape) < 0.1] = np.nan
    y = np.nan_to_num(np.column_stack((X[:, 0] + X[:, 1], 3 * X[:, 2])))
    model = MultiGBDTRegressor(n_trees=10).fit(X, pd.DataFrame(y, columns=["a", "b"]))
    explanation = model.explain(X[:30], labels=["b", "a"])
    np.testing.assert_allclose(sums(explanation).reshape(-1, 2), model.predict(X[:30])[:, ::-1], atol=1e-5)
    assert explanation[0][0].label == "b"
    assert explanation[0][0].features[0] == 2
    values, expected = model.shap_values(X[:30])
    np.testing.assert_allclose(explanation.base.reshape(-1, 2), np.tile(expected[::-1], (30, 1)), rtol=1e-12)
    dense = explanation.contributions.toarray().reshape(30, 2, 5)
    np.testing.assert_allclose(dense, values.transpose(0, 2, 1)[:, ::-1], atol=1e-12)
    rates = MultiGBDTRegressor(n_trees=5, loss="poisson").fit(X, np.abs(y))
    one = rates.explain(X[:3])[1][0]
    assert one.prediction == pytest.approx(rates.predict(X[:3])[1, one.label])
    assert one.score == pytest.approx(np.log(one.prediction), abs=1e-5)
    ranker = GBDTRanker(n_trees=5).fit(X, (y[:, 1] > 0).astype(int), qid=np.repeat(np.arange(20), 10))
    explanation = ranker.explain(X[:30])
    np.testing.assert_allclose(sums(explanation), ranker.predict(X[:30]), atol=1e-5)


@pytest.fixture(scope="module")
def blend(rows):
    X, Y = rows
    members = [
        SparseGBDTClassifier(n_trees=5, rerank="linear"),
        LdSMClassifier(n_trees=3, max_nodes=30, epochs=3),
        SketchForestClassifier(n_trees=3, rerank="boosted"),
        SketchForestClassifier(n_trees=2, rerank="bayes"),
    ]
    return BlendClassifier(members, weights=[0.3, 0.2, 0.4, 0.1]).fit(X, Y)


def test_blend(rows, blend, tmp_path):
    explanation = assert_adds_up(blend, rows[0][:20])
    names = set().union(*(one.components for one in explanation[0]))
    assert {"gbdt-sparse trees", "ldsm trees", "forest 1 cosine", "forest 2 bayes"} <= names
    assert explanation[0][0].neighbours[0].row == 0
    blend.add_titles([f"title {row}" for row in range(300)]).save(tmp_path / "m")
    loaded = sparseleaf.load(tmp_path / "m").explain(rows[0][:2])
    assert loaded[0][0].neighbours[0].title == "title 0"


def test_blend_with_dense_scores(rows):
    X, Y = rows
    members = [MultiGBDTClassifier(n_trees=3), SparseGBDTClassifier(n_trees=3, rerank=None)]
    assert_adds_up(BlendClassifier(members, weights=[0.5, 0.5]).fit(X, Y), X[:10])


@pytest.mark.parametrize("rerank", [None, "linear", "bayes"])
def test_rows_without_known_features(rows, rerank):
    X, Y = rows
    X = sp.hstack([X, sp.csr_matrix((300, 2), dtype=np.float32)], "csr")
    unknown = sp.csr_matrix(([5.0], ([0], [61])), shape=(1, 62), dtype=np.float32)
    test = sp.vstack([X[:2], sp.csr_matrix((1, 62), dtype=np.float32), unknown, X[2:3]], "csr")
    for model in (
        SketchForestClassifier(n_trees=3, rerank=rerank).fit(X, Y),
        SparseGBDTClassifier(n_trees=3, rerank=rerank).fit(X, Y),
    ):
        explanation = assert_adds_up(model, test)
        for row in (2, 3):
            for one in explanation[row]:
                assert (one.base, len(one.features)) == (pytest.approx(one.score), 0)
                assert one.components == {"prior": pytest.approx(one.score)}


def test_labels_that_are_no_candidates_have_score_0(rows):
    X, Y = rows
    X = X[Y[:, 7].toarray().ravel() == 0]
    Y = Y[Y[:, 7].toarray().ravel() == 0]
    model = SketchForestClassifier(n_trees=3, rerank="linear").fit(X, Y)
    one = model.explain(X[:1], labels=[7])[0][0]
    assert (one.label, one.score, one.base, len(one.features)) == (7, 0.0, 0.0, 0)


def test_huge_values_explain_what_is_predicted():
    X, Y = make_set(80, 12, 6, seed=3)
    for rerank in (None, *RERANKERS):
        model = SketchForestClassifier(n_trees=2, rerank=rerank).fit(X, Y)
        huge = sp.csr_matrix(X[:4], dtype=np.float32) * np.float32(1e30)
        explanation = model.explain(huge)
        assert np.isfinite(explanation.contributions.data).all()
        assert np.isfinite(explanation.base).all()


def test_one_row_one_label_one_feature():
    model = SparseGBDTClassifier(n_trees=2, min_samples_leaf=1).fit(np.ones((3, 1)), [["a"], ["a"], ["a"]])
    (row,) = model.explain([[1.0]])
    assert row[0].label == "a"
    assert row[0].base + row[0].contributions.sum() == pytest.approx(row[0].score, abs=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"labels": ["x"]}, r"The 'labels' parameter must have indices below 30. Got 'x' instead."),
        ({"labels": [30]}, r"'labels' parameter must have indices below 30. Got 30"),
        ({"labels": [1, 1]}, "distinct outputs"),
        ({"labels": []}, "non-empty"),
        ({"labels": 3}, "must be a list"),
        ({"k": 0}, r"The 'k' parameter must be an int >= 1. Got 0 instead."),
        ({"k": True}, "'k' parameter"),
        ({"n_neighbours": -1}, r"The 'n_neighbours' parameter must be an int >= 0. Got -1 instead."),
        ({"feature_names": ["a"]}, r"'feature_names' parameter must have a name for each feature, 60. Got 1"),
        ({"feature_names": "abc"}, "must be a list of names"),
        ({"titles": ["a"]}, r"'titles' parameter must have a name for each training row .*, 300. Got 1"),
    ],
)
def test_wrong_arguments_are_refused(rows, blend, arguments, message):
    with pytest.raises(ValueError, match=message):
        blend.explain(rows[0][:2], **arguments)


def test_wrong_rows_are_refused(rows, blend):
    with pytest.raises(ValueError, match="features"):
        blend.explain(rows[0][:2, :5])
    with pytest.raises(ValueError, match="NaN"):
        blend.explain(np.full((1, 60), np.nan))


def test_unknown_label_names_are_refused():
    model = SparseGBDTClassifier(n_trees=2, min_samples_leaf=1).fit(np.eye(3), [["a"], ["b"], ["a", "b"]])
    with pytest.raises(ValueError, match=r"must have label names of the model. Got 'c' instead"):
        model.explain(np.eye(3), labels=["c"])


def test_names_of_features_and_titles_of_rows(rows):
    X, Y = rows
    model = SketchForestClassifier(n_trees=3, rerank="boosted").fit(X, Y)
    assert model.explain(X[:1])[0][0].feature_names[0].startswith("feature ")
    assert model.explain(X[:1])[0][0].neighbours[0].title is None
    names = np.array([f"word {i}" for i in range(60)], object)
    explanation = model.explain(X[:1], feature_names=names, titles=pd.Series(names[:1]).repeat(300))
    one = explanation[0][0]
    assert one.feature_names == [f"word {i}" for i in one.features]
    assert one.neighbours[0].title == "word 0"
    assert not model.explain(X[:1], n_neighbours=0)[0][0].neighbours


def test_titles_are_saved_with_the_model(rows, tmp_path):
    X, Y = rows
    model = SketchForestClassifier(n_trees=3, rerank="linear").fit(X, Y)
    model.add_titles([f"Überschrift {row}" for row in range(300)]).save(tmp_path / "m")
    loaded = sparseleaf.load(tmp_path / "m")
    assert loaded.explain(X[5:6])[0][0].neighbours[0].title == "Überschrift 5"
    before = loaded.predict_topk(X[:9])[1]
    np.testing.assert_array_equal(loaded.add_titles(None).predict_topk(X[:9])[1], before)
    assert loaded.explain(X[5:6])[0][0].neighbours[0].title is None
    with pytest.raises(ValueError, match=r"a name for each training row .*, 300. Got 2"):
        model.add_titles(["a", "b"])
    bare = SketchForestClassifier(n_trees=3, rerank=None).fit(X, Y)
    with pytest.raises(ValueError, match="has no neighbours"):
        bare.add_titles(["a"] * 300)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("sizes", lambda a: a[:-1], "sizes of 300 strings"),
        ("sizes", lambda a: a + np.uint8(1), "sizes of 300 strings"),
        ("text", lambda a: a[:-1], "sizes of 300 strings"),
        ("text", lambda a: a.astype(np.float32), "must be U8"),
    ],
)
def test_damaged_titles_are_refused(rows, name, change, message, tmp_path):
    model = SketchForestClassifier(n_trees=2, rerank="linear").fit(*rows)
    model.add_titles([f"title {row}" for row in range(300)]).save(tmp_path / "m")
    tensors = load_file(tmp_path / "m")
    with safe_open(tmp_path / "m", framework="np") as file:
        metadata = file.metadata()
    key = f"linear.neighbours.titles.{name}"
    save_file(tensors | {key: change(tensors[key])}, tmp_path / "m", metadata)
    with pytest.raises(ModelFileError, match=message):
        sparseleaf.load(tmp_path / "m")


def test_titles_that_are_not_unicode_are_shown_anyway(rows, tmp_path):
    model = SketchForestClassifier(n_trees=2, rerank="linear").fit(*rows)
    model.add_titles(["lone \ud800 surrogate"] * 300).save(tmp_path / "m")
    tensors = load_file(tmp_path / "m")
    with safe_open(tmp_path / "m", framework="np") as file:
        metadata = file.metadata()
    key = "linear.neighbours.titles.text"
    save_file(tensors | {key: np.full_like(tensors[key], 0xFF)}, tmp_path / "m", metadata)
    assert "\ufffd" in str(sparseleaf.load(tmp_path / "m").explain(rows[0][:1]))


@pytest.mark.parametrize("rerank", ["linear", "boosted", "bayes", "cosine"])
def test_updated_models(rows, rerank):
    X, Y = rows
    model = SketchForestClassifier(n_trees=3, rerank=rerank).fit(X[:250], Y[:250])
    if rerank == "linear":
        model.add_titles([f"title {row}" for row in range(250)])
    model.update(X[250:], Y[250:])
    explanation = assert_adds_up(model, X[240:260])
    if rerank == "linear":
        known, new = explanation[0][0].neighbours[0], explanation[19][0].neighbours[0]
        assert (known.row, known.title) == (240, "title 240")
        assert (new.row, new.title) == (259, None)


@pytest.mark.parametrize("method", ["isotonic", "platt"])
def test_calibrated_models_explain_the_score_beside_the_probability(rows, method):
    X, Y = rows
    for model in (
        SketchForestClassifier(n_trees=3, rerank="linear").fit(X[:200], Y[:200]),
        MultiGBDTClassifier(n_trees=3).fit(X[:200], Y[:200]),
    ):
        model.fit_calibration(X[200:], Y[200:], method=method)
        explanation = assert_adds_up(model, X[:20])
        probabilities = model.predict_proba(X[:20])
        for row in explanation:
            for one in row:
                assert one.prediction == pytest.approx(probabilities[row.row, one.label], abs=1e-6)
        scores = model.model_.apply(X[:20], None, 1, calibrated=True)
        pairs = Pairs(explanation.rows, explanation.labels)
        np.testing.assert_allclose(scores.explain(pairs).scores, scores.of_pairs(pairs), atol=1e-6)


TOPICS = {
    "cooking": "bake bread flour oven butter salt soup garlic onion pepper",
    "sailing": "boat wind sail harbour wave anchor mast tide storm rope",
    "gardening": "seed soil garden rose compost prune salt rain worm shed",
}


@pytest.fixture(scope="module")
def texts():
    rng = np.random.default_rng(0)
    labels = [[str(one) for one in rng.choice(list(TOPICS), 1 + i % 2, replace=False)] for i in range(200)]
    return [" ".join(rng.choice(" ".join(map(TOPICS.get, row)).split(), 8)) for row in labels], labels


@pytest.mark.parametrize(
    "estimator",
    [
        SketchForestClassifier(n_trees=3, rerank="linear"),
        SparseGBDTClassifier(n_trees=5, projection="leml", projection_dim=4, rerank=None),
        MultiGBDTClassifier(n_trees=20, min_samples_leaf=2),
        BlendClassifier(
            [SketchForestClassifier(n_trees=2), SparseGBDTClassifier(n_trees=3)], weights=[0.5, 0.5]
        ),
    ],
    ids=lambda one: type(one).__name__,
)
def test_texts_are_explained_by_their_words(texts, estimator, tmp_path):
    model = clone(estimator).fit(*texts)
    new = ["garlic soup with pepper", "storm in the harbour", "nothing known"]
    _, scores = model.predict_topk(new, 2)
    model.save(tmp_path / "m")
    for one in (model, sparseleaf.load(tmp_path / "m")):
        explanation = one.explain(new, k=2)
        np.testing.assert_allclose(sums(explanation), scores.ravel(), atol=1e-5)
        best = explanation[1][0]
        assert best.label == "sailing"
        assert {"storm", "harbour"} & set(best.feature_names)
        assert explanation[0][0].label == "cooking"


def test_fields_of_records_name_their_words(texts):
    words, labels = texts
    records = [{"title": text[:20], "abstract": text} for text in words]
    vectorizer = TextVectorizer(fields={"title": 2.0, "abstract": 1.0})
    model = SketchForestClassifier(n_trees=3, rerank="linear", vectorizer=vectorizer).fit(records, labels)
    explanation = model.explain(records[:3], titles=[one["title"] for one in records])
    names = model.vectorizer_.get_feature_names_out()
    best = explanation[0][0]
    assert best.feature_names == names[best.features].tolist()
    assert best.neighbours[0].title == records[0]["title"]
    np.testing.assert_allclose(sums(explanation), explanation.scores, atol=1e-5)


def test_old_models_have_no_numbers_of_rows():
    model = sparseleaf.load(COMPAT / "gbdt-sparse-v1.safetensors")
    with pytest.raises(ValueError, match="model files of version 1"):
        model.explain(np.zeros((1, model.n_features_in_), np.float32))


@pytest.mark.parametrize(
    "make", [SparseGBDTClassifier, LdSMClassifier, MultiGBDTClassifier, SketchForestClassifier]
)
def test_similar_rows_among_those_passed(make):
    X, Y = make_xc(300, 60, 8, labels_per_row=2, nnz_per_row=8, seed=2)
    names = [[f"l{label}" for label in row.indices] for row in Y]
    clf = make(n_trees=3).fit(X[:250], names[:250])
    titles = [f"title {i}" for i in range(250)]
    explanation = clf.explain(X[250:], k=2, training=(X[:250], names[:250]), titles=titles, n_neighbours=4)
    plain = clf.explain(X[250:], k=2)
    assert np.array_equal(explanation.base, plain.base)  # scores have the same reasons
    cosines = cosine_similarity(X[250:], X[:250])
    for i, row in enumerate(explanation):
        for one in row:
            order = sorted(range(250), key=lambda j, i=i: (-np.float32(cosines[i, j]), j))
            wanted = [j for j in order if one.label in names[j] and cosines[i, j] > 0][:4]
            np.testing.assert_allclose(
                [near.similarity for near in one.neighbours], cosines[i, wanted], atol=1e-6
            )
            assert all(one.label in names[near.row] for near in one.neighbours)
            assert [near.title for near in one.neighbours] == [titles[near.row] for near in one.neighbours]
    untitled = clf.explain(X[250:251], k=1, training=(X[:250], names[:250]))[0][0]
    assert {near.title for near in untitled.neighbours} <= {None}


def test_invalid_rows_to_find_similar_ones_in():
    X, Y = make_xc(60, 20, 4, labels_per_row=2, nnz_per_row=5)
    clf = SparseGBDTClassifier(n_trees=2).fit(X, Y)
    with pytest.raises(ValueError, match=r"The 'training' parameter must be a tuple \(X, y\)"):
        clf.explain(X[:1], training=X)
    with pytest.raises(ValueError, match="must have 60 rows"):
        clf.explain(X[:1], training=(X, Y[:10]))
    with pytest.raises(ValueError, match="a name for each training row, 60"):
        clf.explain(X[:1], training=(X, Y), titles=["a"])
    regressor = MultiGBDTRegressor(n_trees=2).fit(X.toarray(), np.arange(60.0))
    with pytest.raises(ValueError, match="must be None unless the estimator is a classifier"):
        regressor.explain(X[:1].toarray(), training=(X, Y))
