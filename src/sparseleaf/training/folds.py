"""Bagged boosting on one worker: several models grown in lockstep, each without one fold of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sparseleaf._arrays import hash_numbers
from sparseleaf.training.boosted import BoostedGrowth
from sparseleaf.training.columns import fixed_point_scales

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.distributed.communicator import Communicator
    from sparseleaf.objectives.dense import DenseObjective
    from sparseleaf.training.auto import Bagging
    from sparseleaf.training.boosted import BoostedTree
    from sparseleaf.training.boosting_round import BoostingRound
    from sparseleaf.training.dense_shard import DenseShard
    from sparseleaf.training.program import Grown

FOLDS = 14
"""Purpose of the random draw of folds: see :mod:`sparseleaf.training.boosting_round`."""


def held_out_name(loss: DenseObjective) -> str:
    """Name of the metric of the held-out rows in the history."""
    return f"held-out {loss.held_out_metric}"


def fold_of(numbers: Array, n_folds: int, seed: int) -> Array:
    """Fold of rows or queries by their global index: a random permutation of the folds in every run of ``n_folds``.

    Folds are thus of equal size, and the same for any distribution of the rows among workers.
    """
    begin = numbers - numbers % n_folds
    draws = np.stack([hash_numbers(begin + i, seed, FOLDS) for i in range(n_folds)], axis=1)
    mine = np.take_along_axis(draws, (numbers % n_folds)[:, None], axis=1)
    fold: Array = (draws < mine).sum(axis=1).astype(np.int32)
    return fold


class BaggedGrowth(BoostedGrowth):
    """See :class:`~sparseleaf.training.program.Growth`.

    Tree ``t`` belongs to round ``t // per_round``; within a round, the trees of a model are adjacent.

    Parameters
    ----------
    comm, shard, boosting_round, layout
        See :class:`BoostedGrowth`.
    bagging : Bagging
    per_model : int
        Trees of one model in a round.
    output_weights : float64 array or None
        Weights of the outputs in the loss of the held-out rows; None for equal ones.
    """

    def __init__(
        self,
        comm: Communicator,
        shard: DenseShard,
        boosting_round: BoostingRound,
        layout: str,
        bagging: Bagging,
        per_model: int,
        output_weights: Array | None,
    ) -> None:
        super().__init__(comm, shard, boosting_round, layout, 0)
        self._bagging = bagging
        self._per_model = per_model
        self._output_weights = output_weights

    def replay(self, trees: Sequence[BoostedTree]) -> None:
        """See :class:`~sparseleaf.training.program.Growth`."""
        for number, tree in enumerate(trees):
            self._shard.use_model(self._model_of(number))
            self._shard.apply_tree(*tree)
        self._number = len(trees)
        super().replay(())

    def next(self) -> list[Grown]:
        """See :class:`~sparseleaf.training.program.Growth`."""
        self._shard.use_model(self._model_of(self._number))
        grown = super().next()
        if not self._bagging.stops or self._number % (self._bagging.n_models * self._per_model):
            return grown
        metrics = {held_out_name(self._shard.loss): self._measure()}
        return [replace(one, metrics=metrics) for one in grown]

    def _model_of(self, number: int) -> int:
        return number // self._per_model % self._bagging.n_models

    def _measure(self) -> float:
        """Weighted mean of the metric, in fixed point: the same for any number of workers."""
        shard: DenseShard = self._shard
        held_out, scores = shard.held_out()
        values, weights = shard.loss.held_out_parts(shard.targets, scores, held_out, self._output_weights)
        rows = self._place.rows
        largest = rows.allreduce(np.array([np.abs(values).max(initial=0.0), weights.max(initial=0.0)]), "max")
        n = int(rows.allreduce(np.array([len(values)]))[0])
        scales = fixed_point_scales(largest, n)
        sums = [
            np.rint(each * by).astype(np.int64).sum()
            for each, by in zip((values, weights), scales, strict=True)
        ]
        total, weight = rows.allreduce(np.array(sums)) / scales
        return float(total / weight) if weight > 0 else 0.0
