"""Callbacks: called after every tree, may stop the training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class TrainingState:
    """What a callback sees after a tree.

    Attributes
    ----------
    tree : int
        Trees so far, from 1.
    n_trees : int
        Trees asked for.
    n_leaves : int
        Leaves of the newest tree.
    n_entries : int
        Stored (row, label) scores: what training memory grows with.
    seconds : float
        Since training began.
    history : dict of str to list of float
        Metrics after every tree.
    """

    tree: int
    n_trees: int
    n_leaves: int
    n_entries: int
    seconds: float
    history: dict[str, list[float]]


Callback = Callable[[TrainingState], bool | None]
"""Returns True to stop the training after this tree."""


class EarlyStopping:
    """Stops when a metric has not risen for a number of trees.

    Parameters
    ----------
    metric : str
        A key of the history.
    rounds : int
        Trees to wait.
    """

    def __init__(self, metric: str, rounds: int) -> None:
        self.metric = metric
        self.rounds = rounds

    def __call__(self, state: TrainingState) -> bool:
        """See :data:`Callback`."""
        return state.tree - best_tree(state.history[self.metric]) >= self.rounds


def best_tree(values: Sequence[float]) -> int:
    """The smallest number of trees that reached the highest value."""
    return 1 + max(range(len(values)), key=lambda i: (values[i], -i))
