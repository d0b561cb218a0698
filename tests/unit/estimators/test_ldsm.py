"""LdSMClassifier: what it learns, that it is reproducible, and what it refuses."""

from __future__ import annotations

import pickle
from math import log

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV

import sparseleaf
from marks import first
from smalldata import saved_bytes
from sparseleaf import LdSMClassifier
from sparseleaf.data import make_xc
from sparseleaf.metrics import precision_at_k


@pytest.fixture(scope="module")
def rows():
    return make_xc(1200, 80, 60, labels_per_row=3, nnz_per_row=12, seed=0, n_topics=8)


def test_it_learns(rows):
    X, Y = rows
    clf = LdSMClassifier(n_trees=8, max_nodes=200).fit(X[:900], Y[:900])
    counts = np.asarray(Y[:900].sum(axis=0)).ravel()
    frequent = np.tile(np.argsort(-counts)[:1], (300, 1))
    assert clf.score(X[900:], Y[900:]) > precision_at_k(Y[900:], frequent, 1) + 0.1
    one_tree, _ = clf.predict_topk(X[900:], 5, n_trees=1)
    all_trees, _ = clf.predict_topk(X[900:], 5)
    assert precision_at_k(Y[900:], all_trees, 5) > precision_at_k(Y[900:], one_tree, 5)


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("parameters", [{}, {"arity": 3}, {"rerank": "log"}])
def test_same_bytes_for_any_number_of_threads(rows, dense, parameters, tmp_path):
    X, Y = rows[0][:300], rows[1][:300]
    X = X.toarray() if dense else X
    files = {
        saved_bytes(
            LdSMClassifier.from_settings({"n_trees": 3, "max_nodes": 60, "n_jobs": n, **parameters}).fit(
                X, Y
            ),
            tmp_path,
        )
        for n in (1, 2, 5)
    }
    assert len(files) == 1


def test_seeds_zero_and_one_give_other_trees(rows, tmp_path):
    X, Y = rows[0][:300], rows[1][:300]
    files = {
        saved_bytes(LdSMClassifier(n_trees=1, max_nodes=60, random_state=s).fit(X, Y), tmp_path)[-4000:]
        for s in (0, 1, 2)
    }
    assert len(files) == 3


@pytest.mark.parametrize("arity", [2, 3, 4])
def test_depth_is_logarithmic_in_the_labels(arity):
    K = 64
    labels = np.tile(np.arange(K), 40)
    X = sp.csr_matrix(np.eye(K, dtype=np.float32)[labels])
    clf = LdSMClassifier(n_trees=2, arity=arity, max_nodes=4 * K, lambda_1=1.0, lambda_2=float(arity)).fit(
        X, X
    )
    for depth in clf.model_.trees.depths():
        assert log(K, arity) - 1e-9 <= depth <= 3 * log(K, arity)


def test_scores_are_shares(rows):
    X, Y = rows[0][:300], rows[1][:300]
    scores = LdSMClassifier(n_trees=3, max_nodes=60, leaf_labels=None).fit(X, Y).decision_function(X)
    assert np.asarray(scores.sum(axis=1)).ravel() == pytest.approx(np.ones(300), abs=2**-11)


@pytest.mark.parametrize("compact", [True, False])
@pytest.mark.parametrize(
    "parameters", [{}, {"arity": 4}, {"rerank": "centroid"}, {"rerank": "cosine", "rerank_weight": 0.5}]
)
def test_saved_models_predict_the_same(rows, parameters, compact, tmp_path):
    X, Y = rows
    clf = LdSMClassifier.from_settings({"n_trees": 3, "max_nodes": 60, **parameters}).fit(X, Y)
    clf.save(tmp_path / "m.safetensors", compact=compact)
    other = sparseleaf.load(tmp_path / "m.safetensors")
    assert isinstance(other, LdSMClassifier)
    assert other.rerank_weight_ == (None if clf.rerank_weight_ is None else pytest.approx(clf.rerank_weight_))
    ids, scores = clf.predict_topk(X, 3)
    found, values = other.predict_topk(X, 3)
    assert np.array_equal(ids, found)
    assert np.array_equal(scores, values)


