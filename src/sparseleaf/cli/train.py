"""``sparseleaf train``: XC files in, a model file out."""

from __future__ import annotations

import difflib
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from sparseleaf.cli._common import Data, Jobs, check_output, read_rows, readable_bytes

if TYPE_CHECKING:
    from sparseleaf.estimators.base import ModelClassifier

INTERRUPTED = 130


def train(
    data: Data,
    model: Annotated[Path, typer.Option("--model", "-m", help="Model file to write.")],
    method: Annotated[str, typer.Option(help="Which system trains: gbdt-sparse or ldsm.")] = "gbdt-sparse",
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", "-s", metavar="NAME=VALUE", help="Set a parameter, e.g. n_trees=200; may be repeated."
        ),
    ] = None,
    valid: Annotated[Path | None, typer.Option(help="Rows to measure on after every tree.")] = None,
    jobs: Jobs = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of all random draws.")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="A line a tree.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")] = False,
) -> None:
    """Train a model. Ctrl-C keeps the trees grown so far."""
    if verbose and quiet:
        raise ValueError("--verbose and --quiet exclude each other.")
    given = {"n_jobs": jobs, "random_state": seed, "verbose": 2 if verbose else 0 if quiet else None}
    estimator = make_estimator(method, settings or [], given)
    rounds = getattr(estimator, "early_stopping_rounds", None)
    if rounds is not None and valid is None:
        raise ValueError(f"early_stopping_rounds={rounds} needs --valid FILE to measure on.")
    check_output(model, "--model", [*data, *([valid] if valid else [])])

    from sparseleaf.data import load_xc

    X, Y = load_xc(data, n_jobs=jobs)
    eval_set = read_rows([valid], X.shape[1], jobs) if valid else None
    began = time.perf_counter()
    interrupted = _fit(estimator, X, Y, eval_set)
    seconds = time.perf_counter() - began
    estimator.save(model)
    if interrupted or not quiet:
        typer.echo(summary(estimator, seconds, model))
    if interrupted:
        raise typer.Exit(INTERRUPTED)


def make_estimator(method: str, settings: list[str], given: dict[str, Any]) -> Any:
    """The estimator of that method; ``given`` are parameters with options of their own (None: not given)."""
    from sparseleaf.estimators import ESTIMATORS
    from sparseleaf.estimators.parameters import parse_settings

    if method not in ESTIMATORS:
        near = difflib.get_close_matches(method, ESTIMATORS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(ESTIMATORS)}."
        raise ValueError(f"--method {method!r}: there is no such method; {hint}")
    kind = ESTIMATORS[method]
    values = parse_settings(settings, kind.parameter_table)
    for name, value in given.items():
        if value is not None and name in values:
            raise ValueError(f"--set {name}={values[name]}: is given by an option of its own too.")
        if value is not None:
            values[name] = value
    return kind(**{"verbose": 1, **values})


def summary(estimator: ModelClassifier, seconds: float, path: Path) -> str:
    """What came out, in one line."""
    text = (
        f"wrote {path}: {estimator.model_.n_trees} trees in {seconds:.1f} s,"
        f" {readable_bytes(path.stat().st_size)}"
    )
    for name, values in estimator.history_.items():
        best = max(values)
        text += f"; best {name} {best:.2f} with {values.index(best) + 1} trees"
    return text


def _fit(estimator: Any, X: Any, Y: Any, eval_set: tuple[Any, Any] | None) -> bool:
    """Train; whether Ctrl-C ended it early. ``fit`` then keeps its trees and warns."""
    interrupted = False
    show = warnings.showwarning

    def watch(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        nonlocal interrupted
        interrupted |= str(message).startswith("interrupted")
        show(message, category, filename, lineno, file, line)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)  # whatever the environment says: a model may hang on it
        warnings.showwarning = watch
        estimator.fit(X, Y, eval_set=eval_set)
    return interrupted
