"""A run of training: trees as they come, what is measured after each, callbacks, and Ctrl-C."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from sparseleaf.callbacks import Callback, TrainingState

if TYPE_CHECKING:
    from sparseleaf.boosting.loop import Booster
    from sparseleaf.boosting.tree import FlatTree, LeafVectors

Measure = Callable[["FlatTree", "LeafVectors"], dict[str, float] | None]
"""Called with every new tree; answers metrics by name when a round is complete, None before."""


def no_metric(tree: FlatTree, vectors: LeafVectors) -> None:
    """Measure nothing."""


class TrainingRun:
    """Grows trees and keeps what has been trained so far.

    Parameters
    ----------
    booster : Booster
    first : int
        Trees that were there before.
    per_round : int
        Trees that make a round: callbacks and metrics come after each round.

    Attributes
    ----------
    grown : list of (FlatTree, LeafVectors)
    history : dict of str to list of float
        One number a round.
    """

    def __init__(self, booster: Booster, *, first: int = 0, per_round: int = 1) -> None:
        self._booster = booster
        self._first = first
        self._per_round = per_round
        self.grown: list[tuple[FlatTree, LeafVectors]] = []
        self.history: dict[str, list[float]] = {}

    @property
    def n_rounds(self) -> int:
        """Rounds that are complete."""
        return len(self.grown) // self._per_round

    def run(self, n_rounds: int, measure: Measure, callbacks: Sequence[Callback]) -> None:
        """Grow up to ``n_rounds``; Ctrl-C keeps the rounds that are complete."""
        if n_rounds < 1:
            return
        began = time.perf_counter()
        try:
            for tree, vectors in self._booster.trees(self._first):
                found = measure(tree, vectors)
                self.grown.append((tree, vectors))
                if len(self.grown) % self._per_round:
                    continue
                for name, value in (found or {}).items():
                    self.history.setdefault(name, []).append(value)
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
        except KeyboardInterrupt:
            complete = self.n_rounds
            if not complete:
                raise
            for values in self.history.values():
                del values[complete:]
            warnings.warn(
                f"interrupted: the model has the {complete} trees grown so far"
                if self._per_round == 1
                else f"interrupted: the model has the {complete} rounds grown so far",
                stacklevel=4,
            )
        self.keep(self.n_rounds)

    def keep(self, n_rounds: int) -> None:
        """Drop trees beyond the first rounds."""
        del self.grown[n_rounds * self._per_round :]
