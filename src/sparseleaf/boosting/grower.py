"""The growing loop: one for every way to grow, every split search and every place where rows may live."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sparseleaf.boosting.splits import Family, NodeFeatures
from sparseleaf.boosting.tree import SET_BYTES, FlatTree, GrowingTree, Node

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.binning import Cuts
    from sparseleaf.boosting.frontier import Frontier
    from sparseleaf.boosting.splits import SplitSearch
    from sparseleaf.engine.shards import GrowingShards


@dataclass(frozen=True)
class Grower:
    """Grows one tree after the other on the residuals that the shards hold."""

    search: SplitSearch
    make_frontier: Callable[[int | None], Frontier]
    max_leaves: int | None
    cuts: Cuts

    def grow(self, shards: GrowingShards, n_rows: int, node_features: NodeFeatures) -> FlatTree:
        """Grow a tree; the shards' rows are in its root, and afterwards in its leaves."""
        frontier = self.make_frontier(self.max_leaves)
        grown = self.search.grow(
            shards, n_rows, node_features, self.max_leaves, best_first=frontier.best_first
        )
        if grown is not None:
            return grown.flatten(self.cuts)
        tree = GrowingTree()
        self._look_into(shards, [Family(None, (tree.plant(n_rows),))], node_features, frontier)
        while batch := frontier.pop():
            self._apply(shards, batch)
            families = [Family(node, tree.split(node)) for node in batch]
            self._look_into(shards, families, node_features, frontier)
        for node in frontier.early():
            node.child = -1  # a leaf: its rows are parted already, but they are still its own
        return tree.flatten(self.cuts)

    def _look_into(
        self, shards: GrowingShards, families: list[Family], node_features: NodeFeatures, frontier: Frontier
    ) -> None:
        self.search.search(shards, families, node_features)
        for family in families:
            for child in family.children:
                if child.split is not None:
                    frontier.push(child, family.parent)

    def _apply(self, shards: GrowingShards, nodes: list[Node]) -> None:
        splits = [node.split for node in nodes if node.split is not None]
        set_of = np.full(len(splits), -1, np.int32)
        sets: list[Array] = []
        for i, split in enumerate(splits):
            if split.left_set is not None:
                set_of[i] = len(sets)
                sets.append(split.left_set)
        shards.split(
            [node.id for node in nodes],
            np.array([split.left_count for split in splits], np.int64),
            np.array([split.feature for split in splits], np.int32),
            np.array([split.bin for split in splits], np.int32),
            np.array([split.missing_left for split in splits], np.uint8),
            set_of,
            np.stack(sets) if sets else np.empty((0, SET_BYTES), np.uint8),
        )
