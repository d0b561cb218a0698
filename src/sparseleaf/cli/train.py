"""``sparseleaf train``: train a model on data files."""

from __future__ import annotations

import difflib
import json
import time
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparseleaf._files import AnyPath, as_path
from sparseleaf._printable import printable
from sparseleaf.cli import _mlflow
from sparseleaf.cli._common import (
    AUTO,
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
    text_columns,
)
from sparseleaf.cli._label_files import LabelURIs, read_uris

if TYPE_CHECKING:
    from sparseleaf.data import Rows
    from sparseleaf.estimators.base import ModelEstimator
    from sparseleaf.estimators.parameters import Table

INTERRUPTED = 130
METHOD, TEXT_METHOD = "gbdt-sparse", "forest"
"""Default methods, for features and for texts."""


class EngineName(StrEnum):
    """Execution engine."""

    LOCAL = "local"
    MPI = "mpi"
    DASK = "dask"
    SPARK = "spark"


class Layout(StrEnum):
    """Partitioning of the data across workers."""

    ROWS = "rows"
    FEATURES = "features"


class Task(StrEnum):
    """Learning task."""

    AUTO = "auto"
    CLASSIFICATION = "classification"
    REGRESSION = "regression"


def _show_parameters(method: str | None) -> None:
    """Print the parameters of a method and exit."""
    if method is None:
        return
    from sparseleaf.estimators import ESTIMATORS
    from sparseleaf.estimators.parameters import listed
    from sparseleaf.estimators.text_values import vectorizer_parameters

    _check_method(method)
    for kind in ESTIMATORS[method].values():
        typer.echo(f"{kind.__name__}\n\n{listed(kind.parameter_table)}\n")
    typer.echo(f"TextVectorizer, as --set vectorizer__NAME=VALUE\n\n{vectorizer_parameters()}\n")
    raise typer.Exit


