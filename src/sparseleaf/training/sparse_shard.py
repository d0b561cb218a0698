"""A shard whose labels, scores and residuals are sparse (GBDT-SPARSE)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sparseleaf import _kernels
from sparseleaf._arrays import even_ranges
from sparseleaf._threads import in_threads
from sparseleaf.training.shard import BLOCK_ROWS, Shard

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.distributed.placement import Placement
    from sparseleaf.training.columns import Columns
    from sparseleaf.training.leaves import LeafRule
    from sparseleaf.training.sketches import Plan
    from sparseleaf.training.tree import LeafVectors

SPARE_ENTRIES = 1 << 16
"""Room that is not worth giving back."""

TRUTH_BIT = np.uint32(1 << 31)

Block = tuple["Array", "Array", "Array"]


class SparseShard(Shard):
    """Rows with their bins, labels and scores.

    Parameters
    ----------
    bins, missing_bins, n_jobs, first_row
        See :class:`Shard`.
    targets : CSR matrix, shape (n_rows, n_labels)
        What is stored is true.
    loss : int
        The loss's code.
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
    ) -> None:
        super().__init__(bins, missing_bins, n_jobs, first_row=first_row)
        self._targets: sp.csr_matrix | None = targets
        self._loss = loss
        self._block_rows = block_rows
        self._blocks: list[Block] = []
        self._spare: tuple[Array, Array] = np.empty(0, np.uint32), np.empty(0, np.float32)
        self._n_labels = targets.shape[1]
        self._columns = np.empty((0, 0), np.float32)

    def start(self, rank_of: Array, n_ranked: int) -> None:
        """Make the empty scores; labels are kept by rank (most frequent first), unseen ones (-1) not at all."""
        targets, self._targets = self._targets, None
        assert targets is not None
        self._n_labels = n_ranked

        def ranked_block(begin: int) -> Block:
            block = targets[begin : begin + self._block_rows]
            ranks = rank_of[block.indices]
            known = ranks >= 0
            rows = np.repeat(np.arange(block.shape[0]), np.diff(block.indptr))[known]
            ranked = sp.csr_matrix(
                (np.zeros(len(rows), np.float32), (rows, ranks[known])),
                shape=(block.shape[0], max(n_ranked, 1)),
            )
            ranked.sort_indices()
            return (
                ranked.indptr.astype(np.int64),
                ranked.indices.astype(np.uint32) | TRUTH_BIT,
                np.zeros(len(ranked.indices), np.float32),
            )

        self._blocks = in_threads(ranked_block, range(0, self.n_rows, self._block_rows), self._n_jobs)

    def label_norms(self) -> Array:
        """Σ residual² of every label, in fixed point, int64."""
        norms = np.empty(self._n_labels, np.int64)
        _kernels.column_norms(self._blocks, self._loss, norms, self._n_jobs)
        return norms

    def reduce(self, plan: Plan, width: int) -> float:
        """Fill the columns of reduced residuals; their largest absolute value."""
        if self._columns.shape[1] != width:
            self._columns = np.empty((self.n_rows, width), np.float32)
            self.make_columns(width)
        return plan.fill(self._blocks, self._n_labels, self._loss, self._columns, self._n_jobs)

    def quantise(self, scales: Array, key: int | None) -> Array:
        """Columns to 16-bit integers; Σ of their absolute values, int64, shape (width,)."""
        return self._quantise(self._columns, 0, scales, 0, key)

    def _fitted(self, columns: Columns | None) -> Any:
        if columns is None:
            return _kernels.ResidualBlocks(self._blocks, self._n_labels, self._loss)
        return super()._fitted(columns)

    def leaf_vectors(self, leaves: list[int], counts: Array, rule: LeafRule) -> LeafVectors:
        """The vectors of the given nodes, as leaves; ``counts`` are their rows over all shards."""
        starts, ends = self._rows.ranges(leaves)
        return rule.vectors(
            self._blocks, self._rows.rows, starts, ends, self._n_labels, self._loss, self._n_jobs
        )

    def all_leaf_vectors(
        self, place: Placement, leaves: list[int], counts: Array, rule: LeafRule
    ) -> list[LeafVectors]:
        """The vectors of the leaves, in shares that follow each other; every worker makes one of these.

        ``counts`` are the leaves' rows over all workers.
        """
        if place.rows.size > 1:
            total = sum_pieces(place.rows.alltoall(self._leaf_sums_by_worker(place, leaves, counts)))
            first, end = even_ranges(counts, place.rows.size)[place.rows.rank]
            return place.rows.allgather(rule.vectors_of_sums(total, counts[first:end]))
        k = self._n_labels if rule.leaf_labels is None else rule.leaf_labels
        own = self._own_leaves(leaves, 8 * k)
        if own is None:
            return [self.leaf_vectors(leaves, counts, rule)]
        share = slice(*own)
        return place.workers.allgather(self.leaf_vectors(leaves[share], counts[share], rule))

    def _leaf_sums_by_worker(self, place: Placement, leaves: list[int], counts: Array) -> list[sp.csr_matrix]:
        """Σ residuals of the rows here, for the workers that make the leaves."""
        starts, ends = self._rows.ranges(leaves)
        indptr, labels, sums = _kernels.leaf_label_sums(
            self._blocks, self._rows.rows, starts, ends, self._n_labels, self._loss, self._n_jobs
        )
        matrix = sp.csr_matrix(
            (sums, labels.astype(np.int32), indptr), shape=(len(leaves), max(self._n_labels, 1))
        )
        return [matrix[a:b] for a, b in even_ranges(counts, place.rows.size)]

    def topk(self, k: int, ids: Array) -> Array:
        """The k best labels of every row so far as label ids, int32 (n_rows, k), -1 where there are fewer."""
        labels, scores = np.empty((self.n_rows, k), np.int32), np.empty((self.n_rows, k), np.float32)
        _kernels.topk_scores(self._blocks, ids, labels, scores, self._n_jobs)
        return labels

    def n_entries(self) -> int:
        """Stored (row, label) entries."""
        return sum(int(indptr[-1]) for indptr, _, _ in self._blocks)

    def _add(self, vectors: LeafVectors, leaf_of_row: Array) -> None:
        """Rebuild block after block, each into the room that the block before it has left."""
        for i, (indptr, labels, scores) in enumerate(self._blocks):
            own = leaf_of_row[i * self._block_rows : (i + 1) * self._block_rows]
            leaves = vectors.indptr, vectors.labels
            merged = np.empty_like(indptr)
            places = _kernels.merged_indptr(indptr, labels, own, *leaves, merged, self._n_jobs)
            size = int(merged[-1])
            # neither too small nor, after a block of many labels, so large that its pages would be held for nothing
            if not size <= len(self._spare[0]) <= 4 * size + SPARE_ENTRIES:
                # Twice the size, for the trees to come: pages that are not written take no memory, while new
                # ones would be cleared by the system first, which costs more than the merge.
                room = 2 * size
                self._spare = np.empty(room, np.uint32), np.empty(room, np.float32)
            _kernels.merge_leaves(
                indptr,
                labels,
                scores,
                own,
                *leaves,
                vectors.values,
                places,
                merged,
                *self._spare,
                self._n_jobs,
            )
            self._blocks[i] = (merged, *self._spare)
            self._spare = labels, scores

    def _state(self) -> tuple[Any, ...]:
        sizes = [np.diff(indptr) for indptr, _, _ in self._blocks]
        ends = [int(indptr[-1]) for indptr, _, _ in self._blocks]
        return (
            self._draws,
            np.concatenate([np.empty(0, np.int64), *sizes]),
            *(
                np.concatenate(
                    [
                        np.empty(0, dtype),
                        *(block[at][:end] for block, end in zip(self._blocks, ends, strict=True)),
                    ]
                )
                for at, dtype in ((1, np.uint32), (2, np.float32))
            ),
            self._n_labels,
        )

    def _adopt_state(self, states: list[tuple[Any, ...]]) -> None:
        sizes, labels, scores = (np.concatenate([state[i] for state in states]) for i in (1, 2, 3))
        self._n_labels = states[0][4]
        indptr = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        self._blocks = []
        for begin in range(0, len(sizes), self._block_rows):
            own = indptr[begin : begin + self._block_rows + 1]
            entries = slice(own[0], own[-1])
            self._blocks.append((own - own[0], labels[entries].copy(), scores[entries].copy()))


def sum_pieces(pieces: list[sp.csr_matrix]) -> sp.csr_matrix:
    """Their sum."""
    total = pieces[0]
    for piece in pieces[1:]:
        total = total + piece
    return total
