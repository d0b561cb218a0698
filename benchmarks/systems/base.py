"""What all systems share: the task, the time budget of a training run, and the description of a system."""

from __future__ import annotations

import importlib
import importlib.util
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

TOP = 5


class TooSlow(Exception):
    """Training would exceed the time limit by far; ``seconds`` is the projected training time."""

    def __init__(self, seconds: float, done: int, total: int, unit: str) -> None:
        super().__init__(f"{done} of {total:,} {unit}; all would take about {seconds:,.0f} s")
        self.seconds = seconds


class TimeBudget:
    """Training time of one system, checked after every round.

    ``may_stop``: stop at the end of the budget and evaluate the model trained so far (boosters and forests).
    Otherwise training is aborted as soon as the projected time is twice the budget.
    """

    def __init__(self, seconds: float, *, may_stop: bool) -> None:
        self.seconds = seconds
        self.may_stop = may_stop
        self.started = time.perf_counter()
        self.first = 0.0
        self.rounds: int | None = None
        self.planned_rounds: int | None = None

    def start(self) -> None:
        self.started = time.perf_counter()

    def after_round(self, done: int, total: int) -> bool:
        """Whether to stop after ``done`` of ``total`` rounds."""
        self.rounds, self.planned_rounds = done, total
        if not self.may_stop:
            self.check_projection(done, total, "rounds")
            return False
        return time.perf_counter() - self.started > self.seconds

    def check_projection(self, done: int, total: int, unit: str) -> None:
        """Raise `TooSlow` when the extrapolated training time exceeds twice the budget.

        The first step includes one-off work (binning, allocation), so it is not extrapolated.
        """
        elapsed = time.perf_counter() - self.started
        if done == 1:
            self.first = elapsed
            return
        projected = self.first + (elapsed - self.first) / (done - 1) * (total - 1)
        if projected > 2 * self.seconds and (done >= 4 or elapsed > self.seconds / 2):
            raise TooSlow(projected, done, total, unit)


@dataclass(frozen=True)
class Task:
    """What a system is trained for: the kind of target, the suite's settings and the system's overrides."""

    kind: str
    settings: dict[str, Any]
    overrides: dict[str, Any]
    threads: int
    budget: TimeBudget

    @property
    def n_trees(self) -> int:
        return int(self.settings["n_trees"])


@dataclass(frozen=True)
class System:
    """A system of the benchmark page.

    ``requires``: modules ("m" or "m:name") and programs ("!p"). ``packages``: distributions whose version is shown.
    ``note``: settings in words. ``baseline``: a simple method without a training algorithm, not drawn in plots.
    """

    name: str
    requires: str
    kinds: tuple[str, ...]
    make: Callable[[Task], Any]
    note: str
    packages: tuple[str, ...] = ("sparseleaf",)
    baseline: bool = False

    @property
    def ours(self) -> bool:
        return self.packages == ("sparseleaf",)

    def missing(self) -> str | None:
        """Why the system cannot run in this environment, or None."""
        for requirement in self.requires.split():
            module, _, name = requirement.partition(":")
            if requirement.startswith("!"):
                if program(requirement[1:]) is None:
                    return f"{requirement[1:]} is not on the path"
            elif not _importable(module):
                return f"{module} is not installed"
            elif name and name not in importlib.import_module(module).__all__:
                return f"{module} has no {name}"
        return None


def program(name: str) -> str | None:
    """Path of a program: beside the Python interpreter, where pip installs it, or on PATH."""
    return shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)


def _importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the parent package is missing
        return False


def top(scores: Any) -> Any:
    """The five highest-scoring columns of every row, best first; ties go to the lower column."""
    scores = np.asarray(scores)
    if scores.shape[1] <= TOP:
        ids = np.argsort(-scores, axis=1, kind="stable")
        return np.pad(ids, ((0, 0), (0, TOP - ids.shape[1])), constant_values=-1)
    part = np.sort(np.argpartition(-scores, TOP - 1, axis=1)[:, :TOP], axis=1)
    order = np.argsort(-np.take_along_axis(scores, part, axis=1), axis=1, kind="stable")
    return np.take_along_axis(part, order, axis=1)


def dense(X: Any) -> Any:
    return X.toarray() if sp.issparse(X) else X


def folder_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
