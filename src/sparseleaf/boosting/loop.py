"""The boosting loop: residuals, reduce, grow, leaves, scores; on one screen."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sparseleaf._arrays import derive_key
from sparseleaf.boosting.splits import NodeFeatures, sample_features
from sparseleaf.boosting.tree import FlatTree, LeafVectors

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.boosting.grower import Grower
    from sparseleaf.boosting.leaves import LeafRule
    from sparseleaf.boosting.reducers import Reducer
    from sparseleaf.engine.shards import Shards

ROWS, FEATURES, NODES = 11, 12, 13
"""What a random draw is for: part of its key, so that draws for different purposes are independent."""

LARGEST_INT16 = 2**15 - 1
LARGEST_SUM = 2**31 - 1
LARGEST_EXPONENT = 127
"""Of a power of two that float32 holds."""


@dataclass(frozen=True)
class Booster:
    """Yields one tree after the other, each fitted to what the trees before it leave.

    Attributes
    ----------
    reducer : Reducer or None
        None where the split search reads the full residuals itself.
    """

    shards: Shards
    grower: Grower
    reducer: Reducer | None
    leaf_rule: LeafRule
    n_features: int
    subsample: float
    colsample_bytree: float
    colsample_bynode: float
    seed: int

    def trees(self) -> Iterator[tuple[FlatTree, LeafVectors]]:
        """Train without end; the caller stops."""
        tree_number = 0
        while True:
            scale = self._reduce(tree_number)
            features = self._tree_features(tree_number)
            node_features = NodeFeatures(len(features), self.colsample_bynode, self.seed, tree_number, NODES)
            self.grower.search.start_tree(features, scale)
            n_rows = int(self.shards.sum("plant", self.subsample, self.seed, tree_number, ROWS))
            tree = self.grower.grow(self.shards, n_rows, node_features)
            vectors = self.shards.gather("leaf_vectors", tree.leaf_nodes.tolist(), self.leaf_rule)[0]
            self.shards.call("add_leaves", tree, vectors)
            yield tree, vectors
            tree_number += 1

    def _tree_features(self, tree: int) -> Array:
        count = max(1, round(self.colsample_bytree * self.n_features))
        if count >= self.n_features:
            return np.arange(self.n_features)
        return sample_features(self.n_features, count, self.seed, tree, FEATURES)

    def _reduce(self, tree: int) -> float:
        """Reduced residuals as 16-bit integers, in a scale that all shards share; the scale.

        The scale is the largest power of two for which no number passes 16 bits and no column's sum of
        magnitudes passes 31, so that any histogram of any subset of rows is exact in 32-bit integers.
        """
        if self.reducer is None:
            return 1.0
        norms = self.shards.sum("label_norms") if self.reducer.needs_norms else None
        plan = self.reducer.plan(derive_key(self.seed), tree, norms)
        largest = max(self.shards.gather("reduce", plan, self.reducer.width))
        if largest <= 0.0:
            self.shards.call("quantise", 1.0)
            return 1.0
        scale = 2.0 ** min(math.floor(math.log2(LARGEST_INT16 / largest)), LARGEST_EXPONENT)
        while int(self.shards.sum("quantise", scale).max()) > LARGEST_SUM:
            scale /= 2.0
        return scale
