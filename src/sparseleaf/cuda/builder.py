"""Trees whose rows and histograms are on a GPU.

The growth loop is the CPU's (``cpp/tree/device_finder.cpp``); it calls :meth:`_DeviceTree.search` for every batch of
nodes. Sums are integers and gains have one order of operations, so that trees are those of the CPU, to the bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sparseleaf import _kernels
from sparseleaf.cuda import device as gpu
from sparseleaf.cuda.device import THREADS, Kernels, blocks_of, chunks_of
from sparseleaf.training.builder import GrownTree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sparseleaf._arrays import Array
    from sparseleaf.cuda.device import Device
    from sparseleaf.distributed.communicator import Communicator
    from sparseleaf.training.builder import BinnedColumns, HistogramTrees, TreeSample

HISTOGRAM_THREADS = 512
LANES = 32
"""Most columns that a block of the histogram kernel has: the threads of a warp."""

SHARED_BYTES = 100 << 10
"""Shared memory of a histogram block: two of them fit a multiprocessor of recent GPUs."""

HISTOGRAM_BLOCKS = 2048
"""Blocks of the histogram kernel to aim at, several for every multiprocessor of a large GPU."""

CHUNK_ROWS = 4096
"""Most rows of a block."""

MIN_CHUNK_ROWS = 512
"""Fewest rows of a histogram block: its part of the histogram is cleared and written whatever the number of rows."""

PREFIX_BYTES = 256 << 20
"""Memory for prefix sums that do not fit shared memory."""

SEARCH_BYTES = 40 << 10
"""Shared memory of a block of the split search, as long as a feature fits."""

PADDING = 16
"""Numbers that the gain reads beyond the last column, with weight 0."""


@dataclass(frozen=True)
class DeviceBins:
    """Binned features on a device, rows padded to ``row_bytes``, a multiple of 4."""

    bins: Any
    row_bytes: int
    n_features: int

    @classmethod
    def of(cls, device: Device, bins: Array) -> DeviceBins:
        """Upload the bins."""
        n_rows, n = bins.shape
        row_bytes = -(-n // 4) * 4
        padded = bins
        if row_bytes > n:
            padded = np.zeros((n_rows, row_bytes), np.uint8)
            padded[:, :n] = bins
        return cls(device.upload(padded), row_bytes, n)


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
        self.trees = trees
        self.bins = binned.on_device or DeviceBins.of(self.device, binned.bins)
        self._builder = builder
        self._slots = self.device.empty(0, np.int32)
        self._gathered = self.device.empty(0, np.uint8)

    def build(
        self, fitted: Any, sample: TreeSample, communicator: Communicator, *, by_rows: bool
    ) -> GrownTree:
        """See :class:`~sparseleaf.training.builder.TreeBuilder`."""
        if communicator.size > 1:
            raise ValueError("Several workers require device='cpu'. Got 'cuda' instead.")
        rows = self.device.upload(sample.rows)
        values = self.device.upload(np.asarray(fitted.values))
        grown = self.grow(fitted, values, rows, sample)
        sample.rows[:] = self.device.download(rows)
        return grown

    def grow(self, columns: _kernels.GradientColumns, values: Any, rows: Any, sample: TreeSample) -> GrownTree:
        """Grow a tree on quantised gradients and rows of the device; ``rows`` are reordered by leaf."""
        tree = _DeviceTree(self, columns, values, rows, sample.features)
        grown = self._builder.build(
            columns, len(rows), tree.totals(), sample.features, sample.n_node_features, sample.key, tree.search
        )
        return GrownTree.of(grown)

    def slots(self, n: int, size: int) -> Any:
        """Memory of at least ``n`` histograms of ``size`` numbers, with the contents of those that there are."""
        needed = n * size + PADDING
        if len(self._slots) < needed:
            slots = self.device.empty(max(needed, 2 * len(self._slots)), np.int32)
            slots[: len(self._slots)] = self._slots
            self._slots = slots
        return self._slots

    def bins_of(self, features: Array, n_rows: int) -> tuple[Any, int]:
        """Bins of some features, increasing, and the bytes of a row."""
        if len(features) == self.bins.n_features:
            return self.bins.bins, self.bins.row_bytes
        row_bytes = -(-len(features) // 4) * 4
        if len(self._gathered) < n_rows * row_bytes:
            self._gathered = self.device.empty(n_rows * row_bytes, np.uint8)
        Kernels(self.device).launch(
            "gather_columns",
            blocks_of(n_rows * row_bytes),
            all_bins=self.bins.bins,
            all_row_bytes=self.bins.row_bytes,
            columns=self.device.upload(features.astype(np.int32)),
            n_columns=len(features),
            bins=self._gathered,
            row_bytes=row_bytes,
            n_rows=n_rows,
        )
        return self._gathered, row_bytes


class _DeviceTree:
    """Rows, gradients and histograms of one tree."""

    def __init__(
        self, of: DeviceTreeBuilder, fitted: _kernels.GradientColumns, values: Any, rows: Any, features: Array
    ) -> None:
        device, trees = of.device, of.trees
        count_column = fitted.count_column
        n_outputs, n_gradients = len(np.asarray(fitted.weight)), values.shape[1]
        n_bins = trees.n_bins[features].astype(np.int64)
        padded = -(-n_outputs // 8) * 8
        weight, lambda_ = np.zeros(padded), np.full(padded, 1e100)
        weight[:n_outputs], lambda_[:n_outputs] = np.asarray(fitted.weight), np.asarray(fitted.lambda_)
        offsets = np.concatenate(([0], np.cumsum(n_bins))).astype(np.int32)
        self._of = of
        self.rows = rows
        self._width = n_gradients + (count_column < 0)
        self._slot_size = int(offsets[-1]) * self._width
        self._plan_histograms(n_bins, min(SHARED_BYTES, device.shared_bytes))
        self._plan_search(n_bins, min(SEARCH_BYTES, device.shared_bytes))
        bins, row_bytes = of.bins_of(features, of.bins.bins.shape[0])
        directions = None
        if trees.directions is not None:
            first = fitted.first_output
            directions = trees.directions[features, first : first + n_outputs].astype(np.int8)
        self._kernels = Kernels(
            device,
            all_bins=of.bins.bins,
            all_row_bytes=of.bins.row_bytes,
            bins=bins,
            row_bytes=row_bytes,
            rows=rows,
            old_rows=device.empty(len(rows), np.int32),
            gradients=values,
            n_gradients=n_gradients,
            offsets=device.upload(offsets),
            groups=device.upload(self._groups),
            has_missing=device.upload(trees.has_missing[features].astype(np.uint8)),
            width=self._width,
            lanes=self._lanes,
            last_lanes=self._last_lanes,
            n_tiles=self._n_tiles,
            n_groups=self._n_groups,
            slot_size=self._slot_size,
            n_features=len(features),
            counted=count_column if count_column >= 0 else n_gradients,
            hessian=fitted.hessian,
            outputs=n_outputs,
            padded=padded,
            weight=device.upload(weight),
            step=device.upload(np.asarray(fitted.step)),
            l2=trees.l2,
            min_hessian=trees.min_hessian,
            min_samples=max(1, min(trees.growth.min_samples_leaf, trees.n_rows + 1)),
            directions=None if directions is None else device.upload(directions),
            n_parts=self._n_parts,
            part_features=self._part_features,
            most_bins=self._most_bins,
            row_stride=self._row_stride,
            **{"lambda": device.upload(lambda_)},
        )
        self._partitions = 0

    def totals(self) -> Array:
        """Sum of every quantised column over the rows, int64."""
        device, fixed = self._of.device, self._kernels.fixed
        n = fixed["n_gradients"]
        sums = device.upload(np.zeros(n, np.int64))
        chunks, _ = chunks_of(np.array([0]), np.array([len(self.rows)]), CHUNK_ROWS)
        self._kernels.launch(
            "sum_rows",
            len(chunks) * -(-n // min(n, 32)),
            8 * THREADS,
            values=None,
            whole_values=fixed["gradients"],
            n_values=n,
            scale=None,
            chunks=device.upload(chunks),
            sums=sums,
        )
        return device.download(sums)

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
        parted, first = chunks_of(partitions[:, 0], partitions[:, 1], CHUNK_ROWS)
        built, _ = chunks_of(builds[:, 1], builds[:, 2], self._chunk_rows(builds))
        several = np.unique(built[built[:, 3] == 0, 0])
        names = ("partitions", "parted", "first_chunks", "builds", "built", "several", "searches", "node_scores", "totals",
                 "chosen", "low", "high")  # fmt: skip
        # the gain reads a few numbers beyond the last node's sums
        padded = np.concatenate((totals.ravel(), np.zeros(PADDING, np.int32)))
        arrays = (partitions, parted, first, builds, built, several, searches, scores, padded, chosen, low, high)
        device = dict(zip(names, self._of.device.upload_together(arrays), strict=True))
        self._partition(len(partitions), len(parted), device)
        self._build(builds, len(built), len(several), device)
        return self._find(len(searches), len(chosen) > 0, len(low) > 0, device)

    def _partition(self, n: int, n_chunks: int, batch: dict[str, Any]) -> None:
        if n == 0:
            return
        values = {
            "partitions": batch["partitions"],
            "chunks": batch["parted"],
            "first_chunks": batch["first_chunks"],
            "lefts": self._of.device.empty(n_chunks, np.int32),
        }
        self._kernels.launch("count_left", n_chunks, 4, **values)
        self._kernels.launch("sum_left", n, 4 * THREADS, **values)
        self._kernels.launch("scatter_rows", n_chunks, 4 * THREADS, **values)

    def _chunk_rows(self, builds: Array) -> int:
        """Rows of a block, with enough blocks for all multiprocessors."""
        blocks_per_chunk = self._n_groups * self._n_tiles
        rows = int((builds[:, 2] - builds[:, 1]).sum())
        return min(CHUNK_ROWS, max(MIN_CHUNK_ROWS, rows * blocks_per_chunk // HISTOGRAM_BLOCKS))

    def _build(self, builds: Array, n_chunks: int, n_several: int, batch: dict[str, Any]) -> None:
        if len(builds) == 0:
            return
        per_slot = blocks_of(self._slot_size)
        values = {
            "builds": batch["builds"],
            "chunks": batch["built"],
            "several": batch["several"],
            "slots": self._of.slots(int(builds[:, 0].max()) + 1, self._slot_size),
            "blocks_per_slot": per_slot,
        }
        self._kernels.launch("clear_slots", n_several * per_slot, **values)
        n_blocks = n_chunks * self._n_groups * self._n_tiles
        self._kernels.launch("build_histograms", n_blocks, self._shared, HISTOGRAM_THREADS, **values)
        self._kernels.launch("subtract_histograms", n_several * per_slot, **values)

    def _find(
        self, n: int, sampled: bool, bounded: bool, batch: dict[str, Any]
    ) -> tuple[Array, Array, Array]:
        device, width = self._of.device, self._width
        if n == 0:
            return np.empty(0), np.empty((0, 4), np.int32), np.empty((0, width), np.int32)
        results = device.empty(8 * n + 16 * n + 4 * n * width, np.uint8)
        gains = results[: 8 * n].view(np.float64)
        splits, left = results[8 * n : 24 * n].view(np.int32), results[24 * n :].view(np.int32)
        prefix_size = 4 * self._part_features * self._most_bins * self._row_stride
        in_shared = prefix_size <= device.shared_bytes // 2
        some = n if in_shared else max(1, PREFIX_BYTES // (self._n_parts * prefix_size))
        shared = 24 * THREADS + 8 * self._part_features + (prefix_size + 4 * PADDING) * in_shared
        for begin in range(0, n, some):
            count = min(some, n - begin)
            n_blocks = count * self._n_parts
            values = {
                "slots": self._of.slots(0, 0),
                "searches": batch["searches"][2 * begin :],
                "node_scores": batch["node_scores"][begin:],
                "totals": batch["totals"][width * begin :],
                "chosen": batch["chosen"][self._kernels.fixed["n_features"] * begin :] if sampled else None,
                "low": batch["low"][self._kernels.fixed["outputs"] * begin :] if bounded else None,
                "high": batch["high"][self._kernels.fixed["outputs"] * begin :] if bounded else None,
                "prefix": None
                if in_shared
                else device.empty(n_blocks * prefix_size // 4 + PADDING, np.int32),
                "part_gains": device.empty(n_blocks, np.float64),
                "part_splits": device.empty(4 * n_blocks, np.int32),
                "gains": gains[begin:],
                "splits": splits[4 * begin :],
                "left": left[width * begin :],
            }
            self._kernels.launch("search_features", n_blocks, shared, **values)
            self._kernels.launch("best_splits", count, 24 * THREADS, **values)
        found = device.download(results)
        return (
            found[: 8 * n].view(np.float64),
            found[8 * n : 24 * n].view(np.int32).reshape(n, 4),
            found[24 * n :].view(np.int32).reshape(n, width),
        )

    def _plan_histograms(self, n_bins: Array, shared: int) -> None:
        """Columns and features of a block of the histogram kernel: at least four features."""
        most = int(n_bins.max())
        lanes = LANES
        while lanes > 1 and 16 * most * lanes > shared:
            lanes //= 2
        self._lanes = min(lanes, 1 << (self._width - 1).bit_length())
        self._n_tiles = -(-self._width // self._lanes)
        self._last_lanes = 1 << (self._width - (self._n_tiles - 1) * self._lanes - 1).bit_length()
        self._groups = _groups(n_bins, shared // (4 * self._lanes))
        self._n_groups = len(self._groups) // 2
        sizes = -(-np.diff(self._groups[::2]) // 4) * 4 * self._groups[1::2]
        self._shared = 4 * self._lanes * int(sizes.max())

    def _plan_search(self, n_bins: Array, shared: int) -> None:
        """Features of a block of the split search: about one candidate per thread."""
        self._most_bins = int(n_bins.max())
        self._row_stride = self._width | 1
        fit = shared // (4 * self._most_bins * self._row_stride)
        self._part_features = max(1, min(fit, THREADS // self._most_bins, len(n_bins)))
        self._n_parts = -(-len(n_bins) // self._part_features)


def _groups(n_bins: Array, room: int) -> Array:
    """Groups of consecutive features, a multiple of four each, that have room for the largest number of bins each.

    The first feature of every group, followed by that number of bins; and the end.
    """
    n = len(n_bins)
    most_of_four = [int(n_bins[f : f + 4].max()) for f in range(0, n, 4)]
    groups = [0, most_of_four[0]]
    for i, most in enumerate(most_of_four[1:], 1):
        largest = max(groups[-1], most)
        if (4 * (i + 1) - groups[-2]) * largest > room:
            groups += [4 * i, most]
        else:
            groups[-1] = largest
    return np.array([*groups, n], np.int32)
