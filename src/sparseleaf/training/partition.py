"""Partition: the validated rows of one worker, before binning.

What all workers must agree on before the first tree (numbers of rows, bin thresholds, projection) is the same as if one
worker had all rows in the same order.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sparseleaf import _kernels
from sparseleaf._arrays import column_counts, even_ranges, hash_numbers, require_countable, smallest_hashes
from sparseleaf._threads import take_rows
from sparseleaf.binning import EXACT_BINS, SAMPLE_ROWS, BinThresholds, find_thresholds, join_thresholds
from sparseleaf.data.rows import RowsInfo, join_info
from sparseleaf.data.targets import ONE_CLASS_PER_ROW, Targets, form_of, relabelled
from sparseleaf.data.weights import TrainingWeights, label_weights
from sparseleaf.distributed.failures import run_together
from sparseleaf.fingerprint import fingerprint
from sparseleaf.model.empty import EmptyRows, feature_counts, find_empty
from sparseleaf.projection import Projection, fit_projection

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sparseleaf._arrays import Array, Features
    from sparseleaf.distributed.communicator import Communicator
    from sparseleaf.fingerprint import Prints


ENOUGH_EMPTY = 20
"""Number of empty training rows from which boosted trees learn how to score them."""

PROJECTION_ROWS = 1 << 17
"""Rows that a projection is fitted on: all, or a sample of this size by a hash of their global indices."""

PROJECTION = 31
"""Purpose of a hash of row indices: part of its key."""


class Partition:
    """Rows of features.

    Attributes
    ----------
    features : float32 array or CSR matrix
    names : list of str or None
        Column names.
    first_row : int
        Global index of the first row.
    """

    def __init__(self, features: Features, names: list[str] | None, n_jobs: int) -> None:
        self.features = features
        self.names = names
        self.n_jobs = n_jobs
        self.first_row = 0

    @property
    def n_rows(self) -> int:
        """Number of rows of this worker."""
        return int(self.features.shape[0])

    def form(self) -> dict[str, Any]:
        """Properties that must be equal on all partitions."""
        return {
            "n_features": self.features.shape[1],
            "feature names": self.names,
            "X": "sparse" if sp.issparse(self.features) else "dense",
        }

    def fingerprints(self) -> Prints:
        """Fingerprints of the rows, by argument of ``fit``."""
        raise NotImplementedError

    def row_hashes(self, *key: int) -> Array:
        """A hash of every row's global index."""
        return hash_numbers(np.arange(self.first_row, self.first_row + self.n_rows), *key)

    def number_rows(self, comm: Communicator) -> int:
        """Set ``first_row`` by the sizes of all partitions; returns the total number of rows."""
        sizes = comm.allgather(self.n_rows)
        self.first_row = sum(sizes[: comm.rank])
        return sum(sizes)


class SparsePartition(Partition):
    """Rows of features, their labels and weights.

    Attributes
    ----------
    targets : Targets
    weights : TrainingWeights
        Scaled by :func:`agree_on_weights`.
    weight_scale : float
    """

    def __init__(
        self,
        features: Features,
        names: list[str] | None,
        targets: Targets,
        n_jobs: int,
        row_weights: Array | None = None,
    ) -> None:
        super().__init__(features, names, n_jobs)
        self.targets = targets
        self.weights = TrainingWeights(row_weights)
        self.weight_scale = 1.0
        if row_weights is not None and not row_weights.all():  # as if these rows were not there
            self.keep(np.flatnonzero(row_weights))

    def form(self) -> dict[str, Any]:
        """See :class:`Partition`."""
        return super().form() | form_of(self.targets.kind, self.targets.n_labels)

    def relabel(self, form: Targets) -> None:
        """Encode labels by the union of all partitions' labels."""
        self.targets = relabelled(self.targets, form)

    def keep(self, seen: Array) -> None:
        """Keep a subset of the rows."""
        self.features = self.features[seen]
        self.targets = Targets(self.targets.matrix[seen], self.targets.names, self.targets.kind)
        self.weights = self.weights.take(seen)

    def label_counts(self) -> Array:
        """Number of rows of each label, int64."""
        return column_counts(self.targets.matrix, self.n_jobs)

    def unscaled_weights(self) -> TrainingWeights:
        """Weights as given."""
        return TrainingWeights(_times(self.weights.rows, 1 / self.weight_scale), self.weights.labels)

    def fingerprints(self) -> Prints:
        """See :class:`Partition`."""
        arrays = {"X": self.features, "y": self.targets.matrix}
        if self.weights.rows is not None:
            arrays["sample_weight"] = self.weights.rows
        return {name: (rows.shape, fingerprint(rows, self.first_row)) for name, rows in arrays.items()}


