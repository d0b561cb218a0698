"""Training and validation of a trial, rung by rung.

A rung trains the trial up to a number of trees on every split or, where the number of trees is automatic, completely on
the first splits. The next rung resumes from the checkpoints of this one, or adds splits: a trial that survives all
rungs grows no tree twice, and has the models of training in one go.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from sparseleaf.data.rows import take_rows
from sparseleaf.features import TextVectorizer
from sparseleaf.metrics import scorers
from sparseleaf.training.validation import VALID
from sparseleaf.tuning.problem import Metric, Problem, eval_metrics, history_metrics
from sparseleaf.tuning.spaces import VECTORIZER

if TYPE_CHECKING:
    from sparseleaf.callbacks import TrainingState
    from sparseleaf.estimators.base import ModelEstimator
    from sparseleaf.tuning.validation import Split, Validation

PATIENCE = 30
"""Trees without improvement after which the training of a split stops, for the default learning rate."""

EVERY = 100
"""Trees between two checkpoints within a rung; each one packs all trees."""

EARLY_STOPPING = "early_stopping_rounds"


class OutOfTime(Exception):
    """The time budget ended during a trial."""


@dataclass(frozen=True)
class TrialData:
    """What all trials share: rows, splits and metric."""

    problem: Problem
    validation: Validation
    metric: Metric


@dataclass(frozen=True)
class Rung:
    """A trial to train up to a number of trees.

    Attributes
    ----------
    kind : estimator class
    settings : dict
        Parameters by name; those of the text vectorizer as ``vectorizer__name``.
    n_trees : int or None
        Number of trees; None for the default of the estimator.
    patience : int or None
        Number of trees without improvement after which training stops; None for no early stopping.
    n_jobs : int or None
    n_splits : int or None
        Number of splits; None for all.
    earlier : tuple of float
        Values of the first splits, which are not trained again.
    """

    kind: type[ModelEstimator]
    settings: Mapping[str, Any]
    n_trees: int | None
    patience: int | None = None
    n_jobs: int | None = None
    n_splits: int | None = None
    earlier: tuple[float, ...] = ()

    def estimator(self, metric: Metric) -> Any:
        """The unfitted estimator of the rung."""
        settings = {**self.settings, "n_jobs": self.n_jobs}
        if metric.name in eval_metrics(self.kind):
            settings["eval_metric"] = metric.name
        if self.n_trees is not None:
            settings["n_trees"] = self.n_trees
        if self.patience is not None:
            settings.setdefault(EARLY_STOPPING, self.patience)
        return make_estimator(self.kind, settings)


@dataclass(frozen=True)
class RungResult:
    """Validation of a rung.

    Attributes
    ----------
    value : float
        Metric, the mean over the splits.
    n_trees : int or None
        Number of trees to refit with: that of the best value with early stopping; None for the default.
    stopped : bool
        Whether all splits stopped early, so that more trees would change nothing.
    values : tuple of float
        Of every split, if the number of trees is the default.
    """

    value: float
    n_trees: int | None
    stopped: bool
    values: tuple[float, ...] = ()


def make_estimator(kind: type[ModelEstimator], settings: Mapping[str, Any]) -> Any:
    """An estimator from flat settings; ``vectorizer__name`` are those of its vectorizer."""
    nested = {
        name.removeprefix(VECTORIZER): value
        for name, value in settings.items()
        if name.startswith(VECTORIZER)
    }
    plain = {name: value for name, value in settings.items() if not name.startswith(VECTORIZER)}
    if nested:
        base = plain.get("vectorizer")
        plain["vectorizer"] = (TextVectorizer() if base is None else clone(base)).set_params(**nested)
    return kind.from_settings(plain)


def train_rung(data: TrialData, rung: Rung, folder: Path, seconds: float | None) -> RungResult:
    """Train and validate a rung on its splits, resuming from the checkpoints in ``folder``.

    Raises :class:`OutOfTime` when ``seconds`` have passed, and KeyboardInterrupt after Ctrl-C.
    """
    deadline = Deadline(seconds)
    outcomes = []
    first = len(rung.earlier)
    for number, rows in enumerate(rows_of_splits(data, first, rung.n_splits), start=first):
        deadline.check()
        estimator = rung.estimator(data.metric)
        place = {"checkpoint": folder / f"split-{number}.checkpoint", "checkpoint_every": EVERY}
        fit(estimator, rows.train, rows.valid, callbacks=[deadline], **place)
        if estimator.interrupted_:
            raise KeyboardInterrupt
        outcomes.append(_Outcome.of(estimator, rows.valid, data.metric))
    return _combine(outcomes, rung, data.metric)


class Deadline:
    """Callback that ends a training when the time is over; what it has grown is in its checkpoint."""

    def __init__(self, seconds: float | None) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds

    def check(self) -> None:
        """Raise OutOfTime if the time is over."""
        if self._end is not None and time.monotonic() > self._end:
            raise OutOfTime

    def __call__(self, state: TrainingState) -> bool:
        """See :data:`~sparseleaf.callbacks.Callback`."""
        self.check()
        return False


# --- rows of a split


@dataclass(frozen=True)
class Rows:
    """Arguments of ``fit``."""

    X: Any
    y: Any
    qid: Any = None
    sample_weight: Any = None

    @property
    def eval_set(self) -> tuple[Any, ...]:
        """As the ``eval_set`` of ``fit``."""
        return (self.X, self.y) if self.qid is None else (self.X, self.y, self.qid)


@dataclass(frozen=True)
class SplitRows:
    """Training and validation rows of a split."""

    train: Rows
    valid: Rows


def _rows_of_split(problem: Problem, split: Split) -> SplitRows:
    """The rows of a split, copied from those of the problem."""
    parts = (problem.X, problem.targets, problem.qid, problem.sample_weight)
    train, valid = (
        [None if part is None else take_rows(_indexable(part), numbers) for part in parts]
        for numbers in (split.train, split.valid)
    )
    return SplitRows(Rows(*train), Rows(*valid))


def _indexable(rows: Any) -> Any:
    """Rows that can be taken by number: tuples and pandas columns of texts as they are, others as an array."""
    plain = hasattr(rows, "shape") or isinstance(rows, list | tuple)
    return rows if plain else np.asarray(rows)


def rows_of_splits(data: TrialData, first: int = 0, end: int | None = None) -> Iterator[SplitRows]:
    """Training and validation rows of the splits from ``first`` to ``end``, one at a time in memory."""
    problem = data.problem
    if problem.eval_set is not None:
        train = Rows(problem.X, problem.y, problem.qid, problem.sample_weight)
        yield SplitRows(train, Rows(*problem.eval_set))
        return
    for split in data.validation.splits[first:end]:
        yield _rows_of_split(problem, split)


def fit(estimator: Any, rows: Rows, valid: Rows | None, **options: Any) -> Any:
    """Fit an estimator with the arguments that it has."""
    arguments: dict[str, Any] = {"qid": rows.qid, "sample_weight": rows.sample_weight}
    arguments = {name: value for name, value in arguments.items() if value is not None}
    if valid is not None:
        arguments["eval_set"] = valid.eval_set
    for name in arguments:
        if not has_fit_parameter(estimator, name):
            raise ValueError(f"The {name!r} parameter must be None for {type(estimator).__name__}.")
    return estimator.fit(rows.X, rows.y, **arguments, **options)


# --- validation


@dataclass(frozen=True)
class _Outcome:
    """Validation of one split: the metric after every tree, or of the complete model."""

    n_grown: int
    best_iteration: int
    curve: list[float] = field(default_factory=list)
    score: float = float("nan")

    @classmethod
    def of(cls, estimator: Any, valid: Rows, metric: Metric) -> _Outcome:
        curves = list(estimator.history_.values())
        n_grown = len(curves[0]) if curves else estimator.best_iteration_
        if metric.name in history_metrics(type(estimator)):
            return cls(n_grown, estimator.best_iteration_, list(estimator.history_[f"{VALID} {metric.name}"]))
        score = scorers[metric.name](estimator, valid.X, valid.y)
        return cls(n_grown, estimator.best_iteration_, score=score)

    @property
    def value(self) -> float:
        """Metric of the model, which may lack the last trees."""
        return self.curve[self.best_iteration - 1] if self.curve else self.score


def _combine(outcomes: Sequence[_Outcome], rung: Rung, metric: Metric) -> RungResult:
    if rung.n_trees is None:
        values = (*rung.earlier, *(one.value for one in outcomes))
        return RungResult(float(np.mean(values)), None, False, values)
    early = rung.patience is not None
    stopped = all(one.n_grown < rung.n_trees for one in outcomes)
    if not outcomes[0].curve:
        value = float(np.mean([one.score for one in outcomes]))
        best = max(1, round(float(np.mean([one.best_iteration for one in outcomes]))))
        return RungResult(value, best if early else rung.n_trees, stopped)
    # one number of trees for all splits, as the refitted model has: the best of the mean curve; splits that stopped
    # earlier keep their last value
    longest = max(len(one.curve) for one in outcomes)
    mean = np.mean([np.pad(one.curve, (0, longest - len(one.curve)), "edge") for one in outcomes], axis=0)
    at = metric.best(mean.tolist()) if early else longest - 1
    return RungResult(float(mean[at]), at + 1 if early else rung.n_trees, stopped)
