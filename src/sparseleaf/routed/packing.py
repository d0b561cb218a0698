"""Serialisation of routed trees in checkpoints, with validation of everything that is read."""

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
"""Type and number of dimensions of the arrays, concatenated over trees; ``NAME_of_tree`` has the lengths."""

SMALL_ARRAYS: dict[str, tuple[type[np.generic], int]] = {
    **{name: kind for name, kind in ARRAYS.items() if not name.startswith("split_")},
    "weights": (np.int8, 2),
    "scale": (np.float32, 1),
    "leaf_rows": (np.float64, 1),
}
"""Arrays of trees with 8-bit routers, which have no split records."""


def pack_routed(trees: Sequence[FrozenTree], *, small: bool = False) -> dict[str, Array]:
    """Tensors by name; ``small`` for 8-bit routers."""
    packed: dict[str, Array] = {}
    parts = [_arrays(tree) for tree in trees]
    for name, (kind, _) in (SMALL_ARRAYS if small else ARRAYS).items():
        packed[name] = np.concatenate([part[name] for part in parts]).astype(kind, copy=False)
        packed[f"{name}_of_tree"] = np.array([len(part[name]) for part in parts], np.int64)
    return packed


def unpack_routed(
    tensors: dict[str, Array], arity: int, n_features: int, n_labels: int, *, small: bool = False
) -> list[FrozenTree]:
    """Read trees from tensors; ValueError if they are not valid for the numbers of features and labels."""
    if not tensors:
        return []
    columns: dict[str, list[Array]] = {}
    for name, (kind, ndim) in (SMALL_ARRAYS if small else ARRAYS).items():
        array, sizes = tensors.get(name), tensors.get(f"{name}_of_tree")
        if name == "leaf_rows" and array is not None and array.dtype == np.int64:
            array = array.astype(np.float64)  # checkpoints of version 0.1
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
        "leaf_rows": np.empty(0) if tree.leaf_rows is None else tree.leaf_rows,
        "split_depth": np.array([split.depth for split in splits], np.int64),
        "split_rows": np.array([split.n_rows for split in splits], np.int64),
        "split_quality": np.array([(split.balance, split.purity) for split in splits]).reshape(-1, 2),
        "split_passes": np.array([len(split.objective) for split in splits], np.int64),
        "split_objective": np.concatenate([np.empty(0), *(split.objective for split in splits)]),
    }


def _tree(arrays: dict[str, Array], arity: int, n_features: int, n_labels: int) -> FrozenTree:
    n_inner = int(arrays["inner"].sum())
    n_leaves = len(arrays["inner"]) - n_inner
    small = "scale" in arrays
    columns = arity - small  # with 8-bit routers, the first child has no weights
    _require(len(arrays["inner"]) == 1 + arity * n_inner, "inner")
    _require(len(arrays["sizes"]) == n_inner and arrays["bias"].shape == (n_inner, columns), "bias")
    _require(_adds_up(arrays["sizes"], len(arrays["features"])), "sizes")
    _require(arrays["weights"].shape == (len(arrays["features"]), columns), "weights")
    _require(_within(arrays["features"], n_features), "features")
    _require(bool(np.isfinite(arrays["weights"]).all() and np.isfinite(arrays["bias"]).all()), "weights")
    _require(
        len(arrays["leaf_sizes"]) == n_leaves and _adds_up(arrays["leaf_sizes"], len(arrays["leaf_labels"])),
        "leaves",
    )
    _require(len(arrays["leaf_counts"]) == len(arrays["leaf_labels"]), "leaf_counts")
    _require(_within(arrays["leaf_labels"], n_labels), "leaf_labels")
    _require(bool(np.isfinite(arrays["leaf_counts"]).all()), "leaf_counts")
    if small:
        _require(len(arrays["scale"]) == n_inner and bool(np.isfinite(arrays["scale"]).all()), "scale")
        _require(
            len(arrays["leaf_rows"]) == n_leaves
            and bool((arrays["leaf_rows"] >= 0).all() and np.isfinite(arrays["leaf_rows"]).all()),
            "leaf_rows",
        )
    else:
        _require_records(arrays, n_inner)
    indptr = np.cumsum([0, *arrays["leaf_sizes"].tolist()], dtype=np.int64)
    return FrozenTree(
        inner=arrays["inner"],
        sizes=arrays["sizes"],
        features=arrays["features"],
        weights=arrays["weights"],
        bias=arrays["bias"],
        leaf_counts=sp.csr_matrix(
            (arrays["leaf_counts"], arrays["leaf_labels"], indptr), shape=(n_leaves, n_labels)
        ),
        splits=[] if small else _records(arrays),
        scale=arrays.get("scale", np.empty(0, np.float32)),
        leaf_rows=arrays.get("leaf_rows"),
    )


def _require_records(arrays: dict[str, Array], n_inner: int) -> None:
    records = ("split_depth", "split_rows", "split_quality", "split_passes")
    _require(all(len(arrays[name]) == n_inner for name in records), "splits")
    _require(arrays["split_quality"].shape == (n_inner, 2), "splits")
    _require(_adds_up(arrays["split_passes"], len(arrays["split_objective"])), "splits")


def _records(arrays: dict[str, Array]) -> list[SplitRecord]:
    passes = np.cumsum([0, *arrays["split_passes"].tolist()]).tolist()
    return [
        SplitRecord(depth, n_rows, arrays["split_objective"][a:b].tolist(), balance, purity)
        for depth, n_rows, (balance, purity), (a, b) in zip(
            arrays["split_depth"].tolist(),
            arrays["split_rows"].tolist(),
            arrays["split_quality"].tolist(),
            itertools.pairwise(passes),
            strict=True,
        )
    ]


def _adds_up(sizes: Array, total: int) -> bool:
    return bool((sizes >= 0).all() and (sizes <= total).all() and sizes.sum() == total)


def _within(numbers: Array, end: int) -> bool:
    return int(numbers.min(initial=0)) >= 0 and int(numbers.max(initial=-1)) < end


def _require(valid: bool, name: str) -> None:
    if not valid:
        raise ValueError(f"trees.{name} is missing or inconsistent with the other arrays")
