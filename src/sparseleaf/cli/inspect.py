"""``sparseleaf inspect``: describe a model file."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparseleaf._printable import printable
from sparseleaf.cli._common import AsJson, Model, readable_bytes

if TYPE_CHECKING:
    from sparseleaf._files import AnyPath
    from sparseleaf.model import Model as TrainedModel

TOP_FEATURES = 10

LEAVES, RERANK = "leaves", "rerank"
"""Names of the leaf and re-ranker tensors in ``bytes_by_part``; other tensors are counted by stage."""


def inspect(
    model: Model,
    label: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LABEL", help="Show the features that drive this label instead; may be repeated."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Describe a model: training data, trees, stages, size, parameters and learning curve."""
    if label:
        drivers = describe_labels(model, label)
        typer.echo(json.dumps(drivers, allow_nan=False) if as_json else _label_text(drivers))
        return
    description = describe(model)
    if as_json:
        typer.echo(json.dumps(description, allow_nan=False))
    else:
        _show(model, description)


def describe(path: AnyPath) -> dict[str, Any]:
    """The object that ``--json`` prints."""
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
    description = {
        "method": model.method,
        "n_trees": model.n_trees,
        "n_labels": model.n_labels,
        "n_features": model.n_features,
        "bytes": size,
        "parameters": model.parameters,
        "n_train_rows": model.n_train_rows,
        "target_kind": model.target_kind,
        "label_names": model.label_names is not None,
        "label_uris": 0,
        "stages": [stage.kind for stage in model.stages],
        "text": None,
        "projection_shape": None,
        "keep_raw": False,
        RERANK: None,
        "calibration": None,
        "thresholds": None,
        "features_per_router": None,
        "top_features": _top_features(model),
        "history": model.history,
        "validation": model.validation,
        "updates": list(model.updates),
        "bytes_by_part": {**parts, "header": size - sum(parts.values())},
    }
    for stage in model.stages:
        description |= stage.describe()
    return description


def describe_labels(path: AnyPath, labels: list[str]) -> dict[str, Any]:
    """The features of largest importance for labels."""
    import numpy as np

    import sparseleaf

    estimator = sparseleaf.load(path)
    model: TrainedModel = estimator.model_
    known = {
        str(name): name
        for name in (range(model.n_labels) if model.label_names is None else model.label_names.tolist())
    }
    unknown = [label for label in labels if label not in known]
    if unknown:
        raise ValueError(f"--label must be a label of the model. Got {unknown[0]!r} instead.")
    names = [known[label] for label in dict.fromkeys(labels)]
    matrix = estimator.label_importances(names, max_features=TOP_FEATURES)
    listed = []
    for number, label in enumerate(names):
        entries = slice(matrix.indptr[number], matrix.indptr[number + 1])
        order = np.argsort(-np.abs(matrix.data[entries]), kind="stable")
        features, values = matrix.indices[entries][order], matrix.data[entries][order]
        texts = model.names_of(features) or [f"feature {feature}" for feature in features.tolist()]
        listed.append(
            {
                "label": label,
                "features": [
                    {"feature": feature, "name": name, "importance": value}
                    for feature, name, value in zip(features.tolist(), texts, values.tolist(), strict=True)
                ],
            }
        )
    return {"labels": listed}


def _label_text(drivers: dict[str, Any]) -> str:
    lines = []
    for one in drivers["labels"]:
        lines.append(printable(str(one["label"])))
        lines += [f"  {each['importance']:+7.3f}  {printable(each['name'])}" for each in one["features"]]
    return "\n".join(lines)


def _top_features(model: TrainedModel) -> list[dict[str, Any]]:
    try:
        columns, importances = model.scorer.importances()
    except AttributeError:  # a blend of models with different columns
        return []
    best = sorted(zip((-importances).tolist(), columns.tolist(), strict=True))[:TOP_FEATURES]
    return [{**column(model, i), "importance": -importance} for importance, i in best if importance < 0]


def column(model: TrainedModel, number: int) -> dict[str, Any]:
    """The feature of a column of the trees: a raw or a projected one."""
    import numpy as np

    projected = 0 if model.projection is None else model.projection.components.shape[1]
    if number < projected:
        return {"feature": number, "kind": "projected"}
    raw = {"feature": number - projected, "kind": "raw"}
    names = model.names_of(np.array([number - projected]))
    return raw if names is None else raw | {"name": names[0]}