def train(
    data: Data,
    model: NewModel,
    method: Annotated[
        str | None,
        typer.Option(
            help="Learning method: gbdt-sparse, forest or ldsm (many labels), gbdt-mo or multi-forest (multi-output"
            " regression, classes, labels) or rank (learning to rank). Default: forest with --text, else gbdt-sparse.",
        ),
    ] = None,
    task: Annotated[
        Task,
        typer.Option(
            help="Task of gbdt-mo and multi-forest; auto: regression for numeric targets, else classification."
        ),
    ] = Task.AUTO,
    settings: Settings = None,
    parameters: Annotated[
        str | None,
        typer.Option(
            metavar="METHOD",
            help="List the parameters of a method (for --set) and exit.",
            callback=_show_parameters,
            is_eager=True,
        ),
    ] = None,
    text: TextWeights = None,
    labels: Labels = None,
    label_separator: LabelSeparator = None,
    target: Target = None,
    format_: DataFormat = AUTO,
    qid: Qid = None,
    weight: Weight = None,
    label_info: Annotated[
        PathOrURL | None,
        typer.Option(
            metavar="FILE",
            help="Names of the labels, as evidence: two columns (TSV, CSV), JSON, JSON lines, or SKOS (.nt, .ttl)."
            " Labels without rows can be suggested, too.",
            parser=as_path,
        ),
    ] = None,
    broader: Annotated[
        PathOrURL | None,
        typer.Option(
            metavar="FILE",
            help="With --label-info: hierarchy of the labels, in two columns: a label and a broader one.",
            parser=as_path,
        ),
    ] = None,
    dictionary: Annotated[
        PathOrURL | None,
        typer.Option(
            metavar="FILE",
            help="With --label-info: translations of words, by which the names are translated: two columns (TSV, CSV),"
            " JSON, or Ding's format.",
            parser=as_path,
        ),
    ] = None,
    label_key: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="With --label-info: what SKOS concepts are called in the data: uri, notation, or last (part of the"
            " URI).",
        ),
    ] = "uri",
    titles: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD",
            help="Field with titles of the records, stored in the model for predict --explain.",
        ),
    ] = None,
    label_uris: LabelURIs = None,
    valid: Annotated[
        PathOrURL | None,
        typer.Option(
            metavar="FILE",
            help="Validation data, evaluated after every tree; for early stopping.",
            parser=as_path,
        ),
    ] = None,
    checkpoint: Annotated[
        PathOrURL | None,
        typer.Option(
            metavar="FILE",
            help="Checkpoint file; if it exists, training resumes from it.",
            parser=as_path,
        ),
    ] = None,
    checkpoint_every: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Number of trees between two checkpoints (default 10)."),
    ] = None,
    engine: Annotated[
        EngineName,
        typer.Option(
            help="Where to train: in this process, in the ranks of an MPI job, on Dask workers, or on a Spark cluster."
        ),
    ] = EngineName.LOCAL,
    layout: Annotated[Layout, typer.Option(help="How the data is partitioned across workers.")] = Layout.ROWS,
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Address of the Dask scheduler (default: a local cluster), or URL of the Spark master.",
        ),
    ] = None,
    n_workers: Annotated[
        int | None,
        typer.Option(
            "--workers", min=1, metavar="N", help="Number of Spark workers (default: all task slots)."
        ),
    ] = None,
    profile: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write communication volume and time per tree and worker as JSON (mpi, dask, spark).",
        ),
    ] = None,
    mlflow: Annotated[
        str | None,
        typer.Option(
            metavar="EXPERIMENT",
            help="Log parameters, metrics and the model to this MLflow experiment, on the server MLFLOW_TRACKING_URI.",
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            metavar="cpu|cuda",
            help="Where boosted trees are grown; cuda: an NVIDIA GPU.",
        ),
    ] = None,
    jobs: Jobs = None,
    seed: Seed = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print one line per tree.")] = False,
    quiet: Quiet = False,
) -> None:
    """Train a model. Ctrl-C stops training and saves the trees grown so far.

    With --checkpoint, the same command resumes an interrupted training. Files may be remote (s3://…, hdfs://… and other
    fsspec URLs), which requires the extra "remote".
    """
    if checkpoint_every is not None and checkpoint is None:
        raise ValueError("--checkpoint-every requires --checkpoint FILE.")
    if verbose and quiet:
        raise ValueError("--verbose and --quiet cannot be combined.")
    options = {
        "device": device,
        "n_jobs": jobs,
        "random_state": seed,
        "verbose": 2 if verbose else 0 if quiet else None,
    }
    method = method or (TEXT_METHOD if text else METHOD)
    candidates = make_estimators(method, task, settings or [], options, text_weights(text))
    any_estimator: Any = next(iter(candidates.values()))
    rounds = getattr(any_estimator, "early_stopping_rounds", None)
    if rounds is not None and valid is None:
        raise ValueError(f"early_stopping_rounds={rounds} requires --valid FILE.")
    uris = None if label_uris is None else _read_uris(label_uris, candidates)
    inputs = [*data, *([valid] if valid else []), *([label_uris] if label_uris else [])]
    check_output(model, "--model", inputs)
    keeping: dict[str, Any] = {}
    if checkpoint is not None:
        if checkpoint == model:
            raise ValueError(f"--checkpoint {checkpoint}: the file must not be the model file.")
        check_output(checkpoint, "--checkpoint", inputs)
        keeping["checkpoint"] = checkpoint
        if checkpoint_every is not None:
            keeping["checkpoint_every"] = checkpoint_every

    if scheduler is not None and engine not in (EngineName.DASK, EngineName.SPARK):
        raise ValueError("--scheduler requires --engine dask or spark.")
    if n_workers is not None and engine is not EngineName.SPARK:
        raise ValueError("--workers requires --engine spark.")
    if profile is not None:
        if engine is EngineName.LOCAL:
            raise ValueError("--profile requires --engine mpi, dask or spark.")
        check_output(profile, "--profile", data)
    if titles is not None and engine is not EngineName.LOCAL:
        raise ValueError("--titles requires --engine local.")
    if label_info is not None:
        if engine is not EngineName.LOCAL:
            raise ValueError("--label-info requires --engine local.")
        keeping["label_info"] = _read_label_info(candidates, label_info, broader, label_key, dictionary)
    else:
        for option, file in (("--broader", broader), ("--dictionary", dictionary)):
            if file is not None:
                raise ValueError(f"{option} requires --label-info FILE.")
    run = None
    if mlflow is not None:
        if engine is EngineName.SPARK:
            raise ValueError("--mlflow requires --engine local, mpi or dask.")
        run = _mlflow.tracker(mlflow)
        keeping["callbacks"] = [run]
    how = Reading.of(
        format_,
        target,
        jobs,
        qid,
        weight,
        keep=[titles] if titles else None,
        labels=labels,
        label_separator=label_separator,
    )
    if engine is EngineName.SPARK:
        from sparseleaf.cli import _spark

        began = time.perf_counter()
        training = _spark.FileTraining.of(candidates, data, valid, how, layout.value, keeping)
        estimator, records = _spark.train_on_files(training, scheduler, n_workers)
        _add_uris(estimator, uris)
        _add_columns(estimator, how)
        _finish(estimator, model, time.perf_counter() - began, profile, records, quiet=quiet)
        return
    if engine is EngineName.LOCAL:
        from sparseleaf.progress import reporting

        with reporting(any_estimator.verbose):
            rows = read_rows(any_estimator, data, how)
            validation = read_rows(any_estimator, [valid], how, columns_of(rows)) if valid else None
        if labels is not None and not any(rows.y):
            raise ValueError(f"{', '.join(map(str, data))}: no row has a label in the column {labels!r}.")
        estimator = fitting(candidates, rows.y)
        placement: dict[str, Any] = {}
    else:
        from sparseleaf.cli import _workers

        open_workers = _workers.mpi if engine is EngineName.MPI else _workers.dask
        workers = open_workers(candidates, data, valid, how, layout.value, scheduler)
        estimator, rows, validation = workers.estimator, workers.rows, workers.validation
        placement = workers.placement
        quiet = quiet or not workers.leads
    began = time.perf_counter()
    _fit(estimator, rows, validation, keeping | placement)
    seconds = time.perf_counter() - began
    if titles is not None:
        _add_titles(estimator, next(iter((rows.kept or {}).values())))
    if engine is not EngineName.LOCAL and not workers.leads:
        return
    _add_uris(estimator, uris)
    _add_columns(estimator, how)
    if run is not None:
        _mlflow.log_model(run, estimator)
    _finish(estimator, model, seconds, profile, getattr(placement.get("engine"), "profile", []), quiet=quiet)


