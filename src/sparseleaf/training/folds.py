"""Bagged boosting on one worker: several models grown in lockstep, each without one fold of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sparseleaf._arrays import hash_numbers
from sparseleaf.cuda.device import use_gpu
from sparseleaf.training.auto import MIN_HELD_OUT
from sparseleaf.training.boosted import BoostedGrowth
from sparseleaf.training.columns import fixed_point_scales

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.distributed.communicator import Communicator
    from sparseleaf.objectives.dense import DenseObjective
    from sparseleaf.training.auto import Bagging
    from sparseleaf.training.boosted import BoostedTree
    from sparseleaf.training.boosting_round import BoostingRound
    from sparseleaf.training.dense_partition import DensePartition
    from sparseleaf.training.dense_shard import DenseShard
    from sparseleaf.training.fold_forest import FoldForest, MixedForest
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


def can_measure(
    comm: Communicator,
    part: DensePartition,
    loss: DenseObjective,
    bagging: Bagging,
    seed: int,
    n_outputs: int,
) -> bool:
    """Whether there are enough held-out rows to measure the metric; ``loss`` is that of this worker's rows."""
    rows = np.flatnonzero(fold_of(part.fold_keys(), bagging.n_folds, seed) < bagging.n_models)
    scores = np.zeros((len(rows), n_outputs), np.float32)
    _, weights = loss.held_out_parts(part.targets, scores, rows, None)
    return int(comm.allreduce(np.array([np.count_nonzero(weights)]))[0]) >= MIN_HELD_OUT


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
    forest : FoldForest or None
        Grown after the last round, to be mixed with the models of the best round.
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
        forest: FoldForest | None = None,
    ) -> None:
        super().__init__(comm, shard, boosting_round, layout, 0)
        self._bagging = bagging
        self._per_model = per_model
        self._output_weights = output_weights
        self._forest = forest
        self._best: tuple[float, Array, Communicator] | None = None

    def replay(self, trees: Sequence[BoostedTree]) -> None:
        """See :class:`~sparseleaf.training.program.Growth`."""
        use_gpu(self._gpu)
        for number, tree in enumerate(trees):
            self._shard.use_model(self._model_of(number))
            self._shard.apply_tree(*tree)
            self._number = number + 1
            if self._forest is not None and self._round_ends:
                self._measure()
        super().replay(())

    def next(self) -> list[Grown]:
        """See :class:`~sparseleaf.training.program.Growth`."""
        self._shard.use_model(self._model_of(self._number))
        grown = super().next()
        if not self._bagging.stops or not self._round_ends:
            return grown
        metrics = {held_out_name(self.loss): self._measure()}
        return [replace(one, metrics=metrics) for one in grown]

    @property
    def loss(self) -> DenseObjective:
        """The loss of this worker's rows."""
        loss: DenseObjective = self._shard.loss
        return loss

    def held_out_losses(self) -> Array:
        """Losses of the held-out rows of all workers, in order, float64."""
        losses, _ = self._parts(self._shard.held_out())
        return np.concatenate(self._place.rows.allgather(losses))

    def complete(self) -> MixedForest | None:
        """The forest and the mixing weights, if they improve the held-out rows' metric."""
        if self._forest is None or self._best is None:
            return None
        _, scores, rows = self._best
        return self._forest.grow(np.concatenate(rows.allgather(scores)))

    @property
    def _round_ends(self) -> bool:
        return self._number % (self._bagging.n_models * self._per_model) == 0

    def _model_of(self, number: int) -> int:
        return number // self._per_model % self._bagging.n_models

    def _measure(self) -> float:
        """Weighted mean of the metric, in fixed point: the same for any number of workers.

        The scores of the best round are kept for the mixing weights.
        """
        held_out = self._shard.held_out()
        value = self._mean(self._parts(held_out))
        gain = value if self.loss.held_out_higher_is_better else -value
        if self._forest is not None and (self._best is None or gain > self._best[0]):
            self._best = gain, held_out[1], self._place.rows  # a replay precedes the conversion to features
        return value

    def _parts(self, held_out: tuple[Array, Array]) -> tuple[Array, Array]:
        """Loss times weight, and weight, of the held-out rows of this worker."""
        rows, scores = held_out
        return self.loss.held_out_parts(self._shard.targets, scores, rows, self._output_weights)

    def _mean(self, parts: tuple[Array, Array]) -> float:
        values, weights = parts
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
