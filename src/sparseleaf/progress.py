"""Progress of long work: a bar on a terminal, silence elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from sparseleaf.callbacks import Callback, TrainingState


def say(text: str, verbose: int) -> None:
    """Print a line to stderr where the user wants to know."""
    if verbose:
        Console(stderr=True, highlight=False, soft_wrap=True).print(text)


@contextmanager
def progress(what: str, total: int, verbose: int) -> Iterator[Callable[[int, str], None]]:
    """A function to call with what is done, and what to say of it; it draws a bar on a terminal."""
    if verbose < 1 or not sys.stderr.isatty():
        yield lambda done, text: None
        return
    columns = (
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda done, text: bar.update(task, completed=done, description=text)


@contextmanager
def training_progress(n_trees: int, verbose: int) -> Iterator[list[Callback]]:
    """Callbacks that show how training goes: nothing for 0, a bar on a terminal for 1, a line a tree for 2."""
    if verbose >= 2:
        yield [_print_tree]
        return
    with progress("trees", n_trees, verbose) as advance:
        yield [lambda state: advance(state.tree, _metrics(state))]


def _metrics(state: TrainingState) -> str:
    return "  ".join(f"{name} {values[-1]:.2f}" for name, values in state.history.items())


def _print_tree(state: TrainingState) -> None:
    print(
        f"tree {state.tree}/{state.n_trees}  {state.seconds:.1f} s  {state.n_leaves} leaves"
        f"  {state.n_entries:,} scores  {_metrics(state)}",
        file=sys.stderr,
        flush=True,
    )
