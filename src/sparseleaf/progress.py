"""Progress reporting: always through ``logging``, and on stderr depending on ``verbose``.

Long operations are wrapped in ``with phase("binning"):``. Every phase is logged to the logger "sparseleaf" with its
duration. :func:`reporting` sets the verbosity once per call of ``fit`` in a context variable, so that it is not passed
through all functions: 0 prints nothing, 1 shows a progress bar on a terminal, 2 prints one line per phase and tree.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from sparseleaf._printable import printable
from sparseleaf.callbacks import Callback, TrainingState

logger = logging.getLogger("sparseleaf")
logger.addHandler(logging.NullHandler())

Advance = Callable[[int, str], None]
"""Called with the number of completed steps and a text about the latest one."""


@dataclass(frozen=True)
class _Shown:
    """Reporting state of the current call.

    Attributes
    ----------
    verbose : int
    path : tuple of str
        Active phases, the outermost first.
    bar : Progress or None
        Progress bar on the terminal; nested phases are further lines.
    """

    verbose: int = 0
    path: tuple[str, ...] = ()
    bar: Progress | None = None


_NOTHING = _Shown()
_shown: ContextVar[_Shown] = ContextVar("sparseleaf_progress", default=_NOTHING)


@contextmanager
def reporting(verbose: int) -> Iterator[None]:
    """Set the verbosity of the phases inside."""
    with _showing(replace(_shown.get(), verbose=verbose)):
        yield


@contextmanager
def phase(name: str, total: int | None = None) -> Iterator[Advance]:
    """Report start and end of a phase; ``total`` is the number of steps, if known."""
    outer = _shown.get()
    path = (*outer.path, name)
    with _terminal(outer) as bar:
        task = None if bar is None else bar.add_task(escape(name), total=total, text="")

        def advance(done: int, text: str) -> None:
            if bar is not None and task is not None:
                bar.update(task, completed=done, text=escape(printable(text)))

        logger.debug("%s: started", "/".join(path))
        began, outcome = time.perf_counter(), "stopped after "
        try:
            with _showing(_Shown(outer.verbose, path, bar)):
                yield advance
            outcome = ""
        finally:
            seconds = time.perf_counter() - began
            logger.info("%s: %s%.2f s", "/".join(path), outcome, seconds)
            if bar is not None and task is not None:
                bar.remove_task(task)
            if outer.verbose >= 2:
                print(f"{'/'.join(path)}  {outcome}{seconds:.1f} s", file=sys.stderr, flush=True)


def say(text: str, verbose: int) -> None:
    """Log a line, and print it to stderr if ``verbose``."""
    logger.info("%s", text)
    if verbose:
        Console(stderr=True, highlight=False, soft_wrap=True).print(printable(text), markup=False)


@contextmanager
def training_progress(n_trees: int, verbose: int) -> Iterator[list[Callback]]:
    """The phase "trees": yields callbacks that show and log the progress."""
    with reporting(verbose), phase("trees", n_trees) as advance:

        def after_tree(state: TrainingState) -> None:
            advance(state.tree, _metrics(state))
            logger.debug("%s", _line(state))
            if verbose >= 2:
                print(printable(_line(state)), file=sys.stderr, flush=True)

        yield [after_tree]


@contextmanager
def _showing(shown: _Shown) -> Iterator[None]:
    token = _shown.set(shown)
    try:
        yield
    finally:
        _shown.reset(token)


@contextmanager
def _terminal(outer: _Shown) -> Iterator[Progress | None]:
    """The progress bar of the enclosing phase, or a new one for the outermost phase."""
    if outer.bar is not None and outer.verbose == 1:
        yield outer.bar  # which replaces sys.stderr; before rich 15, the replacement is no terminal
        return
    if outer.verbose != 1 or not sys.stderr.isatty():
        yield None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        _Counted(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[text]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield bar


class _Counted(MofNCompleteColumn):
    """Completed and total steps, if the total is known."""

    def render(self, task: Task) -> Text:
        """Render the column."""
        return Text("") if task.total is None else super().render(task)


def _metrics(state: TrainingState) -> str:
    return "  ".join(f"{name} {values[-1]:.2f}" for name, values in state.history.items())


def _line(state: TrainingState) -> str:
    return (
        f"tree {state.tree}/{state.n_trees}  {state.seconds:.1f} s  {state.n_leaves} leaves"
        f"  {state.n_entries:,} scores  {_metrics(state)}"
    )
