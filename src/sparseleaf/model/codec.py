"""Trees to the tensors of the model file and back.

Nodes are in level order, so the shape of a tree is told by which nodes are leaves: the j-th inner node has the
children 2j + 1 and 2j + 2. Every other number of a node is stored without loss in the narrowest type that holds it;
thresholds, of which there are as many as cuts, are shared. Leaf values are as the trees hold them: float32, or 16-bit
integers with a scale for every tree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from sparseleaf._steps import narrow
from sparseleaf.boosting.tree import SET_BYTES
from sparseleaf.model.model import Trees, with_float_values

if TYPE_CHECKING:
    from sparseleaf._arrays import Array

UNSIGNED = ("U8", "U16", "U32")

Take = Callable[[str, tuple[str, ...], int], "Array"]
"""Hands out a tensor by name, checking its type and number of dimensions."""

Has = Callable[[str], bool]
"""Whether there is a tensor of that name."""


def encode_trees(trees: Trees, compact: bool) -> dict[str, Array]:
    """Tensors by name; without ``compact`` leaf values are float32, whatever the trees hold."""
    if not compact:
        trees = with_float_values(trees)
    inner = trees.feature >= 0
    thresholds, index = np.unique(trees.threshold[inner], return_inverse=True)
    values, scale = trees.leaf_values, trees.value_scale
    tensors = {
        "n_nodes": narrow(np.diff(trees.tree_offsets)),
        "feature": narrow(trees.feature.astype(np.int64) + 1),
        "threshold_index": narrow(index),
        "thresholds": thresholds,
        "missing_left": np.packbits(trees.missing_left[inner]),
        "leaf_values": values,
        "feature_gain": trees.feature_gain,
    }
    if len(trees.leaf_labels) or not len(values):
        tensors |= {"leaf_sizes": narrow(np.diff(trees.leaf_indptr)), "leaf_labels": trees.leaf_labels}
    if len(trees.cover):
        tensors["cover"] = narrow(trees.cover)
    if len(trees.sets):
        tensors |= {"categorical": trees.categorical, "sets": trees.sets}
    if values.dtype != np.float32:
        tensors["value_scale"] = scale
    return tensors


def decode_trees(take: Take, has: Has, n_labels: int) -> Trees:
    """Trees from tensors; ValueError where they do not fit together. Indices are checked by the predictor."""
    n_nodes = take("n_nodes", UNSIGNED, 1).astype(np.int64)
    stored = take("feature", UNSIGNED, 1)
    tree_offsets = np.concatenate(([0], np.cumsum(n_nodes)))
    if tree_offsets[-1] != len(stored) or not np.all(n_nodes % 2):
        raise ValueError("n_nodes must be odd numbers that add up to the nodes of feature")
    feature = stored.astype(np.int64) - 1
    inner = feature >= 0
    inner_before = np.concatenate(([0], np.cumsum(inner)))
    if not np.array_equal(np.diff(inner_before[tree_offsets]), n_nodes // 2):
        raise ValueError("feature: half the nodes of a tree, less one, must be inner nodes")
    if feature.max(initial=0) > np.iinfo(np.int32).max:
        raise ValueError("feature: a column that does not exist")

    rank = np.cumsum(inner) - 1 - np.repeat(inner_before[tree_offsets[:-1]], n_nodes)
    child = np.where(inner, 2 * rank + 1, np.cumsum(~inner) - 1)
    n_inner, n_leaves = int(inner.sum()), int((~inner).sum())

    index = take("threshold_index", UNSIGNED, 1)
    thresholds = take("thresholds", ("F32",), 1)
    bits = take("missing_left", ("U8",), 1)
    if len(index) != n_inner or len(bits) != -(-n_inner // 8):
        raise ValueError(
            f"threshold_index and missing_left must have an entry for each of {n_inner} inner nodes"
        )
    if n_inner and int(index.max()) >= len(thresholds):
        raise ValueError("threshold_index: a threshold that does not exist")
    threshold = np.zeros(len(feature), np.float32)
    threshold[inner] = thresholds[index]
    missing_left = np.zeros(len(feature), np.uint8)
    missing_left[inner] = np.unpackbits(bits, count=n_inner)

    values = take("leaf_values", ("F32", "I16"), 1)
    scale = take("value_scale", ("F32",), 1) if values.dtype != np.float32 else np.empty(0, np.float32)
    if has("leaf_sizes"):
        sizes = take("leaf_sizes", UNSIGNED, 1)
        labels = take("leaf_labels", ("U16", "U32"), 1)
        if len(sizes) != n_leaves:
            raise ValueError(f"leaf_sizes has {len(sizes)} entries; wanted one for each of {n_leaves} leaves")
        leaf_indptr = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
    else:
        if len(values) != n_leaves * n_labels:
            raise ValueError(f"leaf_values has {len(values)} numbers; wanted {n_leaves} leaves × {n_labels}")
        labels = np.empty(0, np.uint16)
        leaf_indptr = np.arange(n_leaves + 1, dtype=np.int64) * n_labels
    counted = has("cover")  # a tensor is there no longer once it was taken
    cover = take("cover", UNSIGNED, 1).astype(np.uint32) if counted else np.empty(0, np.uint32)
    if counted and len(cover) != len(feature):
        raise ValueError(f"cover has {len(cover)} entries; wanted one for each of {len(feature)} nodes")
    categorical, sets = np.empty(0, np.uint8), np.empty((0, SET_BYTES), np.uint8)
    if has("sets"):
        categorical, sets = take("categorical", ("U8",), 1), take("sets", ("U8",), 2)
    return Trees(
        tree_offsets=tree_offsets,
        feature=feature.astype(np.int32),
        threshold=threshold,
        missing_left=missing_left,
        child=child.astype(np.int32),
        leaf_indptr=leaf_indptr,
        leaf_labels=labels,
        leaf_values=values,
        value_scale=scale,
        feature_gain=take("feature_gain", ("F64",), 1),
        cover=cover,
        categorical=categorical,
        sets=sets,
    )
