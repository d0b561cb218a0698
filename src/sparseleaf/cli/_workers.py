"""Training from the command line in several processes: each reads its own parts of the data."""

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
    from sparseleaf.estimators.base import ModelEstimator


@dataclass(frozen=True)
class Workers:
    """A training that is ready to begin.

    Attributes
    ----------
    estimator : ModelEstimator
    rows, watched : Rows
        What this process gives to ``fit``.
    where : dict
        ``engine`` and ``layout`` of ``fit``.
    leads : bool
        Whether this process writes the model.
    """

    estimator: Any
    rows: Rows
    watched: Rows | None
    where: dict[str, Any]
    leads: bool = True


def mpi(
    candidates: dict[str, ModelEstimator],
    paths: Sequence[Path],
    valid: Path | None,
    how: Reading,
    layout: str,
    scheduler: str | None,
) -> Workers:
    """Every rank reads the files that fall to it, in order; with fewer files than ranks, its share of the rows."""
    from sparseleaf.cli.train import fitting
    from sparseleaf.distributed.mpi import MPILauncher

    engine = MPILauncher()
    comm = engine.comm
    if any(str(path) in ("-", str(STDIN)) for path in paths):
        raise ValueError("-: standard input goes to one rank only; wanted files.")
    first, end = even_ranges(np.ones(len(paths)), comm.size)[comm.rank]
    shared = len(paths) < comm.size
    own = paths if shared else paths[first:end]
    probe = next(iter(candidates.values()))
    options = {"task": list(candidates), "layout": layout, "files": [path.name for path in paths]}
    with comm.all_or_none():
        refuse_differences(gather_results(comm, lambda: describe_training(probe, options, {})))
        rows = run_together(comm, lambda: read_rows(probe, own, how))
        width = run_together(comm, partial(_agreed_width, rows, own, comm.allgather(_form_of(rows, own))))
        if width != rows.X.shape[1]:
            rows.X.resize(rows.X.shape[0], width)
        if shared:
            rows = _share(rows, comm)
        watched = None
        if valid is not None and comm.rank == 0:
            columns = Columns.of_rows(rows.X)
            watched = read_rows(probe, [valid], how, columns)
        estimator = run_together(comm, partial(fitting, candidates, rows.y))
    return Workers(estimator, rows, watched, {"engine": engine, "layout": layout}, comm.rank == 0)


def _form_of(rows: Rows, paths: Sequence[Path]) -> tuple[Any, ...]:
    n_labels = rows.y.shape[1] if len(getattr(rows.y, "shape", ())) == 2 else None
    names = list(rows.X.columns) if hasattr(rows.X, "columns") else None
    # only XC text says in its first line how many there are
    return str(paths[0]), rows.X.shape[1], n_labels, names, hasattr(rows.y, "indptr")


def _agreed_width(rows: Rows, paths: Sequence[Path], forms: list[tuple[Any, ...]]) -> int:
    """Features of all parts; parts that say how many they have must say the same."""
    first_path, n_features, n_labels, names, told = forms[0]
    for path, *found in forms:
        if told and found[:2] != [n_features, n_labels]:
            raise ValueError(
                f"{path}: found {found[0]} features and {found[1]} labels in its first line; wanted {n_features} and"
                f" {n_labels} as in {first_path}: files to train on must agree."
            )
        if found[2] != names:
            raise ValueError(
                f"{path}: found other columns than in {first_path}; files to train on must agree."
            )
    return int(max(form[1] for form in forms)) if names is None else int(n_features)


def _share(rows: Rows, comm: Communicator) -> Rows:
    """Of rows that all ranks have read, the share of this one; queries stay whole."""
    n_rows = rows.X.shape[0]
    borders = [first for first, _ in even_ranges(np.ones(n_rows), comm.size)] + [n_rows]
    if rows.qid is not None:
        from sparseleaf.distributed.sources import between_queries

        borders = between_queries(np.asarray(rows.qid), borders)
    if len(borders) != comm.size + 1 or len(set(borders)) != len(borders):
        raise ValueError(
            f"found {n_rows} rows for {comm.size} ranks; wanted more rows (or queries) than ranks."
        )
    own = slice(*borders[comm.rank : comm.rank + 2])
    return Rows(
        *(
            value if value is None else value.iloc[own] if hasattr(value, "iloc") else value[own]
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
    """Every worker reads the files that fall to it; the client reads the first, to know what they hold."""
    from sparseleaf.cli.train import fitting
    from sparseleaf.distributed.dask import DaskLauncher
    from sparseleaf.distributed.sources import PartFiles

    if any(str(path) in ("-", str(STDIN)) for path in paths):
        raise ValueError("-: standard input cannot go to workers; wanted files.")
    for path in paths:
        if not path.is_file():
            raise ValueError(f"{path}: there is no such file.")
    probe = next(iter(candidates.values()))
    sample = read_rows(probe, paths[:1], how)
    watched = read_rows(probe, [valid], how, Columns.of_rows(sample.X)) if valid is not None else None
    files = PartFiles(
        [str(path.absolute() if isinstance(path, Path) else path) for path in paths],
        partial(_read_part, probe, replace(how, n_jobs=how.n_jobs or 1)),
    )
    return Workers(
        fitting(candidates, sample.y),
        Rows(files, None, None),
        watched,
        {"engine": DaskLauncher(scheduler), "layout": layout},
    )


def _read_part(estimator: Any, how: Reading, path: str) -> dict[str, Any]:
    found = read_rows(estimator, [as_path(path)], how)
    rows = {"X": found.X, "y": found.y, "qid": found.qid, "sample_weight": found.sample_weight}
    return {name: value for name, value in rows.items() if value is not None}