def _read_label_info(
    candidates: dict[str, ModelEstimator],
    path: AnyPath,
    broader: AnyPath | None,
    key: str,
    dictionary: AnyPath | None,
) -> Any:
    """Names and hierarchy of the labels, for ``fit``."""
    from sklearn.utils.validation import has_fit_parameter

    from sparseleaf.data import Dictionary, LabelInfo

    if not all(has_fit_parameter(one, "label_info") for one in candidates.values()):
        raise ValueError("--label-info requires --method forest, ldsm or gbdt-sparse.")
    info = LabelInfo.read(path, broader, key=key)
    return info if dictionary is None else info.translated(Dictionary.read(dictionary))


def _add_titles(estimator: Any, titles: list[Any]) -> None:
    """Store titles in the model, if it has neighbours: which re-ranker is best may depend on the data."""
    from sparseleaf._warnings import warn

    if estimator.model_.indexed_rows != len(titles):
        warn("The titles were not stored: the model has no neighbours, or fewer rows. Use rerank='linear'.")
        return
    estimator.add_titles(["" if title is None else str(title) for title in titles])


def _read_uris(path: AnyPath, candidates: dict[str, ModelEstimator]) -> dict[str, str]:
    if "classification" not in candidates:
        raise ValueError("--label-uris requires a classifier.")
    return read_uris(path)


