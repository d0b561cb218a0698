"""Callbacks: called after every tree, may stop the training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sparseleaf._spelling import current_name, warn_of_name


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

    Examples
    --------
    >>> from sparseleaf import SparseGBDTClassifier
    >>> from sparseleaf.data import make_xc
    >>> def stop_after_three(state):
    ...     return state.tree == 3
    >>> clf = SparseGBDTClassifier(n_trees=10).fit(*make_xc(200, 60, 10), callbacks=[stop_after_three])
    >>> clf.best_iteration_
    3
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
    """Stops when a metric has not become better for a number of trees.

    Parameters
    ----------
    metric : str
        A key of the history.
    rounds : int
        Trees to wait.
    higher_is_better : bool

    Examples
    --------
    >>> from sparseleaf.callbacks import EarlyStopping
    >>> EarlyStopping("valid precision@1", rounds=2).stops_at([0.1, 0.3, 0.2, 0.2, 0.4])
    4
    """

    def __init__(self, metric: str, rounds: int, *, higher_is_better: bool = True) -> None:
        if current_name(metric) != metric:
            warn_of_name(metric)
        self.metric = current_name(metric)
        self.rounds = rounds
        self.higher_is_better = higher_is_better

    def __call__(self, state: TrainingState) -> bool:
        """See :data:`Callback`."""
        values = state.history[self.metric]
        return len(values) - best_tree(values, higher_is_better=self.higher_is_better) >= self.rounds

    def stops_at(self, values: Sequence[float]) -> int | None:
        """After how many of these values it stopped; None if it did not."""
        sign = 1 if self.higher_is_better else -1
        best = 0
        for i, value in enumerate(values):
            if sign * value > sign * values[best]:
                best = i
            if i - best >= self.rounds:
                return i + 1
        return None


def best_tree(values: Sequence[float], *, higher_is_better: bool = True) -> int:
    """The smallest number of trees that reached the best value."""
    sign = 1 if higher_is_better else -1
    return 1 + max(range(len(values)), key=lambda i: (sign * values[i], -i))
