"""Gradient sketches: the gradients of all outputs in a few columns, from which the tree's structure is learned.

All preserve inner products in expectation (or nearly), hence the gain of a split. A sketch makes a plan for a tree,
from the norms of the outputs if it needs them; the plan fills the columns of every shard.
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

    Weights = _kernels.LossWeights | None


class Sketch(Protocol):
    """A map from full gradients to ``width`` columns."""

    @property
    def width(self) -> int:
        """Number of columns."""

    @property
    def needs_norms(self) -> bool:
        """Whether :meth:`plan` needs Σ gradient² of every output."""

    def plan(self, seed: int, tree: int, norms: Array | None) -> SketchPlan:
        """The plan of one tree, the same on every worker."""


class SketchPlan(Protocol):
    """The sketch of one tree, applicable to any shard."""

    def fill(
        self, blocks: list[Block], n_labels: int, loss: int, out: Array, n_jobs: int, weights: Weights = None
    ) -> float:
        """Compute the columns of weighted sparse residuals; returns the largest absolute value."""

    def fill_dense(self, gradients: Array, out: Array, n_jobs: int) -> float:
        """The same for dense gradients, float32 (n_rows, n_outputs)."""


@dataclass(frozen=True)
class _CountSketchPlan:
    key: int

    def fill(
        self, blocks: list[Block], n_labels: int, loss: int, out: Array, n_jobs: int, weights: Weights = None
    ) -> float:
        return _kernels.count_sketch(blocks, self.key, n_labels, loss, out, n_jobs, weights)

    def fill_dense(self, gradients: Array, out: Array, n_jobs: int) -> float:
        return _kernels.dense_sketch(gradients, self.key, out, n_jobs)


@dataclass(frozen=True)
class _ProjectionPlan:
    key: int

    def fill(
        self, blocks: list[Block], n_labels: int, loss: int, out: Array, n_jobs: int, weights: Weights = None
    ) -> float:
        return _kernels.sign_projection(blocks, self.key, loss, out, n_jobs, weights)

    def fill_dense(self, gradients: Array, out: Array, n_jobs: int) -> float:
        rng = np.random.Generator(np.random.PCG64(self.key))
        size = np.float32(1 / np.sqrt(out.shape[1]))
        # the draws of rng.choice, which takes several times as long for a few outputs
        signs = np.array([-size, size], np.float32)[rng.integers(2, size=(gradients.shape[1], out.shape[1]))]
        return _kernels.dense_project(gradients, signs, out, n_jobs)


@dataclass(frozen=True)
class _SelectionPlan:
    column_of: Array
    weights: Array

    def fill(
        self, blocks: list[Block], n_labels: int, loss: int, out: Array, n_jobs: int, weights: Weights = None
    ) -> float:
        return _kernels.select_columns(blocks, self.column_of, self.weights, loss, out, n_jobs, weights)

    def fill_dense(self, gradients: Array, out: Array, n_jobs: int) -> float:
        outputs = np.flatnonzero(self.column_of >= 0).astype(np.int32)
        columns = self.column_of[outputs]
        order = np.argsort(columns)
        return _kernels.dense_select(gradients, outputs[order], self.weights[columns[order]], out, n_jobs)


@dataclass(frozen=True)
class CountSketch:
    """Count sketch: every label is added with a random sign to one random column, redrawn for every tree."""

    width: int
    needs_norms: bool = False

    def plan(self, seed: int, tree: int, norms: Array | None) -> SketchPlan:
        """See :class:`Sketch`."""
        return _CountSketchPlan(derive_key(seed, tree, 1))


@dataclass(frozen=True)
class RandomProjection:
    """Rademacher projection: every label is added to every column with a random sign."""

    width: int
    needs_norms: bool = False

    def plan(self, seed: int, tree: int, norms: Array | None) -> SketchPlan:
        """See :class:`Sketch`."""
        return _ProjectionPlan(derive_key(seed, tree, 2))


@dataclass(frozen=True)
class TopOutputs:
    """The labels of largest residual norm (ties: lower label)."""

    width: int
    needs_norms: bool = True

    def plan(self, seed: int, tree: int, norms: Array | None) -> SketchPlan:
        """See :class:`Sketch`."""
        assert norms is not None
        chosen = np.argsort(-norms, kind="stable")[: self.width]
        column_of = np.full(len(norms), -1, np.int32)
        column_of[chosen] = np.arange(len(chosen), dtype=np.int32)
        return _SelectionPlan(column_of, np.ones(self.width, np.float32))


@dataclass(frozen=True)
class NormSampling:
    """Labels sampled in proportion to their squared norm, scaled so that inner products are unbiased.

    Probabilities are p = 0.9 · norm share + 0.1 / L, so that every label may be drawn; a label drawn c times is one
    column with weight sqrt(c / (m · p)).
    """

    width: int
    needs_norms: bool = True

    def plan(self, seed: int, tree: int, norms: Array | None) -> SketchPlan:
        """See :class:`Sketch`."""
        assert norms is not None
        if len(norms) == 0:  # no row has a label
            return _SelectionPlan(np.empty(0, np.int32), np.zeros(self.width, np.float32))
        total = int(norms.sum())
        share = norms / total if total else np.full(len(norms), 1 / len(norms))
        p = 0.9 * share + 0.1 / len(norms)
        rng = np.random.default_rng(derive_key(seed, tree, 3))
        labels, times = np.unique(rng.choice(len(norms), self.width, p=p / p.sum()), return_counts=True)
        column_of = np.full(len(norms), -1, np.int32)
        column_of[labels] = np.arange(len(labels), dtype=np.int32)
        weights = np.zeros(self.width, np.float32)
        weights[: len(labels)] = np.sqrt(times / (self.width * p[labels]))
        return _SelectionPlan(column_of, weights)


@dataclass(frozen=True)
class NoSketch:
    """No sketch: all labels, with rows × labels of memory, for ``split="full"``."""

    width: int
    needs_norms: bool = False

    def plan(self, seed: int, tree: int, norms: Array | None) -> SketchPlan:
        """See :class:`Sketch`."""
        return _SelectionPlan(np.arange(self.width, dtype=np.int32), np.ones(self.width, np.float32))


SKETCHES: dict[str, Callable[[int], Sketch]] = {
    "count-sketch": CountSketch,
    "random-projection": RandomProjection,
    "top-outputs": TopOutputs,
    "sampling": NormSampling,
    "none": NoSketch,
}


def make_sketch(name: str, sketch_dim: int, n_labels: int) -> Sketch:
    """The sketch of that name, at most as wide as the number of labels."""
    if name == "none":
        return NoSketch(n_labels)
    return SKETCHES[name](sketch_dim)
