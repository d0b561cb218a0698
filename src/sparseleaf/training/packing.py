"""Grown trees to the tensors of a checkpoint and back: with bins, and with labels by rank.

Checkpoints are untrusted: everything that a kernel reads is validated here.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from sparseleaf.model.trees import SET_BYTES
from sparseleaf.training.tree import FlatTree, LeafVectors

if TYPE_CHECKING:
    from sparseleaf._arrays import Array

NODES: dict[str, type[np.generic]] = {
    "feature": np.int32,
    "bin": np.int32,
    "threshold": np.float32,
    "missing_bin": np.int32,
    "missing_left": np.uint8,
    "gain": np.float64,
    "count": np.int64,
    "set_of": np.int32,
}
"""Arrays with one entry per node. Nodes are in level order, so leaves determine the children."""

OTHERS: dict[str, type[np.generic]] = {
    "tree_nodes": np.int64,
    "tree_sets": np.int64,
    "leaf_sizes": np.int64,
    "labels": np.uint32,
    "values": np.float32,
}


def pack_trees(grown: list[tuple[FlatTree, LeafVectors]]) -> dict[str, Array]:
    """Tensors by name, without leaf bounds, which only the computation of leaf values needs."""
    trees = [tree for tree, _ in grown]
    vectors = [vector for _, vector in grown]
    arrays = {
        "tree_nodes": [np.array([len(tree.feature)]) for tree in trees],
        "tree_sets": [np.array([len(tree.sets)]) for tree in trees],
        "leaf_sizes": [np.diff(vector.indptr) for vector in vectors],
        "labels": [vector.labels for vector in vectors],
        "values": [vector.values for vector in vectors],
        **{name: [getattr(tree, name) for tree in trees] for name in NODES},
    }
    packed = {
        name: np.concatenate([np.empty(0, kind), *arrays[name]]).astype(kind, copy=False)
        for name, kind in (OTHERS | NODES).items()
    }
    packed["sets"] = np.concatenate([np.empty((0, SET_BYTES), np.uint8), *(tree.sets for tree in trees)])
    return packed


def unpack_trees(
    tensors: dict[str, Array], n_features: int, n_labels: int
) -> list[tuple[FlatTree, LeafVectors]]:
    """Trees from tensors; ValueError if they are not valid trees over these features and labels."""
    for name, kind in (OTHERS | NODES).items():
        _require(name in tensors and tensors[name].dtype == kind and tensors[name].ndim == 1, name)
    sets = tensors.get("sets", np.empty(0))
    _require(sets.dtype == np.uint8 and sets.ndim == 2 and sets.shape[1] == SET_BYTES, "sets")

    nodes, feature, set_of = tensors["tree_nodes"], tensors["feature"], tensors["set_of"]
    _require(bool((nodes >= 1).all() and (nodes % 2).all()), "tree_nodes")
    at_node = _ends(nodes, "tree_nodes", len(feature))
    at_set = _ends(tensors["tree_sets"], "tree_sets", len(sets))
    at_leaf = np.cumsum([0, *(nodes // 2 + 1).tolist()])
    at_entry = _ends(tensors["leaf_sizes"], "leaf_sizes", len(tensors["labels"]))
    _require(all(len(tensors[name]) == len(feature) for name in NODES), "nodes")
    _require(len(tensors["leaf_sizes"]) == at_leaf[-1], "leaf_sizes")
    _require(len(tensors["values"]) == len(tensors["labels"]), "values")
    _require(bool(np.isfinite(tensors["values"]).all() and np.isfinite(tensors["gain"]).all()), "values")
    _require(int(tensors["labels"].max(initial=0)) < max(1, n_labels), "labels")
    _require(int(feature.min(initial=0)) >= -1 and int(feature.max(initial=-1)) < n_features, "feature")

    grown = []
    spans = zip(*(itertools.pairwise(ends.tolist()) for ends in (at_node, at_set, at_leaf)), strict=True)
    for (begin, end), (first_set, last_set), (first_leaf, last_leaf) in spans:
        inner = feature[begin:end] >= 0
        _require(int(inner.sum()) == last_leaf - first_leaf - 1, "feature")
        child = np.where(inner, 2 * np.cumsum(inner) - 1, np.cumsum(~inner) - 1).astype(np.int32)
        _require(bool((child > np.arange(end - begin))[inner].all()), "feature")
        sets_here = set_of[begin:end]
        _require(bool((sets_here >= -1).all() and (sets_here < last_set - first_set).all()), "set_of")
        entries = slice(int(at_entry[first_leaf]), int(at_entry[last_leaf]))
        nodes_here: dict[str, Any] = {name: tensors[name][begin:end] for name in NODES}
        tree = FlatTree(
            **nodes_here,
            child=child,
            leaf_nodes=np.arange(last_leaf - first_leaf),
            sets=sets[first_set:last_set],
        )
        indptr = at_entry[first_leaf : last_leaf + 1] - at_entry[first_leaf]
        grown.append((tree, LeafVectors(indptr, tensors["labels"][entries], tensors["values"][entries])))
    return grown


def _ends(sizes: Array, name: str, total: int) -> Array:
    _require(bool((sizes >= 0).all() and (sizes <= total).all()), name)
    ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)))
    _require(int(ends[-1]) == total, name)
    return ends


def _require(sound: bool, name: str) -> None:
    if not sound:
        raise ValueError(f"trees.{name} is missing or inconsistent with the other tensors")
