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

HISTOGRAM_THREADS = 1024
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

SEARCH_BYTES = 80 << 10
"""Shared memory of a block of the split search, as long as a feature fits."""

PADDING = 16
"""Numbers that the gain reads beyond the last column, with weight 0."""

ARRAYS = ("partitions", "partition_chunks", "first_chunks", "builds", "build_chunks", "several", "searches",
          "node_scores", "totals", "chosen", "low", "high")  # fmt: skip
"""Arguments of the kernels that are arrays of a batch, in the order of its places."""


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
    """See :class:`~sparseleaf.training.builder.TreeBuilder`; in the row layout if there are several workers.

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
        self.rooms: dict[str, Any] = {}

    def build(
        self, fitted: Any, sample: TreeSample, communicator: Communicator, *, by_rows: bool
    ) -> GrownTree:
        """See :class:`~sparseleaf.training.builder.TreeBuilder`."""
        assert by_rows or communicator.size == 1
        rows = self.device.upload(sample.rows)
        values = self.device.upload(np.asarray(fitted.values))
        grown = self.grow(fitted, values, rows, sample, communicator)
        sample.rows[:] = self.device.download(rows)
        return grown

    def grow(
        self,
        columns: _kernels.GradientColumns,
        values: Any,
        rows: Any,
        sample: TreeSample,
        communicator: Communicator,
    ) -> GrownTree:
        """Grow a tree on quantised gradients and rows of the device; ``rows`` are reordered by leaf."""
        tree = _DeviceTree(self, columns, values, rows, sample.features, communicator)
        sums = communicator.allreduce(np.append(tree.totals(), len(rows)))
        grown = self._builder.build(
            columns,
            int(sums[-1]),
            len(rows),
            sums[:-1],
            sample.features,
            sample.n_node_features,
            sample.key,
            tree.chunks,
            tree.search,
            tree.partition if communicator.size > 1 else None,
        )
        return GrownTree.of(grown)

    def slot(self, number: int, size: int) -> Any:
        """A histogram."""
        return self._slots[number * size : (number + 1) * size]

    def slots(self, n: int, size: int) -> int:
        """Address of at least ``n`` histograms of ``size`` numbers, with the contents of those that there are."""
        needed = n * size + PADDING
        if len(self._slots) < needed:
            most = self.trees.budget // 4 + PADDING
            slots = self.device.empty(max(needed, min(2 * len(self._slots), most)), np.int32)
            slots[: len(self._slots)] = self._slots
            self._slots = slots
        return self.device.address(self._slots)

    def room(self, name: str, size: int) -> int:
        """Address of memory of at least ``size`` bytes, for a batch; 0 if none is needed."""
        if size == 0:
            return 0
        if name not in self.rooms or len(self.rooms[name]) < size:
            self.rooms[name] = self.device.empty(2 * size, np.uint8)
        return self.device.address(self.rooms[name])

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
        self,
        of: DeviceTreeBuilder,
        fitted: _kernels.GradientColumns,
        values: Any,
        rows: Any,
        features: Array,
        communicator: Communicator,
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
        self._communicator = communicator
        self.rows, self._gradients, self._n_gradients = rows, values, n_gradients
        self._width, self._n_outputs = n_gradients + (count_column < 0), n_outputs
        self._slot_size = int(offsets[-1]) * self._width
        self._plan_histograms(n_bins, min(SHARED_BYTES, device.shared_bytes))
        others = 32 * THREADS + 4 * PADDING  # what a block of the search has besides its prefix sums, at most
        self._plan_search(n_bins, min(SEARCH_BYTES, device.shared_bytes - others))
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

    @property
    def chunks(self) -> _kernels.DeviceChunks:
        """How rows are divided."""
        blocks = self._n_groups * self._n_tiles
        return _kernels.DeviceChunks(CHUNK_ROWS, MIN_CHUNK_ROWS, blocks, HISTOGRAM_BLOCKS)

    def totals(self) -> Array:
        """Sum of every quantised column over the rows, int64."""
        device, n = self._of.device, self._n_gradients
        sums = device.upload(np.zeros(n, np.int64))
        chunks, _ = chunks_of(np.array([0]), np.array([len(self.rows)]), CHUNK_ROWS)
        self._kernels.launch(
            "sum_rows",
            len(chunks) * -(-n // min(n, 32)),
            8 * THREADS,
            values=None,
            whole_values=self._gradients,
            n_values=n,
            scale=None,
            chunks=device.upload(chunks),
            sums=sums,
        )
        return device.download(sums)

    def search(self, batch: _kernels.DeviceBatch) -> Array:
        """Partition rows, build histograms and find the best splits of a batch: see ``cpp/tree/device_finder.hpp``.

        Returns
        -------
        results : uint8 array
            The gains of all nodes, their splits, and the sums of their left sides.
        """
        of, width, n = self._of, self._width, batch.n_searches
        values = self._staged(batch)
        n_blocks = min(n, self._searched_together) * self._n_parts
        prefix = 0 if self._prefix_in_shared else n_blocks * self._prefix_size + 4 * PADDING
        rooms = (("part_gains", 8 * n_blocks), ("part_splits", 16 * n_blocks), ("prefix", prefix))
        values |= {name: of.room(name, size) for name, size in rooms}
        values["slots"] = of.slots(batch.n_slots, self._slot_size)
        values["blocks_per_slot"] = per_slot = blocks_of(self._slot_size)
        launch = self._kernels.launch_plain
        self._partition(batch, values)
        launch("clear_slots", batch.n_several * per_slot, 0, THREADS, values)
        n_build_chunks = batch.n_build_chunks * self._n_groups * self._n_tiles
        launch("build_histograms", n_build_chunks, self._shared, HISTOGRAM_THREADS, values)
        if self._communicator.size > 1:
            self._sum_over_workers(batch.built_slots)
        launch("subtract_histograms", batch.n_several * per_slot, 0, THREADS, values)
        if n == 0:
            return np.empty(0, np.uint8)
        results = of.device.empty((24 + 4 * width) * n, np.uint8)
        gains = of.device.address(results)
        values |= {"gains": gains, "splits": gains + 8 * n, "left": gains + 24 * n}
        for begin in range(0, n, self._searched_together):
            count = min(self._searched_together, n - begin)
            launch("search_features", count * self._n_parts, self._search_shared, THREADS, values)
            launch("best_splits", count, 24 * THREADS, THREADS, values)
            for name, size in self._bytes_of_search:
                values[name] += count * size if values[name] else 0
        return of.device.download(results)

    def partition(self, batch: _kernels.DeviceBatch) -> Array:
        """Partition rows; returns the number of this worker's rows on the left of every partition."""
        self._partition(batch, self._staged(batch, ARRAYS[:3]))
        of_partitions = self._of.rooms["n_left"][: 8 * batch.n_partitions]
        return self._of.device.download(of_partitions).view(np.int64)

    def _staged(self, batch: _kernels.DeviceBatch, names: Sequence[str] = ARRAYS) -> dict[str, float]:
        """Arguments of the kernels, after a copy of the batch to the device."""
        begin = self._of.device.address(self._of.device.stage(batch.bytes))
        places = zip(names, batch.places, strict=True)
        return self._kernels.fixed | {name: begin + place if place >= 0 else 0 for name, place in places}

    def _partition(self, batch: _kernels.DeviceBatch, values: dict[str, float]) -> None:
        values["lefts"] = self._of.room("lefts", 4 * batch.n_partition_chunks)
        values["n_left"] = self._of.room("n_left", 8 * batch.n_partitions)
        launch = self._kernels.launch_plain
        launch("count_left", batch.n_partition_chunks, 4, THREADS, values)
        launch("sum_left", batch.n_partitions, 4 * THREADS, THREADS, values)
        launch("scatter_rows", batch.n_partition_chunks, 4 * THREADS, THREADS, values)

    def _sum_over_workers(self, slots: Sequence[int]) -> None:
        device, size = self._of.device, self._slot_size
        here = [device.download(self._of.slot(slot, size)) for slot in slots]
        sums = self._communicator.allreduce(np.concatenate([np.empty(0, np.int32), *here]))
        for i, slot in enumerate(slots):
            self._of.slot(slot, size)[:] = device.upload(sums[i * size : (i + 1) * size])

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
        n, width = len(n_bins), self._width
        self._most_bins = int(n_bins.max())
        self._row_stride = width | 1
        fit = shared // (4 * self._most_bins * self._row_stride)
        self._part_features = max(1, min(fit, THREADS // self._most_bins, n))
        self._n_parts = -(-n // self._part_features)
        self._prefix_size = 4 * self._part_features * self._most_bins * self._row_stride
        self._prefix_in_shared = fit > 0
        self._search_shared = 24 * THREADS + 8 * self._part_features
        self._searched_together = max(1, PREFIX_BYTES // (self._n_parts * self._prefix_size))
        if self._prefix_in_shared:
            self._search_shared += self._prefix_size + 4 * PADDING
            self._searched_together = 1 << 30
        d = self._n_outputs
        sizes = {
            "searches": 16,
            "node_scores": 8,
            "totals": 4 * width,
            "chosen": n,
            "low": 8 * d,
            "high": 8 * d,
        }
        self._bytes_of_search = (*sizes.items(), ("gains", 8), ("splits", 16), ("left", 4 * width))


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
