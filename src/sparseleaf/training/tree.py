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
    from sparseleaf.binning import Cuts


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the values of a node's leaves must stay within, one number an output."""

    low: Array
    high: Array


@dataclass(frozen=True)
class LeafVectors:
    """The sparse vectors of a tree's leaves: CSR with one row a leaf, labels increasing."""

    indptr: Array
    labels: Array
    values: Array

    def rounded(self) -> LeafVectors:
        """The same with values that a model keeps in 16 bits, so that training adds up what prediction will."""
        scale = short_scale(np.abs(self.values).max(initial=0))
        return replace(self, values=scale * short_values(self.values, scale).astype(np.float32))

    def shifted(self, by: int) -> LeafVectors:
        """The same vectors for labels that are numbered on from ``by``."""
        return LeafVectors(self.indptr, self.labels + np.uint32(by), self.values)

    @classmethod
    def join(cls, parts: list[LeafVectors]) -> LeafVectors:
        """Vectors of leaves that follow each other."""
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
    """A grown tree as arrays, one number a node, in level order.

    ``feature`` is -1 in a leaf, whose ``child`` is its number; ``leaf_nodes`` has the id that each leaf grew under.
    A cut of categories has its row of ``sets`` in ``set_of``, which is -1 for all other nodes; its ``threshold`` is
    the same number.
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
    """A grown tree in bins alone; arrays as in :class:`FlatTree`.

    ``unordered`` are the nodes whose split is of categories, one for every row of ``sets``.
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

    def flatten(self, cuts: Cuts) -> FlatTree:
        """The tree with its thresholds."""
        n = len(self.feature)
        inner = self.feature >= 0
        feature = self.feature[inner]
        threshold, missing_bin = np.zeros(n, np.float32), np.zeros(n, np.int32)
        set_of = np.full(n, -1, np.int32)
        missing_bin[inner] = cuts.missing_bins[feature]
        threshold[inner] = cuts.threshold(feature, self.bin[inner])
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
