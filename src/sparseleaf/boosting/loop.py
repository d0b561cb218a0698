"""The boosting loop: columns, grow, leaves, scores; on one screen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from sparseleaf._arrays import derive_key
from sparseleaf.boosting.tree import FlatTree, LeafVectors

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.binning import Cuts
    from sparseleaf.boosting.builder import Trees
    from sparseleaf.boosting.statistics import Statistics
    from sparseleaf.engine.shards import GrowingShards, Shards

Answer = TypeVar("Answer")

ROWS, FEATURES, NODES = 11, 12, 13
"""What a random draw is for: part of its key, so that draws for different purposes are independent."""


@dataclass(frozen=True)
class Recipe:
    """How a tree is grown and what it is fitted to; where the rows are is not said."""

    trees: Trees
    cuts: Cuts
    statistics: Statistics
    n_features: int
    subsample: float
    colsample_bytree: float
    colsample_bynode: float
    seed: int

    def grow(self, shards: GrowingShards, number: int) -> tuple[FlatTree, LeafVectors]:
        """The tree of that number, fitted to what the trees before it leave; its vectors are added to the scores."""
        columns = self.statistics.fill(shards, number)
        features = self._tree_features(number)
        count = max(1, round(self.colsample_bynode * len(features)))
        shards.call("plant", self.subsample, self.seed, number, ROWS)
        grown = shards.build_tree(self.trees, columns, features, count, derive_key(self.seed, number, NODES))
        tree = grown.flatten(self.cuts)
        vectors = self.statistics.leaves(shards, tree, number)
        shards.add_tree(tree, vectors)
        return tree, vectors

    def _tree_features(self, tree: int) -> Array:
        count = max(1, round(self.colsample_bytree * self.n_features))
        if count >= self.n_features:
            return np.arange(self.n_features, dtype=np.int32)
        return sample_features(self.n_features, count, self.seed, tree, FEATURES)


def sample_features(n_features: int, count: int, *key: int) -> Array:
    """``count`` distinct features drawn by key, increasing, int32."""
    rng = np.random.Generator(np.random.PCG64(derive_key(*key)))
    return np.sort(rng.permutation(n_features)[:count]).astype(np.int32)


@dataclass(frozen=True)
class Booster:
    """Yields one tree after the other."""

    shards: Shards
    recipe: Recipe

    @property
    def n_features(self) -> int:
        """Features that trees see."""
        return self.recipe.n_features

    def trees(self, first: int = 0) -> Iterator[tuple[FlatTree, LeafVectors]]:
        """Train without end, counting trees from ``first``; the caller stops."""
        self.shards.spread()
        number = first
        while True:
            yield self._lasting(partial(self.shards.grow, self.recipe, number))
            number += 1

    def n_entries(self) -> int:
        """Stored (row, label) scores."""
        return int(self._lasting(partial(self.shards.sum, "n_entries")))

    def _lasting(self, work: Callable[[], Answer]) -> Answer:
        """Done again where shards were lost and could be made anew."""
        while True:
            try:
                return work()
            except Exception as error:
                if not self.shards.recover(error):
                    raise
