"""The leaf vectors of a model as float32, for all outputs or a subset."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sparseleaf.model.trees import with_float_values

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.model.model import Model
    from sparseleaf.model.trees import Trees


def leaf_vectors(model: Model, outputs: Array | None = None) -> tuple[Array, Array, Array]:
    """Leaves as ``(indptr int64, labels int32, values float32)``, for all outputs or those in ``outputs``.

    ``labels`` is empty if every leaf has a value for each output. Values are exactly those that prediction sums.
    """
    return vectors_of_leaves(model.trees, model.n_labels, outputs)


def vectors_of_leaves(
    trees: Trees, n_labels: int, outputs: Array | None = None
) -> tuple[Array, Array, Array]:
    """See :func:`leaf_vectors`."""
    trees = with_float_values(trees)
    values = trees.leaf_values.astype(np.float32)
    n_leaves = len(trees.leaf_indptr) - 1
    indptr, labels = trees.leaf_indptr, trees.leaf_labels.astype(np.int32)
    if outputs is None:
        return indptr, labels, values
    if not len(labels) and len(values):
        chosen = np.ascontiguousarray(values.reshape(n_leaves, n_labels)[:, outputs])
        return np.arange(n_leaves + 1, dtype=np.int64) * len(outputs), labels, chosen.ravel()
    place = np.full(n_labels, -1, np.int32)
    place[outputs] = np.arange(len(outputs))
    kept = place[labels] >= 0
    counts = np.concatenate(([0], np.cumsum(kept, dtype=np.int64)))
    return counts[indptr], place[labels[kept]], values[kept]
