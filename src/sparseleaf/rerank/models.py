"""A linear model for every label, trained only on the rows that the label is a candidate of.

In: unit rows, their labels, their candidates. Out: sparse weights and a bias for every label, whose margin tells a row
that has the label from rows that only look as if they had it. Positives are the rows with the label; negatives those
that trees or neighbours propose it for in error. Each label is a small support vector machine with squared hinge.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp

from sparseleaf import _kernels
from sparseleaf._arrays import csr_parts
from sparseleaf._vectors import PackedVectors
from sparseleaf.progress import phase

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.model.source import StageSource

COST = 3.0
"""C: what a unit of squared loss costs."""

EPOCHS = 8
TOLERANCE = 0.1

PRUNE = 0.1
"""Weights smaller than this are dropped, as Parabel does."""

MOST_WEIGHTS = 1000
"""Weights that a label keeps, the largest."""

NO_ROWS = -1.0
"""Bias of a label that no row has: as sure as a margin is that a row has it not."""


@dataclass(frozen=True)
class LinearModels:
    """Weights and biases of the labels.

    Attributes
    ----------
    weights : PackedVectors, shape (n_labels, n_features)
    bias : float32 array, shape (n_labels,)
    """

    weights: PackedVectors
    bias: Array

    def __getstate__(self) -> dict[str, Any]:
        # the compiled part is made again where it is needed
        return {name: value for name, value in vars(self).items() if name != "kernel"}

    @cached_property
    def kernel(self) -> _kernels.LabelVectors:
        """The compiled part; making it checks every index and number."""
        return _kernels.LabelVectors(self.weights.kernel)

    def margins(self, rows: sp.csr_matrix, starts: Array, labels: Array, n_jobs: int) -> Array:
        """Margins of candidates; those of row i are ``labels[starts[i]:starts[i + 1]]``."""
        out = np.empty(len(labels), np.float32)
        self.kernel.products(*csr_parts(rows), starts, labels, out, n_jobs)
        return out + self.bias[labels]

    @classmethod
    def fit(
        cls, rows: sp.csr_matrix, Y: sp.csr_matrix, starts: Array, labels: Array, seed: int, n_jobs: int
    ) -> Self:
        """Train on unit rows whose candidates are ``labels[starts[i]:starts[i + 1]]``."""
        positive = np.diff(sp.csc_matrix(Y).indptr) > 0
        proposed = sp.csr_matrix((np.full(len(labels), -1, np.int8), labels, starts), shape=Y.shape)
        # candidates in error are -1, labels that were found 1, labels that were missed 2
        examples = sp.csc_matrix(proposed + 2 * sp.csr_matrix(Y, dtype=np.int8))
        sizes = np.where(positive, np.diff(examples.indptr), 0)  # a label without rows needs no model
        kept = np.repeat(positive, np.diff(examples.indptr))
        with phase("linear models", Y.shape[1]) as advance:
            indptr, features, weights, bias = _kernels.fit_linear(
                *csr_parts(rows),
                rows.shape[1],
                np.concatenate(([0], np.cumsum(sizes, dtype=np.int64))),
                examples.indices[kept].astype(np.int32),
                np.where(examples.data[kept] > 0, 1, -1).astype(np.int8),
                COST,
                EPOCHS,
                TOLERANCE,
                PRUNE,
                MOST_WEIGHTS,
                seed,
                n_jobs,
                lambda done: advance(done, ""),
            )
        matrix = sp.csr_matrix((weights, features, indptr), shape=(Y.shape[1], rows.shape[1]))
        return cls(PackedVectors.of(matrix), np.where(positive, bias, np.float32(NO_ROWS)).astype(np.float32))

    # --- tensors of the model file

    def tensors(self, compact: bool) -> dict[str, Array]:
        """Tensors by name; without ``compact`` weights are written as float32."""
        return {"bias": self.bias, **self.weights.tensors(compact)}

    @classmethod
    def from_tensors(cls, source: StageSource) -> Self:
        """From tensors; ValueError where they are not sound."""
        bias = source.finite("bias", ("F32",), 1)
        if len(bias) != source.n_labels:
            raise ValueError(f"{source.prefix}bias must have a number for each of {source.n_labels} labels")
        models = cls(PackedVectors.from_tensors(source, source.n_labels, source.n_features), bias)
        _ = models.kernel  # checks that indices exist and numbers are finite
        return models
