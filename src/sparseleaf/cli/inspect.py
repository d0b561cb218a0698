"""``sparseleaf inspect``: what is in a model file."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import typer

from sparseleaf._printable import printable
from sparseleaf.cli._common import AsJson, Model, readable_bytes

if TYPE_CHECKING:
    from sparseleaf._files import AnyPath
    from sparseleaf.model import Model as TrainedModel

TOP_FEATURES = 10

LEAVES, RERANK = "leaves", "rerank"
"""What tensors of leaves and of any re-ranker are counted as; others count as their stage."""


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

    model = sparseleaf.load(path).model_
    size = path.stat().st_size
    reranker = None if model.rerank is None else model.rerank.kind
    with local_copy(path) as here, safe_open(here, framework="np") as file:
        parts = Counter[str]()
        for name in file.keys():  # noqa: SIM118
            kind, tensor = name.partition(".")[0], name.rpartition(".")[2]
            part = LEAVES if tensor.startswith("leaf_") else RERANK if kind == reranker else kind
            parts[part] += file.get_tensor(name).nbytes
    found = {
        "method": model.method,
        "n_trees": model.n_trees,
        "n_labels": model.n_labels,
        "n_features": model.n_features,
        "bytes": size,
        "parameters": model.parameters,
        "n_train_rows": model.n_train_rows,
        "target_kind": model.target_kind,
        "label_names": model.label_names is not None,
        "stages": [stage.kind for stage in model.stages],
        "projection_shape": None,
        "keep_raw": False,
        RERANK: None,
        "features_per_router": None,
        "top_features": _top_features(model),
        "history": model.history,
        "bytes_by_part": {**parts, "header": size - sum(parts.values())},
    }
    for stage in model.stages:
        found |= stage.describe()
    return found


def _top_features(model: TrainedModel) -> list[dict[str, Any]]:
    try:
        used, shares = model.scorer.importances()
    except AttributeError:  # of members with different columns
        return []
    best = sorted(zip((-shares).tolist(), used.tolist(), strict=True))[:TOP_FEATURES]
    return [{**column(model, i), "importance": -share} for share, i in best if share < 0]


def column(model: TrainedModel, number: int) -> dict[str, Any]:
    """Which feature a column of the trees is: a raw one, or one that the projection makes."""
    projected = 0 if model.projection is None else model.projection.components.shape[1]
    if number < projected:
        return {"feature": number, "kind": "projected"}
    found = {"feature": number - projected, "kind": "raw"}
    return found if model.feature_names is None else found | {"name": model.feature_names[number - projected]}


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
