"""Boosted trees as they grow on one worker, for sparse residuals and for dense gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sparseleaf.distributed.placement import Placement
from sparseleaf.training.program import Grown

if TYPE_CHECKING:
    from sparseleaf.distributed.communicator import Communicator
    from sparseleaf.training.recipe import Recipe
    from sparseleaf.training.tree import FlatTree, LeafVectors

BoostedTree = tuple["FlatTree", "LeafVectors"]


class BoostedGrowth:
    """See :class:`~sparseleaf.training.program.Growth`.

    Parameters
    ----------
    comm : Communicator
    shard : Shard
        This worker's rows, all features of them.
    recipe : Recipe
    layout : {"rows", "features"}
        Where the rows go before the first tree grows.
    first : int
        Number of the first tree: those before it are of another training.
    """

    def __init__(self, comm: Communicator, shard: Any, recipe: Recipe, layout: str, first: int) -> None:
        self._comm = comm
        self._shard = shard
        self._recipe = recipe
        self._layout = layout
        self._number = first
        self._place = Placement.by_rows(comm)
        shard.take_place(comm.rank, comm.size)

    def replay(self, trees: Sequence[BoostedTree]) -> None:
        """See :class:`~sparseleaf.training.program.Growth`."""
        for tree, vectors in trees:
            self._shard.follow(tree, vectors)
        self._number += len(trees)
        if self._layout == "features":
            self._shard.columns_take(self._comm.alltoall(self._shard.columns_give()))
            self._place = Placement.by_features(self._comm)

    def next(self) -> list[Grown]:
        """See :class:`~sparseleaf.training.program.Growth`."""
        tree, vectors = self._recipe.grow(self._place, self._shard, self._number)
        self._number += 1
        n_entries = int(self._place.rows.allreduce(np.array([self._shard.n_entries()]))[0])
        return [Grown((tree, vectors), len(tree.leaf_nodes), n_entries)]


LARGEST_SCORE = 2.0**126
"""Of all trees together; float32 ends at 2^128, and where boosting starts is to be added."""


class ScoreBound:
    """Refuses trees with which scores could leave float32: infinities have no gradient, and no integer."""

    def __init__(self) -> None:
        self._largest = 0.0

    def add(self, vectors: LeafVectors) -> None:
        """One more tree."""
        self._largest += float(np.abs(vectors.values).max(initial=0.0))
        if not self._largest <= LARGEST_SCORE:  # nor NaN
            raise ValueError(
                "The sum of the trees' leaf values exceeds the range of float32. A smaller 'learning_rate' or"
                " scaled targets keep it bounded."
            )
