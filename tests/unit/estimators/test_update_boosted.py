"""``update`` of boosted trees: refreshed leaves, and more trees on new rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import sparseleaf
from smalldata import make_set, saved_bytes
from sparseleaf import (
    BlendClassifier,
    GBDTRanker,
    MultiGBDTClassifier,
    MultiGBDTRegressor,
    SparseGBDTClassifier,
)
from sparseleaf.data import make_xc
from sparseleaf.model import Role, Rows, with_float_values
from sparseleaf.training.cover import leaf_cover


@pytest.fixture(scope="module")
def rows():
    return make_xc(500, 60, 30, labels_per_row=3, nnz_per_row=12, seed=0, n_topics=8)


def sparse(**given):
    return SparseGBDTClassifier(**{"n_trees": 6, "max_leaves": 8, "min_samples_leaf": 5} | given)


def leaf_matrix(model, tree):
    """Leaf values of one tree, dense, and the number of its first leaf."""
    trees = with_float_values(model.trees)
    firsts = np.concatenate(([0], np.cumsum(trees.feature < 0)))[trees.tree_offsets]
    labels = trees.leaf_labels.astype(np.int64)
    if not len(labels):
        labels = np.tile(np.arange(model.n_labels), len(trees.leaf_indptr) - 1)
    shape = (len(trees.leaf_indptr) - 1, model.n_labels)
    values = sp.csr_matrix((trees.leaf_values, labels, trees.leaf_indptr), shape).toarray()
    return values[firsts[tree] : firsts[tree + 1]], firsts[tree]


@pytest.mark.parametrize("forget", [0.0, 0.5])
@pytest.mark.parametrize("loss", ["squared", "squared_hinge"])
def test_refreshed_leaves_equal_a_naive_recomputation(rows, loss, forget):
    """Σ of old and new residuals over the rows of a leaf, tree by tree; no leaf is truncated."""
    X, Y = rows
    l2, rate, keep = 1.0, 0.3, 1 - forget
    clf = sparse(loss=loss, leaf_labels=None, learning_rate=rate, l2=l2, projection=None)
    before = clf.fit(X[:400], Y[:400]).model_
    clf.update(X[400:], Y[400:], forget=forget)
    leaves = before.scorer.leaves(Rows(X[400:], None, 1))
    cover = leaf_cover(before.trees, 400)
    truth, scores = Y[400:].toarray(), np.zeros((100, 30))
    for tree in range(6):
        old, first = leaf_matrix(before, tree)
        found, _ = leaf_matrix(clf.model_, tree)
        residual = truth - scores
        if loss == "squared_hinge":
            residual = np.where(truth > 0, np.maximum(residual, 0), np.minimum(residual, 0))
        expected = old.copy()
        for leaf in np.unique(leaves[:, tree]):
            of_leaf = leaves[:, tree] == leaf
            n_old = np.rint(keep * cover[leaf])
            total = old[leaf - first] * (n_old + keep * l2) / rate + residual[of_leaf].sum(axis=0)
            expected[leaf - first] = rate * total / (n_old + of_leaf.sum() + l2)
        np.testing.assert_allclose(found, expected, atol=2e-4)
        scores += found[leaves[:, tree] - first]


@pytest.mark.parametrize("how", ["leaves", "trees"])
@pytest.mark.parametrize("projection", [None, "random"])
def test_sparse_models_learn_new_labels(rows, how, projection, tmp_path):
    X, Y = rows
    clf = sparse(n_trees=20, projection=projection).fit(X[:300], Y[:300, :20])
    n_trees = clf.model_.n_trees
    clf.update(X[300:], Y[300:], how=how)
    assert clf.model_.n_labels == 30
    assert clf.model_.n_trees == n_trees + (8 if how == "trees" else 0)  # 20 · 200 / 500
    new = clf.decision_function(X[300:]).toarray()[:, 20:]
    truth = Y[300:, 20:].toarray() > 0
    assert new[truth].mean() > new[~truth].mean() + 0.02
    clf.save(tmp_path / "m")
    assert np.array_equal(sparseleaf.load(tmp_path / "m").predict_topk(X)[1], clf.predict_topk(X)[1])
    cover = clf.model_.trees.cover[clf.model_.trees.tree_offsets[:-1]]
    assert set(cover[:n_trees].tolist()) == {500 if how == "leaves" else 300}


@pytest.mark.parametrize("how", ["leaves", "trees"])
def test_same_bytes_for_any_number_of_threads(rows, how, tmp_path):
    X, Y = rows
    files = set()
    for n_jobs in (1, 2, 5):
        clf = sparse(n_jobs=n_jobs).fit(X[:300], Y[:300, :20])
        files.add(saved_bytes(clf.update(X[300:], Y[300:], how=how), tmp_path))
    assert len(files) == 1


def test_more_trees_lower_the_loss_of_new_rows(rows):
    X, Y = rows
    clf = sparse(n_trees=10).fit(X[:300], Y[:300])
    truth = Y[300:].toarray()

    def loss():
        return ((clf.decision_function(X[300:]).toarray() - truth) ** 2).mean()

    before = loss()
    clf.update(X[300:], Y[300:], how="trees", n_trees=15)
    assert clf.model_.n_trees == 25
    assert loss() < before - 0.001


def test_a_re_ranker_is_updated_with_the_trees(rows):
    X, Y = rows
    clf = sparse(rerank="linear").fit(X[:300], Y[:300, :20]).update(X[300:], Y[300:], how="trees")
    assert clf.model_.rerank.n_labels == 30
    assert clf.decision_function(X).shape == (500, 30)


def test_old_files_without_cover(rows):
    X, Y = rows
    for how in ("leaves", "trees"):
        clf = sparse().fit(X[:400], Y[:400])
        trees = replace(clf.model_.trees, cover=np.empty(0, np.uint32))
        clf._adopt(clf.model_.with_stage(Role.SCORER, replace(clf.model_.scorer, trees=trees)))
        clf.update(X[400:], Y[400:], how=how)
        assert clf.score(X, Y) > 0.2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"how": "roots"}, r"The 'how' parameter must be one of \{'leaves', 'trees'\}. Got 'roots'"),
        ({"how": "trees", "n_trees": 0}, "The 'n_trees' parameter must be an int >= 1 or None. Got 0"),
        ({"how": "leaves", "n_trees": 3}, "The 'n_trees' parameter must be None for how='leaves'"),
        ({"how": "trees", "forget": 0.1}, "The 'forget' parameter must be 0 for how='trees'"),
    ],
)
@pytest.mark.parametrize("dense", [False, True])
def test_arguments_are_validated(arguments, message, dense):
    X, Y = make_set(60)
    clf = (MultiGBDTClassifier(n_trees=2) if dense else sparse(n_trees=2)).fit(X, Y)
    with pytest.raises(ValueError, match=message):
        clf.update(X, Y, **arguments)


# --- dense losses


@pytest.mark.parametrize("loss", ["mse", "absolute", "huber", "poisson"])
@pytest.mark.parametrize("how", ["leaves", "trees"])
def test_regressors_follow_a_shift(loss, how, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4)).astype(np.float32)
    y = np.exp(0.5 * np.c_[X[:, 0], X[:, 1]])
    model = MultiGBDTRegressor(n_trees=40, loss=loss).fit(X[:200], y[:200])
    shifted = y[200:] + 1
    before = np.abs(model.predict(X[200:]) - shifted).mean()
    model.update(X[200:], shifted, how=how, **({"forget": 0.9} if how == "leaves" else {"n_trees": 40}))
    assert np.abs(model.predict(X[200:]) - shifted).mean() < 0.7 * before
    assert model.model_.n_train_rows == (220 if how == "leaves" else 400)
    assert model.drift_.metric == "loss"
    model.save(tmp_path / "m")
    assert np.array_equal(sparseleaf.load(tmp_path / "m").predict(X), model.predict(X))


def test_refreshed_squared_error_leaves_equal_a_naive_recomputation():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(300, 3)).astype(np.float32), rng.normal(size=(300, 2))
    model = MultiGBDTRegressor(n_trees=3, learning_rate=0.5, l2=0.0, max_leaves=4).fit(X[:200], y[:200])
    before = model.model_
    model.update(X[200:], y[200:], how="leaves")
    leaves = before.scorer.leaves(Rows(X[200:], None, 1))
    cover, scores = leaf_cover(before.trees, 200), np.repeat(before.base_score[None], 100, axis=0)
    for tree in range(3):
        old, first = leaf_matrix(before, tree)
        expected = old.copy()
        for leaf in np.unique(leaves[:, tree]):
            of_leaf = leaves[:, tree] == leaf
            new = 0.5 * (y[200:] - scores)[of_leaf].mean(axis=0)
            expected[leaf - first] = np.average(
                [old[leaf - first], new], axis=0, weights=[cover[leaf], of_leaf.sum()]
            )
        found, _ = leaf_matrix(model.model_, tree)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
        scores = scores + found[leaves[:, tree] - first]


@pytest.mark.parametrize("how", ["leaves", "trees"])
@pytest.mark.parametrize("per_output", [False, True])
def test_classifiers_may_lack_classes_but_have_no_new_ones(how, per_output):
    X, _ = make_set(300, seed=2)
    y = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    settings = {"n_trees": 10, "advanced": {"tree_per_output": per_output}}
    clf = MultiGBDTClassifier(**settings).fit(X[:200], y[:200])
    some = np.flatnonzero(y[200:] != "c") + 200
    clf.update(X[some], y[some], how=how)
    assert clf.classes_.tolist() == ["a", "b", "c"]
    assert clf.score(X, y) > 0.8
    assert clf.drift_.precision[0] > 0.8
    with pytest.raises(ValueError, match="not in the training set"):
        clf.update(X[:2], ["a", "d"], how=how)


@pytest.mark.parametrize("how", ["leaves", "trees"])
def test_multilabel_classifiers_with_unknown_targets(how):
    X, Y = make_set(300, n_labels=4, seed=3)
    clf = MultiGBDTClassifier(n_trees=10).fit(X[:200], Y[:200])
    partly = Y[200:].astype(float)
    partly[::3, 1] = np.nan
    clf.update(X[200:], partly, how=how, sample_weight=np.linspace(0.5, 1, 100))
    assert np.array_equal(clf.model_.label_counts, Y[:200].sum(axis=0) + np.nansum(partly, axis=0))


@pytest.mark.parametrize("how", ["leaves", "trees"])
def test_rankers(how):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4)).astype(np.float32)
    grades = np.digitize(X[:, 0] + 0.3 * rng.normal(size=400), [0, 1])
    qid = np.repeat(np.arange(40), 10)
    ranker = GBDTRanker(n_trees=10).fit(X[:200], grades[:200], qid=qid[:200])
    ranker.update(X[200:], grades[200:], qid=qid[200:], how=how)
    assert ranker.score(X, grades, qid=qid) > 0.8
    assert ranker.drift_.metric.startswith("ndcg")
    again = ranker.update(X[200:], grades[200:], qid=qid[200:], how=how).drift_
    assert again.expected_value == ranker.model_.updates[0]["value"]


def test_categories_of_the_model_are_used():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"kind": pd.Categorical(rng.choice(["x", "y", "z"], 300)), "size": rng.normal(size=300)})
    y = (X["kind"] == "y").to_numpy() * 2.0 + X["size"]
    model = MultiGBDTRegressor(n_trees=20, min_samples_leaf=5).fit(X[:200], y[:200])
    some = X[200:][X["kind"][200:] != "x"]
    for how in ("leaves", "trees"):
        model.update(some, y[some.index], how=how)
    assert model.score(X, y) > 0.8


def test_monotone_constraints_are_kept_by_more_trees_only():
    X, _ = make_set(200, seed=5)
    y = X[:, 0]
    model = MultiGBDTRegressor(n_trees=5, monotone_constraints=[1, 0, 0, 0, 0]).fit(X, y)
    with pytest.raises(ValueError, match=r"monotone_constraints\. Use how='trees'"):
        model.update(X, y, how="leaves")
    assert model.update(X, y).model_.n_trees > 5


def test_zero_rows_change_nothing():
    X, Y = make_set(100)
    for model in (MultiGBDTRegressor(n_trees=2), MultiGBDTClassifier(n_trees=2), sparse(n_trees=2)):
        before = model.fit(X, Y).model_
        assert model.update(X[:0], Y[:0]).model_ is before


def test_blends_with_boosted_members(rows):
    X, Y = rows
    members = [sparse(), MultiGBDTClassifier(n_trees=3)]
    blend = BlendClassifier(members, weights=[0.5, 0.5]).fit(X[:400], Y[:400])
    alone = MultiGBDTClassifier(n_trees=3).fit(X[:400], Y[:400]).update(X[400:], Y[400:], how="leaves")
    blend.update(X[400:], Y[400:])
    updated = blend.estimators_[1]
    assert np.array_equal(updated.decision_function(X), alone.decision_function(X))
    wider = sp.hstack([Y, Y[:, :1]], "csr")
    with pytest.raises(ValueError, match=r"does not support new ones\. Got 1 new labels"):
        blend.update(X[400:], wider[400:])
