"""``sparseleaf train``: data files in, a model file out."""

from __future__ import annotations

import difflib
import json
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparseleaf._files import AnyPath, as_path
from sparseleaf._printable import printable
from sparseleaf.cli._common import (
    AUTO,
    Data,
    DataFormat,
    Jobs,
    PathOrURL,
    Qid,
    Reading,
    Target,
    Weight,
    check_output,
    read_rows,
    readable_bytes,
    save_model,
)

if TYPE_CHECKING:
    from sparseleaf.data import Rows
    from sparseleaf.estimators.base import ModelEstimator

INTERRUPTED = 130


class EngineName(StrEnum):
    """Where training runs."""

    LOCAL = "local"
    MPI = "mpi"
    DASK = "dask"


class Layout(StrEnum):
    """What workers hold."""

    ROWS = "rows"
    FEATURES = "features"


class Task(StrEnum):
    """What a model is for."""

    AUTO = "auto"
    CLASSIFICATION = "classification"
    REGRESSION = "regression"


def _show_parameters(method: str | None) -> None:
    """List the parameters of a method, as they are declared, and end."""
    if method is None:
        return
    from sparseleaf.estimators import ESTIMATORS
    from sparseleaf.estimators.parameters import listed

    _check_method(method)
    for kind in ESTIMATORS[method].values():
        typer.echo(f"{kind.__name__}\n\n{listed(kind.parameter_table)}\n")
    raise typer.Exit


def train(
    data: Data,
    model: Annotated[PathOrURL, typer.Option("--model", "-m", help="Model file to write.", parser=as_path)],
    method: Annotated[
        str, typer.Option(help="Which system trains: gbdt-sparse, gbdt-mo, forest, ldsm or rank.")
    ] = "gbdt-sparse",
    task: Annotated[
        Task, typer.Option(help="For gbdt-mo: numbers are regression, all else classes, unless told.")
    ] = Task.AUTO,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", "-s", metavar="NAME=VALUE", help="Set a parameter, e.g. n_trees=200; may be repeated."
        ),
    ] = None,
    parameters: Annotated[
        str | None,
        typer.Option(
            metavar="METHOD",
            help="List the parameters of a method, which --set takes, and end.",
            callback=_show_parameters,
            is_eager=True,
        ),
    ] = None,
    target: Target = None,
    format_: DataFormat = AUTO,
    qid: Qid = None,
    weight: Weight = None,
    valid: Annotated[
        PathOrURL | None, typer.Option(help="Rows to measure on after every tree.", parser=as_path)
    ] = None,
    checkpoint: Annotated[
        PathOrURL | None,
        typer.Option(
            metavar="FILE",
            help="Keep the trees so far in this file; the same command goes on from it.",
            parser=as_path,
        ),
    ] = None,
    checkpoint_every: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Trees between two checkpoints, 10 by default.")
    ] = None,
    engine: Annotated[
        EngineName,
        typer.Option(help="Where to train: here, in the ranks of an MPI job, or in Dask's workers."),
    ] = EngineName.LOCAL,
    layout: Annotated[
        Layout, typer.Option(help="What workers hold: some rows, or all rows of some features.")
    ] = Layout.ROWS,
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Dask's scheduler; without one, a cluster on this machine."),
    ] = None,
    profile: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write bytes and seconds of every tree and worker, as JSON (mpi and dask)."
        ),
    ] = None,
    jobs: Jobs = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of all random draws.")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="A line a tree.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")] = False,
) -> None:
    """Train a model. Ctrl-C keeps the trees grown so far.

    With --checkpoint, the same command goes on where it was cut short. Files may be elsewhere: s3://…, hdfs://… and
    what else fsspec knows, with the extra "remote".
    """
    if checkpoint_every is not None and checkpoint is None:
        raise ValueError(f"--checkpoint-every {checkpoint_every}: wanted --checkpoint FILE with it.")
    if verbose and quiet:
        raise ValueError("--verbose and --quiet exclude each other.")
    given = {"n_jobs": jobs, "random_state": seed, "verbose": 2 if verbose else 0 if quiet else None}
    candidates = make_estimators(method, task, settings or [], given)
    any_estimator: Any = next(iter(candidates.values()))
    rounds = getattr(any_estimator, "early_stopping_rounds", None)
    if rounds is not None and valid is None:
        raise ValueError(f"early_stopping_rounds={rounds} needs --valid FILE to measure on.")
    inputs = [*data, *([valid] if valid else [])]
    check_output(model, "--model", inputs)
    keeping: dict[str, Any] = {}
    if checkpoint is not None:
        if checkpoint == model:
            raise ValueError(f"--checkpoint {checkpoint}: is the model file too; wanted another.")
        check_output(checkpoint, "--checkpoint", inputs)
        keeping["checkpoint"] = checkpoint
        if checkpoint_every is not None:
            keeping["checkpoint_every"] = checkpoint_every

    if scheduler is not None and engine is not EngineName.DASK:
        raise ValueError(f"--scheduler {scheduler}: is Dask's; wanted --engine dask.")
    if profile is not None:
        if engine is EngineName.LOCAL:
            raise ValueError(f"--profile {profile}: is of several workers; wanted --engine mpi or dask.")
        check_output(profile, "--profile", data)
    how = Reading.of(format_, target, jobs, qid, weight)
    if engine is EngineName.LOCAL:
        from sparseleaf.data import Columns

        rows = read_rows(any_estimator, data, how)
        watched = read_rows(any_estimator, [valid], how, Columns.of_rows(rows.X)) if valid else None
        estimator = fitting(candidates, rows.y)
        where: dict[str, Any] = {}
    else:
        from sparseleaf.cli import _workers

        open_workers = _workers.mpi if engine is EngineName.MPI else _workers.dask
        found = open_workers(candidates, data, valid, how, layout.value, scheduler)
        estimator, rows, watched, where = found.estimator, found.rows, found.watched, found.where
        quiet = quiet or not found.leads
    began = time.perf_counter()
    _fit(estimator, rows, watched, keeping | where)
    seconds = time.perf_counter() - began
    if engine is not EngineName.LOCAL and not found.leads:
        return
    save_model(estimator, model)
    if profile is not None:
        profile.write_text(json.dumps(where["engine"].profile, indent=1))
    if estimator.interrupted_ or not quiet:
        typer.echo(printable(summary(estimator, seconds, model)))
    if estimator.interrupted_:
        raise typer.Exit(INTERRUPTED)