def _add_uris(estimator: Any, uris: dict[str, str] | None) -> None:
    """Store URIs in the model; if they do not fit its labels, which are known only now, the model is kept without."""
    from sparseleaf._warnings import warn
    from sparseleaf.estimators.uris import LabelURIsMixin

    if uris is None:
        return
    if not isinstance(estimator, LabelURIsMixin):
        warn("The URIs were not stored: the model is not a classifier.")
        return
    try:
        estimator.set_label_uris(uris)
    except ValueError as error:
        warn(f"The URIs were not stored. {error}")


def _add_columns(estimator: Any, how: Reading) -> None:
    """Store the columns with labels or targets in the model, for ``update``, ``evaluate`` and ``calibrate``."""
    estimator.model_ = replace(estimator.model_, target_columns=how.target_columns)


def _finish(
    estimator: Any, model: AnyPath, seconds: float, profile: Path | None, records: list[Any], *, quiet: bool
) -> None:
    """Save the model, write the profile and print the summary."""
    save_model(estimator, model)
    if profile is not None:
        profile.write_text(json.dumps(records, indent=1))
    if estimator.interrupted_ or not quiet:
        typer.echo(printable(summary(estimator, seconds, model)))
    if estimator.interrupted_:
        raise typer.Exit(INTERRUPTED)


def text_weights(options: list[str] | None) -> dict[str, float] | list[str]:
    """Weights of text fields from options such as ``title:2,abstract``; the names alone if no weight is set."""
    weights, is_set = {}, False
    for word in names_of(options):
        name, colon, weight = word.rpartition(":")
        try:
            weights[name if colon else word] = float(weight) if colon else 1.0
            is_set = is_set or bool(colon)
        except ValueError:
            raise ValueError(f"--text must be FIELD or FIELD:WEIGHT. Got {word!r} instead.") from None
    return weights if is_set else list(weights)


def make_estimators(
    method: str,
    task: Task,
    settings: list[str],
    options: dict[str, Any],
    text: dict[str, float] | list[str] | None = None,
) -> dict[str, ModelEstimator]:
    """Estimators of the method by task, without those for which the settings are not valid.

    ``options`` are parameters that have command-line options (None: not set), ``text`` the text fields, or their
    weights by name.
    """
    from sparseleaf.estimators import ESTIMATORS

    _check_method(method)
    kinds = ESTIMATORS[method]
    if any(kind.composite for kind in kinds.values()):
        raise ValueError(
            f"--method must not be {method!r}; train the classifiers first, then combine them with sparseleaf {method}."
        )
    if task is not Task.AUTO:
        if task.value not in kinds:
            raise ValueError(
                f"--task must be {' or '.join(kinds)} for --method {method}. Got {task.value} instead."
            )
        kinds = {task.value: kinds[task.value]}
    estimators, errors = {}, []
    for name, kind in kinds.items():
        try:
            estimators[name] = _make(kind, settings, options, text or {})
        except ValueError as error:
            errors.append(error)
    if not estimators:
        raise errors[0]
    return estimators


