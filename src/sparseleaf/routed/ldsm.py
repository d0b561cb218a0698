"""Splits of LdSM: linear routers trained online to minimise the objective J.

The kernel is ``cpp/ldsm.cpp``; ``docs/papers/ldsm.md`` maps the symbols of the paper to the code.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from sparseleaf import _kernels
from sparseleaf._arrays import csr_parts
from sparseleaf.data.weights import NO_WEIGHTS
from sparseleaf.routed.growth import Histogram, Split

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.data.weights import TrainingWeights

SEND_ABOVE = 0.5
"""A row is sent to the children whose margin is at least this."""

COPY_ENTRIES = 2**24
"""Maximum number of non-zeros of a node whose rows are copied to contiguous memory before training."""


@dataclass(frozen=True)
class LdsmRule:
    """Parameters of the splits; see :class:`~sparseleaf.LdSMClassifier`."""

    arity: int
    epochs: int
    learning_rate: float
    lambda_1: float
    lambda_2: float
    tol: float
    prune: float
    min_samples_leaf: int


class LdsmSplitter:
    """Splits nodes.

    Dense features are standardised in every node, since gradient steps along features that are all positive interfere
    with each other; the resulting routers are converted back to the original features.

    Parameters
    ----------
    X : float32 array or CSR matrix, shape (n_rows, n_features)
        May be memory-mapped: nodes with up to 2²⁴ non-zeros are copied when they are split, larger ones are read
        sequentially in every epoch.
    Y : CSR matrix, shape (n_rows, n_labels)
    weights : TrainingWeights
    rule : LdsmRule
    n_jobs : int
    """

    def __init__(
        self, X: Features, Y: sp.csr_matrix, weights: TrainingWeights, rule: LdsmRule, n_jobs: int
    ) -> None:
        self.arity = rule.arity
        # the kernel rounds weights to multiples of 2⁻²⁰
        largest = 1.0 if weights.rows is None else float(weights.rows.max())
        self._scale = 2.0 ** max(0, -math.floor(math.log2(largest)))
        n_rows, n_features = X.shape
        if sp.issparse(X):
            indptr, indices, data = csr_parts(X)
        else:  # including zeros, which standardisation makes nonzero
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
            None if weights.rows is None else weights.rows * np.float32(self._scale),
            weights.labels,
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
                Histogram(
                    labels[label_at[j] : label_at[j + 1]],
                    counts[label_at[j] : label_at[j + 1]] / self._scale,
                )
                for j in children
            ],
            objective=node[9],
            balance=node[10],
            purity=node[11],
        )


def label_histogram(Y: sp.csr_matrix, weights: TrainingWeights = NO_WEIGHTS) -> Histogram:
    """Label histogram of all rows."""
    counts = weights.counts(Y) * (1.0 if weights.labels is None else weights.labels.astype(np.float64))
    labels = np.flatnonzero(counts)
    return Histogram(labels.astype(np.int32), counts[labels])
