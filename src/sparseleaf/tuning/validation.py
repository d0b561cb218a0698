"""Splits of the rows into training and validation rows, by row or by query."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sparseleaf.tuning.problem import Problem
from sparseleaf.tuning.spaces import CLASSES, RANKING

if TYPE_CHECKING:
    from sparseleaf._arrays import Array

N_FOLDS = 5
REPEATS = 2
FEW_ROWS, MANY_ROWS = 500, 5_000
"""Below the first, cross-validation is repeated; from the second, one split is precise enough."""
ROWS_PER_QUERY = 10
"""What a query counts as in these limits."""
MOST_VALIDATION_ROWS = 50_000


@dataclass(frozen=True)
class Split:
    """Numbers of the training and validation rows."""

    train: Array
    valid: Array


@dataclass(frozen=True)
class Validation:
    """How trials are validated: splits of the rows, or none if the user has a validation set."""

    splits: tuple[Split, ...]
    text: str


@dataclass(frozen=True)
class _Units:
    """What is not divided between training and validation: rows, or queries.

    Attributes
    ----------
    of_row : ndarray of int
        Unit of each row.
    classes : ndarray of int, or None
        Class of each unit, to stratify by.
    noun : str
    """

    of_row: Array
    classes: Array | None
    noun: str

    @classmethod
    def of(cls, problem: Problem) -> _Units:
        if problem.task == RANKING:
            return cls(np.unique(np.asarray(problem.qid), return_inverse=True)[1], None, "queries")
        classes = None
        if problem.task == CLASSES:
            classes = np.unique(np.asarray(problem.y).ravel(), return_inverse=True)[1]
        return cls(np.arange(problem.n_rows), classes, "rows")

    @property
    def count(self) -> int:
        return int(self.of_row.max()) + 1

    def folds(self, n_folds: int, seed: int) -> list[Split]:
        """Folds of equal size: units in random order, class by class, are dealt out in turn.

        The only unit of a class is for training in all of them: a model cannot know a class that it has not seen.
        """
        order = np.random.default_rng(seed).permutation(self.count)
        if self.classes is not None:
            order = order[np.argsort(self.classes[order], kind="stable")]
        fold = np.empty(self.count, np.int64)
        fold[order] = np.arange(self.count) % n_folds
        if self.classes is not None:
            fold[np.bincount(self.classes)[self.classes] == 1] = -1
        of_row = fold[self.of_row]
        splits = [
            Split(np.flatnonzero(of_row != one), np.flatnonzero(of_row == one)) for one in range(n_folds)
        ]
        return [split for split in splits if len(split.valid)]


def make_validation(problem: Problem, cv: Any, seed: int) -> Validation:
    """Splits by the number of rows or queries, or as the user set them."""
    if problem.eval_set is not None:
        if cv is not None:
            raise ValueError("Either 'cv' or 'eval_set' may be given. Got both.")
        return Validation((), "the validation set")
    units = _Units.of(problem)
    if cv is None:
        validation = _automatic(units, seed)
    elif isinstance(cv, int | np.integer) and not isinstance(cv, bool):
        if not 2 <= cv <= units.count:
            raise ValueError(
                f"The 'cv' parameter must be from 2 to the number of {units.noun}, {units.count}. Got {cv} instead."
            )
        validation = Validation(tuple(units.folds(int(cv), seed)), f"{cv} folds of the {units.noun}")
    else:
        validation = Validation(tuple(_user_splits(problem, cv)), "the splits of 'cv'")
    if not validation.splits:
        raise ValueError("tune requires validation rows; every class has one row only, which training needs.")
    return validation


def _automatic(units: _Units, seed: int) -> Validation:
    size = units.count * (1 if units.noun == "rows" else ROWS_PER_QUERY)
    if units.count < 2:
        raise ValueError(f"tune requires at least 2 {units.noun}. Got {units.count} instead.")
    if size >= MANY_ROWS:
        n_folds = max(N_FOLDS, -(-len(units.of_row) // MOST_VALIDATION_ROWS))
        first = units.folds(n_folds, seed)[:1]
        return Validation(tuple(first), f"one split with {len(first[0].valid):,} validation rows")
    repeats = REPEATS if size < FEW_ROWS else 1
    n_folds = min(N_FOLDS, units.count)
    splits = [split for number in range(repeats) for split in units.folds(n_folds, seed + number)]
    text = f"{n_folds} folds of the {units.noun}" + (f", {repeats} times" if repeats > 1 else "")
    return Validation(tuple(splits), text)


def _user_splits(problem: Problem, cv: Any) -> Iterable[Split]:
    """Splits of a scikit-learn splitter, or pairs of row numbers."""
    splitter = hasattr(cv, "split") and not isinstance(cv, str)
    pairs = cv.split(np.zeros(problem.n_rows), problem.targets, problem.qid) if splitter else cv
    try:
        splits = [Split(np.asarray(train, np.int64), np.asarray(valid, np.int64)) for train, valid in pairs]
    except (TypeError, ValueError) as error:
        raise ValueError(
            "The 'cv' parameter must be an int >= 2, a splitter of scikit-learn or a list of (train, valid) row"
            f" numbers. Got {cv!r:.80} instead ({error})."
        ) from None
    for split in splits:
        rows = np.concatenate((split.train, split.valid))
        if not (len(split.train) and len(split.valid)) or rows.min() < 0 or rows.max() >= problem.n_rows:
            raise ValueError(
                f"The 'cv' parameter must have row numbers from 0 to {problem.n_rows - 1} for training and validation."
            )
        if len(np.intersect1d(split.train, split.valid)):
            raise ValueError("The 'cv' parameter must not have rows for both training and validation.")
    return splits
