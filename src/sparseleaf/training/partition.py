"""Partition: the rows of one worker, checked, until they are binned.

What all workers must agree on before the first tree (numbers of rows, cuts, projection) comes out as if one worker had
all the rows, in the same order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sparseleaf._arrays import even_ranges, hash_numbers, require_countable, smallest_hashes
from sparseleaf.binning import EXACT_BINS, SAMPLE_ROWS, Cuts, find_cuts, join_cuts
from sparseleaf.data.rows import RowsInfo, join_info
from sparseleaf.data.targets import Targets, form_of, relabelled
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
"""Empty training rows from which boosted trees know what these mean."""

PROJECTION_ROWS = 1 << 17
"""Rows that a projection is fitted on: all, or so many of them, chosen by a hash of their numbers."""

PROJECTION = 31
"""What a hash of row numbers is for: part of its key."""


class Partition:
    """Rows of features.

    Attributes
    ----------
    features : float32 array or CSR matrix
    names : list of str or None
        Names of its columns.
    first_row : int
        Number of the first row among those of all workers.
    """

    def __init__(self, features: Features, names: list[str] | None, n_jobs: int) -> None:
        self.features = features
        self.names = names
        self.n_jobs = n_jobs
        self.first_row = 0

    @property
    def n_rows(self) -> int:
        """Rows here."""
        return int(self.features.shape[0])

    def form(self) -> dict[str, Any]:
        """What all partitions must have in common."""
        return {
            "n_features": self.features.shape[1],
            "feature names": self.names,
            "X": "sparse" if sp.issparse(self.features) else "dense",
        }

    def fingerprints(self) -> Prints:
        """Fingerprints of the rows, by argument of ``fit``."""
        raise NotImplementedError

    def row_hashes(self, *key: int) -> Array:
        """A hash of the number of every row."""
        return hash_numbers(np.arange(self.first_row, self.first_row + self.n_rows), *key)

    def number_rows(self, comm: Communicator) -> int:
        """Number the rows on from those of the workers before; how many all have."""
        sizes = comm.allgather(self.n_rows)
        self.first_row = sum(sizes[: comm.rank])
        return sum(sizes)


class SparsePartition(Partition):
    """Rows of features and their labels.

    Attributes
    ----------
    targets : Targets
    """

    def __init__(self, features: Features, names: list[str] | None, targets: Targets, n_jobs: int) -> None:
        super().__init__(features, names, n_jobs)
        self.targets = targets

    def form(self) -> dict[str, Any]:
        """See :class:`Partition`."""
        return super().form() | form_of(self.targets.kind, self.targets.n_labels)

    def relabel(self, form: Targets) -> None:
        """Take the labels that all partitions have together."""
        self.targets = relabelled(self.targets, form)

    def keep(self, seen: Array) -> None:
        """Go on with some of the rows."""
        self.features = self.features[seen]
        self.targets = Targets(self.targets.matrix[seen], self.targets.names, self.targets.kind)

    def label_counts(self) -> Array:
        """Rows that have each label, int64."""
        matrix = self.targets.matrix
        return np.bincount(matrix.indices, minlength=matrix.shape[1]).astype(np.int64)

    def empty_label_counts(self) -> Array:
        """Rows without features that have each label, int64; of sparse rows only."""
        Y = self.targets.matrix
        return np.bincount(Y[find_empty(self.features)].indices, minlength=Y.shape[1])

    def fingerprints(self) -> Prints:
        """See :class:`Partition`."""
        Y = self.targets.matrix
        return {
            "X": (self.features.shape, fingerprint(self.features, self.first_row)),
            "y": (Y.shape, fingerprint(Y, self.first_row)),
        }


def describe_rows(comm: Communicator, part: Partition) -> RowsInfo:
    """Number the rows of all partitions; what they are like together."""
    found = comm.allgather(RowsInfo.of(part.features, part.names))
    info = join_info(found)
    require_countable("X", info.n_rows, "rows in all parts")  # histograms add up counts of all of them
    for number, one in enumerate(found):
        if not one.n_rows:
            raise ValueError(f"X: found no rows in part {number}; wanted at least one in every part.")
    part.number_rows(comm)
    return info


def count_empty_rows(comm: Communicator, part: Partition) -> int:
    """Rows without features, where rows are sparse."""
    return int(comm.allreduce(np.array([np.count_nonzero(find_empty(part.features))]))[0])


def describe_empty_rows(
    comm: Communicator, part: SparsePartition, rows: RowsInfo, label_counts: Array
) -> EmptyRows | None:
    """What rows without a known feature get; None where rows are dense."""
    if not rows.sparse:
        return None
    counts = comm.allreduce(feature_counts(part.features))
    of_empty = comm.allreduce(part.empty_label_counts())
    return EmptyRows.from_counts(counts, label_counts, rows.n_rows, of_empty, count_empty_rows(comm, part))


def describe_prior(
    comm: Communicator, part: Partition, rows: RowsInfo, label_counts: Array
) -> EmptyRows | None:
    """The same for boosting from a base score, whose trees learn what empty rows mean where there are some."""
    if not rows.sparse or count_empty_rows(comm, part) >= ENOUGH_EMPTY:
        return None
    counts = comm.allreduce(feature_counts(part.features))
    return EmptyRows.from_counts(counts, label_counts, rows.n_rows, np.zeros_like(label_counts), 0)


def sample(comm: Communicator, part: Partition, most: int, *key: int) -> Array | None:
    """Rows here that are among the ``most`` of all workers with the smallest hashes; None where that is all of them."""
    n_rows = sum(comm.allgather(part.n_rows))
    if n_rows <= most:
        return None
    hashes = part.row_hashes(*key)
    own = hashes[smallest_hashes(hashes, most)] if len(hashes) > most else hashes
    last = np.partition(np.concatenate(comm.allgather(own)), most - 1)[most - 1]
    return np.flatnonzero(hashes <= last)


def find_all_cuts(
    comm: Communicator, part: Partition, columns: list[Features], max_bins: int, seed: int
) -> Cuts:
    """Cuts of all features, from all rows or a sample of them; every worker finds those of some features."""
    sampled = None if max_bins == EXACT_BINS else sample(comm, part, SAMPLE_ROWS, seed)
    if sampled is not None:
        columns = [X[sampled] for X in columns]
    first = np.cumsum([0, *(X.shape[1] for X in columns)]).tolist()
    pieces = comm.alltoall(
        [
            [_between(X, a - at, b - at) for X, at in zip(columns, first, strict=False)]
            for a, b in even_ranges(np.ones(first[-1]), comm.size)
        ]
    )
    own = [stack_rows(list(found)) for found in zip(*pieces, strict=True)]
    own = [X for X in own if X.shape[1]]
    return join_cuts(comm.allgather(find_cuts(own, max_bins, seed, part.n_jobs) if own else Cuts.none()))


def fit_common_projection(
    comm: Communicator, part: SparsePartition, kind: str, dim: int, *, keep_raw: bool, seed: int, verbose: int
) -> Projection:
    """A projection fitted on all rows, or a sample of them, by the first worker."""
    if kind == "random":  # drawn by the size of X alone
        sampled: Any = slice(0, 1)
    else:
        sampled = sample(comm, part, PROJECTION_ROWS, seed, PROJECTION)
    X, Y = gather_rows(comm, part, slice(None) if sampled is None else sampled)
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
    found = comm.broadcast(projection)
    assert found is not None
    return found


def gather_rows(comm: Communicator, part: SparsePartition, which: Any = slice(None)) -> tuple[Any, Any]:
    """Features and labels of some rows of every worker, on the first one; none elsewhere."""
    whole = isinstance(which, slice) and which == slice(None)
    features, labels = part.features, part.targets.matrix
    own = (features, labels) if whole else (features[which], labels[which])
    none = features[:0], labels[:0]
    pieces = comm.alltoall([own, *[none] * (comm.size - 1)])
    return stack_rows([X for X, _ in pieces]), stack_rows([Y for _, Y in pieces])


def stack_rows(blocks: Sequence[Any]) -> Any:
    """Rows that follow each other."""
    if len(blocks) == 1:
        return blocks[0]
    if sp.issparse(blocks[0]):
        return sp.vstack(blocks, format="csr")
    return np.ascontiguousarray(np.concatenate(blocks))


def _between(X: Features, first: int, end: int) -> Features:
    """Some of the columns; X itself where that is all of them."""
    first, end = max(first, 0), min(max(end, 0), X.shape[1])
    return X if (first, end) == (0, X.shape[1]) else X[:, first:end]
