"""Reducers: the residuals of all labels become a few columns, on which the tree's structure is chosen.

All keep inner products in expectation (or nearly), hence also the gain of a cut. A reducer plans a tree from the
labels' norms, if it needs them, and fills the columns of every shard.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from sparseleaf import _kernels
from sparseleaf._arrays import derive_key

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.training.sparse_shard import Block


class Reducer(Protocol):
    """Full residuals to ``width`` float columns a row."""

    @property
    def width(self) -> int:
        """Number of columns."""

    @property
    def needs_norms(self) -> bool:
        """Whether :meth:`plan` wants Σ residual² of every label."""

    def plan(self, seed: int, tree: int, norms: Array | None) -> Plan:
        """What to do for one tree: the same everywhere."""


class Plan(Protocol):
    """One tree's reduction, ready for any shard."""

    def fill(self, blocks: list[Block], n_labels: int, loss: int, out: Array, n_jobs: int) -> float:
        """Write the columns of the rows in ``blocks`` and return the largest absolute value."""

    def fill_dense(self, gradients: Array, out: Array, n_jobs: int) -> float:
        """The same for dense gradients, float32 (n_rows, n_outputs)."""


@dataclass(frozen=True)
class _Sketch:
    key: int

    def fill(self, blocks: list[Block], n_labels: int, loss: int, out: Array, n_jobs: int) -> float:
        return _kernels.count_sketch(blocks, self.key, n_labels, loss, out, n_jobs)

    def fill_dense(self, gradients: Array, out: Array, n_jobs: int) -> float:
        return _kernels.dense_sketch(gradients, self.key, out, n_jobs)


@dataclass(frozen=True)
class _Signs:
    key: int

    def fill(self, blocks: list[Block], n_labels: int, loss: int, out: Array, n_jobs: int) -> float:
        return _kernels.sign_projection(blocks, self.key, loss, out, n_jobs)

    def fill_dense(self, gradients: Array, out: Array, n_jobs: int) -> float:
        rng = np.random.Generator(np.random.PCG64(self.key))
        size = np.float32(1 / np.sqrt(out.shape[1]))
        signs = rng.choice(np.array([-size, size], np.float32), (gradients.shape[1], out.shape[1]))
        return _kernels.dense_project(gradients, signs, out, n_jobs)


@dataclass(frozen=True)
class _Columns:
    column_of: Array
    weights: Array

    def fill(self, blocks: list[Block], n_labels: int, loss: int, out: Array, n_jobs: int) -> float:
        return _kernels.select_columns(blocks, self.column_of, self.weights, loss, out, n_jobs)

    def fill_dense(self, gradients: Array, out: Array, n_jobs: int) -> float:
        outputs = np.flatnonzero(self.column_of >= 0).astype(np.int32)
        columns = self.column_of[outputs]
        order = np.argsort(columns)
        return _kernels.dense_select(gradients, outputs[order], self.weights[columns[order]], out, n_jobs)


@dataclass(frozen=True)
class CountSketch:
    """Every label is added, with a random sign, to one random column; drawn anew for every tree."""

    width: int
    needs_norms: bool = False

    def plan(self, seed: int, tree: int, norms: Array | None) -> Plan:
        """See :class:`Reducer`."""
        return _Sketch(derive_key(seed, tree, 1))


@dataclass(frozen=True)
class RandomProjection:
    """Every label is added to every column with a random sign (a Rademacher projection)."""

    width: int
    needs_norms: bool = False

    def plan(self, seed: int, tree: int, norms: Array | None) -> Plan:
        """See :class:`Reducer`."""
        return _Signs(derive_key(seed, tree, 2))


@dataclass(frozen=True)
class TopOutputs:
    """The labels whose residuals have the largest norm (ties: lower label)."""

    width: int
    needs_norms: bool = True

    def plan(self, seed: int, tree: int, norms: Array | None) -> Plan:
        """See :class:`Reducer`."""
        assert norms is not None
        chosen = np.argsort(-norms, kind="stable")[: self.width]
        column_of = np.full(len(norms), -1, np.int32)
        column_of[chosen] = np.arange(len(chosen), dtype=np.int32)
        return _Columns(column_of, np.ones(self.width, np.float32))


@dataclass(frozen=True)
class NormSampling:
    """Labels drawn by their share of the squared norm, scaled so that inner products keep their expectation.

    Probabilities are 0.9 · share + 0.1 / L, so that every label has a chance; a label drawn c times is one
    column with weight sqrt(c / (m · p)).
    """

    width: int
    needs_norms: bool = True

    def plan(self, seed: int, tree: int, norms: Array | None) -> Plan:
        """See :class:`Reducer`."""
        assert norms is not None
        if len(norms) == 0:  # no row has a label
            return _Columns(np.empty(0, np.int32), np.zeros(self.width, np.float32))
        total = int(norms.sum())
        share = norms / total if total else np.full(len(norms), 1 / len(norms))
        p = 0.9 * share + 0.1 / len(norms)
        rng = np.random.default_rng(derive_key(seed, tree, 3))
        labels, times = np.unique(rng.choice(len(norms), self.width, p=p / p.sum()), return_counts=True)
        column_of = np.full(len(norms), -1, np.int32)
        column_of[labels] = np.arange(len(labels), dtype=np.int32)
        weights = np.zeros(self.width, np.float32)
        weights[: len(labels)] = np.sqrt(times / (self.width * p[labels]))
        return _Columns(column_of, weights)


@dataclass(frozen=True)
class NoReduction:
    """All labels as they are: rows × labels of memory, for ``split="full"`` and for comparison."""

    width: int
    needs_norms: bool = False

    def plan(self, seed: int, tree: int, norms: Array | None) -> Plan:
        """See :class:`Reducer`."""
        return _Columns(np.arange(self.width, dtype=np.int32), np.ones(self.width, np.float32))


REDUCERS: dict[str, Callable[[int], Reducer]] = {
    "count-sketch": CountSketch,
    "random-projection": RandomProjection,
    "top-outputs": TopOutputs,
    "sampling": NormSampling,
    "none": NoReduction,
}


def make_reducer(name: str, sketch_dim: int, n_labels: int) -> Reducer:
    """The reducer of that name; never wider than the labels are many."""
    if name == "none":
        return NoReduction(n_labels)
    return REDUCERS[name](sketch_dim)
