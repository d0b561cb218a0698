"""Grown trees to the arrays of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sparseleaf._arrays import require_countable
from sparseleaf._threads import in_threads
from sparseleaf.model.trees import SET_BYTES, Trees

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.training.tree import FlatTree, LeafVectors

LARGEST_SET = 2**24
"""Maximum number of category sets: they are numbered by float32 thresholds, which are exact up to here."""


def concatenate_trees(
    grown: list[tuple[FlatTree, LeafVectors]],
    label_ids: Array,
    n_features: int,
    n_labels: int,
    *,
    categorical: Array | None = None,
    all_labels: bool = False,
    gain: Array | None = None,
    n_jobs: int = 1,
) -> Trees:
    """Concatenate grown trees; ``label_ids[rank]`` is the label that training numbered ``rank``.

    ``all_labels``: every leaf has a value for each label, so labels are not stored. ``gain``: ``feature_gain`` of the
    initial model, to be added to.
    """
    require_countable("n_trees", sum(len(tree.feature) for tree, _ in grown), "nodes of all trees")
    label_type = np.uint16 if n_labels <= 2**16 else np.uint32
    features, thresholds, missing, children, indptrs = ([] for _ in range(5))
    covers, sets = [], []
    tree_offsets, n_leaves, n_entries, n_sets = [0], 0, 0, 0
    gain = np.zeros(n_features, np.float64) if gain is None else gain.copy()
    for tree, vectors in grown:
        inner = tree.feature >= 0
        features.append(tree.feature)
        thresholds.append(np.where(tree.set_of >= 0, tree.threshold + np.float32(n_sets), tree.threshold))
        covers.append(tree.count)
        sets.append(tree.sets)
        n_sets += len(tree.sets)
        missing.append(tree.missing_left)
        children.append(np.where(inner, tree.child, tree.child + np.int32(n_leaves)).astype(np.int32))
        tree_offsets.append(tree_offsets[-1] + len(tree.feature))
        np.add.at(gain, tree.feature[inner], tree.gain[inner])
        indptrs.append(vectors.indptr[1:] + n_entries)
        n_leaves += len(vectors.indptr) - 1
        n_entries += len(vectors.labels)

    def by_label(vectors: LeafVectors) -> tuple[Array, Array]:
        ids = label_ids[vectors.labels.astype(np.int64)]
        leaf = np.repeat(np.arange(len(vectors.indptr) - 1), np.diff(vectors.indptr))
        order = np.argsort(leaf * np.int64(max(1, n_labels)) + ids)
        return ids[order].astype(label_type), vectors.values[order]

    sorted_leaves = in_threads(by_label, [vectors for _, vectors in grown], n_jobs)
    if n_sets > LARGEST_SET:
        raise ValueError(
            f"A model can have at most {LARGEST_SET} categorical splits. Got {n_sets} instead. Use fewer max_leaves"
            " or n_trees."
        )
    return Trees(
        np.array(tree_offsets, np.int64),
        _joined(features, np.int32),
        _joined(thresholds, np.float32),
        _joined(missing, np.uint8),
        _joined(children, np.int32),
        _joined([np.zeros(1, np.int64), *indptrs], np.int64),
        _joined([] if all_labels else [labels for labels, _ in sorted_leaves], label_type),
        _joined([values for _, values in sorted_leaves], np.float32),
        np.empty(0, np.float32),
        gain,
        _joined(covers, np.uint32),
        np.empty(0, np.uint8) if categorical is None else categorical,
        np.concatenate([np.empty((0, SET_BYTES), np.uint8), *sets]),
    )


def _joined(parts: list[Array], dtype: type[np.generic]) -> Array:
    return np.concatenate([np.empty(0, dtype), *parts]).astype(dtype, copy=False)
