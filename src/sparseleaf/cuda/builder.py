"""Trees whose rows and histograms are on a GPU.

The growth loop is the CPU's (``cpp/tree/device_finder.cpp``); it calls :meth:`_DeviceTree.search` for every batch of
nodes. Sums are integers and gains have one order of operations, so that trees are those of the CPU, to the bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sparseleaf import _kernels
from sparseleaf.cuda import device as gpu
from sparseleaf.training.builder import GrownTree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sparseleaf._arrays import Array
    from sparseleaf.distributed.communicator import Communicator
    from sparseleaf.training.builder import BinnedColumns, HistogramTrees, TreeSample

THREADS = 256
LANES = 32
"""Most columns that a block of the histogram kernel has: the threads of a warp."""

CHUNK_ROWS = 4096
"""Rows of a block: enough that clearing and writing a block's part of the histogram is a small part of its work."""

SHARED_BYTES = 96 << 10
"""Shared memory of a histogram block: two of them fit a multiprocessor."""

PREFIX_BYTES = 256 << 20
"""Memory for the prefix sums of nodes that are searched together."""

PADDING = 16
"""Numbers that the gain reads beyond the last column, with weight 0."""


class DeviceTreeBuilder:
    """See :class:`~sparseleaf.training.builder.TreeBuilder`; for one worker.

    Parameters
    ----------
    trees : HistogramTrees
    binned : BinnedColumns
    builder : _kernels.DeviceTreeBuilder
    """

    def __init__(
        self, trees: HistogramTrees, binned: BinnedColumns, builder: _kernels.DeviceTreeBuilder
    ) -> None:
        self.device = gpu.open_device()
        self.arguments = gpu.Arguments(gpu.kernel_source())
        self.trees = trees
        self.bins = self.device.upload(binned.bins)
        self.n_columns = binned.bins.shape[1]
        self._builder = builder
        self._slots = self.device.empty(0, np.int32)

    def build(
        self, fitted: Any, sample: TreeSample, communicator: Communicator, *, by_rows: bool
    ) -> GrownTree:
        """See :class:`~sparseleaf.training.builder.TreeBuilder`."""
        if communicator.size > 1:
            raise ValueError("Several workers require device='cpu'. Got 'cuda' instead.")
        tree = _DeviceTree(self, fitted, sample.rows, sample.features)
        grown = self._builder.build(fitted, sample.for_kernels(), tree.search)
        sample.rows[:] = self.device.download(tree.rows)
        return GrownTree.of(grown)

    def slots(self, n: int, size: int) -> Any:
        """Memory of at least ``n`` histograms of ``size`` numbers, with the contents of those that there are."""
        needed = n * size + PADDING
        if len(self._slots) < needed:
            slots = self.device.empty(max(needed, 2 * len(self._slots)), np.int32)
            slots[: len(self._slots)] = self._slots
            self._slots = slots
        return self._slots


