import numpy as np
import pytest

import naive
from smalldata import add_leaves, blocks_of, entries_of, make_state
from sparseleaf import _kernels


def make_leaves(n_leaves, n_labels, seed=0, density=0.3):
    rng = np.random.default_rng(seed)
    dense = np.where(rng.random((n_leaves, n_labels)) < density, rng.normal(size=(n_leaves, n_labels)), 0)
    dense = dense.astype(np.float32)
    rows, labels = np.nonzero(dense)
    indptr = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=n_leaves)))).astype(np.int64)
    return dense, (indptr, labels.astype(np.uint32), dense[rows, labels])


@pytest.mark.parametrize("room", [0, 50])
@pytest.mark.parametrize("n_labels", [1, 7, 40, 300])
@pytest.mark.parametrize("density", [0.05, 0.5, 1.0])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_rows_take_their_leaves(n_labels, density, n_threads, room):
    """Of two trees: the first leaves unused entries between the rows."""
    n, n_leaves = 300, 5
    truth, scores, stored = make_state(n, n_labels, seed=1, density=density)
    stored |= np.random.default_rng(2).random(stored.shape) < 0.1  # a stored score of zero is an entry, too
    (block,) = blocks_of(truth, scores, stored)
    # a block's arrays may be longer than what is in use
    block = (*block[:2], *(np.concatenate([part, np.full(room, 5, part.dtype)]) for part in block[2:]))
    for tree in range(2):
        dense, leaves = make_leaves(n_leaves, n_labels, 3 + tree, 1 - density)
        leaf_of_row = np.random.default_rng(4 + tree).integers(0, n_leaves, n).astype(np.int32)
        block = add_leaves(*block, leaf_of_row, *leaves, n_threads)
        scores, stored = scores + dense[leaf_of_row], stored | (dense[leaf_of_row] != 0)
        (wanted,) = blocks_of(truth, scores, stored)
        assert entries_of(*block) == entries_of(*wanted)


def test_empty_rows_and_empty_leaves():
    empty = np.zeros((3, 4), np.float32)
    (block,) = blocks_of(empty.astype(bool), empty)
    _, leaves = make_leaves(2, 4, density=0.0)
    assert entries_of(*add_leaves(*block, np.array([0, 1, 0], np.int32), *leaves, 1)) == [[], [], []]


def test_too_little_room_is_refused():
    truth, scores, stored = make_state(3, 4)
    (block,) = blocks_of(truth, scores, stored)
    _, leaves = make_leaves(2, 4, density=1.0)
    out = np.empty(11, np.uint32), np.empty(11, np.float32)
    with pytest.raises(ValueError, match="out"):
        _kernels.merge_leaves(*block, np.zeros(3, np.int32), *leaves, *out, 1)


@pytest.mark.parametrize("leaf", [-1, 2])
def test_a_leaf_that_does_not_exist_is_refused(leaf):
    truth, scores, stored = make_state(3, 4)
    (block,) = blocks_of(truth, scores, stored)
    _, leaves = make_leaves(2, 4)
    room = np.empty(100, np.uint32), np.empty(100, np.float32)
    for leaf_of_row in ([0, leaf, 0], [0, 0]):
        with pytest.raises(ValueError, match="leaf_of_row"):
            _kernels.merge_leaves(*block, np.array(leaf_of_row, np.int32), *leaves, *room, 1)


@pytest.mark.parametrize("k", [1, 3, 50])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_topk_scores_are_the_twins(k, n_threads):
    n, n_labels = 600, 20
    truth, scores, stored = make_state(n, n_labels, seed=5)
    scores = np.round(scores, 1)  # ties
    names = np.random.default_rng(6).permutation(n_labels).astype(np.int32) + 100
    labels, values = np.empty((n, k), np.int32), np.empty((n, k), np.float32)
    _kernels.topk_scores(blocks_of(truth, scores, stored, 256), names, labels, values, n_threads)
    for i in range(n):
        candidates = {int(names[q]): scores[i, q] for q in range(n_labels) if scores[i, q] != 0}
        wanted = naive.topk(candidates, k)
        assert labels[i].tolist() == wanted[0]
        assert values[i].tolist() == [float(score) for score in wanted[1]]
