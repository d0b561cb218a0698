"""A linear classifier for every label, trained only on the rows that the label is a candidate of.

Positives are the rows with the label, negatives the rows for which trees or neighbours falsely propose it (hard
negatives), a random sample of them if there are many. Each is a linear support vector machine with squared hinge loss
on normalised rows and sparse weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp

from sparseleaf import _kernels
from sparseleaf._arrays import csr_parts, largest_entries
from sparseleaf._vectors import PackedVectors
from sparseleaf.progress import phase
from sparseleaf.rerank.terms import product_terms

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.model.attribution import Attribution, Pairs
    from sparseleaf.model.source import StageSource
    from sparseleaf.rerank.examples import Examples

COST = 3.0
"""C of the support vector machine."""

EPOCHS = 8
MORE_EPOCHS = 5
"""Epochs after the held-out rows are added."""

TOLERANCE = 0.1

ROW_FEATURES = 64
"""Maximum number of features of a training row, those of largest value."""

PRUNE = 0.1
"""Weights below this magnitude are dropped, as in Parabel."""

MAX_WEIGHTS = 1000
"""Maximum number of weights per label, the largest."""

NO_ROWS = -1.0
"""Bias of a label without rows: the margin of a certain negative."""


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
        # without the compiled part, which is rebuilt on demand
        return {name: value for name, value in vars(self).items() if name != "kernel"}

    @cached_property
    def kernel(self) -> _kernels.LabelVectors:
        """The compiled part; its constructor validates all indices and values."""
        return _kernels.LabelVectors(self.weights.kernel)

    def margins(self, rows: sp.csr_matrix, starts: Array, labels: Array, n_jobs: int) -> Array:
        """Margins of candidates; those of row i are ``labels[starts[i]:starts[i + 1]]``."""
        out = np.empty(len(labels), np.float32)
        self.kernel.products(*csr_parts(rows), starts, labels, out, n_jobs)
        return out + self.bias[labels]

    def explain(self, rows: sp.csr_matrix, pairs: Pairs, n_jobs: int) -> Attribution:
        """Margins of pairs; the base is the bias."""
        return product_terms(self.kernel, rows, pairs, self.bias[pairs.labels], n_jobs)

    @classmethod
    def fit(cls, examples: Examples, seed: int, n_jobs: int) -> tuple[Self | None, Self]:
        """Train the models of all labels with rows.

        Returns the models without the held-out rows, None if there are none, and with all rows: the second solution
        starts from the first.
        """
        *before, after = (
            cls(PackedVectors.of(matrix), np.where(trained, bias, np.float32(NO_ROWS)))
            for matrix, bias, trained in _fit(examples, None, seed, n_jobs)
        )
        return before[0] if before else None, after

    def updated(self, examples: Examples, seed: int, n_jobs: int) -> LinearModels:
        """Train the models of the labels with new rows further; new labels start from 0.

        The loss of the examples is regularised by the distance to the old weights: a passive-aggressive update.
        """
        n_labels, changed = examples.Y.shape[1], examples.positive
        before = self.weights.unpacked()
        before.resize(n_labels, before.shape[1])
        bias = np.full(n_labels, NO_ROWS, np.float32)
        bias[: len(self.bias)] = self.bias
        fresh = (np.diff(before.indptr) == 0) & (bias == NO_ROWS)
        start = before, np.where(fresh, np.float32(0), bias)
        ((matrix, fitted, _),) = _fit(examples, start, seed, n_jobs)
        numbers = np.flatnonzero(changed)
        weights = self.weights.replaced(numbers, matrix[numbers], n_labels)
        return LinearModels(weights, np.where(changed, fitted, bias).astype(np.float32))

    # --- tensors of the model file

    def tensors(self, compact: bool) -> dict[str, Array]:
        """Tensors by name; without ``compact``, weights are float32."""
        return {"bias": self.bias, **self.weights.tensors(compact)}

    @classmethod
    def from_tensors(cls, source: StageSource) -> Self:
        """From tensors; ValueError if they are invalid."""
        bias = source.finite("bias", ("F32",), 1)
        if len(bias) != source.n_labels:
            raise ValueError(f"{source.prefix}bias must have one entry for each of {source.n_labels} labels")
        models = cls(PackedVectors.from_tensors(source, source.n_labels, source.n_features), bias)
        _ = models.kernel  # validates indices and values
        return models


def _fit(
    examples: Examples, start: tuple[sp.csr_matrix, Array] | None, seed: int, n_jobs: int
) -> list[tuple[sp.csr_matrix, Array, Array]]:
    """Weights, biases and which labels have examples; without the held-out rows first, if there are any.

    ``start`` are weights and biases to start from.
    """
    shape = examples.Y.shape[1], examples.rows.shape[1]
    w0_indptr, w0_features = np.empty(0, np.int64), np.empty(0, np.int32)
    w0_values = w0_bias = np.empty(0, np.float32)
    if start is not None:
        (w0_indptr, w0_features, w0_values), w0_bias = csr_parts(start[0]), start[1]
    indptr, rows, sides, seen = examples.by_label(seed)
    with phase("linear models", shape[0]) as advance:
        solutions = _kernels.fit_linear(
            *csr_parts(largest_entries(examples.rows, ROW_FEATURES, n_jobs)),
            shape[1],
            indptr,
            rows,
            sides,
            seen,
            w0_indptr,
            w0_features,
            w0_values,
            w0_bias,
            COST,
            EPOCHS,
            MORE_EPOCHS,
            TOLERANCE,
            PRUNE,
            MAX_WEIGHTS,
            seed,
            n_jobs,
            lambda done: advance(done, ""),
            examples.weights.rows,
            examples.weights.labels,
        )
    trained = (seen > 0, np.diff(indptr) > 0)[-len(solutions) :]
    return [
        (sp.csr_matrix((weights, features, starts), shape=shape), bias, having)
        for (starts, features, weights, bias), having in zip(solutions, trained, strict=True)
    ]
