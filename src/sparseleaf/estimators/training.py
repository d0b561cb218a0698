"""A run of training: trees as they come, what is measured after each, callbacks, checkpoints, and Ctrl-C."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sparseleaf.boosting.packing import pack_trees, unpack_trees
from sparseleaf.callbacks import Callback, EarlyStopping, TrainingState, best_tree

if TYPE_CHECKING:
    from sparseleaf.boosting.loop import Booster
    from sparseleaf.boosting.tree import FlatTree, LeafVectors
    from sparseleaf.checkpoint import Checkpoint

Measure = Callable[["FlatTree", "LeafVectors"], dict[str, float] | None]
"""Called with every new tree; answers metrics by name when a round is complete, None before."""

Replay = Callable[["FlatTree", "LeafVectors"], None]
"""Called with every tree of a checkpoint: adds it to the scores of all rows."""

LARGEST_SCORE = 2.0**126
"""Of all trees together; float32 ends at 2^128, and where boosting starts is to be added."""


def no_metric(tree: FlatTree, vectors: LeafVectors) -> None:
    """Measure nothing."""


class TrainingRun:
    """Grows trees and keeps what has been trained so far.

    Parameters
    ----------
    booster : Booster
    checkpoint : Checkpoint
        Where rounds are kept, and taken up from.
    first : int
        Trees that were there before.
    per_round : int
        Trees that make a round: callbacks and metrics come after each round.

    Attributes
    ----------
    grown : list of (FlatTree, LeafVectors)
    history : dict of str to list of float
        One number a round.
    interrupted : bool
        Whether Ctrl-C ended it.
    """

    def __init__(
        self, booster: Booster, checkpoint: Checkpoint, *, first: int = 0, per_round: int = 1
    ) -> None:
        self._booster = booster
        self._checkpoint = checkpoint
        self._kept = 0
        self._first = first
        self._per_round = per_round
        self._largest_score = 0.0
        self.grown: list[tuple[FlatTree, LeafVectors]] = []
        self.history: dict[str, list[float]] = {}
        self.interrupted = False

    @property
    def n_rounds(self) -> int:
        """Rounds that are complete."""
        return len(self.grown) // self._per_round

    def take_up(self, n_rounds: int, n_labels: int, replay: Replay, stopper: EarlyStopping | None) -> int:
        """Go on from the rounds of the checkpoint; how many there shall be in the end.

        That is ``n_rounds``, or fewer where the checkpoint's history says that ``stopper`` ended the training.
        """
        checkpoint = self._checkpoint
        tensors = checkpoint.part("trees")
        if not tensors:
            return n_rounds
        with checkpoint.refusing():
            grown = unpack_trees(tensors, self._booster.n_features, n_labels)
            kept = len(grown) // self._per_round
            if any(len(values) != kept for values in checkpoint.history.values()):
                raise ValueError("its history has another length than its trees")
            for _, vectors in grown:
                self._bound_scores(vectors)
        if stopper is not None:
            n_rounds = min(n_rounds, stopper.stops_at(checkpoint.history.get(stopper.metric, [])) or n_rounds)
        self._kept = kept
        taken = min(n_rounds, kept)
        self.grown = grown[: taken * self._per_round]
        self.history = {name: values[:taken] for name, values in checkpoint.history.items()}
        if taken < n_rounds:  # else nobody will ask for the scores
            for tree, vectors in self.grown:
                replay(tree, vectors)
        return n_rounds

    def run(
        self,
        n_rounds: int,
        measure: Measure,
        callbacks: Sequence[Callback],
        stopper: EarlyStopping | None = None,
    ) -> None:
        """Grow up to ``n_rounds``; Ctrl-C keeps the rounds that are complete.

        With a ``stopper``, only the rounds up to the best are left in the end; a checkpoint has them all.
        """
        if self.n_rounds < n_rounds:
            self._grow(n_rounds, measure, [*callbacks, *([] if stopper is None else [stopper])])
        if stopper is not None and self.history.get(stopper.metric):
            values = self.history[stopper.metric]
            self.keep(best_tree(values, higher_is_better=stopper.higher_is_better))

    def _grow(self, n_rounds: int, measure: Measure, callbacks: Sequence[Callback]) -> None:
        began = time.perf_counter()
        try:
            for tree, vectors in self._booster.trees(self._first + len(self.grown)):
                self._bound_scores(vectors)
                found = measure(tree, vectors)
                for name, value in (found or {}).items():
                    self.history.setdefault(name, []).append(value)
                self.grown.append((tree, vectors))  # last: a round counts when all of it is there
                if len(self.grown) % self._per_round:
                    continue
                before = self._first // self._per_round
                state = TrainingState(
                    before + self.n_rounds,
                    before + n_rounds,
                    len(tree.leaf_nodes),
                    self._booster.n_entries(),
                    time.perf_counter() - began,
                    self.history,
                )
                stop = [callback(state) for callback in callbacks]
                if self._booster.shards.agree(any(stop)) or self.n_rounds >= n_rounds:
                    break
                if self.n_rounds % self._checkpoint.every == 0:
                    self._write()
        except KeyboardInterrupt:
            complete = self.n_rounds
            if not complete:
                raise
            self.interrupted = True
            for values in self.history.values():
                del values[complete:]
            warnings.warn(
                f"interrupted: the model has the {complete} trees grown so far"
                if self._per_round == 1
                else f"interrupted: the model has the {complete} rounds grown so far",
                stacklevel=5,
            )
        self.keep(self.n_rounds)
        self._write()

    def _bound_scores(self, vectors: LeafVectors) -> None:
        """Refuse a tree with which scores could leave float32: infinities have no gradient, and no integer."""
        self._largest_score += float(np.abs(vectors.values).max(initial=0.0))
        if not self._largest_score <= LARGEST_SCORE:  # nor NaN
            raise ValueError(
                "The sum of the trees' leaf values exceeds the range of float32. A smaller 'learning_rate' or"
                " scaled targets keep it bounded."
            )

    def _write(self) -> None:
        """Keep the complete rounds in the checkpoint, if they are more than it has."""
        if not self._checkpoint.has_file:
            return  # packing all trees time and again would make many of them slow
        if self.n_rounds > self._kept and self._checkpoint.keep(
            "trees", pack_trees(self.grown), self.history
        ):
            self._kept = self.n_rounds

    def keep(self, n_rounds: int) -> None:
        """Drop trees beyond the first rounds."""
        del self.grown[n_rounds * self._per_round :]