def test_label_names_classes_and_lists(rows):
    X, Y = rows[0][:200].toarray(), rows[1][:200]
    names = [[f"label {k}" for k in row.indices] for row in Y]
    clf = LdSMClassifier(n_trees=2, max_nodes=30).fit(X, names)
    labels, _ = clf.predict_topk(X, 2)
    assert labels[0, 0].startswith("label ")
    classes = np.array(["red", "green", "blue"])[np.argmax(X[:, :3], axis=1)]
    clf = LdSMClassifier(n_trees=3, max_nodes=50).fit(X, classes)
    assert clf.score(X, classes) > 0.6
    assert clf.decision_function(X).shape == (200, 3)


def test_rows_and_labels_of_all_kinds():
    X, Y = make_xc(60, 20, 10, labels_per_row=2, nnz_per_row=4, seed=3)
    X, Y = X.tolil(), Y.tolil()
    X[3], Y[5], Y[:, 7] = 0, 0, 0
    X[:, 4] = 2.5  # constant
    for parameters in ({}, {"rerank": "log"}, {"arity": 8}, {"max_nodes": 1}, {"min_samples_leaf": 100}):
        clf = LdSMClassifier(n_trees=2, max_nodes=20).set_params(**parameters).fit(X.tocsr(), Y.tocsr())
        ids, scores = clf.predict_topk(X.tocsr(), 12)
        assert not (ids == 7).any()
        assert np.isfinite(scores[ids >= 0]).all()
    one = LdSMClassifier().fit(np.ones((1, 1)), [["a", "b"]])
    assert one.predict_topk(np.zeros((1, 1)), 3)[0].tolist() == [["a", "b", None]]
    unlabelled = LdSMClassifier().fit(np.ones((4, 2)), sp.csr_matrix((4, 3)))
    assert (unlabelled.predict_topk(np.ones((1, 2)), 1)[0] == -1).all()


def test_validation_rows_are_measured_after_every_tree(rows):
    X, Y = rows
    clf = LdSMClassifier(n_trees=4, max_nodes=100).fit(X[:900], Y[:900], eval_set=(X[900:], Y[900:]))
    wanted = [precision_at_k(Y[900:], ids, 1) for ids, _ in clf.staged_predict_topk(X[900:], 1)]
    assert clf.history_["valid precision@1"] == pytest.approx(wanted, abs=0.004)  # ties


def test_callbacks_can_stop(rows):
    X, Y = rows
    states = []
    clf = LdSMClassifier(n_trees=9, max_nodes=30)
    clf.fit(X, Y, callbacks=[states.append, lambda state: state.tree == 2])
    assert clf.model_.n_trees == len(states) == 2


def test_interruption_keeps_the_trees(rows):
    def interrupt(state):
        if state.tree == 2:
            raise KeyboardInterrupt

    X, Y = rows
    with pytest.warns(UserWarning, match="interrupted; the model has the 2 trees"):
        clf = LdSMClassifier(n_trees=9, max_nodes=30).fit(X, Y, callbacks=[interrupt])
    assert clf.model_.n_trees == 2
    assert clf.interrupted_ is True
    assert clf.fit(X, Y, callbacks=[lambda state: True]).interrupted_ is False


def test_split_records_tell_about_every_split(rows):
    X, Y = rows
    clf = LdSMClassifier(n_trees=2, max_nodes=60, epochs=4, tol=0).fit(X, Y)
    trees = clf.model_.trees
    assert sum(map(len, clf.split_records_)) == len(trees.router_bias)
    for records in clf.split_records_:
        assert records[0].depth == 0
        assert records[0].n_rows == X.shape[0]
        assert all(len(record.objective) == 4 for record in records)
        assert all(0 <= record.balance <= 0.5 and 0 <= record.purity <= 1 for record in records)


