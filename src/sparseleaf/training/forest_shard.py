"""The rows of a forest on one worker: shared by the trees that grow at the same time."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Self

import numpy as np

from sparseleaf.objectives.targets import NO_VALUES
from sparseleaf.training.builder import BinnedColumns
from sparseleaf.training.dense_shard import DenseShard
from sparseleaf.training.shard import RowsByLeaf

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.training.builder import Trees


class ForestShard(DenseShard):
    """A shard whose gradients are computed once; see :class:`DenseShard` for the parameters."""

    def freeze(self, trees: Trees) -> None:
        """Make the builder, and free what only the gradients were computed from."""
        self._builder = trees, trees.make_builder(BinnedColumns(self.bins, self.missing_bins), self._n_jobs)
        self.scores = np.empty((0, self.scores.shape[1]), np.float32)
        self.targets = replace(self.targets, values=NO_VALUES)

    def for_tree(self, rows: Array, n_jobs: int, *, new_columns: bool) -> Self:
        """A view with the sample of one tree; ``new_columns`` for a sketch that other trees do not have."""
        view = copy.copy(self)
        view._n_jobs = n_jobs
        view._rows, view._oob = RowsByLeaf.of(rows), RowsByLeaf.of(np.empty(0, np.int32))
        if new_columns:
            view._columns, view._residuals = np.empty((0, 0), np.float32), np.empty((0, 0), np.int16)
        return view
