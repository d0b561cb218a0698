"""What all systems share: a task, a watch on the time, and how a system is described."""

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
    """The time limit would be passed by far; ``seconds`` is what all of the training would take."""

    def __init__(self, seconds: float, done: int, wanted: int, what: str) -> None:
        super().__init__(f"{done} of {wanted:,} {what}; all would take about {seconds:,.0f} s")
        self.seconds = seconds


class Pace:
    """Watches a training that goes in steps: it may be stopped when its time is up, or is given up early.

    ``may_stop``: a booster or forest with fewer rounds is still a model, and is measured as that.
    """

    def __init__(self, seconds: float, *, may_stop: bool) -> None:
        self.seconds = seconds
        self.may_stop = may_stop
        self.began = time.perf_counter()
        self.first = 0.0
        self.rounds: int | None = None
        self.wanted: int | None = None

    def begin(self) -> None:
        self.began = time.perf_counter()

    def after(self, done: int, wanted: int) -> bool:
        """Called after ``done`` of ``wanted`` rounds. Whether training shall stop."""
        self.rounds, self.wanted = done, wanted
        if not self.may_stop:
            self.check(done, wanted, "rounds")
            return False
        return time.perf_counter() - self.began > self.seconds

    def check(self, done: int, wanted: int, what: str) -> None:
        """Give up where it is clear from a part that the whole takes twice the time there is.

        The first step, with all that is done but once, says nothing of the others.
        """
        passed = time.perf_counter() - self.began
        if done == 1:
            self.first = passed
            return
        whole = self.first + (passed - self.first) / (done - 1) * (wanted - 1)
        if whole > 2 * self.seconds and (done >= 4 or passed > self.seconds / 2):
            raise TooSlow(whole, done, wanted, what)


@dataclass(frozen=True)
class Task:
    """What a system is asked to do."""

    kind: str
    settings: dict[str, Any]
    own: dict[str, Any]
    threads: int
    pace: Pace

    @property
    def n_trees(self) -> int:
        return int(self.settings["n_trees"])


@dataclass(frozen=True)
class System:
    """``needs``: modules ("m" or "m:name") and programs ("!p") that must be there; ``note``: settings in words."""

    name: str
    needs: str
    kinds: tuple[str, ...]
    make: Callable[[Task], Any]
    note: str
    ours: bool = False

    def missing(self) -> str | None:
        """Why it cannot be run here."""
        for need in self.needs.split():
            module, _, name = need.partition(":")
            if need.startswith("!"):
                if program(need[1:]) is None:
                    return f"there is no {need[1:]}"
            elif not _found(module):
                return f"{module} is not installed"
            elif name and name not in importlib.import_module(module).__all__:
                return f"{module} has no {name}"
        return None


def program(name: str) -> str | None:
    """Where a program is: beside Python, where pip puts it, or on the path."""
    return shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)


def _found(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # its package is not there
        return False


def top(scores: Any) -> Any:
    """The five best columns of every row, best first; ties go to the lower column."""
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
