import copy
import dataclasses
import pickle
import threading

import numpy as np
import pytest
import scipy.sparse as sp

import naive
import sparseleaf
from smalldata import make_set
from sparseleaf import SparseGBDTClassifier
from sparseleaf.model import join_trees
from sparseleaf.model.stage import ONE_THREAD_ROWS
from sparseleaf.training.freeze import concatenate_trees
from sparseleaf.training.tree import FlatTree, LeafVectors


def flat(feature, child, gain, threshold):
    feature = np.array(feature, np.int32)
    zeros = np.zeros(len(feature), np.int32)
    leaves = np.flatnonzero(feature < 0)
    return FlatTree(
        feature, zeros, np.array(threshold, np.float32), zeros, zeros.astype(np.uint8),
        np.array(child, np.int32), np.array(gain, np.float64), leaves,
        np.full(len(feature), 5), np.full(len(feature), -1, np.int32), np.empty((0, 32), np.uint8),
    )  # fmt: skip


def test_concatenate_renumbers_leaves_and_sorts_labels_by_id():
    label_ids = np.array([7, 2, 5], np.int32)  # rank -> label
    first = (
        flat([1, -1, -1], [1, 0, 1], [2.5, 0, 0], [0.5, 0, 0]),
        LeafVectors(
            np.array([0, 2, 3]), np.array([0, 1, 2], np.uint32), np.array([0.1, 0.2, 0.3], np.float32)
        ),
    )
    second = (
        flat([-1], [0], [0], [0]),
        LeafVectors(np.array([0, 3]), np.array([0, 1, 2], np.uint32), np.array([1, 2, 3], np.float32)),
    )
    trees = concatenate_trees([first, second], label_ids, 3, 9)
    assert trees.n_trees == 2
    assert trees.tree_offsets.tolist() == [0, 3, 4]
    assert trees.child.tolist() == [1, 0, 1, 2]
    assert trees.leaf_indptr.tolist() == [0, 2, 3, 6]
    assert trees.leaf_labels.tolist() == [2, 7, 5, 2, 5, 7]
    np.testing.assert_allclose(trees.leaf_values, [0.2, 0.1, 0.3, 2, 3, 1])
    assert trees.feature_gain.tolist() == [0, 2.5, 0]
    assert trees.cover.tolist() == [5, 5, 5, 5]
    assert trees.leaf_labels.dtype == np.uint16
    for n_labels, dtype in ((2**16, np.uint16), (2**16 + 1, np.uint32)):
        assert concatenate_trees([first], label_ids, 3, n_labels).leaf_labels.dtype == dtype


def test_no_trees():
    trees = concatenate_trees([], np.empty(0, np.int32), 4, 2)
    assert trees.n_trees == 0
    assert trees.leaf_indptr.tolist() == [0]


def one_tree(values, *, sets=0, labels=None, gain=1.0, before=None):
    """A tree of one split on feature 1 (of categories where there are sets) over two labels."""
    shape = flat([1, -1, -1], [1, 0, 1], [gain, 0, 0], [0 if sets else 0.5, 0, 0])
    if sets:
        shape = dataclasses.replace(
            shape, set_of=np.array([0, -1, -1], np.int32), sets=np.full((1, 32), sets, np.uint8)
        )
    indptr = np.array([0, 2, 4]) if labels is None else np.array([0, 1, 2])
    names = np.array([0, 1, 0, 1] if labels is None else labels, np.uint32)
    vectors = LeafVectors(indptr, names, np.array(values, np.float32))
    return concatenate_trees(
        [(shape, vectors)], np.arange(2), 3, 2, categorical=np.array([0, 1 if sets else 0, 0], np.uint8),
        all_labels=labels is None, gain=before,
    )  # fmt: skip


def test_join_renumbers_leaves_and_sets():
    first = one_tree([1, 2, 3, 4], sets=7)
    joined = join_trees(first, one_tree([5, 6, 7, 8], sets=9, gain=2.5, before=first.feature_gain))
    assert joined.n_trees == 2
    assert joined.tree_offsets.tolist() == [0, 3, 6]
    assert joined.child.tolist() == [1, 0, 1, 1, 2, 3]
    assert joined.threshold.tolist() == [0, 0, 0, 1, 0, 0], "the second tree's set is the second set"
    assert joined.sets[:, 0].tolist() == [7, 9]
    assert joined.leaf_indptr.tolist() == [0, 2, 4, 6, 8]
    assert joined.leaf_values.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert len(joined.leaf_labels) == 0
    assert joined.feature_gain.tolist() == [0, 3.5, 0]
    assert joined.cover.tolist() == [5] * 6


@pytest.mark.parametrize("dense_first", [False, True])
def test_join_of_dense_and_sparse_leaves_names_all_labels(dense_first):
    dense, sparse = one_tree([1, 2, 3, 4]), one_tree([5, 6], labels=[1, 0])
    joined = join_trees(dense, sparse) if dense_first else join_trees(sparse, dense)
    wanted = ([0, 1, 0, 1], [1, 0]) if dense_first else ([1, 0], [0, 1, 0, 1])
    assert joined.leaf_labels.tolist() == [*wanted[0], *wanted[1]]
    assert joined.leaf_labels.dtype == np.uint16


def test_join_frees_values_of_their_scale():
    exact = one_tree([1, 2, 3, 4])
    rounded = dataclasses.replace(
        exact, leaf_values=np.array([2, 4, 6, 8], np.int16), value_scale=np.full(1, 0.5, np.float32)
    )
    for pair in ((exact, rounded), (rounded, exact)):
        joined = join_trees(*pair)
        assert joined.leaf_values.tolist() == [1, 2, 3, 4] * 2
        assert not len(joined.value_scale)


