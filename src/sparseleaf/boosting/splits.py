"""SplitSearch: the best cut of a node. What every search shares, and the exact one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from sparseleaf._arrays import derive_key
from sparseleaf.boosting.tree import Node, Split

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.boosting.columns import Columns
    from sparseleaf.boosting.tree import GrownNodes
    from sparseleaf.engine.shards import GrowingShards, Shards


@dataclass(frozen=True)
class SplitLimits:
    """When a node may be split, and what a cut must bring."""

    max_depth: int | None
    min_samples_leaf: int
    l2: float
    min_gain: float
    min_curvature: float = 0.0

    def may_split(self, node: Node) -> bool:
        """Whether a cut of the node could be allowed at all."""
        return node.count >= 2 * self.min_samples_leaf and (
            self.max_depth is None or node.depth < self.max_depth
        )


@dataclass
class Family:
    """Nodes to search: the two children of a parent, or the root alone."""

    parent: Node | None
    children: tuple[Node, ...]
    built: list[Node] = field(default_factory=list)
    remaining: Node | None = None


class NodeFeatures:
    """Which features a node may use: a random share of the tree's, drawn by (seed, tree, node)."""

    def __init__(self, n_features: int, share: float, *key: int) -> None:
        self._n_features = n_features
        self._chosen = max(1, round(share * n_features))
        self._key = key

    @property
    def all(self) -> bool:
        """Whether every node may use all features of the tree."""
        return self._chosen >= self._n_features

    def mask(self, nodes: list[int]) -> Array:
        """One row a node, 1 where it may use a feature; no rows if all may use all."""
        if self.all:
            return np.empty((0, self._n_features), np.uint8)
        mask = np.zeros((len(nodes), self._n_features), np.uint8)
        for row, node in zip(mask, nodes, strict=True):
            row[sample_features(self._n_features, self._chosen, *self._key, node)] = 1
        return mask


def sample_features(n_features: int, count: int, *key: int) -> Array:
    """``count`` distinct features drawn by key, increasing."""
    rng = np.random.Generator(np.random.PCG64(derive_key(*key)))
    return np.sort(rng.permutation(n_features)[:count])


class SplitSearch(Protocol):
    """Finds the best cut of nodes."""

    def prepare(self, shards: Shards) -> None:
        """Tell the shards, once, what makes a cut good."""

    def start_tree(self, shards: GrowingShards, features: Array, columns: Columns | None) -> None:
        """Prepare for a tree that may use the given features, on histograms of the given columns."""

    def search(self, shards: GrowingShards, families: list[Family], node_features: NodeFeatures) -> None:
        """Set ``split`` of every child that may be split and has a cut worth making."""

    def grow(
        self,
        shards: GrowingShards,
        n_rows: int,
        node_features: NodeFeatures,
        max_leaves: int | None,
        *,
        best_first: bool,
    ) -> GrownNodes | None:
        """The whole tree at once, where that can be done and pays; it is the same tree."""


class ExactSearch:
    """Algorithm 1 of the paper: sorted rows, full residuals, the k largest sums of both sides."""

    def __init__(self, leaf_labels: int | None, step: float, limits: SplitLimits) -> None:
        self._k = -1 if leaf_labels is None else leaf_labels
        self._step = step
        self._limits = limits
        self._features = np.empty(0, np.int32)

    def prepare(self, shards: Shards) -> None:
        """See :class:`SplitSearch`."""

    def start_tree(self, shards: GrowingShards, features: Array, columns: Columns | None) -> None:
        """See :class:`SplitSearch`."""
        self._features = features.astype(np.int32)

    def grow(
        self,
        shards: GrowingShards,
        n_rows: int,
        node_features: NodeFeatures,
        max_leaves: int | None,
        *,
        best_first: bool,
    ) -> None:
        """See :class:`SplitSearch`."""

    def search(self, shards: GrowingShards, families: list[Family], node_features: NodeFeatures) -> None:
        """See :class:`SplitSearch`."""
        nodes = [child for family in families for child in family.children if self._limits.may_split(child)]
        if not nodes:
            return
        ids = [node.id for node in nodes]
        limits = self._limits
        found = shards.best(
            "exact_cuts",
            ids,
            self._features,
            node_features.mask(ids),
            self._k,
            self._step,
            limits.l2,
            limits.min_samples_leaf,
        )
        for node, cut in zip(nodes, found, strict=True):
            if cut["feature"] >= 0 and cut["gain"] > limits.min_gain:
                # rows without a value come last in the order, so they are on the right
                node.split = Split(
                    int(cut["feature"]), int(cut["bin"]), float(cut["gain"]), False, int(cut["left"])
                )
