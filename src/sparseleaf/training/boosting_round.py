"""One boosting round: gradients, quantised columns, tree, leaf values, scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sparseleaf._arrays import derive_key

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.binning import BinThresholds
    from sparseleaf.distributed.placement import Placement
    from sparseleaf.training.builder import Trees
    from sparseleaf.training.statistics import Statistics
    from sparseleaf.training.tree import FlatTree, LeafVectors

ROWS, FEATURES, NODES = 11, 12, 13
"""Purposes of random draws: part of their keys, so that draws for different purposes are independent."""


@dataclass(frozen=True)
class BoostingRound:
    """Configuration of a boosting round, independent of where the rows are."""

    trees: Trees
    thresholds: BinThresholds
    statistics: Statistics[Any]
    n_features: int
    subsample: float
    colsample_bytree: float
    colsample_bynode: float
    seed: int

    def grow(self, place: Placement, shard: Any, number: int) -> tuple[FlatTree, LeafVectors]:
        """Grow tree ``number`` on the current gradients and add its leaf values to the scores."""
        columns = self.statistics.fill(place, shard, number)
        features = self._tree_features(number)
        count = max(1, round(self.colsample_bynode * len(features)))
        shard.start_tree(self.subsample, self.seed, number, ROWS)
        key = derive_key(self.seed, number, NODES)
        grown = shard.build_tree(self.trees, columns, features, count, key, place.workers)
        tree = grown.flatten(self.thresholds)
        vectors = self.statistics.leaves(place, shard, tree, number)
        shard.add_leaves(tree, vectors)
        return tree, vectors

    def _tree_features(self, tree: int) -> Array:
        count = max(1, round(self.colsample_bytree * self.n_features))
        if count >= self.n_features:
            return np.arange(self.n_features, dtype=np.int32)
        return sample_features(self.n_features, count, self.seed, tree, FEATURES)


def sample_features(n_features: int, count: int, *key: int) -> Array:
    """A sample of ``count`` features without replacement, increasing, int32."""
    rng = np.random.Generator(np.random.PCG64(derive_key(*key)))
    return np.sort(rng.permutation(n_features)[:count]).astype(np.int32)
