"""A shard with dense targets whose boosting rounds run on a GPU; only sums, splits and leaf values are copied.

Kernels are in ``round.cu``; what they compute is what :class:`~sparseleaf.training.dense_shard.DenseShard` computes, to
the bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sparseleaf._arrays import mix64
from sparseleaf.cuda import device as gpu
from sparseleaf.cuda.builder import CHUNK_ROWS, DeviceBins
from sparseleaf.cuda.device import THREADS, Kernels, blocks_of, chunks_of
from sparseleaf.training.builder import BinnedColumns, gradient_columns
from sparseleaf.training.columns import padded_width
from sparseleaf.training.dense_shard import DenseShard
from sparseleaf.training.shard import RowsByLeaf

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.cuda.builder import DeviceTreeBuilder
    from sparseleaf.distributed.communicator import Communicator
    from sparseleaf.distributed.placement import Placement
    from sparseleaf.objectives.dense import RowObjective
    from sparseleaf.training.builder import GrownTree, TreeSample
    from sparseleaf.training.columns import Columns
    from sparseleaf.training.tree import FlatTree, LeafVectors

BLOCK_ROWS = 1024
"""Rows of a block of threads."""

NO_ROWS = np.empty(0, np.int32)


class DeviceDenseShard(DenseShard):
    """See :class:`~sparseleaf.training.dense_shard.DenseShard`; scores, gradients and rows are on the device.

    ``loss`` is one whose gradients are computed there.
    """

    loss: RowObjective

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._device = gpu.open_device()
        gpu.require_memory(self._device, self._bytes())
        self._bins = DeviceBins.of(self._device, self.bins)
        targets = self.targets
        self._kernels = Kernels(
            self._device,
            all_bins=self._bins.bins,
            all_row_bytes=self._bins.row_bytes,
            n_rows=self.n_rows,
            outputs=self.scores.shape[1],
            block_rows=BLOCK_ROWS,
            targets=self._uploaded(targets.values),
            classes=self._uploaded(targets.classes),
            weights=self._uploaded(targets.weights),
            weight_columns=targets.weights.shape[1] if len(targets.weights) else 0,
            first_row=self._first_row,
        )
        self.scores = self._device.upload(self.scores)
        self._all = self._device.upload(np.arange(self.n_rows, dtype=np.int32))
        self._leaf_of_row = self._device.empty(self.n_rows, np.int32)
        self._device_rows = self._all

    def _bytes(self) -> int:
        """Memory on the device, but for that of single trees."""
        targets, pairs = self.targets, self.scores.size
        fills = self.loss.fills(
            self.loss.hessian_room(targets, self.scores.shape), targets, self.scores.shape
        )
        columns = padded_width(self.scores.shape[1] * (1 + fills))
        known = targets.values.nbytes + targets.classes.nbytes + targets.weights.nbytes
        row_bytes = -(-self.bins.shape[1] // 4) * 4
        per_row = row_bytes + 2 * columns + 16
        return int(known + self.n_rows * per_row + 4 * pairs * (2 + fills))

    def _uploaded(self, array: Array) -> Any:
        return self._device.upload(array) if len(array) else None

    def _take(self, scores: Any, rows: Array) -> Array:
        taken = self._device.empty((len(rows), scores.shape[1]), np.float32)
        self._kernels.launch(
            "take_rows",
            blocks_of(taken.size),
            scores=scores,
            rows=self._device.upload(rows.astype(np.int32)),
            n_rows=len(rows),
            taken=taken,
        )
        return self._device.download(taken)

    def bag(self, fold: Array, n_models: int) -> None:
        """See :class:`~sparseleaf.training.dense_shard.DenseShard`."""
        gpu.require_memory(self._device, (n_models - 1) * self.scores.nbytes)
        super().bag(fold, n_models)

    # --- gradients

    def gradients(self, round_number: int) -> tuple[Array, Array]:
        """See :class:`~sparseleaf.training.dense_shard.DenseShard`."""
        loss, shape = self.loss, self.scores.shape
        if self._g.shape != shape:
            self._g = self._device.empty(shape, np.float32)
            self._diagonal = loss.hessian_room(self.targets, shape)
            self._fills = loss.fills(self._diagonal, self.targets, shape)
            room = self._diagonal
            self._h = self._device.empty(shape, np.float32) if self._fills else self._device.upload(room)
        largest = self._device.upload(np.zeros((2, shape[1]), np.int32))
        self._kernels.launch(
            f"gradients_{loss.name.replace('-', '_')}",
            -(-self.n_rows // BLOCK_ROWS),
            4 * THREADS,
            scores=self.scores,
            parameter=loss.parameter,
            g=self._g,
            h=self._h if self._fills else None,
            largest=largest,
        )
        of_g, of_h = self._device.download(largest).view(np.float32)
        if self._fills:
            return of_g, of_h
        weights = self._diagonal
        return of_g, weights.max(axis=0) if len(weights) else np.empty(0, np.float32)

    def make_columns(self, width: int) -> None:
        """See :class:`~sparseleaf.training.shard.Shard`."""
        padded = padded_width(width)
        if self._residuals.shape[1] == padded:
            return
        columns = np.zeros((self.n_rows, padded), np.int16)
        if width < padded:
            self._count_column = padded - 1
            columns[:, -1] = 1
        self._residuals = self._device.upload(columns)

    def _quantise(self, values: Any, first: int, scales: Array, to: int, key: int | None) -> Array:
        n = len(scales)
        sizes = self._device.upload(np.zeros(n, np.int64))
        keys = None
        if key is not None:
            columns = np.arange(to, to + n, dtype=np.uint64)
            keys = self._device.upload(mix64(columns + np.uint64(key)).view(np.int64))
        self._kernels.launch(
            "quantise",
            -(-self.n_rows // BLOCK_ROWS) * -(-n // min(n, 32)),
            4 * THREADS,
            values=values,
            n_values=values.shape[1],
            **{"from": first},
            scale=self._device.upload(scales.astype(np.float32)),
            count=n,
            out=self._residuals,
            n_out=self._residuals.shape[1],
            to=to,
            keys=keys,
            sizes=sizes,
        )
        return self._device.download(sizes)

    # --- trees

    def start_tree(self, share: float, *key: int) -> int:
        """See :class:`~sparseleaf.training.shard.Shard`."""
        if share >= 1.0 and self._left_out is None:
            self._device_rows = self._all.copy()
        else:
            super().start_tree(share, *key)
            self._device_rows = self._device.upload(self._rows.rows)
        self._rows = self._oob = RowsByLeaf.of(NO_ROWS)
        return len(self._device_rows)

    def _binned(self) -> BinnedColumns:
        return BinnedColumns(self.bins, self.missing_bins, on_device=self._bins)

    def _grow(
        self,
        builder: DeviceTreeBuilder,
        columns: Columns | None,
        sample: TreeSample,
        communicator: Communicator,
    ) -> GrownTree:
        assert columns is not None
        none = np.empty((0, self._residuals.shape[1]), np.int16)
        fitted = gradient_columns(none, self._count_column, columns)
        return builder.grow(fitted, self._residuals, self._device_rows, sample, communicator)

    # --- leaves

    def _sum_rows(self, values: Any, scale: Array, starts: Array, ends: Array) -> Array:
        n = len(scale)
        sums = self._device.upload(np.zeros((len(starts), n), np.int64))
        chunks, _ = chunks_of(starts, ends, CHUNK_ROWS)
        self._kernels.launch(
            "sum_rows",
            len(chunks) * -(-n // min(n, 32)),
            8 * THREADS,
            values=values,
            whole_values=None,
            n_values=n,
            scale=self._device.upload(scale),
            rows=self._device_rows,
            chunks=self._device.upload(chunks),
            sums=sums,
        )
        return self._device.download(sums)

    def all_leaf_quantiles(self, place: Placement, leaves: list[int], counts: Array, share: float) -> Array:
        """See :class:`~sparseleaf.training.dense_shard.DenseShard`; on the host."""
        scores, rows = self.scores, self._rows
        self.scores = self._device.download(scores)
        self._rows = rows.sorted_as(self._device.download(self._device_rows))
        quantiles = super().all_leaf_quantiles(place, leaves, counts, share)
        self.scores, self._rows = scores, rows
        return quantiles

    def add_leaves(self, tree: FlatTree, vectors: LeafVectors) -> None:
        """See :class:`~sparseleaf.training.shard.Shard`."""
        self.apply_tree(tree, vectors)

    def apply_tree(self, tree: FlatTree, vectors: LeafVectors) -> None:
        """See :class:`~sparseleaf.training.shard.Shard`."""
        names = ("feature", "bin", "missing_bin", "missing_left", "child")
        nodes = [getattr(tree, name) for name in names]
        values = np.full((len(vectors.indptr) - 1, self.scores.shape[1]), -0.0, np.float32)
        values[np.repeat(np.arange(len(values)), np.diff(vectors.indptr)), vectors.labels] = vectors.values
        on_device = [self._device.upload(array) for array in (*nodes, values)]
        self._kernels.launch(
            "route_rows",
            blocks_of(self.n_rows),
            leaf_of_row=self._leaf_of_row,
            **dict(zip(names, on_device[:-1], strict=True)),
        )
        self._kernels.launch(
            "add_leaf_values",
            blocks_of(self.scores.size),
            scores=self.scores,
            leaf_of_row=self._leaf_of_row,
            leaf_values=on_device[-1],
        )
