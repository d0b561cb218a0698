"""One boosting round: gradients to integer columns, tree, leaves, scores; on one screen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sparseleaf._arrays import derive_key

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.binning import Cuts
    from sparseleaf.distributed.placement import Placement
    from sparseleaf.training.builder import Trees
    from sparseleaf.training.statistics import Statistics
    from sparseleaf.training.tree import FlatTree, LeafVectors

ROWS, FEATURES, NODES = 11, 12, 13
"""What a random draw is for: part of its key, so that draws for different purposes are independent."""


@dataclass(frozen=True)
class Recipe:
    """How a tree is grown and what it is fitted to; where the rows are is not said."""

    trees: Trees
    cuts: Cuts
    statistics: Statistics[Any]
    n_features: int
    subsample: float
    colsample_bytree: float
    colsample_bynode: float
    seed: int

    def grow(self, place: Placement, shard: Any, number: int) -> tuple[FlatTree, LeafVectors]:
        """The tree of that number, fitted to what the trees before it leave; its vectors are added to the scores."""
        columns = self.statistics.fill(place, shard, number)
        features = self._tree_features(number)
        count = max(1, round(self.colsample_bynode * len(features)))
        shard.plant(self.subsample, self.seed, number, ROWS)
        key = derive_key(self.seed, number, NODES)
        grown = shard.build_tree(self.trees, columns, features, count, key, place.workers)
        tree = grown.flatten(self.cuts)
        vectors = self.statistics.leaves(place, shard, tree, number)
        shard.add_leaves(tree, vectors)
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
