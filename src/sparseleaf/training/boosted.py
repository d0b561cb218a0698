"""The growing boosted ensemble on one worker, for sparse residuals and dense gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sparseleaf.cuda.device import assigned_gpu, use_gpu
from sparseleaf.distributed.placement import Placement
from sparseleaf.training.packing import pack_trees
from sparseleaf.training.program import Grown
from sparseleaf.training.validation import eval_names, eval_sets

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf._settings import Settings
    from sparseleaf.distributed.communicator import Communicator
    from sparseleaf.distributed.launch import Workers
    from sparseleaf.training.boosting_round import BoostingRound
    from sparseleaf.training.tree import FlatTree, LeafVectors
    from sparseleaf.training.validation import EvalSet

BoostedTree = tuple["FlatTree", "LeafVectors"]


class BoostedGrowth:
    """See :class:`~sparseleaf.training.program.Growth`.

    Parameters
    ----------
    comm : Communicator
    shard : Shard
        This worker's rows, in the row layout.
    boosting_round : BoostingRound
    layout : {"rows", "features"}
        Layout to convert to before the first tree.
    first : int
        Index of the first tree, after those of the initial model.
    """

    def __init__(
        self, comm: Communicator, shard: Any, boosting_round: BoostingRound, layout: str, first: int
    ) -> None:
        self._comm = comm
        self._shard = shard
        self._round = boosting_round
        self._layout = layout
        self._number = first
        self._place = Placement.by_rows(comm)
        self._gpu = assigned_gpu(boosting_round.trees.device, comm)
        shard.set_rank(comm.rank, comm.size)

    def replay(self, trees: Sequence[BoostedTree]) -> None:
        """See :class:`~sparseleaf.training.program.Growth`."""
        use_gpu(self._gpu)
        for tree, vectors in trees:
            self._shard.apply_tree(tree, vectors)
        self._number += len(trees)
        if self._layout == "features":
            self._shard.take_columns(self._comm.alltoall(self._shard.split_columns()))
            self._place = Placement.by_features(self._comm)

    def next(self) -> list[Grown]:
        """See :class:`~sparseleaf.training.program.Growth`."""
        use_gpu(self._gpu)
        tree, vectors = self._round.grow(self._place, self._shard, self._number)
        self._number += 1
        n_entries = int(self._place.rows.allreduce(np.array([self._shard.n_entries()]))[0])
        return [Grown((tree, vectors), len(tree.leaf_nodes), n_entries)]

    def complete(self) -> Any:
        """See :class:`~sparseleaf.training.program.Growth`; nothing."""
        return None


LARGEST_SCORE = 2.0**126
"""Bound of the sum over trees, with a margin below 2^128, the range of float32, for the base score."""


class ScoreBound:
    """Raises an error before scores can overflow float32: infinities have no gradient and cannot be quantised."""

    def __init__(self) -> None:
        self._largest = 0.0

    def add(self, vectors: LeafVectors) -> None:
        """Add a tree to the bound."""
        self._largest += float(np.abs(vectors.values).max(initial=0.0))
        if not self._largest <= LARGEST_SCORE:  # also catches NaN
            raise ValueError(
                "The sum of the trees' leaf values exceeds the range of float32. A smaller 'learning_rate' or"
                " scaled targets keep it bounded."
            )


class BoostedEnsemble:
    """The part of :class:`~sparseleaf.training.trainer.Ensemble` that is common to boosted trees.

    Parameters
    ----------
    params : Settings
    eval_set : validation sets
    eval_set_form : str
        Form of a validation set, for error messages.
    """

    def __init__(self, params: Settings, eval_set: EvalSet, eval_set_form: str = "(X, y)") -> None:
        self._params = params
        self._eval_set = eval_set
        self._eval_set_form = eval_set_form
        self._names: list[str] = []
        self._shards: list[Any] = []
        self._bound = ScoreBound()

    def _name_validation_sets(self, workers: Workers) -> None:
        """Set the names of the validation sets; ValueError if early stopping has none."""
        self._names = workers.once(lambda: eval_names(len(eval_sets(self._eval_set, self._eval_set_form))))
        rounds = self._params.early_stopping_rounds
        if rounds is not None and not self._names:
            raise ValueError(
                f"early_stopping_rounds={rounds} requires a validation set, eval_set={self._eval_set_form}."
            )

    def _evaluate(self) -> dict[str, float]:
        """Metrics by name, on the process that has the validation sets."""
        raise NotImplementedError

    @property
    def completes(self) -> bool:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        return False

    def pack(self, trees: Sequence[BoostedTree]) -> dict[str, Array]:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        return pack_trees(list(trees))

    def check_tree(self, tree: BoostedTree) -> None:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        self._bound.add(tree[1])

    def update_validation(self, tree: BoostedTree) -> None:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        for shard in self._shards:
            shard.apply_tree(*tree)

    def evaluate(self, workers: Workers) -> Mapping[str, float]:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        return workers.once(self._evaluate) if self._names else {}