class _DeviceTree:
    """Rows, gradients and histograms of one tree."""

    def __init__(
        self, of: DeviceTreeBuilder, fitted: _kernels.GradientColumns, rows: Array, features: Array
    ) -> None:
        device, trees = of.device, of.trees
        values, count_column = np.asarray(fitted.values), fitted.count_column
        n_outputs, n_gradients = len(np.asarray(fitted.weight)), values.shape[1]
        n_bins = trees.n_bins[features].astype(np.int64)
        padded = -(-n_outputs // 8) * 8
        weight, lambda_ = np.zeros(padded), np.full(padded, 1e100)
        weight[:n_outputs], lambda_[:n_outputs] = np.asarray(fitted.weight), np.asarray(fitted.lambda_)
        offsets = np.concatenate(([0], np.cumsum(n_bins))).astype(np.int32)
        self._of = of
        self.rows = device.upload(rows)
        self._width = n_gradients + (count_column < 0)
        self._slot_size = int(offsets[-1]) * self._width
        self._most_bins = int(n_bins.max())
        self._lanes = min(LANES, 1 << (self._width - 1).bit_length())
        groups = _groups(offsets, min(SHARED_BYTES, device.shared_bytes) // (4 * self._lanes))
        self._group_bins = int(np.diff(offsets[groups]).max())
        directions = None
        if trees.directions is not None:
            first = fitted.first_output
            directions = trees.directions[features, first : first + n_outputs].astype(np.int8)
        self._fixed: dict[str, Any] = {
            "bins": of.bins,
            "n_columns": of.n_columns,
            "rows": self.rows,
            "old_rows": device.empty(len(rows), np.int32),
            "gradients": device.upload(values),
            "n_gradients": n_gradients,
            "columns": device.upload(features.astype(np.int32)),
            "offsets": device.upload(offsets),
            "groups": device.upload(groups),
            "has_missing": device.upload(trees.has_missing[features].astype(np.uint8)),
            "width": self._width,
            "lanes": self._lanes,
            "n_tiles": -(-self._width // self._lanes),
            "n_groups": len(groups) - 1,
            "slot_size": self._slot_size,
            "n_features": len(features),
            "counted": count_column if count_column >= 0 else n_gradients,
            "hessian": fitted.hessian,
            "outputs": n_outputs,
            "padded": padded,
            "weight": device.upload(weight),
            "lambda": device.upload(lambda_),
            "step": device.upload(np.asarray(fitted.step)),
            "l2": trees.l2,
            "min_hessian": trees.min_hessian,
            "min_samples": max(1, min(trees.growth.min_samples_leaf, trees.n_rows + 1)),
            "directions": None if directions is None else device.upload(directions),
        }

    def search(
        self, partitions: Array, builds: Array, searches: Array, scores: Array, totals: Array, chosen: Array,
        low: Array, high: Array,
    ) -> tuple[Array, Array, Array]:  # fmt: skip
        """Partition rows, build histograms and find the best splits of a batch of nodes.

        Parameters
        ----------
        partitions : int64 array, shape (n, 7)
            Start, end, start of the right rows, feature, bin, missing bin, whether missing rows go left.
        builds : int64 array, shape (n, 4)
            Slot, start and end of the rows, slot of the sibling (holding the parent's histogram) or -1.
        searches : int64 array, shape (n_nodes, 2)
            Slot and number of rows.
        scores, totals, low, high : arrays with one row per node
            The score of the unsplit node, its sums, and its bounds under monotone constraints.
        chosen : uint8 array, shape (n_nodes, n_features)
            Whether a feature was sampled; empty for all.

        Returns
        -------
        gains, splits, left
            One row per node: the gain, (feature, bin, rows on the left, whether missing rows go left), and the sums of
            the left side.
        """
        if len(partitions):
            self._partition(partitions)
        if len(builds):
            self._build(builds)
        parts = [
            self._find(
                *(each[some] if len(each) else each for each in (searches, scores, totals, chosen, low, high))
            )
            for some in self._blocks(len(searches))
        ]
        if not parts:
            return np.empty(0), np.empty((0, 4), np.int32), np.empty((0, self._width), np.int32)
        gains, splits, left = (np.concatenate(each) for each in zip(*parts, strict=True))
        return gains, splits, left

    def _launch(self, kernel: str, n_blocks: int, shared: int, **values: Any) -> None:
        device = self._of.device
        args = self._of.arguments.pack(device, kernel, {**self._fixed, **values})
        device.launch(kernel, args, n_blocks, THREADS, shared)

    def _partition(self, partitions: Array) -> None:
        device = self._of.device
        chunks, first = _chunks(partitions[:, 0], partitions[:, 1])
        values = {
            "partitions": device.upload(partitions),
            "chunks": device.upload(chunks),
            "first_chunks": device.upload(first),
            "lefts": device.empty(len(chunks), np.int32),
        }
        self._launch("count_left", len(chunks), 4, **values)
        self._launch("sum_left", len(partitions), 4 * THREADS, **values)
        self._launch("scatter_rows", len(chunks), 4 * THREADS, **values)

    def _build(self, builds: Array) -> None:
        device, size = self._of.device, self._slot_size
        slots = self._of.slots(int(builds[:, 0].max()) + 1, size)
        chunks, _ = _chunks(builds[:, 1], builds[:, 2])
        per_slot = -(-size // THREADS)
        values = {
            "builds": device.upload(builds),
            "chunks": device.upload(chunks),
            "slots": slots,
            "blocks_per_slot": per_slot,
        }
        self._launch("clear_slots", len(builds) * per_slot, 0, **values)
        self._launch(
            "build_histograms",
            len(chunks) * self._fixed["n_groups"] * self._fixed["n_tiles"],
            4 * self._group_bins * self._lanes,
            **values,
        )
        self._launch("subtract_histograms", len(builds) * per_slot, 0, **values)

    def _blocks(self, n: int) -> Sequence[slice]:
        """Nodes that are searched together, within the memory of their prefix sums."""
        per_node = 4 * self._fixed["n_features"] * self._most_bins * self._width
        some = max(1, PREFIX_BYTES // max(per_node, 1))
        return [slice(begin, begin + some) for begin in range(0, n, some)]

    def _find(
        self, searches: Array, scores: Array, totals: Array, chosen: Array, low: Array, high: Array
    ) -> tuple[Array, Array, Array]:
        device, n, n_features = self._of.device, len(searches), self._fixed["n_features"]
        prefix_size = self._most_bins * self._width
        padding = np.zeros(PADDING, np.int32)
        gains = device.empty(n * n_features, np.float64)
        splits, left = device.empty((n * n_features, 4), np.int32), device.empty((n, self._width), np.int32)
        values = {
            "slots": self._of.slots(0, 0),
            "searches": device.upload(searches),
            "node_scores": device.upload(scores),
            "totals": device.upload(np.concatenate((totals.ravel(), padding))),
            "chosen": device.upload(chosen) if len(chosen) else None,
            "low": device.upload(low) if len(low) else None,
            "high": device.upload(high) if len(high) else None,
            "prefix": device.empty(n * n_features * prefix_size + len(padding), np.int32),
            "prefix_size": prefix_size,
            "gains": gains,
            "splits": splits,
            "left": left,
        }
        self._launch("search_features", n * n_features, THREADS * 24 + 8, **values)
        self._launch("best_splits", n, 4 * THREADS, **values)
        first = slice(None, None, n_features)
        return device.download(gains[first]), device.download(splits[first]), device.download(left)


def _groups(offsets: Array, most_bins: int) -> Array:
    """First feature of every group of consecutive features with at most ``most_bins`` bins, and the end."""
    groups = [0]
    for f in range(1, len(offsets)):
        if offsets[f] - offsets[groups[-1]] > most_bins:
            groups.append(f - 1)
    return np.array([*groups, len(offsets) - 1], np.int32)


def _chunks(starts: Array, ends: Array) -> tuple[Array, Array]:
    """Chunks of rows, (index of the range, begin, end) each, and the first chunk of every range."""
    counts = -(-(ends - starts) // CHUNK_ROWS)
    first = np.concatenate(([0], np.cumsum(counts)))
    which = np.repeat(np.arange(len(starts)), counts)
    begin = starts[which] + (np.arange(first[-1]) - first[which]) * CHUNK_ROWS
    return np.stack((which, begin, np.minimum(begin + CHUNK_ROWS, ends[which])), axis=1), first
