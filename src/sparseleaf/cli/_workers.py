"""Distributed training from the command line: every process reads its partition of the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparseleaf._arrays import even_ranges
from sparseleaf._files import as_path
from sparseleaf.cli._common import Reading, read_rows
from sparseleaf.data.reading import STDIN, Columns, Rows
from sparseleaf.distributed.agreement import describe_training, refuse_differences
from sparseleaf.distributed.failures import gather_results, run_together

if TYPE_CHECKING:
    from sparseleaf.distributed.communicator import Communicator
    from sparseleaf.distributed.ranks import RanksLauncher
    from sparseleaf.estimators.base import ModelEstimator


@dataclass(frozen=True)
class Workers:
    """Input of a distributed training.

    Attributes
    ----------
    estimator : ModelEstimator
    rows, validation : Rows
        Training and validation rows of this process.
    placement : dict
        ``engine`` and ``layout`` of ``fit``.
    leads : bool
        Whether this process writes the model.
    """

    estimator: Any
    rows: Rows
    validation: Rows | None
    placement: dict[str, Any]
    leads: bool = True


def mpi(
    candidates: dict[str, ModelEstimator],
    paths: Sequence[Path],
    valid: Path | None,
    how: Reading,
    layout: str,
    scheduler: str | None,
) -> Workers:
    """The ranks of an MPI job."""
    from sparseleaf.distributed.mpi import MPILauncher

    engine = MPILauncher()
    refuse_stdin(paths, "mpi")
    with engine.comm.all_or_none():
        return on_ranks(engine, candidates, paths, valid, how, layout)


def refuse_stdin(paths: Sequence[Path], engine: str) -> None:
    """Raise ValueError for standard input, which only one process could read."""
    if any(str(path) in ("-", str(STDIN)) for path in paths):
        raise ValueError(f"--engine {engine} cannot read standard input (-); pass files instead.")


def on_ranks(
    engine: RanksLauncher,
    candidates: dict[str, ModelEstimator],
    paths: Sequence[Path],
    valid: Path | None,
    how: Reading,
    layout: str,
) -> Workers:
    """Every rank reads its files, in order; with fewer files than ranks, its range of the rows."""
    from sparseleaf.cli.train import fitting

    comm = engine.comm
    first, end = even_ranges(np.ones(len(paths)), comm.size)[comm.rank]
    probe = next(iter(candidates.values()))
    texts = probe.vectorizer is not None
    shared = texts or len(paths) < comm.size
    files = paths if shared else paths[first:end]
    options = {"task": list(candidates), "layout": layout, "files": [path.name for path in paths]}
    refuse_differences(gather_results(comm, lambda: describe_training(probe, options, {})))
    rows = run_together(comm, lambda: _vectorised(probe, read_rows(probe, files, how)))
    width = run_together(comm, partial(_agreed_width, comm.allgather(_form_of(rows, files))))
    if width != rows.X.shape[1]:
        rows.X.resize(rows.X.shape[0], width)
    if shared:
        rows = _share(rows, comm)
    validation = None
    if valid is not None and comm.rank == 0:
        validation = read_rows(probe, [valid], how, None if texts else Columns.of_rows(rows.X))
    estimator = run_together(comm, partial(fitting, candidates, rows.y))
    estimator.vectorizer = probe.vectorizer
    return Workers(estimator, rows, validation, {"engine": engine, "layout": layout}, comm.rank == 0)


def _vectorised(estimator: Any, rows: Rows) -> Rows:
    """Texts as features. Every rank vectorises all of them, so that all have the same columns."""
    if estimator.vectorizer is None:
        return rows
    features, estimator.vectorizer = estimator._fit_vectorizer(rows.X)
    return replace(rows, X=features)


def _form_of(rows: Rows, paths: Sequence[Path]) -> tuple[Any, ...]:
    n_labels = rows.y.shape[1] if len(getattr(rows.y, "shape", ())) == 2 else None
    names = list(rows.X.columns) if hasattr(rows.X, "columns") else None
    # only XC text has the number of features and labels in a header
    return str(paths[0]), rows.X.shape[1], n_labels, names, hasattr(rows.y, "indptr")


def _agreed_width(forms: list[tuple[Any, ...]]) -> int:
    """Number of features of all partitions; the headers of XC text must agree."""
    first_path, n_features, n_labels, names, has_header = forms[0]
    for path, *form in forms:
        if has_header and form[:2] != [n_features, n_labels]:
            raise ValueError(
                f"{path}: line 1: expected {n_features} features and {n_labels} labels, as in {first_path}, got"
                f" {form[0]}"
                f" and {form[1]}."
            )
        if form[2] != names:
            raise ValueError(f"{path}: the columns must be the same as in {first_path}.")
    return int(max(form[1] for form in forms)) if names is None else int(n_features)


def _share(rows: Rows, comm: Communicator) -> Rows:
    """The range of this rank of rows that all ranks have read; queries are not split."""
    n_rows = rows.X.shape[0]
    borders = [first for first, _ in even_ranges(np.ones(n_rows), comm.size)] + [n_rows]
    if rows.qid is not None:
        from sparseleaf.distributed.sources import between_queries

        borders = between_queries(np.asarray(rows.qid), borders)
    if len(borders) != comm.size + 1 or len(set(borders)) != len(borders):
        raise ValueError(
            f"Training on {comm.size} ranks requires at least as many rows (or queries). Got {n_rows} rows."
        )
    part = slice(*borders[comm.rank : comm.rank + 2])
    return Rows(
        *(
            value if value is None else value.iloc[part] if hasattr(value, "iloc") else value[part]
            for value in (rows.X, rows.y, rows.qid, rows.sample_weight)
        )
    )


def dask(
    candidates: dict[str, ModelEstimator],
    paths: Sequence[Path],
    valid: Path | None,
    how: Reading,
    layout: str,
    scheduler: str | None,
) -> Workers:
    """Every worker reads its files; the client reads the first one to determine features and targets."""
    from sparseleaf.cli.train import fitting
    from sparseleaf.distributed.dask import DaskLauncher
    from sparseleaf.distributed.sources import PartFiles

    refuse_stdin(paths, "dask")
    for path in paths:
        if not path.is_file():
            raise ValueError(f"{path}: the file does not exist.")
    probe, placement = next(iter(candidates.values())), {"engine": DaskLauncher(scheduler), "layout": layout}
    if probe.vectorizer is not None:  # texts are vectorised in this process
        rows = read_rows(probe, paths, how)
        validation = read_rows(probe, [valid], how) if valid is not None else None
        return Workers(fitting(candidates, rows.y), rows, validation, placement)
    sample = read_rows(probe, paths[:1], how)
    validation = read_rows(probe, [valid], how, Columns.of_rows(sample.X)) if valid is not None else None
    files = PartFiles(
        [str(path.absolute() if isinstance(path, Path) else path) for path in paths],
        partial(_read_part, probe, replace(how, n_jobs=how.n_jobs or 1)),
    )
    return Workers(
        fitting(candidates, sample.y),
        Rows(files, None, None),
        validation,
        placement,
    )


def _read_part(estimator: Any, how: Reading, path: str) -> dict[str, Any]:
    rows = read_rows(estimator, [as_path(path)], how)
    arguments = {"X": rows.X, "y": rows.y, "qid": rows.qid, "sample_weight": rows.sample_weight}
    return {name: value for name, value in arguments.items() if value is not None}