@pytest.fixture(scope="module")
def fitted():
    X, Y = make_set(400, 5, 12, seed=2, missing=0.1)
    return SparseGBDTClassifier(n_trees=9, min_samples_leaf=3).fit(X, Y), X, Y


def test_fewer_trees_are_the_first_ones(fitted):
    clf, X, Y = fitted
    short = SparseGBDTClassifier(n_trees=4, min_samples_leaf=3).fit(X, Y)
    for found, wanted in zip(clf.predict_topk(X, 3, n_trees=4), short.predict_topk(X, 3), strict=True):
        np.testing.assert_array_equal(found, wanted)
    labels, scores = clf.predict_topk(X, 3, n_trees=0)
    assert (labels == -1).all()
    assert np.isneginf(scores).all()
    for n_trees in (-1, 10):
        with pytest.raises(ValueError, match=f"between 0 and 9.* Got {n_trees} instead"):
            clf.predict_topk(X, 3, n_trees=n_trees)


@pytest.mark.parametrize(("every", "stages"), [(1, range(1, 10)), (4, [4, 8, 9]), (9, [9]), (50, [9])])
def test_staged_predictions(fitted, every, stages):
    clf, X, _ = fitted
    found = list(clf.staged_predict_topk(X[:50], 2, every=every))
    assert len(found) == len(stages)
    for (labels, scores), n_trees in zip(found, stages, strict=True):
        wanted = clf.predict_topk(X[:50], 2, n_trees=n_trees)
        np.testing.assert_array_equal(labels, wanted[0])
        np.testing.assert_array_equal(scores, wanted[1])


@pytest.mark.parametrize("every", [0, -1])
def test_staged_predictions_refuse_a_step_that_is_none(fitted, every):
    clf, X, _ = fitted
    with pytest.raises(ValueError, match="every"):
        list(clf.staged_predict_topk(X, every=every))


def test_one_row_at_a_time_is_the_batch(fitted):
    clf, X, _ = fitted
    assert len(X) > ONE_THREAD_ROWS
    labels, scores = clf.predict_topk(X, 4)
    for i in (0, 7, 399):
        one = clf.predict_topk(X[i : i + 1], 4)
        np.testing.assert_array_equal(one[0][0], labels[i])
        np.testing.assert_array_equal(one[1][0], scores[i])


def test_decision_function_is_the_twins_sum(fitted):
    clf, X, _ = fitted
    trees = [naive.nested(clf.model_.trees, t) for t in range(9)]
    scores = clf.decision_function(X)
    assert scores.format == "csr"
    assert scores.dtype == np.float32
    assert scores.has_sorted_indices
    for i in (0, 5, 300):
        wanted = naive.predict(X[i], trees)
        assert {int(q): scores[i, q] for q in scores[i].indices} == wanted


def test_sparse_and_dense_rows_are_the_same(fitted):
    clf, X, _ = fitted
    X = np.where(np.random.default_rng(0).random(X.shape) < 0.5, 0, X)
    for matrix in (
        sp.csr_matrix(X),
        sp.csc_matrix(X),
        sp.csr_array(X),
        sp.coo_matrix(X),
        X.astype(np.float64),
    ):
        for found, wanted in zip(clf.predict_topk(matrix, 3), clf.predict_topk(X, 3), strict=True):
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("k", [0, -1, 2.0, "3", None, True])
def test_k_must_be_a_positive_integer(fitted, k):
    clf, X, _ = fitted
    with pytest.raises(ValueError, match=r".k. parameter must be an int >= 1"):
        clf.predict_topk(X, k)


def test_k_beyond_the_labels_pads(fitted):
    clf, X, _ = fitted
    labels, scores = clf.predict_topk(X[:5], np.int64(40))
    assert (labels[:, 12:] == -1).all()
    assert np.isneginf(scores[:, 12:]).all()


@pytest.mark.parametrize("prepare", [lambda clf: clf, lambda clf: clf.predict_topk(np.zeros((1, 5)))])
def test_pickle_and_deepcopy_before_and_after_prediction(prepare, tmp_path):
    X, Y = make_set(100, 5, 6)
    clf = SparseGBDTClassifier(n_trees=2).fit(X, Y)
    prepare(clf)
    clf.save(tmp_path / "m.safetensors")
    for estimator in (clf, sparseleaf.load(tmp_path / "m.safetensors")):
        for other in (pickle.loads(pickle.dumps(estimator)), copy.deepcopy(estimator)):
            np.testing.assert_array_equal(other.predict_topk(X)[0], clf.predict_topk(X)[0])


def test_many_threads_may_predict_at_once(fitted):
    clf, X, _ = fitted
    rows = [X[i * 40 : i * 40 + 200] for i in range(5)] + [X[:1], X[1:2], sp.csr_matrix(np.nan_to_num(X))]
    wanted = [clf.predict_topk(part, 3) for part in rows]
    wrong, start = [], threading.Barrier(8)

    def work(number):
        start.wait()
        for _ in range(20):
            labels, scores = clf.predict_topk(rows[number], 3)
            if not (np.array_equal(labels, wanted[number][0]) and np.array_equal(scores, wanted[number][1])):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_feature_importances(fitted):
    clf, _, _ = fitted
    assert clf.feature_importances_.shape == (5,)
    assert clf.feature_importances_.sum() == pytest.approx(1)
    used = np.unique(clf.model_.trees.feature[clf.model_.trees.feature >= 0])
    assert np.flatnonzero(clf.feature_importances_).tolist() == used.tolist()
    blank = SparseGBDTClassifier(n_trees=1).fit(np.ones((20, 3)), np.eye(20, 2))
    assert blank.feature_importances_.tolist() == [0, 0, 0]
