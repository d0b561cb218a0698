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
    """Blocks of (starts, ends, labels with the truth bit, scores), as the kernels take the state of rows."""
    stored = (truth | (scores != 0)) if stored is None else stored
    block_rows = block_rows or max(1, len(truth))
    blocks = []
    for begin in range(0, len(truth), block_rows):
        part = slice(begin, begin + block_rows)
        rows, labels = np.nonzero(stored[part])
        ends = np.cumsum(np.bincount(rows, minlength=len(truth[part]))).astype(np.int64)
        starts = np.concatenate((np.zeros(1, np.int64), ends[:-1]))
        entries = labels.astype(np.uint32) | np.where(truth[part][rows, labels], TRUTH_BIT, np.uint32(0))
        blocks.append((starts, ends, entries.astype(np.uint32), scores[part][rows, labels]))
    return blocks


def add_leaves(starts, ends, labels, scores, leaf_of_row, leaf_indptr, leaf_labels, leaf_values, n_threads):
    """A block merged with leaves; what lies behind the room of its rows must stay as it was."""
    size = int((ends - starts).sum() + np.diff(leaf_indptr)[leaf_of_row].sum())
    out_labels, out_scores = np.full(size + 50, 77, np.uint32), np.full(size + 50, 77, np.float32)
    starts, ends = _kernels.merge_leaves(
        starts, ends, labels, scores, leaf_of_row, leaf_indptr, leaf_labels, leaf_values, out_labels, out_scores,
        n_threads,
    )  # fmt: skip
    assert (out_labels[size:] == 77).all()
    assert (out_scores[size:] == 77).all()
    return starts, ends, out_labels, out_scores


def entries_of(starts, ends, labels, scores):
    """The rows of a block, as lists of (label with the truth bit, score)."""
    return [
        list(zip(labels[a:b].tolist(), scores[a:b].tolist(), strict=True))
        for a, b in zip(starts, ends, strict=True)
    ]


def csr_targets(Y):
    return sp.csr_matrix(np.asarray(Y, np.float32))


def saved_bytes(estimator, folder, name="model.safetensors"):
    """The bytes of a fitted estimator's file, with every bit of the leaf values."""
    path = folder / name
    estimator.save(path, compact=False)
    return path.read_bytes()