def describe_rows(comm: Communicator, part: Partition) -> RowsInfo:
    """Number the rows of all partitions and gather their properties."""
    infos = comm.allgather(RowsInfo.of(part.features, part.names, part.n_jobs))
    info = join_info(infos)
    require_countable("X", info.n_rows, "rows in all parts")  # histograms count rows in 32 bits
    for number, one in enumerate(infos):
        if not one.n_rows:
            raise ValueError(
                f"Every part of X must have at least one row. Got none in part {number} instead."
            )
    part.number_rows(comm)
    return info


def count_empty_rows(comm: Communicator, part: Partition) -> int:
    """Number of sparse rows without features, over all workers."""
    return int(comm.allreduce(np.array([np.count_nonzero(find_empty(part.features))]))[0])


def describe_empty_rows(comm: Communicator, part: SparsePartition, rows: RowsInfo) -> EmptyRows | None:
    """Predictions for rows without known features; None for dense rows."""
    if not rows.sparse:
        return None
    counts = comm.allreduce(feature_counts(part.features, part.n_jobs))
    empty = np.flatnonzero(find_empty(part.features))
    Y = part.targets.matrix
    weights, scale = part.weights, part.weight_scale
    return EmptyRows.from_counts(
        counts,
        rows.n_rows,
        common_counts(comm, weights, Y, part.n_jobs, scale),
        common_counts(comm, weights.take(empty), Y[empty], part.n_jobs, scale),
        weights.labels,
    )


def common_counts(
    comm: Communicator, weights: TrainingWeights, Y: sp.csr_matrix, n_jobs: int, scale: float = 1.0
) -> tuple[Array, float]:
    """Σ weights / scale of the rows with each label, and of all rows, over all workers.

    Sums are over integers, so that they do not depend on the partitions.
    """
    units = None
    if weights.rows is not None:
        units = np.rint(weights.rows.astype(np.float64) * _kernels.WEIGHT_SCALE).astype(np.int64)
        scale *= _kernels.WEIGHT_SCALE
    of_all = Y.shape[0] if units is None else units.sum()
    total = comm.allreduce(np.append(column_counts(Y, n_jobs, units), of_all))
    return total[:-1] / scale, float(total[-1] / scale)


def agree_on_weights(comm: Communicator, part: SparsePartition, class_weight: Any, n_rows: int) -> None:
    """Resolve ``class_weight`` over all workers, and scale the weights of the rows for fixed-point sums.

    The scale is a power of two: the weights are at least 1 for some row, and their sum over all rows, with label
    weights, is less than 2³¹. It is 1 for ordinary weights.
    """
    rows, form = part.weights.rows, part.targets
    if rows is None or _extremes(comm, rows) == (1.0, 1.0):
        rows = None
    labels = None
    if class_weight is not None:
        scale = 1.0 if rows is None else _fixed_point_scale(_extremes(comm, rows)[1], n_rows)
        counts, _ = common_counts(comm, TrainingWeights(_times(rows, scale)), form.matrix, part.n_jobs)
        labels = label_weights(class_weight, form.names, counts)
        if labels is not None and form.kind in ONE_CLASS_PER_ROW:  # weights of the rows, as in scikit-learn
            of_rows = labels[form.matrix.indices]
            rows, labels = of_rows if rows is None else rows * of_rows, None
    largest = 1.0 if rows is None else _extremes(comm, rows)[1]
    scale = _fixed_point_scale(largest, n_rows, 1.0 if labels is None else max(1.0, float(labels.max())))
    if rows is None and scale != 1:
        rows = np.ones(part.n_rows, np.float32)
    part.weights, part.weight_scale = TrainingWeights(_times(rows, scale), labels), scale


def _extremes(comm: Communicator, rows: Array) -> tuple[float, float]:
    lowest, highest = zip(*comm.allgather((float(rows.min()), float(rows.max()))), strict=True)
    return min(lowest), max(highest)


def _times(rows: Array | None, scale: float) -> Array | None:
    return None if rows is None else rows * np.float32(scale)


def _fixed_point_scale(largest: float, n_rows: int, factor: float = 1.0) -> float:
    up = max(0, -math.floor(math.log2(largest)))
    down = max(0, math.ceil(math.log2(largest * factor * max(n_rows, 1))) - 31)
    return 2.0 ** (-down if down else up)


