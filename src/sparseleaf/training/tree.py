"""A grown tree as arrays.

Nodes are in level order: the right child is always the left one plus one, and children come after their parent.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sparseleaf.model.trees import short_scale, short_values

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.binning import BinThresholds


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of the leaf values below a node, one per output."""

    low: Array
    high: Array


@dataclass(frozen=True)
class LeafVectors:
    """The sparse leaf vectors of a tree: CSR with one row per leaf, labels increasing."""

    indptr: Array
    labels: Array
    values: Array

    def rounded(self) -> LeafVectors:
        """Round values to the model's 16 bits, so that training and prediction use the same values."""
        scale = short_scale(np.abs(self.values).max(initial=0))
        return replace(self, values=scale * short_values(self.values, scale).astype(np.float32))

    def times(self, factor: float) -> LeafVectors:
        """Multiply all values."""
        return self if factor == 1 else replace(self, values=self.values * np.float32(factor))

    def shifted(self, by: int) -> LeafVectors:
        """Add ``by`` to all labels."""
        return LeafVectors(self.indptr, self.labels + np.uint32(by), self.values)

    @classmethod
    def join(cls, parts: list[LeafVectors]) -> LeafVectors:
        """Concatenate vectors of consecutive leaves."""
        if len(parts) == 1:
            return parts[0]
        sizes = np.concatenate([np.diff(part.indptr) for part in parts])
        return cls(
            np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
            np.concatenate([part.labels for part in parts]),
            np.concatenate([part.values for part in parts]),
        )


@dataclass(frozen=True)
class FlatTree:
    """A grown tree as arrays with one entry per node, in level order.

    ``feature`` is -1 in a leaf, whose ``child`` is its index among the leaves; ``leaf_nodes`` are the ids under which
    leaves grew. A categorical split has its row of ``sets`` in ``set_of``, and the same number as ``threshold``;
    ``set_of`` is -1 for all other nodes.
    """

    feature: Array
    bin: Array
    threshold: Array
    missing_bin: Array
    missing_left: Array
    child: Array
    gain: Array
    leaf_nodes: Array
    count: Array
    set_of: Array
    sets: Array
    leaf_bounds: Bounds | None = None


@dataclass(frozen=True)
class GrownNodes:
    """A grown tree with bins but no thresholds; arrays as in :class:`FlatTree`.

    ``unordered`` are the nodes with a categorical split, one for every row of ``sets``.
    """

    feature: Array
    bin: Array
    missing_left: Array
    gain: Array
    child: Array
    count: Array
    unordered: Array
    sets: Array
    leaf_bounds: Bounds | None = None

    def flatten(self, thresholds: BinThresholds) -> FlatTree:
        """Add the thresholds."""
        n = len(self.feature)
        inner = self.feature >= 0
        feature = self.feature[inner]
        threshold, missing_bin = np.zeros(n, np.float32), np.zeros(n, np.int32)
        set_of = np.full(n, -1, np.int32)
        missing_bin[inner] = thresholds.missing_bins[feature]
        threshold[inner] = thresholds.at(feature, self.bin[inner])
        set_of[self.unordered] = threshold[self.unordered] = np.arange(len(self.sets))
        return FlatTree(
            self.feature,
            self.bin,
            threshold,
            missing_bin,
            self.missing_left,
            self.child,
            self.gain,
            np.arange(np.count_nonzero(~inner)),
            self.count,
            set_of,
            self.sets,
            self.leaf_bounds,
        )
