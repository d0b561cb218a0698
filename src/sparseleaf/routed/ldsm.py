"""LdSM's way to split a node: routers that learn, row by row, to minimise the objective J.

The work is done by ``cpp/ldsm.cpp``; ``docs/papers/ldsm.md`` tells which symbol of the paper is what.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from sparseleaf import _kernels
from sparseleaf._arrays import csr_parts
from sparseleaf.routed.growth import Histogram, Split

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features

SEND_ABOVE = 0.5
"""A row goes to the children whose margin is at least this."""

COPY_ENTRIES = 2**24
"""Non-zeros of the largest node whose rows are copied, side by side, before they are passed over."""


@dataclass(frozen=True)
class LdsmRule:
    """Parameters of a node's training; see :class:`~sparseleaf.LdSMClassifier`."""

    arity: int
    epochs: int
    learning_rate: float
    lambda_1: float
    lambda_2: float
    tol: float
    prune: float
    min_samples_leaf: int


class LdsmSplitter:
    """Splits nodes of the given rows.

    Dense features are brought to mean 0 and deviation 1 in every node, since steps along features that are all
    positive hinder each other; the routers that come out are for the features as they were.

    Parameters
    ----------
    X : float32 array or CSR matrix, shape (n_rows, n_features)
        May be memory-mapped: nodes with up to 2²⁴ non-zeros are copied when they are split, larger ones are read in
        order, once for every pass.
    Y : CSR matrix, shape (n_rows, n_labels)
    rule : LdsmRule
    n_jobs : int
    """

    def __init__(self, X: Features, Y: sp.csr_matrix, rule: LdsmRule, n_jobs: int) -> None:
        self.arity = rule.arity
        n_rows, n_features = X.shape
        if sp.issparse(X):
            indptr, indices, data = csr_parts(X)
        else:  # every value, zeros too: standardised, they are none
            indptr = np.arange(n_rows + 1, dtype=np.int64) * n_features
            indices = np.tile(np.arange(n_features, dtype=np.int32), n_rows)
            data = np.ascontiguousarray(X, np.float32).ravel()
        self._trainer = _kernels.LdsmTrainer(
            indptr,
            indices,
            data,
            np.ascontiguousarray(Y.indptr, np.int64),
            np.ascontiguousarray(Y.indices, np.int32),
            n_features,
            Y.shape[1],
            rule.arity,
            rule.epochs,
            rule.learning_rate,
            rule.lambda_1,
            rule.lambda_2,
            rule.tol,
            rule.prune,
            rule.min_samples_leaf,
            not sp.issparse(X),
            COPY_ENTRIES,
            n_jobs,
        )

    def split(self, rows: Sequence[Array], keys: Array) -> list[Split | None]:
        """See :class:`~sparseleaf.routed.growth.Splitter`."""
        offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        joined = np.concatenate([np.empty(0, np.int32), *rows])
        return [self._read(node) for node in self._trainer.train(joined, offsets, keys)]

    def _read(self, node: _kernels.LdsmNode) -> Split | None:
        accepted, features, weights, bias, rows, row_at, labels, counts, label_at, *_ = node
        if not accepted:
            return None
        children = range(self.arity)
        return Split(
            features,
            weights.reshape(len(features), self.arity),
            bias,
            [rows[row_at[j] : row_at[j + 1]] for j in children],
            [
                Histogram(labels[label_at[j] : label_at[j + 1]], counts[label_at[j] : label_at[j + 1]])
                for j in children
            ],
            objective=node[9],
            balance=node[10],
            purity=node[11],
        )


def label_histogram(Y: sp.csr_matrix) -> Histogram:
    """Of all rows."""
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    labels = np.flatnonzero(counts)
    return Histogram(labels.astype(np.int32), counts[labels])
