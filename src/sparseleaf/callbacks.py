"""Callbacks, which are called after every tree and can stop training."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from sparseleaf._spelling import current_name, warn_of_name


@dataclass(frozen=True)
class TrainingState:
    """State of the training after a tree, passed to callbacks.

    Attributes
    ----------
    tree : int
        Number of trees grown so far.
    n_trees : int
        Number of trees to grow.
    n_leaves : int
        Number of leaves of the latest tree.
    n_entries : int
        Number of stored (row, label) scores, which determines the memory use.
    seconds : float
        Time since the start of training.
    history : dict of str to list of float
        Metrics after every tree, as in ``history_``.

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
"""Called after every tree; returns True to stop training."""


class TrainingCallback:
    """Base class of callbacks that also act before and after training.

    Examples
    --------
    >>> from contextlib import contextmanager
    >>> from sparseleaf import SparseGBDTClassifier
    >>> from sparseleaf.callbacks import TrainingCallback
    >>> from sparseleaf.data import make_xc
    >>> class Report(TrainingCallback):
    ...     @contextmanager
    ...     def training(self, estimator):
    ...         print("training", type(estimator).__name__)
    ...         yield
    ...         print("trained", estimator.best_iteration_, "trees")
    >>> clf = SparseGBDTClassifier(n_trees=3).fit(*make_xc(200, 60, 10), callbacks=[Report()])
    training SparseGBDTClassifier
    trained 3 trees
    """

    def __call__(self, state: TrainingState) -> bool | None:
        """Called after every tree; see :data:`Callback`."""
        return None

    @contextmanager
    def training(self, estimator: Any) -> Iterator[None]:
        """Surrounds training, in the process that leads it; afterwards the estimator is fitted.

        Parameters
        ----------
        estimator : estimator
            The estimator that is trained.
        """
        yield


ALWAYS: list[Callback] = []
"""Callbacks of every ``fit``, in addition to those passed to it. Autologging adds one."""


@contextmanager
def around(callbacks: Sequence[Callback], estimator: Any) -> Iterator[None]:
    """Enter :meth:`TrainingCallback.training` of the callbacks that have it."""
    with ExitStack() as stack:
        for callback in callbacks:
            if isinstance(callback, TrainingCallback):
                stack.enter_context(callback.training(estimator))
        yield


class EarlyStopping:
    """Stop training when a metric has not improved for a number of trees.

    Parameters
    ----------
    metric : str
        Key of ``history_``, such as "valid precision@1".
    rounds : int
        Number of trees without improvement after which training stops.
    higher_is_better : bool, default=True
        Whether a higher value of the metric is better.
    min_improvement : float, default=0.0
        Relative improvement over the best value before the last ``rounds`` trees that counts as one.

    Examples
    --------
    >>> from sparseleaf.callbacks import EarlyStopping
    >>> EarlyStopping("valid precision@1", rounds=2).stops_at([0.1, 0.3, 0.2, 0.2, 0.4])
    4
    """

    def __init__(
        self, metric: str, rounds: int, *, higher_is_better: bool = True, min_improvement: float = 0.0
    ) -> None:
        if current_name(metric) != metric:
            warn_of_name(metric)
        self.metric = current_name(metric)
        self.rounds = rounds
        self.higher_is_better = higher_is_better
        self.min_improvement = min_improvement

    def __call__(self, state: TrainingState) -> bool:
        """Whether to stop; see :data:`Callback`."""
        return self.stops(state.history[self.metric])

    def stops_at(self, values: Sequence[float]) -> int | None:
        """Number of trees after which training stops for these metric values; None if it does not.

        Parameters
        ----------
        values : sequence of float
            Metric after every tree.

        Returns
        -------
        n_trees : int or None
        """
        return next((n for n in range(1, len(values) + 1) if self.stops(values[:n])), None)

    def stops(self, values: Sequence[float]) -> bool:
        """Whether the last ``rounds`` of these metric values do not improve on those before them.

        Parameters
        ----------
        values : sequence of float
            Metric after every tree.

        Returns
        -------
        stops : bool
        """
        if len(values) <= self.rounds:
            return False
        best = max if self.higher_is_better else min
        before, last = best(values[: -self.rounds]), best(values[-self.rounds :])
        gain = last - before if self.higher_is_better else before - last
        return not gain > self.min_improvement * abs(before)


def best_tree(values: Sequence[float], *, higher_is_better: bool = True) -> int:
    """Smallest number of trees with the best value."""
    sign = 1 if higher_is_better else -1
    return 1 + max(range(len(values)), key=lambda i: (sign * values[i], -i))
