"""A shard whose labels, scores and residuals are sparse (GBDT-SPARSE)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sparseleaf import _kernels
from sparseleaf._arrays import csr_parts, even_ranges
from sparseleaf._limits import untouched_memory_counts
from sparseleaf.data.weights import NO_WEIGHTS
from sparseleaf.training.shard import Shard

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.data.weights import TrainingWeights
    from sparseleaf.distributed.placement import Placement
    from sparseleaf.training.columns import Columns
    from sparseleaf.training.leaves import LabelSums, LeafRule
    from sparseleaf.training.sketches import SketchPlan
    from sparseleaf.training.tree import LeafVectors

SPARE_ENTRIES = 1 << 16
"""Buffer entries that are not worth releasing."""

BLOCK_ROWS = 16_384
"""Rows whose entries are in one buffer. A power of two."""

GROWTH = 8
"""Size of a new buffer, in what it is needed for now: later trees add labels."""

LIMITED_GROWTH = 2
"""The same where memory counts that is never written."""

Block = tuple["Array", "Array", "Array", "Array"]
"""Starts and ends of the rows, and their entries: labels and scores."""


@dataclass
class _Buffer:
    """Room for the entries of a block, of which the first ``touched`` have been written.

    The pages behind take no memory. The system clears a page when it is written first, which takes longer than a
    merge: a buffer is used again for the next block and tree, and is much larger than it must be at first.
    """

    labels: Array
    scores: Array
    touched: int

    @classmethod
    def of(cls, size: int) -> _Buffer:
        room = size * (LIMITED_GROWTH if untouched_memory_counts() else GROWTH)
        return cls(np.empty(room, np.uint32), np.empty(room, np.float32), 0)

    def suits(self, size: int) -> bool:
        """Whether it is large enough, and does not waste memory, as after a block with many labels."""
        return size <= len(self.labels) and self.touched <= 4 * size + SPARE_ENTRIES


class SparseShard(Shard):
    """Rows with their bins, labels and scores.

    Parameters
    ----------
    bins, missing_bins, n_jobs, first_row
        See :class:`Shard`.
    targets : CSR matrix, shape (n_rows, n_labels)
        Stored entries are the labels of a row.
    loss : int
        Kernel code of the loss.
    weights : TrainingWeights
        Weights of the rows, and of the labels of a row.
    """

    def __init__(
        self,
        bins: Array,
        missing_bins: Array,
        targets: sp.csr_matrix,
        loss: int,
        n_jobs: int,
        *,
        first_row: int = 0,
        block_rows: int = BLOCK_ROWS,
        weights: TrainingWeights = NO_WEIGHTS,
    ) -> None:
        super().__init__(bins, missing_bins, n_jobs, first_row=first_row)
        self._targets: sp.csr_matrix | None = targets
        self._loss = loss
        self._block_rows = block_rows
        self._rows_of_blocks: list[tuple[Array, Array]] = []
        self._buffers: list[_Buffer] = []
        self._spare = _Buffer(np.empty(0, np.uint32), np.empty(0, np.float32), 0)
        self._n_labels = targets.shape[1]
        self._columns = np.empty((0, 0), np.float32)
        self._weights = weights
        self._loss_weights: _kernels.LossWeights | None = None

    def start(self, rank_of: Array, n_ranked: int, scores: sp.csr_matrix | None = None) -> None:
        """Initialise the scores; labels are renumbered by rank (most frequent first), those of rank -1 dropped.

        ``scores`` are those of an initial model; without one, they are 0.
        """
        targets, self._targets = self._targets, None
        assert targets is not None
        self._n_labels = n_ranked
        labels = self._weights.labels
        if labels is not None:
            of_rank = np.empty(n_ranked, np.float32)
            of_rank[rank_of[rank_of >= 0]] = labels[rank_of >= 0]
            self._weights = replace(self._weights, labels=of_rank)
        self._weigh()

        indptr, truth = (
            np.ascontiguousarray(targets.indptr, np.int64),
            np.ascontiguousarray(targets.indices, np.int32),
        )
        before = np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32)
        if scores is not None:
            before = csr_parts(scores)
        rank_of = np.ascontiguousarray(rank_of, np.int32)
        for begin in range(0, self.n_rows, self._block_rows):
            end = min(self.n_rows, begin + self._block_rows)
            self._append_block(
                *_kernels.start_rows(indptr, truth, *before, rank_of, begin, end, self._n_jobs)
            )

    def _append_block(self, indptr: Array, labels: Array, scores: Array) -> None:
        self._rows_of_blocks.append((indptr[:-1], indptr[1:]))
        self._buffers.append(_Buffer(labels, scores, len(labels)))

    @property
    def _blocks(self) -> list[Block]:
        rows_and_entries = zip(self._rows_of_blocks, self._buffers, strict=True)
        return [(starts, ends, room.labels, room.scores) for (starts, ends), room in rows_and_entries]

    def _weigh(self) -> None:
        rows, labels = self._weights.rows, self._weights.labels
        none = np.empty(0, np.float32)
        if rows is not None or labels is not None:
            self._loss_weights = _kernels.LossWeights(
                none if rows is None else rows, none if labels is None else labels
            )

    def label_norms(self) -> Array:
        """Σ weight · residual² of every label, in fixed point, int64."""
        norms = np.empty(self._n_labels, np.int64)
        _kernels.column_norms(self._blocks, self._loss, norms, self._n_jobs, self._loss_weights)
        return norms

    @property
    def largest_weight(self) -> float:
        """Largest weight of a row; 0 without weights."""
        return 0.0 if self._weights.rows is None else float(self._weights.rows.max(initial=0))

    def sketch(self, plan: SketchPlan, width: int) -> float:
        """Compute the sketched residuals and return their largest absolute value."""
        if self._columns.shape[1] != width:
            self._columns = np.empty((self.n_rows, width), np.float32)
            self.make_columns(width + (self._weights.rows is not None))
        return plan.fill(
            self._blocks, self._n_labels, self._loss, self._columns, self._n_jobs, self._loss_weights
        )

    def quantise(self, scales: Array, key: int | None) -> Array:
        """Quantise the sketch to 16-bit integers and return Σ of absolute values per column, int64.

        With row weights, they are the last column.
        """
        width, weights = self._columns.shape[1], self._weights.rows
        sums = self._quantise(self._columns, 0, scales[:width], 0, key)
        if weights is None:
            return sums
        return np.concatenate((sums, self._quantise(weights[:, None], 0, scales[width:], width, key)))

    def _fitted(self, columns: Columns | None) -> Any:
        if columns is None:
            return _kernels.ResidualBlocks(self._blocks, self._n_labels, self._loss, self._loss_weights)
        return super()._fitted(columns)

    def leaf_vectors(self, leaves: list[int], counts: Array, rule: LeafRule) -> LeafVectors:
        """Leaf vectors of the given leaves; ``counts`` are their rows over all workers."""
        starts, ends = self._rows.ranges(leaves)
        return rule.vectors(
            self._blocks,
            self._rows.rows,
            starts,
            ends,
            self._n_labels,
            self._loss,
            self._n_jobs,
            self._loss_weights,
            None if self._weights.rows is None else self._leaf_units(leaves) / _kernels.WEIGHT_SCALE,
        )

    def _leaf_units(self, leaves: list[int]) -> Array:
        """Σ weights of this worker's rows in every leaf, in the kernels' fixed point, int64."""
        assert self._weights.rows is not None
        units = np.rint(self._weights.rows.astype(np.float64) * _kernels.WEIGHT_SCALE).astype(np.int64)
        before = np.concatenate(([0], np.cumsum(units[self._rows.rows])))
        starts, ends = self._rows.ranges(leaves)
        sums: Array = before[ends] - before[starts]
        return sums

    def all_leaf_vectors(
        self, place: Placement, leaves: list[int], counts: Array, rule: LeafRule
    ) -> list[LeafVectors]:
        """Leaf vectors of all leaves, in consecutive parts, one computed by each worker.

        ``counts`` are the leaves' rows over all workers.
        """
        if place.rows.size > 1:
            pieces = place.rows.alltoall(self._leaf_sums_by_worker(place, leaves, counts))
            first, end = even_ranges(counts, place.rows.size)[place.rows.rank]
            totals = counts.astype(np.float64)
            if self._weights.rows is not None:
                totals = place.rows.allreduce(self._leaf_units(leaves)) / _kernels.WEIGHT_SCALE
            vectors = rule.vectors_of_sums(
                pieces, totals[first:end], self._n_labels, self._n_jobs, self._loss_weights
            )
            return place.rows.allgather(vectors)
        k = self._n_labels if rule.leaf_labels is None else rule.leaf_labels
        bounds = self._leaf_share(leaves, 8 * k)
        if bounds is None:
            return [self.leaf_vectors(leaves, counts, rule)]
        share = slice(*bounds)
        return place.workers.allgather(self.leaf_vectors(leaves[share], counts[share], rule))

    def _leaf_sums_by_worker(self, place: Placement, leaves: list[int], counts: Array) -> list[LabelSums]:
        """Σ residuals of this worker's rows, by the worker that computes the leaves."""
        starts, ends = self._rows.ranges(leaves)
        indptr, labels, sums, positives = _kernels.leaf_label_sums(
            self._blocks,
            self._rows.rows,
            starts,
            ends,
            self._n_labels,
            self._loss,
            self._n_jobs,
            self._loss_weights,
        )
        pieces = []
        for first, end in even_ranges(counts, place.rows.size):
            entries = slice(indptr[first], indptr[end])
            sizes = indptr[first : end + 1] - indptr[first]
            pieces.append((sizes, labels[entries], sums[entries], positives[entries]))
        return pieces

    def topk(self, k: int, ids: Array) -> Array:
        """The k highest-scoring labels of every row as label ids, int32 (n_rows, k), padded with -1."""
        labels, scores = np.empty((self.n_rows, k), np.int32), np.empty((self.n_rows, k), np.float32)
        _kernels.topk_scores(self._blocks, ids, labels, scores, self._n_jobs)
        return labels

    def n_entries(self) -> int:
        """Number of stored (row, label) scores."""
        return sum(int((ends - starts).sum()) for starts, ends in self._rows_of_blocks)

    def _add(self, vectors: LeafVectors, leaf_of_row: Array) -> None:
        """Merge block by block, each into the buffer that the previous block released."""
        sizes = np.diff(vectors.indptr)
        for i, (starts, ends, labels, scores) in enumerate(self._blocks):
            block_leaves = leaf_of_row[i * self._block_rows : (i + 1) * self._block_rows]
            size = int((ends - starts).sum() + sizes[block_leaves].sum())  # if no row has a label of its leaf
            room = self._spare if self._spare.suits(size) else _Buffer.of(size)
            self._rows_of_blocks[i] = _kernels.merge_leaves(
                starts,
                ends,
                labels,
                scores,
                block_leaves,
                vectors.indptr,
                vectors.labels,
                vectors.values,
                room.labels,
                room.scores,
                self._n_jobs,
            )
            room.touched = max(room.touched, size)
            self._spare, self._buffers[i] = self._buffers[i], room

    def _state(self) -> tuple[Any, ...]:
        packed = [_packed(*block) for block in self._blocks]
        none = np.empty(0, np.int64), np.empty(0, np.uint32), np.empty(0, np.float32)
        return (
            self._draws,
            *(np.concatenate(parts) for parts in zip(none, *packed, strict=True)),
            self._n_labels,
            self._weights,
        )

    def _adopt_state(self, states: list[tuple[Any, ...]]) -> None:
        sizes, labels, scores = (np.concatenate([state[i] for state in states]) for i in (1, 2, 3))
        self._n_labels = states[0][4]
        if self._weights.rows is not None:
            self._weights = replace(self._weights, rows=np.concatenate([state[5].rows for state in states]))
        self._weigh()
        indptr = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        self._rows_of_blocks, self._buffers = [], []
        for begin in range(0, len(sizes), self._block_rows):
            borders = indptr[begin : begin + self._block_rows + 1]
            entries = slice(borders[0], borders[-1])
            self._append_block(borders - borders[0], labels[entries].copy(), scores[entries].copy())


def _packed(starts: Array, ends: Array, labels: Array, scores: Array) -> tuple[Array, Array, Array]:
    """Sizes and entries of a block's rows, without the unused entries between them."""
    sizes = ends - starts
    place = np.repeat(starts - (np.cumsum(sizes) - sizes), sizes) + np.arange(sizes.sum())
    return sizes, labels[place], scores[place]