def _text(description: dict[str, Any]) -> str:
    """Columns of the vectorizer, by block, and parameters other than the defaults; empty if there is none."""
    from sparseleaf import TextVectorizer

    text = description["text"]
    if text is None:
        return ""
    columns = [f"{n:,} {name}" for name, n in text["columns"].items()]
    columns += [f"numeric {name}" for name in text["numeric"]]
    columns += [f"{n:,} categories of {name}" for name, n in text["categorical"].items()]
    defaults = TextVectorizer().get_params()
    parameters = {name: value for name, value in text["parameters"].items() if value != defaults[name]}
    listed = (f"{name}={_short(value)}" for name, value in parameters.items())
    return "  ".join([", ".join(columns), *listed])


def _short(value: Any) -> str:
    """A parameter of the vectorizer; weights by name as ``title:2,abstract:1``."""
    if not isinstance(value, list | tuple):
        return str(value)
    return ",".join(f"{one[0]}:{one[1]:g}" if isinstance(one, list | tuple) else str(one) for one in value)


def _updates(records: list[dict[str, Any]]) -> str:
    """Number of updates, their rows, and the metric before the last one."""
    if not records:
        return "none"
    rows, last = sum(record["n_rows"] for record in records), records[-1]
    text = f"{len(records):,} with {rows:,} rows"
    if last.get("value") is None:
        return text
    return f"{text}; {last['metric']} {last['value']:.4g} before the last"


def _show(path: AnyPath, description: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from sparseleaf.plotting import draw_learning_curve

    console = Console(highlight=False)
    table = Table(title=escape(printable(path.name)), show_header=False)
    table.add_column(style="bold")
    table.add_column()
    if "members" in description:
        trained = (
            f"{description['n_train_rows']:,} rows, {description['n_features']:,} features,"
            f" {description['n_labels']:,} labels"
        )
        for name, text in {
            "method": "blend",
            "trained on": trained,
            "text": _text(description),
            "size": readable_bytes(description["bytes"]),
        }.items():
            if text:
                table.add_row(name, escape(printable(text)))
        for member in description["members"]:
            kind = escape(printable(member["method"]))
            table.add_row(f"{member['weight']:.3g}", f"{kind}, {member['n_trees']:,} trees")
        console.print(table)
        return
    shape = description["projection_shape"]
    outputs = "outputs" if description["target_kind"].startswith("regression") else "labels"
    rows = {
        "method": description["method"],
        "trained on": f"{description['n_train_rows']:,} rows, {description['n_features']:,} features,"
        f" {description['n_labels']:,} {outputs}{' with names' if description['label_names'] else ''}"
        + (f", {description['label_uris']:,} URIs" if description["label_uris"] else ""),
        "updates": _updates(description["updates"]),
        "text": _text(description) or "none",
        "trees": f"{description['n_trees']:,}, depth {description['depth_mean']:.1f} on average,"
        f" at most {description['depth_max']}",
        "nodes": f"{description['n_nodes']:,}",
        "leaves": f"{description['n_leaves']:,}, {description['labels_per_leaf']:.1f} labels per leaf",
        "projection": "none"
        if shape is None
        else f"{shape[0]:,} → {shape[1]:,}" + ", in addition to the raw features" * description["keep_raw"],
        "routers": f"{description['features_per_router']:.0f} features per node"
        if description["features_per_router"]
        else "none",
        "re-ranking": "none"
        if description["rerank"] is None
        else description["rerank"]["mix"]
        + (
            f", tree weight {description['rerank']['weight']:g}"
            if description["rerank"]["weight"] is not None
            else ""
        ),
        "calibration": "none"
        if description["calibration"] is None
        else "{method}, {n_groups} groups of labels".format(**description["calibration"]),
        "size": readable_bytes(description["bytes"])
        + f" ({', '.join(f'{name} {readable_bytes(n)}' for name, n in description['bytes_by_part'].items() if n)})",
        "top features": ", ".join(
            f"{top.get('name', '{kind} {feature}'.format(**top))} ({100 * top['importance']:.1f}%)"
            for top in description["top_features"]
        ),
        "parameters": "  ".join(f"{name}={value}" for name, value in description["parameters"].items()),
    }
    for name in ("updates", "text", "projection", "routers", "re-ranking", "calibration"):
        if rows[name] == "none":
            del rows[name]
    for name, text in rows.items():
        table.add_row(name, escape(printable(text)))
    console.print(table)
    if any(description["history"].values()):
        console.print(printable(draw_learning_curve(description["history"])), markup=False)
