"""``sparseleaf inspect``: what is in a model file."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import typer

from sparseleaf._printable import printable
from sparseleaf.cli._common import AsJson, Model, readable_bytes

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf._files import AnyPath
    from sparseleaf.model import BlendModel, Trees
    from sparseleaf.model import Model as TrainedModel

TOP_FEATURES = 10

PARTS = {
    "trees.leaf_sizes": "leaves",
    "trees.leaf_labels": "leaves",
    "trees.leaf_values": "leaves",
    "trees.value_scale": "leaves",
    "routed.leaf_sizes": "leaves",
    "routed.leaf_labels": "leaves",
    "routed.leaf_values": "leaves",
}
"""What a tensor is counted as; otherwise it is the part of its name before the dot."""


def inspect(model: Model, as_json: AsJson = False) -> None:
    """Show what a model is made of."""
    found = describe(model)
    if as_json:
        typer.echo(json.dumps(found, allow_nan=False))
    else:
        _show(model, found)


def describe(path: AnyPath) -> dict[str, Any]:
    """All that ``--json`` prints."""
    from safetensors import safe_open

    import sparseleaf
    from sparseleaf._files import local_copy
    from sparseleaf.model import BlendModel, RoutedTrees

    estimator = sparseleaf.load(path)
    model = estimator.model_
    if isinstance(model, BlendModel):
        return _describe_blend(path, model)
    trees: Any = model.trees
    routed = isinstance(trees, RoutedTrees)
    n_leaves = len(trees.leaf_indptr) - 1
    size = path.stat().st_size
    used, shares = estimator._used_importances() if routed else _all_importances(estimator)
    best = sorted(zip((-shares).tolist(), used.tolist(), strict=True))[:TOP_FEATURES]
    with local_copy(path) as here, safe_open(here, framework="np") as file:
        parts = Counter[str]()
        for name in file.keys():  # noqa: SIM118
            parts[PARTS.get(name, name.partition(".")[0])] += file.get_tensor(name).nbytes
    deepest = trees.depths() if routed else tree_depths(trees)
    return {
        "method": model.method,
        "n_trees": model.n_trees,
        "n_labels": model.n_labels,
        "n_features": model.n_features,
        "bytes": size,
        "parameters": model.parameters,
        "n_train_rows": model.n_train_rows,
        "target_kind": model.target_kind,
        "label_names": model.label_names is not None,
        "n_nodes": len(trees.child),
        "n_leaves": n_leaves,
        "depth_max": int(deepest.max(initial=0)),
        "depth_mean": float(deepest.mean()) if len(deepest) else 0.0,
        "labels_per_leaf": len(trees.leaf_values) / n_leaves if n_leaves else 0.0,
        "projection_shape": None if model.projection is None else list(model.projection.components.shape),
        "keep_raw": model.projection is not None and model.projection.keep_raw,
        "rerank": _describe_rerank(model),
        "features_per_router": len(trees.router_steps) / max(1, len(trees.router_bias)) if routed else None,
        "top_features": [{**column(model, i), "importance": -share} for share, i in best if share < 0],
        "history": model.history,
        "bytes_by_part": {**parts, "header": size - sum(parts.values())},
    }


def _all_importances(estimator: Any) -> tuple[Array, Array]:
    import numpy as np

    shares = estimator.feature_importances_
    return np.arange(len(shares)), shares


def _describe_rerank(model: TrainedModel) -> dict[str, Any] | None:
    stage = model.rerank
    return None if stage is None else {"mix": stage.mix, "weight": stage.weight, "scale": stage.scale}


def _describe_blend(path: AnyPath, model: BlendModel) -> dict[str, Any]:
    return {
        "method": model.method,
        "n_trees": model.n_trees,
        "n_labels": model.n_labels,
        "n_features": model.n_features,
        "bytes": path.stat().st_size,
        "n_train_rows": model.n_train_rows,
        "target_kind": model.target_kind,
        "label_names": model.label_names is not None,
        "members": [
            {
                "method": member.method,
                "weight": weight,
                "n_trees": member.n_trees,
                "rerank": _describe_rerank(member),
                "parameters": member.parameters,
            }
            for member, weight in zip(model.members, model.weights.tolist(), strict=True)
        ],
    }


def column(model: TrainedModel, number: int) -> dict[str, Any]:
    """Which feature a column of the trees is: a raw one, or one that the projection makes."""
    projected = 0 if model.projection is None else model.projection.components.shape[1]
    if number < projected:
        return {"feature": number, "kind": "projected"}
    found = {"feature": number - projected, "kind": "raw"}
    return found if model.feature_names is None else found | {"name": model.feature_names[number - projected]}


def tree_depths(trees: Trees) -> Array:
    """Levels of every tree below its root.

    Children come after their parents, so one pass in order of node is enough; it takes node v of all trees at
    once. (Walking level by level could take for ever on a file from a stranger, where nodes may share
    children.)
    """
    import numpy as np

    starts, sizes = trees.tree_offsets[:-1], np.diff(trees.tree_offsets)
    depth = np.zeros(len(trees.feature), np.int64)
    deepest = np.zeros(len(starts), np.int64)
    for v in range(int(sizes.max(initial=0))):
        tree = np.flatnonzero(sizes > v)
        node = starts[tree] + v
        deepest[tree] = np.maximum(deepest[tree], depth[node])
        inner = trees.feature[node] >= 0
        left = starts[tree[inner]] + trees.child[node[inner]]
        for child in (left, left + 1):
            depth[child] = np.maximum(depth[child], depth[node[inner]] + 1)
    return deepest


def _show(path: AnyPath, found: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from sparseleaf.plotting import draw_learning_curve

    console = Console(highlight=False)
    table = Table(title=escape(printable(path.name)), show_header=False)
    table.add_column(style="bold")
    table.add_column()
    if "members" in found:
        trained = (
            f"{found['n_train_rows']:,} rows, {found['n_features']:,} features, {found['n_labels']:,} labels"
        )
        for name, text in {
            "method": "blend",
            "trained on": trained,
            "size": readable_bytes(found["bytes"]),
        }.items():
            table.add_row(name, text)
        for member in found["members"]:
            kind = escape(printable(member["method"]))
            table.add_row(f"{member['weight']:.3g}", f"{kind}, {member['n_trees']:,} trees")
        console.print(table)
        return
    shape = found["projection_shape"]
    outputs = "outputs" if found["target_kind"].startswith("regression") else "labels"
    rows = {
        "method": found["method"],
        "trained on": f"{found['n_train_rows']:,} rows, {found['n_features']:,} features,"
        f" {found['n_labels']:,} {outputs}{' with names' if found['label_names'] else ''}",
        "trees": f"{found['n_trees']:,}, depth {found['depth_mean']:.1f} on average,"
        f" at most {found['depth_max']}",
        "nodes": f"{found['n_nodes']:,}",
        "leaves": f"{found['n_leaves']:,}, {found['labels_per_leaf']:.1f} labels a leaf",
        "projection": "none"
        if shape is None
        else f"{shape[0]:,} → {shape[1]:,}" + ", beside the raw features" * found["keep_raw"],
        "routers": f"{found['features_per_router']:.0f} features a node"
        if found["features_per_router"]
        else "none",
        "re-ranking": "none"
        if found["rerank"] is None
        else found["rerank"]["mix"]
        + (
            f", weight of the trees {found['rerank']['weight']:g}"
            if found["rerank"]["weight"] is not None
            else ""
        ),
        "size": readable_bytes(found["bytes"])
        + f" ({', '.join(f'{name} {readable_bytes(n)}' for name, n in found['bytes_by_part'].items() if n)})",
        "top features": ", ".join(
            f"{top.get('name', '{kind} {feature}'.format(**top))} ({100 * top['importance']:.1f}%)"
            for top in found["top_features"]
        ),
        "parameters": "  ".join(f"{name}={value}" for name, value in found["parameters"].items()),
    }
    for name in ("projection", "routers", "re-ranking"):
        if rows[name] == "none":
            del rows[name]
    for name, text in rows.items():
        table.add_row(name, escape(printable(text)))
    console.print(table)
    if any(found["history"].values()):
        console.print(printable(draw_learning_curve(found["history"])), markup=False)