def make_estimators(
    method: str, task: Task, settings: list[str], given: dict[str, Any]
) -> dict[str, ModelEstimator]:
    """Estimators of that method by task, with their settings; those that cannot take them are left out.

    ``given`` are parameters with options of their own (None: not given).
    """
    from sparseleaf.estimators import ESTIMATORS

    _check_method(method)
    kinds = ESTIMATORS[method]
    if any(kind.composite for kind in kinds.values()):
        raise ValueError(
            f"--method {method!r}: train its members one by one, then join them with sparseleaf {method}."
        )
    if task is not Task.AUTO:
        if task.value not in kinds:
            raise ValueError(f"--task {task.value}: {method} is for {' and '.join(kinds)}.")
        kinds = {task.value: kinds[task.value]}
    found, errors = {}, []
    for name, kind in kinds.items():
        try:
            found[name] = _make(kind, settings, given)
        except ValueError as error:
            errors.append(error)
    if not found:
        raise errors[0]
    return found


def _check_method(method: str) -> None:
    from sparseleaf.estimators import ESTIMATORS

    if method not in ESTIMATORS:
        near = difflib.get_close_matches(method, ESTIMATORS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(ESTIMATORS)}."
        raise ValueError(f"--method {method!r}: there is no such method; {hint}")


def _make(kind: type[ModelEstimator], settings: list[str], given: dict[str, Any]) -> ModelEstimator:
    from sparseleaf.estimators.parameters import parse_settings

    values = parse_settings(settings, kind.parameter_table)
    for name, value in given.items():
        if value is not None and name in values:
            raise ValueError(f"--set {name}={values[name]}: is given by an option of its own too.")
        if value is not None:
            values[name] = value
    return kind.from_settings({"verbose": 1, **values})


def fitting(candidates: dict[str, ModelEstimator], Y: Any) -> Any:
    """The estimator for such targets: numbers are regression, labels and text are classes."""
    if len(candidates) == 1:
        (estimator,) = candidates.values()
        if "classification" in candidates:
            _refuse_numbers(estimator, Y)
        return estimator
    if hasattr(Y, "columns"):
        numbers = all(kind.kind in "fiu" for kind in Y.dtypes)
    else:
        numbers = getattr(getattr(Y, "dtype", None), "kind", "O") in "fiu" and not hasattr(Y, "indptr")
    return candidates["regression" if numbers else "classification"]


def _refuse_numbers(classifier: ModelEstimator, Y: Any) -> None:
    """Raise ValueError for targets that are no classes and no labels, before the classifier does in other words."""
    import numpy as np

    values = np.asarray(Y) if hasattr(Y, "dtype") or hasattr(Y, "columns") else np.empty(0)
    if values.dtype.kind not in "fiu":
        return
    known = values[~np.isnan(values)]
    wrong = known[(known != 0) & (known != 1)] if values.ndim == 2 else known[known != np.trunc(known)]
    if len(wrong):
        raise ValueError(
            f"the target holds numbers, such as {wrong[0]:g}, and {classifier.method} predicts classes and labels. For"
            f" regression, use --method gbdt-mo{' --task regression' if classifier.method == 'gbdt-mo' else ''}."
        )


def summary(estimator: Any, seconds: float, path: AnyPath) -> str:
    """What came out, in one line."""
    from sparseleaf.estimators.evaluation import higher_is_better

    text = (
        f"wrote {path}: {estimator.model_.n_trees} trees in {seconds:.1f} s,"
        f" {readable_bytes(path.stat().st_size)}"
    )
    for name, values in estimator.history_.items():
        best = max(values) if higher_is_better(name.split()[-1]) else min(values)
        text += f"; best {name} {best:.4g} with {values.index(best) + 1} trees"
    return text


def _fit(estimator: Any, rows: Rows, watched: Rows | None, more: dict[str, Any]) -> None:
    """Train; ``more`` are further arguments of ``fit``, of which an estimator may not know all."""
    from sklearn.utils.validation import has_fit_parameter

    eval_set: tuple[Any, ...] | None = None if watched is None else (watched.X, watched.y)
    arguments = {name: value for name, value in more.items() if has_fit_parameter(estimator, name)}
    if has_fit_parameter(estimator, "qid"):
        files = not hasattr(rows.X, "shape")  # that workers read, queries and all
        if (rows.qid is None and not files) or (watched is not None and watched.qid is None):
            raise ValueError("rank: found rows without queries; wanted svmlight with qid:, or --qid COLUMN.")
        arguments["qid"] = rows.qid
        eval_set = None if watched is None else (watched.X, watched.y, watched.qid)
    if rows.sample_weight is not None:
        if not has_fit_parameter(estimator, "sample_weight"):
            raise ValueError(f"--weight: {estimator.method} takes no weights of rows.")
        arguments["sample_weight"] = rows.sample_weight
    estimator.fit(rows.X, rows.y, eval_set=eval_set, **arguments)