def describe_prior(
    comm: Communicator, part: Partition, rows: RowsInfo, label_counts: Array
) -> EmptyRows | None:
    """The same for boosting from a base score; None if there are enough empty rows for trees to learn from."""
    if not rows.sparse or count_empty_rows(comm, part) >= ENOUGH_EMPTY:
        return None
    counts = comm.allreduce(feature_counts(part.features, part.n_jobs))
    return EmptyRows.from_counts(
        counts, rows.n_rows, (label_counts, rows.n_rows), (np.zeros_like(label_counts), 0.0)
    )


def sample(comm: Communicator, part: Partition, most: int, *key: int) -> Array | None:
    """Local indices of a sample of ``most`` rows over all workers, by smallest hash; None if that is all rows."""
    n_rows = sum(comm.allgather(part.n_rows))
    if n_rows <= most:
        return None
    hashes = part.row_hashes(*key)
    smallest = hashes[smallest_hashes(hashes, most)] if len(hashes) > most else hashes
    last = np.partition(np.concatenate(comm.allgather(smallest)), most - 1)[most - 1]
    return np.flatnonzero(hashes <= last)


def find_common_thresholds(
    comm: Communicator, part: Partition, columns: list[Features], max_bins: int, seed: int
) -> BinThresholds:
    """Bin thresholds of all features, from a sample of all workers' rows; every worker computes some features."""
    sampled = None if max_bins == EXACT_BINS else sample(comm, part, SAMPLE_ROWS, seed)
    if sampled is not None:
        columns = [X[sampled] if sp.issparse(X) else take_rows(X, sampled, part.n_jobs) for X in columns]
    first = np.cumsum([0, *(X.shape[1] for X in columns)]).tolist()
    pieces = comm.alltoall(
        [
            [_between(X, a - at, b - at) for X, at in zip(columns, first, strict=False)]
            for a, b in even_ranges(np.ones(first[-1]), comm.size)
        ]
    )
    assigned = [stack_rows(list(blocks)) for blocks in zip(*pieces, strict=True)]
    assigned = [X for X in assigned if X.shape[1]]
    return join_thresholds(
        comm.allgather(
            find_thresholds(assigned, max_bins, seed, part.n_jobs) if assigned else BinThresholds.none()
        )
    )


def fit_common_projection(
    comm: Communicator, part: SparsePartition, kind: str, dim: int, *, keep_raw: bool, seed: int, verbose: int
) -> Projection:
    """Fit a projection on a sample of all rows, on the first worker, and broadcast it."""
    if kind == "random":  # depends only on the number of features
        sampled: Any = slice(0, 1)
    else:
        sampled = sample(comm, part, PROJECTION_ROWS, seed, PROJECTION)
    X, Y, _ = gather_rows(comm, part, slice(None) if sampled is None else sampled)
    projection = run_together(
        comm,
        lambda: (
            None
            if comm.rank
            else fit_projection(
                kind, X, Y, dim, keep_raw=keep_raw, seed=seed, n_jobs=part.n_jobs, verbose=verbose
            )
        ),
    )
    fitted = comm.broadcast(projection)
    assert fitted is not None
    return fitted


def gather_rows(
    comm: Communicator, part: SparsePartition, which: Any = slice(None)
) -> tuple[Any, Any, TrainingWeights]:
    """Gather features, labels and (unscaled) weights of some rows of every worker on the first worker."""
    whole = isinstance(which, slice) and which == slice(None)
    rows = part.features, part.targets.matrix, part.unscaled_weights()
    chosen = rows if whole else (rows[0][which], rows[1][which], rows[2].take(which))
    none = rows[0][:0], rows[1][:0], rows[2].take(slice(0, 0))
    return join_rows(comm.alltoall([chosen, *[none] * (comm.size - 1)]))


def join_rows(pieces: Sequence[tuple[Any, Any, TrainingWeights]]) -> tuple[Any, Any, TrainingWeights]:
    """Concatenate the rows of several workers."""
    features, labels, weights = zip(*pieces, strict=True)
    rows = None if weights[0].rows is None else stack_rows([one.rows for one in weights])
    return stack_rows(features), stack_rows(labels), TrainingWeights(rows, weights[0].labels)


def stack_rows(blocks: Sequence[Any]) -> Any:
    """Concatenate blocks of rows."""
    if len(blocks) == 1:
        return blocks[0]
    if sp.issparse(blocks[0]):
        return sp.vstack(blocks, format="csr")
    return np.ascontiguousarray(np.concatenate(blocks))


def _between(X: Features, first: int, end: int) -> Features:
    """A range of columns; X itself if that is all of them."""
    first, end = max(first, 0), min(max(end, 0), X.shape[1])
    return X if (first, end) == (0, X.shape[1]) else X[:, first:end]