def test_held_out_rows_join_the_leaves(rows):
    X, Y = rows
    clf = LdSMClassifier(n_trees=2, max_nodes=60, leaf_labels=None, rerank="log").fit(X, Y)
    # every label of every row, those held out too, is in the leaf that the row reaches
    scores = clf.model_.tree_scores(X, 1, 1)
    assert (scores.astype(bool).astype(int) - Y.astype(bool).astype(int)).min() >= 0


def test_importances_are_shares_of_the_weights(rows):
    X, Y = rows
    clf = LdSMClassifier(n_trees=2, max_nodes=60).fit(X, Y)
    assert clf.feature_importances_.shape == (80,)
    assert clf.feature_importances_.sum() == pytest.approx(1)


def test_clone_pickle_and_search(rows):
    X, Y = rows[0][:200], rows[1][:200]
    clf = LdSMClassifier(n_trees=2, max_nodes=30, rerank="cosine")
    fitted = pickle.loads(pickle.dumps(clone(clf).fit(X, Y)))
    assert np.array_equal(fitted.predict_topk(X)[0], clf.fit(X, Y).predict_topk(X)[0])
    assert GridSearchCV(clf, {"max_nodes": [1, 30]}, cv=2).fit(X, Y).best_params_ == {"max_nodes": 30}


@pytest.mark.parametrize(
    "parameters",
    [
        {"arity": 1},
        {"arity": 17},
        {"max_nodes": 0},
        {"epochs": 0},
        {"learning_rate": 0},
        {"lambda_1": -1},
        {"rerank": "nearest"},
        {"rerank_weight": 1.5},
        {"rerank_weight": "best"},
        {"rerank_scale": -1},
        {"prune": -1},
    ],
)
def test_bad_parameters_are_refused_by_name(rows, parameters):
    with pytest.raises(ValueError, match=next(iter(parameters))):
        LdSMClassifier.from_settings(parameters).fit(*rows)


def test_nan_is_refused(rows):
    X, Y = rows[0].toarray(), rows[1]
    X[0, 0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        LdSMClassifier().fit(X, Y)
    clf = LdSMClassifier(n_trees=1, max_nodes=10).fit(*rows)
    with pytest.raises(ValueError, match="NaN"):
        clf.predict_topk(X)
    with pytest.raises(ValueError, match="NaN"):
        clf.predict_topk(X[:1].astype(np.float32))


def test_memory_mapped_rows_give_the_same_model(rows, tmp_path):
    X, Y = rows
    for name in ("data", "indices", "indptr"):
        np.save(tmp_path / f"{name}.npy", getattr(X, name))
    parts = [np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("data", "indices", "indptr")]
    mapped = sp.csr_matrix(tuple(parts), shape=X.shape, copy=False)
    settings = {"n_trees": 2, "max_nodes": 40}
    wanted = saved_bytes(LdSMClassifier.from_settings(settings).fit(X, Y), tmp_path)
    assert saved_bytes(LdSMClassifier.from_settings(settings).fit(mapped, Y), tmp_path) == wanted


@pytest.mark.parametrize("share", first(1, [0.9, 0.7, 0.8, 0.97]))
@pytest.mark.parametrize("arity", [2, 3])
@pytest.mark.parametrize("sparse", [False, True])
def test_imbalanced_classes_are_told_apart(share, arity, sparse):
    """From 80 to 20 on, routers sent all rows to one child, and every row got the class rates."""
    X, y = make_classification(2000, 20, n_informative=8, weights=[share], class_sep=1.5, random_state=0)
    rows = sp.csr_matrix(X) if sparse else X
    clf = LdSMClassifier(n_trees=5, arity=arity).fit(rows[:1500], y[:1500])
    assert roc_auc_score(y[1500:], clf.decision_function(rows[1500:])) > 0.85


@pytest.mark.parametrize("arity", [2, 3])
def test_a_frequent_class_is_divided_evenly(arity):
    X, y = make_classification(600, 10, n_informative=5, weights=[0.9], random_state=0)
    clf = LdSMClassifier(n_trees=3, arity=arity).fit(X, y)
    first = clf.split_records_[0][0]
    assert first.n_rows == 600
    assert first.balance < 0.25