def _check_method(method: str) -> None:
    from sparseleaf.estimators import ESTIMATORS

    if method not in ESTIMATORS:
        near = difflib.get_close_matches(method, ESTIMATORS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(
            f"--method must be one of {{{', '.join(map(repr, ESTIMATORS))}}}. Got {method!r} instead.{hint}"
        )


def _make(
    kind: type[ModelEstimator],
    settings: list[str],
    options: dict[str, Any],
    text: dict[str, float] | list[str],
) -> ModelEstimator:
    return kind.from_settings({"verbose": 1, **parse_values(kind.parameter_table, settings, options, text)})


def parse_values(
    table: Table, settings: list[str], options: dict[str, Any], text: dict[str, float] | list[str]
) -> dict[str, Any]:
    """Parameters from ``--set``, options and text fields: see :func:`make_estimators`."""
    from sparseleaf import TextVectorizer
    from sparseleaf.estimators.parameters import parse_settings

    values = parse_settings(settings, table)
    vectorizer = values.get("vectorizer")
    if text:
        vectorizer = TextVectorizer() if vectorizer is None else vectorizer
        if vectorizer.fields is not None:
            raise ValueError("--text and --set vectorizer__fields=… cannot be combined.")
        values["vectorizer"] = vectorizer.set_params(fields=text)
    if vectorizer is not None and not text_columns(vectorizer).text:
        raise ValueError("--set vectorizer__… requires --text FIELD.")
    for name, value in options.items():
        if value is not None and name in values:
            raise ValueError(f"--set {name}={values[name]}: the parameter is also set by its own option.")
        if value is not None:
            values[name] = value
    return values


def fitting(candidates: dict[str, ModelEstimator], Y: Any) -> Any:
    """The estimator for the targets: regression for numbers, classification for labels and text."""
    if len(candidates) == 1:
        (estimator,) = candidates.values()
        if "classification" in candidates:
            _refuse_numbers(estimator, Y)
        return estimator
    return candidates["regression" if are_numbers(Y) else "classification"]


def are_numbers(Y: Any) -> bool:
    """Whether targets are numbers, which are regressed on unless the task is set."""
    if hasattr(Y, "columns"):
        return all(kind.kind in "fiu" for kind in Y.dtypes)
    return getattr(getattr(Y, "dtype", None), "kind", "O") in "fiu" and not hasattr(Y, "indptr")


def _refuse_numbers(classifier: ModelEstimator, Y: Any) -> None:
    """Raise ValueError for continuous targets, with a hint on how to do regression."""
    import numpy as np

    values = np.asarray(Y) if hasattr(Y, "dtype") or hasattr(Y, "columns") else np.empty(0)
    if values.dtype.kind not in "fiu":
        return
    known = values[~np.isnan(values)]
    wrong = known[(known != 0) & (known != 1)] if values.ndim == 2 else known[known != np.trunc(known)]
    if len(wrong):
        raise ValueError(
            f"{classifier.method} requires classes or labels as targets. Got continuous values, such as {wrong[0]:g}."
            " For"
            f" regression, use --method gbdt-mo{' --task regression' if classifier.method == 'gbdt-mo' else ''}."
        )


def summary(estimator: Any, seconds: float, path: AnyPath) -> str:
    """One-line summary of the trained model."""
    from sparseleaf.estimators.evaluation import higher_is_better

    text = (
        f"wrote {path}: {estimator.model_.n_trees} trees in {seconds:.1f} s,"
        f" {readable_bytes(path.stat().st_size)}"
    )
    for name, values in estimator.history_.items():
        best = max(values) if higher_is_better(name.split()[-1]) else min(values)
        text += f"; best {name} {best:.4g} with {values.index(best) + 1} trees"
    return text


def _fit(estimator: Any, rows: Rows, validation: Rows | None, options: dict[str, Any]) -> None:
    """Train; ``options`` are arguments of ``fit``, passed on if the estimator supports them."""
    from sklearn.utils.validation import has_fit_parameter

    eval_set: tuple[Any, ...] | None = None if validation is None else (validation.X, validation.y)
    arguments = {name: value for name, value in options.items() if has_fit_parameter(estimator, name)}
    if has_fit_parameter(estimator, "qid"):
        files = rows.y is None  # workers read them, including queries
        if (rows.qid is None and not files) or (validation is not None and validation.qid is None):
            raise ValueError("Ranking requires queries: svmlight with qid:, or --qid COLUMN.")
        arguments["qid"] = rows.qid
        eval_set = None if validation is None else (validation.X, validation.y, validation.qid)
    if rows.sample_weight is not None:
        if not has_fit_parameter(estimator, "sample_weight"):
            raise ValueError(f"--weight is not supported by --method {estimator.method}.")
        arguments["sample_weight"] = rows.sample_weight
    estimator.fit(rows.X, rows.y, eval_set=eval_set, **arguments)
