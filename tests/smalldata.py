"""Small random sets, and the forms in which kernels take them."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from sparseleaf import _kernels

TRUTH_BIT = np.uint32(1 << 31)
LOSSES = {"squared": 0, "squared_hinge": 1}


def make_set(n=200, n_features=5, n_labels=12, *, seed=0, missing=0.0, decimals=None):
    """Dense features and 0/1 targets that depend on them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features)).astype(np.float32)
    W = rng.normal(size=(n_features, n_labels))
    Y = (X @ W + rng.normal(scale=0.5, size=(n, n_labels)) > 1.5 * np.sqrt(n_features)).astype(np.int64)
    if decimals is not None:
        X = np.round(X, decimals)
    if missing:
        X[rng.random(X.shape) < missing] = np.nan
    return X, Y


def make_state(n, n_labels, *, seed=0, density=0.3, spread=0.7):
    """(truth, scores, stored): what a state of training could look like, dense."""
    rng = np.random.default_rng(seed)
    truth = rng.random((n, n_labels)) < density / 2
    scores = np.where(rng.random((n, n_labels)) < density, rng.normal(scale=spread, size=truth.shape), 0)
    scores = scores.astype(np.float32)
    return truth, scores, truth | (scores != 0)


def blocks_of(truth, scores, stored=None, block_rows=None):
    """Blocks of (indptr, labels with the truth bit, scores), as the kernels take the state of rows."""
    stored = (truth | (scores != 0)) if stored is None else stored
    block_rows = block_rows or max(1, len(truth))
    blocks = []
    for begin in range(0, len(truth), block_rows):
        part = slice(begin, begin + block_rows)
        rows, labels = np.nonzero(stored[part])
        indptr = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=len(truth[part])))))
        entries = labels.astype(np.uint32) | np.where(truth[part][rows, labels], TRUTH_BIT, np.uint32(0))
        blocks.append((indptr.astype(np.int64), entries.astype(np.uint32), scores[part][rows, labels]))
    return blocks


def add_leaves(indptr, labels, scores, leaf_of_row, leaf_indptr, leaf_labels, leaf_values, n_threads, room=0):
    """Both steps of a block's merge; what lies behind the result must stay as it was."""
    merged = np.empty_like(indptr)
    places = _kernels.merged_indptr(indptr, labels, leaf_of_row, leaf_indptr, leaf_labels, merged, n_threads)
    size = int(merged[-1])
    out_labels, out_scores = np.full(size + room, 77, np.uint32), np.full(size + room, 77, np.float32)
    leaves = leaf_indptr, leaf_labels, leaf_values
    _kernels.merge_leaves(
        indptr, labels, scores, leaf_of_row, *leaves, places, merged, out_labels, out_scores, n_threads
    )
    assert (out_labels[size:] == 77).all()
    assert (out_scores[size:] == 77).all()
    return merged, out_labels[:size], out_scores[:size]


def csr_targets(Y):
    return sp.csr_matrix(np.asarray(Y, np.float32))


def saved_bytes(estimator, folder, name="model.safetensors"):
    """The bytes of a fitted estimator's file, with every bit of the leaf values."""
    path = folder / name
    estimator.save(path, compact=False)
    return path.read_bytes()
