"""SketchForestClassifier: what it learns, that it is reproducible, and what it refuses."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import sparseleaf
from marks import first
from smalldata import saved_bytes
from sparseleaf import SketchForestClassifier
from sparseleaf.data import make_xc
from sparseleaf.metrics import precision_at_k
from sparseleaf.model import Rows
from sparseleaf.routed.forest import bag


@pytest.fixture(scope="module")
def rows():
    return make_xc(1200, 80, 60, labels_per_row=3, nnz_per_row=12, seed=0, n_topics=8)


@pytest.mark.parametrize("dense", [False, True])
def test_it_learns(rows, dense):
    X, Y = rows
    X = X.toarray() if dense else X
    clf = SketchForestClassifier(n_trees=20).fit(X[:900], Y[:900])
    counts = np.asarray(Y[:900].sum(axis=0)).ravel()
    frequent = np.tile(np.argsort(-counts)[:1], (300, 1))
    assert clf.score(X[900:], Y[900:]) > precision_at_k(Y[900:], frequent, 1) + 0.1
    one_tree, _ = clf.predict_topk(X[900:], 5, n_trees=1)
    all_trees, _ = clf.predict_topk(X[900:], 5)
    assert precision_at_k(Y[900:], all_trees, 5) > precision_at_k(Y[900:], one_tree, 5)


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize(
    "parameters",
    first(
        1, [{}, {"arity": 3}, {"rerank": "log"}, {"bootstrap": True}, {"max_features": 0.5}, {"max_depth": 3}]
    ),
)
def test_same_bytes_for_any_number_of_threads(rows, dense, parameters, tmp_path):
    X, Y = rows[0][:300], rows[1][:300]
    X = X.toarray() if dense else X
    files = {
        saved_bytes(
            SketchForestClassifier.from_settings({"n_trees": 7, "n_jobs": n, **parameters}).fit(X, Y),
            tmp_path,
        )
        for n in (1, 2, 5)
    }
    assert len(files) == 1


def test_seeds_and_trees_differ(rows, tmp_path):
    X, Y = rows[0][:300], rows[1][:300]
    files = {
        saved_bytes(SketchForestClassifier(n_trees=1, random_state=s).fit(X, Y), tmp_path)[-4000:]
        for s in (0, 1, 2)
    }
    assert len(files) == 3
    trees = SketchForestClassifier(n_trees=2).fit(X, Y).model_.trees
    roots = (trees.router_indptr[i] for i in trees.inner[trees.tree_offsets[:-1]])
    first, second = (trees.router_weights[root:][:40] for root in roots)
    assert not np.array_equal(first, second)


def test_a_tree_does_not_depend_on_how_many_there_are(rows):
    X, Y = rows[0][:300], rows[1][:300]
    few, many = (SketchForestClassifier(n_trees=n, rerank=None).fit(X, Y) for n in (3, 9))
    assert (few.decision_function(X) != many.model_.scores(X, 3, 1)).nnz == 0


@pytest.mark.parametrize("parameters", [{}, {"arity": 4}, {"min_samples_leaf": 10}, {"max_depth": 2}])
def test_training_rows_reach_the_leaves_they_were_put_in(rows, parameters):
    X, Y = rows
    clf = SketchForestClassifier.from_settings(
        {"n_trees": 2, "leaf_labels": None, "rerank": None, **parameters}
    ).fit(X, Y)
    trees, reached = clf.model_.trees, clf.model_.scorer.leaves(Rows(X, None, 2))
    sizes = np.asarray(reached.sum(axis=0)).ravel()
    assert sizes.min() >= clf.min_samples_leaf
    assert sizes.sum() == 2 * X.shape[0]
    assert clf.max_depth is None or trees.depths().max() <= clf.max_depth
    # a leaf's values are the shares of its rows that have a label
    wanted = sp.diags(1 / sizes) @ reached.T @ Y
    found = sp.csr_matrix(
        (trees.leaf_values.astype(float), trees.leaf_labels, trees.leaf_indptr), shape=wanted.shape
    )
    assert np.abs(wanted - found).max() < 2**-11


@pytest.mark.parametrize("compact", first(1, [True, False]))
@pytest.mark.parametrize(
    "parameters",
    first(
        2,
        [
            {},
            {"rerank": None},
            {"arity": 4},
            {"rerank": "centroid"},
            {"rerank": "cosine", "rerank_weight": 0.5},
        ],
    ),
)
@pytest.mark.parametrize("dense", [False, True])
def test_saved_models_predict_the_same(rows, parameters, compact, dense, tmp_path):
    X, Y = rows
    X = X.toarray() if dense else X
    clf = SketchForestClassifier.from_settings({"n_trees": 3, **parameters}).fit(X, Y)
    clf.save(tmp_path / "m.safetensors", compact=compact)
    other = sparseleaf.load(tmp_path / "m.safetensors")
    assert isinstance(other, SketchForestClassifier)
    assert (
        clf.model_.scorer.leaves(Rows(X, None, 1)) != other.model_.scorer.leaves(Rows(X, None, 1))
    ).nnz == 0  # routers lose nothing
    ids, scores = clf.predict_topk(X, 3)
    found, values = other.predict_topk(X, 3)
    assert np.array_equal(ids, found)
    assert np.array_equal(scores, values)


def test_out_of_bag_scores(rows):
    X, Y = rows
    clf = SketchForestClassifier(n_trees=12, bootstrap=True, rerank=None).fit(X, Y)
    total, judged = 0.0, 0
    per_tree = [clf.model_.scores(X, t + 1, 1) * (t + 1) for t in range(12)]
    per_tree = [per_tree[0], *(b - a for a, b in itertools.pairwise(per_tree))]
    bags = [set(bag(np.arange(1200), 0, tree).tolist()) for tree in range(12)]
    for row in range(1200):
        unseen = [tree for tree in range(12) if row not in bags[tree]]
        if unseen:
            scores = sum(per_tree[tree][row].toarray().ravel() for tree in unseen)
            scores[scores < 1e-5] = 0
            total += Y[row, int(np.argmax(scores))]
            judged += 1
    assert 0.9 * 1200 < judged <= 1200
    assert clf.oob_score_ == clf.oob_precision_[0] == pytest.approx(total / judged, abs=0.01)
    assert clf.oob_score_ < clf.score(X, Y)


def test_out_of_bag_scores_of_few_rows():
    one = SketchForestClassifier(n_trees=2, bootstrap=True).fit(np.ones((1, 1)), [["a"]])
    assert np.isnan(one.oob_score_)


def test_held_out_rows_join_the_leaves(rows):
    X, Y = rows
    clf = SketchForestClassifier(n_trees=2, leaf_labels=None, rerank="log").fit(X, Y)
    scores = clf.model_.tree_scores(X, 1, 1)
    assert (scores.astype(bool).astype(int) - Y.astype(bool).astype(int)).min() >= 0
    assert scores.max() <= 1 + 1e-6  # rates, with the rows that joined


def test_label_names_classes_and_lists(rows):
    X, Y = rows[0][:200].toarray(), rows[1][:200]
    names = [[f"label {k}" for k in row.indices] for row in Y]
    labels, _ = SketchForestClassifier(n_trees=2).fit(X, names).predict_topk(X, 2)
    assert labels[0, 0].startswith("label ")
    classes = np.array(["red", "green", "blue"])[np.argmax(X[:, :3], axis=1)]
    clf = SketchForestClassifier(n_trees=10).fit(X, classes)
    assert clf.score(X, classes) > 0.6
    assert clf.decision_function(X).shape == (200, 3)


def test_rows_and_labels_of_all_kinds():
    X, Y = make_xc(60, 20, 10, labels_per_row=2, nnz_per_row=4, seed=3)
    X, Y = X.tolil(), Y.tolil()
    X[3], Y[5], Y[:, 7] = 0, 0, 0
    X[:, 4] = 2.5  # constant
    changed = (
        {},
        {"rerank": "log"},
        {"arity": 8},
        {"max_depth": 0},
        {"min_samples_leaf": 100},
        {"sketch_dim": 1},
    )
    for parameters in changed:
        clf = SketchForestClassifier.from_settings({"n_trees": 2, **parameters}).fit(X.tocsr(), Y.tocsr())
        ids, scores = clf.predict_topk(X.tocsr(), 12)
        assert not (ids == 7).any()
        assert np.isfinite(scores[ids >= 0]).all()
    one = SketchForestClassifier().fit(np.ones((1, 1)), [["a", "b"]])
    assert one.predict_topk(np.zeros((1, 1)), 3)[0].tolist() == [["a", "b", None]]
    unlabelled = SketchForestClassifier().fit(np.ones((4, 2)), sp.csr_matrix((4, 3)))
    assert (unlabelled.predict_topk(np.ones((1, 2)), 1)[0] == -1).all()


def test_huge_and_tiny_values(rows):
    X, Y = rows[0][:200].toarray().astype(np.float32), rows[1][:200]
    X[:, 0], X[:, 1] = 1e35 * np.sign(np.arange(200) % 3 - 1), 1e-38
    for features in (X, sp.csr_matrix(X)):
        ids, scores = SketchForestClassifier(n_trees=2).fit(features, Y).predict_topk(features, 2)
        assert np.isfinite(scores[ids >= 0]).all()


def test_validation_rows_callbacks_and_interruption(rows):
    X, Y = rows

    def interrupt(state):
        if state.tree == 2:
            raise KeyboardInterrupt

    clf = SketchForestClassifier(n_trees=9, rerank=None)
    clf.fit(X[:900], Y[:900], eval_set=(X[900:], Y[900:]), callbacks=[lambda state: state.tree == 4])
    wanted = [precision_at_k(Y[900:], ids, 1) for ids, _ in clf.staged_predict_topk(X[900:], 1)]
    assert clf.model_.n_trees == 4
    assert clf.history_["valid precision@1"] == pytest.approx(wanted, abs=0.007)  # ties
    with pytest.warns(UserWarning, match="interrupted; the model has the 2 trees"):
        clf.fit(X, Y, callbacks=[interrupt])
    assert clf.model_.n_trees == 2
    assert clf.interrupted_ is True


def test_clone_pickle_and_search(rows):
    X, Y = rows[0][:200], rows[1][:200]
    clf = SketchForestClassifier(n_trees=3, rerank="cosine", bootstrap=True)
    fitted = pickle.loads(pickle.dumps(clone(clf).fit(X, Y)))
    assert np.array_equal(fitted.predict_topk(X)[0], clf.fit(X, Y).predict_topk(X)[0])
    assert GridSearchCV(clf, {"max_depth": [0, 9]}, cv=2).fit(X, Y).best_params_ == {"max_depth": 9}
    assert clf.feature_importances_.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    "parameters",
    [
        {"arity": 1},
        {"arity": 17},
        {"min_samples_leaf": 0},
        {"sketch_dim": 0},
        {"label_weight": -1},
        {"router_weights": 0},
        {"max_features": 0.0},
        {"max_features": 1.5},
        {"bootstrap": "yes"},
        {"max_depth": -1},
        {"rerank": "nearest"},
    ],
)
def test_bad_parameters_are_refused_by_name(rows, parameters):
    with pytest.raises(ValueError, match=next(iter(parameters))):
        SketchForestClassifier.from_settings(parameters).fit(*rows)


def test_nan_is_refused(rows):
    X, Y = rows[0].toarray(), rows[1]
    X[0, 0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        SketchForestClassifier().fit(X, Y)
    with pytest.raises(ValueError, match="NaN"):
        SketchForestClassifier(n_trees=1).fit(*rows).predict_topk(X)


def test_memory_mapped_rows_give_the_same_model(rows, tmp_path):
    X, Y = rows
    for name in ("data", "indices", "indptr"):
        np.save(tmp_path / f"{name}.npy", getattr(X, name))
    parts = [np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("data", "indices", "indptr")]
    mapped = sp.csr_matrix(tuple(parts), shape=X.shape, copy=False)
    wanted = saved_bytes(SketchForestClassifier(n_trees=2).fit(X, Y), tmp_path)
    assert saved_bytes(SketchForestClassifier(n_trees=2).fit(mapped, Y), tmp_path) == wanted


@pytest.mark.parametrize(
    ("n_labels", "rerank", "n_trees"),
    [(60, "linear", 10), (60, "auto", 10), (60, "bayes", 10), (60, "cosine", 50), (60, None, 50), (12, "linear", 50)],
)  # fmt: skip
def test_few_trees_suffice_for_rare_labels_if_a_reranker_adds_candidates(n_labels, rerank, n_trees):
    _, Y = make_xc(300, 100, n_labels, labels_per_row=2, nnz_per_row=10, seed=0)
    Y = sp.csr_matrix(Y)
    Y.resize(300, 1000)  # labels without rows do not count
    clf = SketchForestClassifier(rerank=rerank)
    assert clf._n_trees(Y) == n_trees
    assert clf.set_params(n_trees=7)._n_trees(Y) == 7


def test_the_number_of_trees_is_chosen_in_fit(rows, tmp_path):
    X, Y = make_xc(200, 100, 100, labels_per_row=2, nnz_per_row=10, seed=0)
    clf = SketchForestClassifier(rerank="bayes", max_depth=2).fit(X, Y)
    assert clf.n_trees == "auto"
    assert clf.model_.n_trees == 10
    clf.save(tmp_path / "model")
    again = sparseleaf.load(tmp_path / "model")
    assert again.n_trees == "auto"
    assert again.model_.n_trees == 10
    assert again.estimate_memory(X, Y).model > 0
