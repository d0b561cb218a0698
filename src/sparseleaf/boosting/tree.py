"""A tree while it grows, and its flat form.

Nodes are numbered as they are made, two children at a time: the right child is always the left one plus one, and
children come after their parent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.binning import Cuts


@dataclass(frozen=True, slots=True)
class Split:
    """A cut: rows whose bin of ``feature`` is at most ``bin`` go left."""

    feature: int
    bin: int
    gain: float
    missing_left: bool
    left_count: int


@dataclass(slots=True)
class Node:
    """A node while its tree grows; ``count`` is its rows over all shards, ``slot`` its histogram, if kept."""

    id: int
    depth: int
    count: int
    split: Split | None = None
    slot: int = -1
    child: int = -1

    def __lt__(self, other: Node) -> bool:
        return self.id < other.id


@dataclass(frozen=True)
class LeafVectors:
    """The sparse vectors of a tree's leaves: CSR with one row a leaf, labels increasing."""

    indptr: Array
    labels: Array
    values: Array


@dataclass(frozen=True)
class FlatTree:
    """A grown tree as arrays, one number a node; ``feature`` is -1 in a leaf, whose ``child`` is its number."""

    feature: Array
    bin: Array
    threshold: Array
    missing_bin: Array
    missing_left: Array
    child: Array
    gain: Array
    leaf_nodes: Array


@dataclass
class GrowingTree:
    """Nodes so far."""

    nodes: list[Node] = field(default_factory=list)
    n_leaves: int = 1

    def plant(self, count: int) -> Node:
        """Make the root."""
        self.nodes.append(Node(0, 0, count))
        return self.nodes[0]

    def split(self, node: Node) -> tuple[Node, Node]:
        """Make the two children of a node that has a split."""
        assert node.split is not None
        node.child = len(self.nodes)
        left = Node(node.child, node.depth + 1, node.split.left_count)
        right = Node(node.child + 1, node.depth + 1, node.count - node.split.left_count)
        self.nodes += (left, right)
        self.n_leaves += 1
        return left, right

    def flatten(self, cuts: Cuts) -> FlatTree:
        """The flat form; what was not split is a leaf, numbered in order of node."""
        n = len(self.nodes)
        inner = np.array([node.child >= 0 for node in self.nodes])
        splits = [
            (node.split, node.child) for node in self.nodes if node.split is not None and node.child >= 0
        ]
        feature = np.full(n, -1, np.int32)
        bin_, missing_bin, child = (np.zeros(n, np.int32) for _ in range(3))
        missing_left = np.zeros(n, np.uint8)
        gain, threshold = np.zeros(n, np.float64), np.zeros(n, np.float32)
        leaf_nodes = np.flatnonzero(~inner)
        child[leaf_nodes] = np.arange(len(leaf_nodes))
        if splits:
            feature[inner] = [split.feature for split, _ in splits]
            bin_[inner] = [split.bin for split, _ in splits]
            missing_left[inner] = [split.missing_left for split, _ in splits]
            gain[inner] = [split.gain for split, _ in splits]
            child[inner] = [left for _, left in splits]
            missing_bin[inner] = cuts.missing_bins[feature[inner]]
            threshold[inner] = cuts.threshold(feature[inner], bin_[inner])
        return FlatTree(feature, bin_, threshold, missing_bin, missing_left, child, gain, leaf_nodes)
