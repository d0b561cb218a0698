"""Training in the executors: rows of a partition, exchange of rows between workers, and ``fit`` on each of them."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import has_fit_parameter

from sparseleaf.data.targets import encode_label_lists
from sparseleaf.distributed.ranks import RanksLauncher
from sparseleaf.spark.columns import features_of, join_features, numbers_of, targets_of

if TYPE_CHECKING:
    import pyarrow as pa

    from sparseleaf._arrays import Array
    from sparseleaf.callbacks import Callback
    from sparseleaf.distributed.communicator import Communicator

Rows = dict[str, Any]
"""Some rows: the arguments X, y, sample_weight and qid of ``fit``."""

FEATURES, LABEL, WEIGHT, VALIDATION, QUERY = "X", "y", "sample_weight", "validation", "qid"
"""Columns of the DataFrame whose partitions are trained on."""

PIECE = 1 << 22
"""Bytes of a piece of the model."""


@dataclass(frozen=True)
class FrameTraining:
    """See :class:`~sparseleaf.distributed.spark.Work`: training on the rows of a DataFrame.

    Attributes
    ----------
    estimator : ModelEstimator
        Unfitted.
    options : dict
        Arguments of ``fit``: layout, checkpoint and checkpoint_every.
    """

    estimator: Any
    options: dict[str, Any]

    def read(self, batches: Iterator[Any]) -> tuple[Rows | None, Rows | None]:
        """Training and validation rows of this task; None if there are none."""
        train: list[Rows] = []
        validation: list[Rows] = []
        for batch in batches:
            for piece, pieces in zip(split_batch(batch), (train, validation), strict=True):
                if piece[FEATURES].shape[0]:
                    pieces.append(piece)
        return join_pieces(train), join_pieces(validation)

    def train(
        self, comm: Communicator, rows: tuple[Rows | None, Rows | None], n_jobs: int, progress: list[Callback]
    ) -> tuple[Any, list[dict[str, Any]]]:
        """Fit the estimator; returns it and the profile."""
        train, validation = rows
        if not sum(comm.allgather(count_rows(train))):
            raise ValueError("The DataFrame must have at least one training row. Got none instead.")
        balanced = balance(comm, train)
        held = join_pieces([part for part in _gather(comm, validation) if part is not None])
        sparse = any(comm.allgather(any(_sparse(one, FEATURES) for one in (balanced, held))))
        sparse_labels = any(comm.allgather(any(_sparse(one, LABEL) for one in (balanced, held))))
        arguments = self._arguments(balanced, sparse, sparse_labels)
        estimator, engine = self.estimator, RanksLauncher(comm)
        if estimator.n_jobs is None:
            estimator.n_jobs = n_jobs
        if held is not None:
            names = (FEATURES, LABEL, QUERY) if QUERY in held else (FEATURES, LABEL)
            known = self._arguments(held, sparse, sparse_labels)
            arguments["eval_set"] = tuple(known[name] for name in names)
        options = {**self.options, "engine": engine, "callbacks": progress}
        options = {name: value for name, value in options.items() if has_fit_parameter(estimator, name)}
        estimator.fit(**arguments, **options)
        return estimator, engine.profile

    def pieces(self, trained: tuple[Any, list[dict[str, Any]]]) -> Iterator[bytes]:
        """The profile as JSON, then the model file."""
        estimator, profile = trained
        yield json.dumps(profile).encode()
        yield from file_pieces(estimator)

    def _arguments(self, rows: Rows, sparse: bool, sparse_labels: bool) -> Rows:
        rows = dict(rows)
        if sparse:
            rows[FEATURES] = sp.csr_matrix(rows[FEATURES])
        if sparse_labels:
            rows[LABEL] = sp.csr_matrix(rows[LABEL])
        if isinstance(rows[LABEL], list):
            rows[LABEL] = encode_label_lists(rows[LABEL])
        return rows


def file_pieces(estimator: Any) -> Iterator[bytes]:
    """The model file of a fitted estimator, in pieces."""
    with tempfile.TemporaryDirectory(prefix="sparseleaf-") as folder:
        path = Path(folder) / "model"
        estimator.save(path)
        with path.open("rb") as file:
            yield from iter(lambda: file.read(PIECE), b"")


def from_pieces(pieces: Sequence[bytes]) -> Any:
    """The fitted estimator of a model file in pieces."""
    from sparseleaf import load

    with tempfile.TemporaryDirectory(prefix="sparseleaf-") as folder:
        path = Path(folder) / "model"
        with path.open("wb") as file:
            file.writelines(pieces)
        return load(path)


def split_batch(batch: pa.RecordBatch) -> tuple[Rows, Rows]:
    """Training and validation rows of an Arrow batch."""
    if VALIDATION not in batch.schema.names:
        rows = _rows_of(batch)
        return rows, _take(rows, slice(0, 0))
    held = numbers_of(batch.column(VALIDATION), "validationIndicatorCol").astype(bool)
    rows = _rows_of(batch)
    return _take(rows, np.flatnonzero(~held)), _take(rows, np.flatnonzero(held))


def _rows_of(batch: pa.RecordBatch) -> Rows:
    rows = {FEATURES: features_of(batch.column(FEATURES)), LABEL: targets_of(batch.column(LABEL))}
    for name, column in ((WEIGHT, "weightCol"), (QUERY, "qidCol")):
        if name in batch.schema.names:
            rows[name] = numbers_of(batch.column(name), column)
    return rows


def _take(rows: Rows, which: Any) -> Rows:
    """Some rows: a slice, or their indices."""
    return {
        name: value[which]
        if not isinstance(value, list)
        else value[which]
        if isinstance(which, slice)
        else [value[i] for i in which]
        for name, value in rows.items()
    }


def join_pieces(pieces: Sequence[Rows]) -> Rows | None:
    """Concatenate rows; None if there are none."""
    if not pieces:
        return None
    return {name: _joined([piece[name] for piece in pieces], name) for name in pieces[0]}


def _joined(values: list[Any], name: str) -> Any:
    if isinstance(values[0], list):
        return values[0] if len(values) == 1 else [row for value in values for row in value]
    if sp.issparse(values[0]) or values[0].ndim == 2:
        return join_features(values, "featuresCol" if name == FEATURES else "labelCol")
    return values[0] if len(values) == 1 else np.concatenate(values)


def count_rows(rows: Rows | None) -> int:
    """Number of rows."""
    return 0 if rows is None else int(rows[FEATURES].shape[0])


def balance(comm: Communicator, rows: Rows | None) -> Rows:
    """Exchange rows so that all workers have about the same number, in the same order; queries are not split."""
    sizes = comm.allgather(count_rows(rows))
    first, total = sum(sizes[: comm.rank]), sum(sizes)
    starts, unit = np.arange(total), "rows"
    if any(comm.allgather(rows is not None and QUERY in rows)):
        starts, unit = np.concatenate(comm.allgather(_query_starts(rows) + first)), "queries"
    if len(starts) < comm.size:
        raise ValueError(
            f"numWorkers must be at most the number of training {unit}, {len(starts)}. Got {comm.size} instead."
        )
    borders = _even_borders(starts, total, comm.size)
    pieces = []
    for a, b in pairwise(borders):
        part = slice(max(a - first, 0), min(b - first, sizes[comm.rank]))
        pieces.append(_take(rows, part) if rows is not None and part.stop > part.start else None)
    received = comm.alltoall(pieces)
    joined = join_pieces([piece for piece in received if piece is not None])
    assert joined is not None
    return joined


def _even_borders(starts: Array, total: int, n: int) -> list[int]:
    """Borders of ``n`` ranges of about the same size, none of them empty, at some of the ``starts``."""
    places = [0]
    for rank in range(1, n):
        nearest = int(np.searchsorted(starts, total * rank / n))
        places.append(min(max(nearest, places[-1] + 1), len(starts) - n + rank))
    return [*starts[places].tolist(), total]


def _query_starts(rows: Rows | None) -> Array:
    """Indices of the rows at which a query starts; rows are sorted by query."""
    if rows is None:
        return np.empty(0, np.int64)
    qid = rows[QUERY]
    return np.concatenate(([0], 1 + np.flatnonzero(qid[1:] != qid[:-1])))


def _gather(comm: Communicator, value: Rows | None) -> list[Rows | None]:
    """The values of all workers, on the first one."""
    return comm.alltoall([value, *[None] * (comm.size - 1)])


def _sparse(rows: Rows | None, name: str) -> bool:
    return rows is not None and sp.issparse(rows[name])
