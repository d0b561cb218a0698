"""``update``: new rows and labels without regrowing the trees."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import sparseleaf
from marks import first
from smalldata import saved_bytes
from sparseleaf import BlendClassifier, LdSMClassifier, SketchForestClassifier, SparseGBDTClassifier
from sparseleaf.data import make_xc
from sparseleaf.metrics import precision_at_k
from sparseleaf.model import Role, Rows

KINDS = ["centroid", "cosine", "log", "linear", "boosted", "bayes"]


@pytest.fixture(scope="module")
def rows():
    return make_xc(700, 80, 40, labels_per_row=3, nnz_per_row=12, seed=0, n_topics=8)


@pytest.fixture(scope="module")
def models(rows, tmp_path_factory):
    """Files of forests by re-ranker, fitted on the first 500 rows."""
    X, Y = rows[0][:500], rows[1][:500]
    folder = tmp_path_factory.mktemp("models")
    for kind in KINDS:
        SketchForestClassifier(n_trees=4, rerank=kind).fit(X, Y).save(folder / kind)
    return folder


def forest(**given):
    return SketchForestClassifier(**{"n_trees": 5, "rerank": None, "leaf_labels": None} | given)


def ldsm(**given):
    return LdSMClassifier(**{"n_trees": 3, "max_nodes": 40, "leaf_labels": None} | given)


def naive_counts(clf, X, Y):
    """Label counts and total of every leaf, from the rows that reach it."""
    reached = clf.model_.scorer.leaves(Rows(X, None, 1)).toarray()
    Y = Y.toarray()
    counts = np.array([Y[reached[:, leaf] > 0].sum(axis=0) for leaf in range(reached.shape[1])])
    return counts, counts.sum(axis=1) if isinstance(clf, LdSMClassifier) else reached.sum(axis=0)


def stored_counts(clf):
    totals = clf.model_.trees.leaf_totals
    return np.rint(frequencies_of(clf) * totals[:, None]), totals


def relative(counts, totals):
    return counts / np.maximum(1e-9, totals)[:, None]


def frequencies_of(clf):
    trees = clf.model_.trees
    shape = len(trees.leaf_indptr) - 1, clf.model_.n_labels
    return sp.csr_matrix(
        (trees.leaf_values.astype(np.float32), trees.leaf_labels.astype(np.int32), trees.leaf_indptr), shape
    ).toarray()


@pytest.mark.parametrize("make", [forest, ldsm])
def test_two_updates_equal_a_recount_with_fixed_trees(rows, make):
    X, Y = rows
    clf = make().fit(X[:400], Y[:400])
    before, (counts, totals) = clf.model_, stored_counts(clf)
    added, more = naive_counts(clf, X[400:], Y[400:])
    clf.update(X[400:500], Y[400:500]).update(X[500:], Y[500:])
    np.testing.assert_allclose(frequencies_of(clf), relative(counts + added, totals + more), rtol=1e-3)
    assert np.array_equal(clf.model_.trees.leaf_totals, totals + more)
    if make is forest:  # exact routers: training rows reach the leaves that they were counted in
        np.testing.assert_allclose(frequencies_of(clf), relative(*naive_counts(clf, X, Y)), rtol=1e-3)
    whole = make().fit(X[:400], Y[:400]).update(X[400:], Y[400:])
    assert np.array_equal(frequencies_of(clf), frequencies_of(whole))
    assert clf.model_.n_train_rows == 700
    assert np.array_equal(clf.model_.label_counts, np.asarray(Y.sum(axis=0)).ravel())
    assert np.array_equal(before.trees.router_steps, clf.model_.trees.router_steps)


def test_truncated_leaves_keep_the_most_frequent_labels(rows):
    X, Y = rows
    clf = forest(leaf_labels=3, min_samples_leaf=20).fit(X[:400], Y[:400]).update(X[400:], Y[400:])
    assert np.diff(clf.model_.trees.leaf_indptr).max() == 3


@pytest.mark.parametrize("make", [forest, ldsm])
def test_forgetting_weights_the_old_rows(rows, make):
    X, Y = rows
    clf = make().fit(X[:500], Y[:500])
    counts, totals = stored_counts(clf)
    added, more = naive_counts(clf, X[500:], Y[500:])
    clf.update(X[500:], Y[500:], forget=0.25)
    expected = relative(0.75 * counts + added, 0.75 * totals + more)
    np.testing.assert_allclose(frequencies_of(clf), expected, rtol=2e-3, atol=1e-6)
    assert clf.model_.n_train_rows == 375 + 200


@pytest.mark.parametrize("kind", KINDS)
def test_zero_rows_change_nothing(rows, models, kind):
    X, Y = rows
    clf = sparseleaf.load(models / kind)
    before = clf.model_
    assert clf.update(X[:0], Y[:0], forget=0.5) is clf
    assert clf.model_ is before


@pytest.mark.parametrize("kind", first(2, ["linear", "bayes", "boosted", "cosine", "log", "centroid"]))
def test_same_bytes_for_any_number_of_threads(rows, models, kind, tmp_path):
    X, Y = rows
    files = {
        saved_bytes(sparseleaf.load(models / kind, n_jobs=n).update(X[500:], Y[500:], forget=0.1), tmp_path)
        for n in (1, 2, 5)
    }
    assert len(files) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_update_predicts_the_same_and_can_be_updated_again(rows, models, kind, tmp_path):
    X, Y = rows
    clf = sparseleaf.load(models / kind).update(X[500:600], Y[500:600], forget=0.1)
    clf.save(tmp_path / "m")
    loaded = sparseleaf.load(tmp_path / "m")
    for one, other in zip(clf.predict_topk(X, 5), loaded.predict_topk(X, 5), strict=True):
        assert np.array_equal(one, other)
    assert loaded.model_.updates == clf.model_.updates
    again = [one.update(X[600:], Y[600:]) for one in (clf, loaded)]
    assert saved_bytes(again[0], tmp_path) == saved_bytes(again[1], tmp_path)


@pytest.mark.parametrize("kind", [None, *KINDS])
def test_new_labels_are_suggested(rows, kind):
    """Rows of one topic get a new label in the update; it is then suggested for similar rows."""
    X, Y = rows
    topic = np.asarray(Y[:, np.argmax(np.asarray(Y.sum(axis=0)).ravel())].todense()).ravel() > 0
    marked = [
        [f"l{label}" for label in Y[row].indices] + ["new"] * bool(topic[row] and row >= 400)
        for row in range(700)
    ]
    clf = SketchForestClassifier(n_trees=8, rerank=kind).fit(X[:400], marked[:400])
    names = clf.classes_.tolist()
    clf.update(X[400:600], marked[400:600])
    assert clf.classes_.tolist() == [*names, "new"]
    labels, _ = clf.predict_topk(X[600:], 10)
    having = (labels == "new").any(axis=1)
    assert having[topic[600:]].mean() > having[~topic[600:]].mean() + 0.1
    assert clf.drift_.n_new_labels == 1
    assert 0 < clf.drift_.new_label_rate < 0.2


@pytest.mark.parametrize("kind", KINDS)
def test_old_files_without_the_counts_are_updated_approximately(rows, models, kind, tmp_path):
    X, Y = rows
    exact = sparseleaf.load(models / kind)
    rough = sparseleaf.load(models / kind)
    model = rough.model_
    trees = replace(model.trees, leaf_totals=np.empty(0))
    model = model.with_stage(Role.SCORER, replace(model.scorer, trees=trees))
    model = model.with_stage(Role.EMPTY_ROWS, replace(model.empty, n_empty=0.0, divisor=0.0))
    if kind == "bayes":
        model = model.with_stage(Role.RERANKER, replace(model.rerank, feature_counts=np.empty(0, np.int64)))
    rough._adopt(model)
    scores = [one.update(X[500:600], Y[500:600]).score(X[600:], Y[600:]) for one in (exact, rough)]
    assert scores[1] == pytest.approx(scores[0], abs=0.15)
    rough.save(tmp_path / "m")
    assert sparseleaf.load(tmp_path / "m").score(X[600:], Y[600:]) == scores[1]


@pytest.mark.parametrize("kind", KINDS)
def test_an_update_is_about_as_good_as_retraining(rows, models, kind):
    X, Y = rows
    test = slice(600, 700)
    updated = sparseleaf.load(models / kind).update(X[500:600], Y[500:600])
    whole = SketchForestClassifier(n_trees=4, rerank=kind).fit(X[:600], Y[:600])
    found, wanted = (precision_at_k(Y[test], one.predict_topk(X[test], 3)[0], 3) for one in (updated, whole))
    assert found > wanted - 0.08


def test_a_third_class_makes_a_binary_problem_multiclass():
    X, _ = make_xc(300, 30, 5, labels_per_row=2, nnz_per_row=6)
    y = np.array(["no", "yes"])[np.asarray(X.sum(axis=1)).ravel().argsort() % 2]
    clf = SketchForestClassifier(n_trees=3, rerank=None).fit(X, y)
    clf.update(X[:50], np.repeat("maybe", 50), forget=0.9)
    assert clf.classes_.tolist() == ["no", "yes", "maybe"]
    assert clf.model_.target_kind == "multiclass"
    assert (clf.predict(X[:50]) == "maybe").mean() > 0.3
    assert clf.decision_function(X).shape == (300, 3)


def test_wider_matrices_append_labels(rows):
    X, Y = rows
    clf = forest(rerank="linear").fit(X[:500], Y[:500, :30])
    clf.update(X[500:], Y[500:])
    assert clf.model_.n_labels == 40
    assert clf.decision_function(X).shape == (700, 40)
    assert np.array_equal(
        clf.model_.label_counts,
        np.asarray(Y[:500, :30].sum(axis=0)).ravel().tolist()
        + [0] * 10
        + np.asarray(Y[500:].sum(axis=0)).ravel(),
    )


@pytest.mark.parametrize("make", [SketchForestClassifier, SparseGBDTClassifier])
def test_probabilities_of_new_labels(rows, make, tmp_path):
    X, Y = rows
    clf = make(n_trees=5, rerank="cosine", calibrate="platt").fit(X[:500], Y[:500, :30])
    hows = [{}] if make is SketchForestClassifier else [{"how": "leaves"}, {"how": "trees"}]
    for how in hows:
        clf.update(X[500:], Y[500:], **how)
    found = clf.predict_proba(X)
    assert found.shape == (700, 40)
    assert found[:, 30:].nnz
    clf.save(tmp_path / "m")
    assert np.array_equal(sparseleaf.load(tmp_path / "m").predict_proba(X).data, found.data)


def test_dense_rows(rows):
    X, Y = rows[0].toarray(), rows[1].toarray()
    clf = SketchForestClassifier(n_trees=4, rerank="cosine").fit(X[:500], Y[:500]).update(X[500:], Y[500:])
    assert clf.score(X, Y) > 0.3
    assert clf.drift_.unknown_features == 0


def test_unlabelled_rows_count_as_rows(rows):
    X, Y = rows
    clf = forest(rerank="linear").fit(X[:500], Y[:500])
    before = clf.model_.trees.leaf_totals.sum()
    clf.update(X[500:600], sp.csr_matrix((100, 40)))
    assert clf.model_.n_train_rows == 600
    assert clf.model_.trees.leaf_totals.sum() == before + 500  # each row is in one leaf of 5 trees
    assert clf.drift_.n_evaluated == 0
    assert clf.drift_.reasons == []


def test_one_row(rows):
    X, Y = rows
    clf = SketchForestClassifier(n_trees=3, rerank="linear").fit(X[:500], Y[:500]).update(X[500], Y[500])
    assert clf.model_.n_train_rows == 501


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (lambda X: X[:5, :-1], lambda Y: Y[:5], "79 features"),
        (lambda X: X[:5], lambda Y: Y[:4], "Y must have 5 rows"),
        (lambda X: X[:5], lambda Y: Y[:5, :-1], "Y must have a column for each of the 40 labels"),
        (lambda X: X[:5], lambda Y: None, "requires y to be passed"),
        (lambda X: X[:5], lambda Y: [["a"]] * 5, "Y must have labels from 0 to 39"),
        (lambda X: X[:5] * np.nan, lambda Y: Y[:5], "NaN"),
        (lambda X: X[:5], lambda Y: 2 * Y[:5], "values 0 and 1"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_changes(rows, models, X, y, message):
    clf = sparseleaf.load(models / "cosine")
    before = clf.model_
    with pytest.raises(ValueError, match=message):
        clf.update(X(rows[0]), y(rows[1]))
    assert clf.model_ is before


def test_duplicate_label_names_are_refused(rows):
    pd = pytest.importorskip("pandas")
    X, Y = rows
    clf = forest().fit(X, pd.DataFrame(Y.toarray(), columns=[f"l{i}" for i in range(40)]))
    with pytest.raises(ValueError, match="l0"):
        clf.update(X[:5], pd.DataFrame(Y[:5, :2].toarray(), columns=["l0", "l0"]))


@pytest.mark.parametrize("forget", [-0.1, 1.0, np.nan, "much", None, True])
def test_forget_is_validated(rows, models, forget):
    clf = sparseleaf.load(models / "cosine")
    with pytest.raises(ValueError, match=r"The 'forget' parameter must be a float in the range \[0, 1\)"):
        clf.update(rows[0][:5], rows[1][:5], forget=forget)


def test_an_estimator_that_is_not_fitted_is_refused(rows):
    with pytest.raises(ValueError, match="not fitted"):
        SketchForestClassifier().update(*rows)


def test_blends_update_their_members(rows, tmp_path):
    X, Y = rows
    members = [forest(), ldsm(rerank="cosine")]
    blend = BlendClassifier(members, weights=[0.5, 0.5]).fit(X[:500], Y[:500, :30])
    before = blend.estimators_[0].model_
    blend.update(X[500:], Y[500:])
    assert [one.model_.n_labels for one in blend.estimators_] == [40, 40]
    assert before.n_labels == 30
    alone = forest().fit(X[:500], Y[:500, :30]).update(X[500:], Y[500:])
    assert np.array_equal(frequencies_of(blend.estimators_[0]), frequencies_of(alone))
    blend.save(tmp_path / "m")
    loaded = sparseleaf.load(tmp_path / "m")
    assert np.array_equal(loaded.predict_topk(X)[0], blend.predict_topk(X)[0])
