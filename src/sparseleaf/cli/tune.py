"""``sparseleaf tune``: choose an estimator and its parameters, and train the model."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparseleaf._files import as_path
from sparseleaf._printable import printable
from sparseleaf.cli._common import (
    AUTO,
    AsJson,
    Data,
    DataFormat,
    Jobs,
    Labels,
    LabelSeparator,
    NewModel,
    PathOrURL,
    Qid,
    Quiet,
    Reading,
    Seed,
    Settings,
    Target,
    TextWeights,
    Weight,
    check_output,
    columns_of,
    names_of,
    read_rows,
    readable_bytes,
    save_model,
)
from sparseleaf.cli.train import INTERRUPTED, Task, are_numbers, parse_values, text_weights

if TYPE_CHECKING:
    from sparseleaf._files import AnyPath
    from sparseleaf.data import Rows
    from sparseleaf.estimators.base import ModelEstimator
    from sparseleaf.tuning import TuneResult


class Where(StrEnum):
    """Where trials run."""

    LOCAL = "local"
    DASK = "dask"


def tune(
    data: Data,
    model: NewModel,
    method: Annotated[
        str,
        typer.Option(
            help="Candidates: forest, gbdt-sparse, ldsm, gbdt-mo, multi-forest or rank, several as forest,ldsm. auto:"
            " by the task and the form of the features; of these, those that have --metric and the parameters of"
            " --set.",
        ),
    ] = AUTO,
    task: Annotated[
        Task,
        typer.Option(help="Task; auto: ranking with queries, regression for numbers, else classification."),
    ] = Task.AUTO,
    n_trials: Annotated[
        int | None,
        typer.Option("--trials", min=1, metavar="N", help="Number of trials of the study (default 50)."),
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(min=0.001, metavar="SECONDS", help="Time for the search.")
    ] = None,
    metric: Annotated[
        str | None, typer.Option(metavar="NAME", help="Metric, such as ndcg@5, rmse or accuracy.")
    ] = None,
    folds: Annotated[
        int | None,
        typer.Option(
            min=2, metavar="K", help="Cross-validation with K folds (default: by the number of rows)."
        ),
    ] = None,
    valid: Annotated[
        PathOrURL | None,
        typer.Option(metavar="FILE", help="Validation data, in place of --folds.", parser=as_path),
    ] = None,
    study: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="SQLite file with the trials; if it exists, the study continues."),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Plot of the trials and parameter importances: .png, .svg or .pdf."
        ),
    ] = None,
    blend: Annotated[
        bool, typer.Option("--blend", help="Blend the best trials, if that is better (multi-label targets).")
    ] = False,
    settings: Settings = None,
    text: TextWeights = None,
    labels: Labels = None,
    label_separator: LabelSeparator = None,
    target: Target = None,
    format_: DataFormat = AUTO,
    qid: Qid = None,
    weight: Weight = None,
    engine: Annotated[
        Where, typer.Option(help="Where trials run: one after another in this process, or on Dask workers.")
    ] = Where.LOCAL,
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Address of the Dask scheduler (default: a local cluster)."),
    ] = None,
    as_json: AsJson = False,
    jobs: Jobs = None,
    seed: Seed = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print one line per trial.")] = False,
    quiet: Quiet = False,
) -> None:
    """Choose an estimator and its parameters on validation rows, then train the model on all rows.

    The first trial has the default parameters. Others are sampled by Optuna, and pruned by successive halving on the
    number of trees. Ctrl-C ends the search and trains the best model so far. With --study, the same command resumes.
    Requires the extra "tune".
    """
    if verbose and quiet:
        raise ValueError("--verbose and --quiet cannot be combined.")
    if valid is not None and folds is not None:
        raise ValueError("--valid and --folds cannot be combined.")
    if scheduler is not None and engine is not Where.DASK:
        raise ValueError("--scheduler requires --engine dask.")
    outputs = {"--model": model, "--study": study, "--plot": plot}
    _check_outputs(outputs, [*data, *([valid] if valid else [])])
    from sparseleaf.tuning.api import require_optuna

    require_optuna()
    methods = names_of([method])
    kinds = _possible(methods, task)
    _check_metric(metric, kinds)
    table = {name: one for kind in reversed(kinds) for name, one in kind.parameter_table.items()}
    params = parse_values(table, settings or [], {}, text_weights(text))
    shown = 2 if verbose else 0 if quiet else 1
    how = Reading.of(format_, target, jobs, qid, weight, labels=labels, label_separator=label_separator)

    from sparseleaf.progress import reporting

    probe = kinds[0](vectorizer=params.get("vectorizer"))
    with reporting(shown):
        rows = read_rows(probe, data, how)
        held = read_rows(probe, [valid], how, columns_of(rows)) if valid else None
    began = time.perf_counter()
    with _client(engine, scheduler) as client:
        from sparseleaf import tune as run

        result = run(
            rows.X,
            rows.y,
            method=AUTO if methods == [AUTO] else methods,
            task=_task_of(task, rows, kinds),
            n_trials=n_trials,
            timeout=timeout,
            metric=metric,
            cv=folds,
            eval_set=None if held is None else _eval_set(held),
            qid=rows.qid,
            sample_weight=rows.sample_weight,
            params=params,
            study=study,
            seed=seed or 0,
            n_jobs=jobs,
            client=client,
            blend=blend,
            verbose=shown,
        )
    save_model(result.best_estimator_, model)
    if plot is not None:
        result.plot(plot)
    seconds = time.perf_counter() - began
    if as_json:
        typer.echo(json.dumps(result.as_dict() | {"model": str(model), "seconds": round(seconds, 3)}))
    elif not quiet or result.interrupted:
        typer.echo(printable(summary(result, model, seconds)))
    if result.interrupted:
        raise typer.Exit(INTERRUPTED)


def summary(result: TuneResult, model: AnyPath, seconds: float) -> str:
    """Summary of the result in a few lines."""
    what = "a blend of the best trials" if result.blended else result.best_method
    params = ", ".join(f"{name}={_short(value)}" for name, value in result.best_params.items())
    states = [trial["state"] for trial in result.trials]
    return (
        f"wrote {model}: {what}, {readable_bytes(model.stat().st_size)}, in {seconds:.1f} s\n"
        f"{result.metric} {result.best_score:.4f}, defaults {result.default_score:.4f}, by {result.validation};"
        f" {len(states)} trials, {states.count('pruned')} pruned\n"
        f"parameters: {params or 'defaults'}"
    )


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _check_outputs(outputs: Mapping[str, AnyPath | None], inputs: Sequence[AnyPath]) -> None:
    from sparseleaf._tuning_plot import check_plot_path

    written: list[AnyPath] = []
    for option, path in outputs.items():
        if path is None:
            continue
        if path in written:
            raise ValueError(f"{option} {path}: the file is also the output of another option.")
        check_output(path, option, inputs)
        written.append(path)
        if option == "--plot":
            check_plot_path(str(path), option)
            try:
                import matplotlib  # noqa: F401
            except ImportError:
                raise ImportError('--plot requires matplotlib: pip install "sparseleaf[plot]".') from None


def _possible(methods: list[str], task: Task) -> list[type[ModelEstimator]]:
    """Estimators that may be candidates, before the targets are known; the first reads the data."""
    from sparseleaf.estimators import ESTIMATORS
    from sparseleaf.tuning import TUNABLE

    names = ["gbdt-mo", *TUNABLE] if methods == [AUTO] else methods
    for name in names:
        if name not in TUNABLE:
            known = ", ".join(map(repr, (AUTO, *TUNABLE)))
            raise ValueError(f"--method must be among {{{known}}}. Got {name!r} instead.")
    kinds = [
        kind
        for name in names
        for of_task, kind in ESTIMATORS[name].items()
        if task is Task.AUTO or task.value == of_task
    ]
    if not kinds:
        raise ValueError(f"--task {task.value} is not supported by --method {','.join(methods)}.")
    return list(dict.fromkeys(kinds))


def _check_metric(metric: str | None, kinds: list[type[ModelEstimator]]) -> None:
    """Raise ValueError for a metric that no candidate has, before the data is read."""
    from sparseleaf.tuning.problem import metrics_of

    known = dict.fromkeys(name for kind in kinds for name in metrics_of(kind))
    if metric is not None and metric not in known:
        raise ValueError(f"--metric must be one of {{{', '.join(known)}}}. Got {metric!r} instead.")


def _task_of(task: Task, rows: Rows, kinds: list[type[ModelEstimator]]) -> str:
    """Task by the rules of ``train``: numbers are regressed on if a candidate can."""
    if rows.qid is not None:
        return "ranking"
    if task is not Task.AUTO:
        return task.value
    from sklearn.base import is_regressor

    regression = any(is_regressor(kind()) for kind in kinds)
    return "regression" if regression and are_numbers(rows.y) else "classification"


def _eval_set(rows: Rows) -> tuple[Any, ...]:
    return (rows.X, rows.y) if rows.qid is None else (rows.X, rows.y, rows.qid)


def _client(engine: Where, scheduler: str | None) -> Any:
    """Context of a Dask client, or of None in this process."""
    if engine is Where.LOCAL:
        return nullcontext()
    from sparseleaf.distributed.dask import DaskLauncher

    return DaskLauncher(scheduler).client()
