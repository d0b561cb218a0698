"""Progress of long work, phase by phase: through ``logging`` always, on stderr where ``verbose`` asks for it.

Code that takes long is wrapped in ``with phase("binning"):``. Every phase is logged to the logger "sparseleaf" with the
seconds it took. How much is shown is set once per call of ``fit`` by :func:`reporting`, so that code far below it needs
no argument for it: nothing for 0, a bar on a terminal for 1, a line per phase and tree for 2.
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
"""Called with the number of steps done so far and a text about the latest."""


@dataclass(frozen=True)
class _Shown:
    """What the current call shows.

    Attributes
    ----------
    verbose : int
    path : tuple of str
        Phases that have begun, the outermost first.
    bar : Progress or None
        On the terminal; phases within phases are further lines of it.
    """

    verbose: int = 0
    path: tuple[str, ...] = ()
    bar: Progress | None = None


_NOTHING = _Shown()
_shown: ContextVar[_Shown] = ContextVar("sparseleaf_progress", default=_NOTHING)


@contextmanager
def reporting(verbose: int) -> Iterator[None]:
    """Show the phases inside as ``verbose`` says."""
    with _showing(replace(_shown.get(), verbose=verbose)):
        yield


@contextmanager
def phase(name: str, total: int | None = None) -> Iterator[Advance]:
    """Report that work of this name begins and ends; ``total`` is the number of steps, where they are counted."""
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
    """Log a line, and print it to stderr where the user wants to know."""
    logger.info("%s", text)
    if verbose:
        Console(stderr=True, highlight=False, soft_wrap=True).print(printable(text), markup=False)


@contextmanager
def training_progress(n_trees: int, verbose: int) -> Iterator[list[Callback]]:
    """The phase "trees": callbacks that show and log how training goes."""
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
    """The bars of the phases around this one, or new ones where this is the outermost."""
    if outer.verbose != 1 or not sys.stderr.isatty():
        yield None
        return
    if outer.bar is not None:
        yield outer.bar
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
    """Steps done of all, where they are counted."""

    def render(self, task: Task) -> Text:
        """See rich."""
        return Text("") if task.total is None else super().render(task)


def _metrics(state: TrainingState) -> str:
    return "  ".join(f"{name} {values[-1]:.2f}" for name, values in state.history.items())


def _line(state: TrainingState) -> str:
    return (
        f"tree {state.tree}/{state.n_trees}  {state.seconds:.1f} s  {state.n_leaves} leaves"
        f"  {state.n_entries:,} scores  {_metrics(state)}"
    )
