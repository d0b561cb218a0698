"""Routed trees that are done to tensors and back, as a checkpoint holds them; all is checked on the way in."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from sparseleaf.routed.ensemble import FrozenTree, SplitRecord

if TYPE_CHECKING:
    from sparseleaf._arrays import Array

ARRAYS: dict[str, tuple[type[np.generic], int]] = {
    "inner": (np.bool_, 1),
    "sizes": (np.int64, 1),
    "features": (np.int32, 1),
    "weights": (np.float32, 2),
    "bias": (np.float32, 2),
    "leaf_sizes": (np.int64, 1),
    "leaf_labels": (np.int32, 1),
    "leaf_counts": (np.float64, 1),
    "split_depth": (np.int64, 1),
    "split_rows": (np.int64, 1),
    "split_quality": (np.float64, 2),
    "split_passes": (np.int64, 1),
    "split_objective": (np.float64, 1),
}
"""Type and dimensions of every array, of all trees one after the other; ``NAME_of_tree`` says how long each is."""

SMALL_ARRAYS: dict[str, tuple[type[np.generic], int]] = {
    **{name: kind for name, kind in ARRAYS.items() if not name.startswith("split_")},
    "weights": (np.int8, 2),
    "scale": (np.float32, 1),
    "leaf_rows": (np.int64, 1),
}
"""The same of trees with routers in 8 bits, which keep no record of their splits."""


def pack_routed(trees: Sequence[FrozenTree], *, small: bool = False) -> dict[str, Array]:
    """Tensors by name; ``small``: routers are in 8 bits."""
    packed: dict[str, Array] = {}
    parts = [_arrays(tree) for tree in trees]
    for name, (kind, _) in (SMALL_ARRAYS if small else ARRAYS).items():
        packed[name] = np.concatenate([part[name] for part in parts]).astype(kind, copy=False)
        packed[f"{name}_of_tree"] = np.array([len(part[name]) for part in parts], np.int64)
    return packed


def unpack_routed(
    tensors: dict[str, Array], arity: int, n_features: int, n_labels: int, *, small: bool = False
) -> list[FrozenTree]:
    """Trees from tensors; ValueError where they are not trees over so many features and labels."""
    if not tensors:
        return []
    columns: dict[str, list[Array]] = {}
    for name, (kind, ndim) in (SMALL_ARRAYS if small else ARRAYS).items():
        array, sizes = tensors.get(name), tensors.get(f"{name}_of_tree")
        _require(array is not None and array.dtype == kind and array.ndim == ndim, name)
        _require(sizes is not None and sizes.dtype == np.int64 and sizes.ndim == 1, name)
        assert array is not None
        assert sizes is not None
        _require(bool((sizes >= 0).all() and (sizes <= len(array)).all() and sizes.sum() == len(array)), name)
        columns[name] = [array[a:b] for a, b in itertools.pairwise(np.cumsum([0, *sizes.tolist()]).tolist())]
    counts = {len(parts) for parts in columns.values()}
    _require(len(counts) == 1, "inner")
    return [
        _tree({name: parts[i] for name, parts in columns.items()}, arity, n_features, n_labels)
        for i in range(counts.pop())
    ]


def _arrays(tree: FrozenTree) -> dict[str, Array]:
    splits = tree.splits
    return {
        "inner": tree.inner,
        "sizes": tree.sizes,
        "features": tree.features,
        "weights": tree.weights,
        "bias": tree.bias,
        "leaf_sizes": np.diff(tree.leaf_counts.indptr).astype(np.int64),
        "leaf_labels": tree.leaf_counts.indices,
        "leaf_counts": tree.leaf_counts.data,
        "scale": tree.scale,
        "leaf_rows": np.empty(0, np.int64) if tree.leaf_rows is None else tree.leaf_rows,
        "split_depth": np.array([split.depth for split in splits], np.int64),
        "split_rows": np.array([split.n_rows for split in splits], np.int64),
        "split_quality": np.array([(split.balance, split.purity) for split in splits]).reshape(-1, 2),
        "split_passes": np.array([len(split.objective) for split in splits], np.int64),
        "split_objective": np.concatenate([np.empty(0), *(split.objective for split in splits)]),
    }


def _tree(own: dict[str, Array], arity: int, n_features: int, n_labels: int) -> FrozenTree:
    n_inner = int(own["inner"].sum())
    n_leaves = len(own["inner"]) - n_inner
    small = "scale" in own
    columns = arity - small  # in 8 bits, the first child has none
    _require(len(own["inner"]) == 1 + arity * n_inner, "inner")
    _require(len(own["sizes"]) == n_inner and own["bias"].shape == (n_inner, columns), "bias")
    _require(_adds_up(own["sizes"], len(own["features"])), "sizes")
    _require(own["weights"].shape == (len(own["features"]), columns), "weights")
    _require(_within(own["features"], n_features), "features")
    _require(bool(np.isfinite(own["weights"]).all() and np.isfinite(own["bias"]).all()), "weights")
    _require(
        len(own["leaf_sizes"]) == n_leaves and _adds_up(own["leaf_sizes"], len(own["leaf_labels"])), "leaves"
    )
    _require(len(own["leaf_counts"]) == len(own["leaf_labels"]), "leaf_counts")
    _require(_within(own["leaf_labels"], n_labels), "leaf_labels")
    _require(bool(np.isfinite(own["leaf_counts"]).all()), "leaf_counts")
    if small:
        _require(len(own["scale"]) == n_inner and bool(np.isfinite(own["scale"]).all()), "scale")
        _require(len(own["leaf_rows"]) == n_leaves and bool((own["leaf_rows"] >= 0).all()), "leaf_rows")
    else:
        _require_records(own, n_inner)
    indptr = np.cumsum([0, *own["leaf_sizes"].tolist()], dtype=np.int64)
    return FrozenTree(
        inner=own["inner"],
        sizes=own["sizes"],
        features=own["features"],
        weights=own["weights"],
        bias=own["bias"],
        leaf_counts=sp.csr_matrix(
            (own["leaf_counts"], own["leaf_labels"], indptr), shape=(n_leaves, n_labels)
        ),
        splits=[] if small else _records(own),
        scale=own.get("scale", np.empty(0, np.float32)),
        leaf_rows=own.get("leaf_rows"),
    )


def _require_records(own: dict[str, Array], n_inner: int) -> None:
    records = ("split_depth", "split_rows", "split_quality", "split_passes")
    _require(all(len(own[name]) == n_inner for name in records), "splits")
    _require(own["split_quality"].shape == (n_inner, 2), "splits")
    _require(_adds_up(own["split_passes"], len(own["split_objective"])), "splits")


def _records(own: dict[str, Array]) -> list[SplitRecord]:
    passes = np.cumsum([0, *own["split_passes"].tolist()]).tolist()
    return [
        SplitRecord(depth, n_rows, own["split_objective"][a:b].tolist(), balance, purity)
        for depth, n_rows, (balance, purity), (a, b) in zip(
            own["split_depth"].tolist(),
            own["split_rows"].tolist(),
            own["split_quality"].tolist(),
            itertools.pairwise(passes),
            strict=True,
        )
    ]


def _adds_up(sizes: Array, total: int) -> bool:
    return bool((sizes >= 0).all() and (sizes <= total).all() and sizes.sum() == total)


def _within(numbers: Array, end: int) -> bool:
    return int(numbers.min(initial=0)) >= 0 and int(numbers.max(initial=-1)) < end


def _require(sound: bool, name: str) -> None:
    if not sound:
        raise ValueError(f"trees.{name} is missing, or does not fit the others")
