"""Prediction with boosted trees on a GPU. Kernels are in ``predict.cu``; scores are those of the CPU, to the bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sparseleaf.cuda import device as gpu
from sparseleaf.cuda.device import Kernels, blocks_of
from sparseleaf.model.trees import with_float_values

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.model.trees import Trees

MIN_ROW_TREES = 5_000_000
"""Rows times trees from which prediction on a GPU is expected to pay; fewer take 16 cores some milliseconds."""

VALUES_PER_TREE = 4
"""Features and outputs of a row whose transfer takes less than 16 cores' time for one tree; of 8, about as long."""

CHUNK_BYTES = 1 << 28
"""Memory for a chunk of rows: enough to keep a GPU busy."""

BLOCK_TREES = 16
"""Trees of a block of threads."""


def pays(n_rows: int, n_trees: int, n_values: int) -> bool:
    """Whether a GPU is expected to be faster; ``n_values`` are the features and outputs of a row."""
    return n_rows * n_trees >= MIN_ROW_TREES and n_values <= VALUES_PER_TREE * n_trees


class DevicePredictor:
    """The first trees of a model on a GPU, and memory for a chunk of rows. One batch has it; the model is not changed.

    Parameters
    ----------
    trees : Trees
        Validated by :class:`_kernels.Predictor`.
    base : float32 array, shape (n_outputs,)
    n_trees : int
        Number of trees to use.
    """

    def __init__(self, trees: Trees, base: Array, n_trees: int) -> None:
        device = self._device = gpu.open_device()
        n_trees = int(n_trees)  # of any integer type
        self._n_trees, self._n_features, self._n_outputs = n_trees, len(trees.feature_gain), len(base)
        arrays = _arrays(trees, base, n_trees)
        self._labelled = "leaf_labels" in arrays
        self._row_bytes = 4 * (self._n_features + n_trees + self._n_outputs)
        needed = self._row_bytes + sum(array.nbytes for array in arrays.values())
        if needed > device.free_bytes:
            raise _memory_error(needed, device.free_bytes)
        try:
            # a pointer is null if there are no categorical features
            uploaded = {name: device.upload(array) if array.size else None for name, array in arrays.items()}
        except MemoryError as error:
            raise _memory_error(needed, device.free_bytes) from error
        self._kernels = Kernels(
            device,
            n_features=self._n_features,
            outputs=self._n_outputs,
            block_trees=BLOCK_TREES,
            **uploaded,
        )
        self._rows_at_once = 0
        self._leaves: Any = None
        self._scores: Any = None

    def dense(self, X: Array, out: Array) -> None:
        """Scores of dense rows with or without NaN: float32 (n_rows, n_features) to (n_rows, n_outputs)."""
        try:
            self._make_room(len(X))
            for begin in range(0, len(X), self._rows_at_once):
                block = slice(begin, begin + self._rows_at_once)
                self._predict(X[block], out[block])
        except MemoryError as error:  # others use the GPU, too
            raise _memory_error(self._rows_at_once * self._row_bytes, self._device.free_bytes) from error

    def _make_room(self, n_rows: int) -> None:
        """Memory for as many rows at a time as there is room for."""
        if n_rows <= self._rows_at_once:
            return
        device = self._device
        self._leaves = self._scores = None  # before more is allocated
        room = min(CHUNK_BYTES, device.free_bytes // 8 * 7)  # allocations are rounded up
        self._rows_at_once = max(1, min(n_rows, room // self._row_bytes))
        self._leaves = device.empty(self._rows_at_once * self._n_trees, np.int32)
        self._scores = device.empty(self._rows_at_once * self._n_outputs, np.float32)

    def _predict(self, X: Array, out: Array) -> None:
        n_rows = len(X)
        launch, values = self._kernels.launch, {"n_rows": n_rows, "leaves": self._leaves}
        features = self._device.upload(X)
        n_tiles = -(-self._n_trees // BLOCK_TREES)
        launch("walk_trees", blocks_of(n_rows) * n_tiles, **values, features=features, n_trees=self._n_trees)
        values["scores"] = self._scores
        pairs = n_rows * self._n_outputs
        # labelled leaves are added to the base score
        launch("sum_leaves", blocks_of(pairs), **values, n_trees=0 if self._labelled else self._n_trees)
        if self._labelled:
            launch("add_entries", blocks_of(n_rows), **values, n_trees=self._n_trees)
        self._device.download(self._scores[:pairs].reshape(out.shape), out)


def _memory_error(needed: int, free: int) -> MemoryError:
    return MemoryError(
        f"Prediction needs {needed / 2**30:.1f} GiB on the GPU, but {free / 2**30:.1f} GiB are free. Use"
        ' device="cpu".'
    )


def _arrays(trees: Trees, base: Array, n_trees: int) -> dict[str, Array]:
    """Arguments of the kernels by name."""
    trees = with_float_values(trees)
    n_nodes = int(trees.tree_offsets[n_trees])
    n_leaves = int(np.count_nonzero(trees.feature[:n_nodes] < 0))
    n_entries = int(trees.leaf_indptr[n_leaves])
    arrays = {
        "tree_offsets": trees.tree_offsets,
        "feature": trees.feature[:n_nodes],
        "threshold": trees.threshold[:n_nodes],
        "missing_left": trees.missing_left[:n_nodes],
        "child": trees.child[:n_nodes],
        "categorical": trees.categorical,
        "sets": trees.sets,
        "base": base,
        "leaf_values": trees.leaf_values[:n_entries],
    }
    if len(trees.leaf_labels) or not len(trees.leaf_values):
        arrays["leaf_labels"] = trees.leaf_labels[:n_entries].astype(np.int32)
        arrays["leaf_indptr"] = trees.leaf_indptr[: n_leaves + 1]
    return arrays
