"""A tree while it grows, and its flat form.

Nodes are numbered as they are made, two children at a time: the right child is always the left one plus one, and
children come after their parent.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.binning import Cuts


SET_BYTES = 32
"""A set of up to 256 bins, one bit each."""

LARGEST_SHORT = 2**15 - 1
"""Of a leaf value in 16 bits."""


@dataclass(frozen=True, slots=True)
class Split:
    """A cut: rows whose bin of ``feature`` is at most ``bin`` go left.

    Where the feature has categories, those in ``left_set`` do (bit ``b % 8`` of byte ``b // 8`` for bin ``b``).
    ``bounds`` are the children's, left and right, where the feature is constrained.
    """

    feature: int
    bin: int
    gain: float
    missing_left: bool
    left_count: int
    left_set: Array | None = None
    bounds: tuple[Bounds, Bounds] | None = None


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the values of a node's leaves must stay within, one number an output."""

    low: Array
    high: Array


@dataclass(slots=True)
class Node:
    """A node while its tree grows; ``count`` is its rows over all shards, ``slot`` its histogram, if kept."""

    id: int
    depth: int
    count: int
    split: Split | None = None
    slot: int = -1
    child: int = -1
    bounds: Bounds | None = None

    def __lt__(self, other: Node) -> bool:
        return self.id < other.id


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

    ``unordered`` are the nodes whose cut is of categories, one for every row of ``sets``.
    """

    feature: Array
    bin: Array
    missing_left: Array
    gain: Array
    child: Array
    leaf_nodes: Array
    count: Array
    unordered: Array
    sets: Array

    def flatten(self, cuts: Cuts, leaf_bounds: Bounds | None = None) -> FlatTree:
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
            self.leaf_nodes,
            self.count,
            set_of,
            self.sets,
            leaf_bounds,
        )


@dataclass
class GrowingTree:
    """Nodes so far."""

    nodes: list[Node] = field(default_factory=list)

    def plant(self, count: int) -> Node:
        """Make the root."""
        self.nodes.append(Node(0, 0, count))
        return self.nodes[0]

    def split(self, node: Node) -> tuple[Node, Node]:
        """Make the two children of a node that has a split."""
        assert node.split is not None
        node.child = len(self.nodes)
        left = Node(node.child, node.depth + 1, node.split.left_count, bounds=node.bounds)
        right = Node(node.child + 1, node.depth + 1, node.count - node.split.left_count, bounds=node.bounds)
        if node.split.bounds is not None:
            left.bounds, right.bounds = node.split.bounds
        self.nodes += (left, right)
        return left, right

    def flatten(self, cuts: Cuts) -> FlatTree:
        """The flat form: nodes in level order; what was not split is a leaf, numbered in order of node."""
        order = self._level_order()
        n = len(order)
        inner = np.array([node.child >= 0 for node in order])
        splits = [node.split for node in order if node.split is not None and node.child >= 0]
        feature = np.full(n, -1, np.int32)
        bin_, child = (np.zeros(n, np.int32) for _ in range(2))
        missing_left = np.zeros(n, np.uint8)
        gain = np.zeros(n, np.float64)
        child[~inner] = np.arange(n - len(splits))
        child[inner] = 2 * np.arange(len(splits)) + 1
        if splits:
            feature[inner] = [split.feature for split in splits]
            bin_[inner] = [split.bin for split in splits]
            missing_left[inner] = [split.missing_left for split in splits]
            gain[inner] = [split.gain for split in splits]
        found = [split.left_set for split in splits if split.left_set is not None]
        unordered = np.flatnonzero(inner)[[split.left_set is not None for split in splits]]
        leaves = [node for node in order if node.child < 0]
        bounds = [node.bounds for node in leaves if node.bounds is not None]
        nodes = GrownNodes(
            feature,
            bin_,
            missing_left,
            gain,
            child,
            np.array([node.id for node in leaves]),
            np.array([node.count for node in order], np.int64),
            unordered,
            np.stack(found) if found else np.empty((0, SET_BYTES), np.uint8),
        )
        return nodes.flatten(
            cuts,
            Bounds(np.stack([b.low for b in bounds]), np.stack([b.high for b in bounds])) if bounds else None,
        )

    def _level_order(self) -> list[Node]:
        """Nodes level by level; in a tree that grew so, that is the order in which they were made."""
        order = [self.nodes[0]]
        for node in order:
            if node.child >= 0:
                order += self.nodes[node.child : node.child + 2]
        return order


def short_scale(largest: Array) -> Array:
    """What 16-bit leaf values of a tree are multiplied by: the least power of two that holds the largest.

    Products with a power of two are exact, so that rounding values twice changes nothing.
    """
    fraction, exponent = np.frexp(np.asarray(largest, np.float64) / LARGEST_SHORT)
    exponent = np.maximum(exponent - (fraction == 0.5), -149)  # no float32 is smaller
    scale: Array = np.where(largest > 0, np.ldexp(1.0, exponent), 1.0).astype(np.float32)
    return scale


def short_values(values: Array, scale: Array) -> Array:
    """Leaf values as 16-bit integers; one that is too small keeps its sign, so that its label stays a candidate."""
    integers = np.rint(values / scale).clip(-LARGEST_SHORT, LARGEST_SHORT)
    return np.where(integers == 0, np.sign(values), integers).astype(np.int16)
