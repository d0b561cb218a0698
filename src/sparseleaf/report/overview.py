"""The parts of a report that need no script: metrics, plots, and facts about the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparseleaf._printable import readable_bytes
from sparseleaf.report import svg
from sparseleaf.report.html import (
    bars,
    cards,
    column,
    definitions,
    figure,
    figures,
    number,
    percent,
    section,
    table,
)

Data = dict[str, Any]

METRICS = ("precision", "ndcg", "recall", "f1", "psp", "psndcg")
TITLES = {
    "precision": "Precision",
    "ndcg": "nDCG",
    "recall": "Recall",
    "f1": "F1",
    "psp": "PSP",
    "psndcg": "PSnDCG",
}


def overview(data: Data) -> str:
    """Metrics and plots of a task."""
    return _OVERVIEWS[data["task"]](data)


def about(data: Data) -> str:
    """Size, latency, parameters and fingerprints."""
    facts = data["about"]
    outputs = "labels" if data["task"] == "labels" else "outputs"
    sizes = ", ".join(f"{name} {readable_bytes(size)}" for name, size in facts["bytes"].items())
    rows = [
        ("Estimator", f"{facts['estimator']} ({facts['method']})"),
        (
            "Trained on",
            f"{facts['n_train_rows']:,} rows, {facts['n_features']:,} features, {facts['n_labels']:,} {outputs}",
        ),
        ("Evaluated on", f"{facts['n_rows']:,} rows"),
        ("Stages", " → ".join(facts["stages"])),
        ("Trees", f"{facts['n_trees']:,}"),
        ("Size of the model", f"{readable_bytes(sum(facts['bytes'].values()))} ({sizes})"),
        ("Fingerprint of X", facts["fingerprints"]["X"]),
        ("Fingerprint of y", facts["fingerprints"]["y"]),
        ("Report", f"sparseleaf {facts['version']}, {facts['created']}"),
    ]
    defaults = facts["defaults"]
    parameters = [
        (name, value, "" if defaults.get(name) == value else defaults.get(name, ""))
        for name, value in facts["parameters"].items()
    ]
    return (
        section("Model and data", definitions(rows))
        + section("Latency", _latency(facts["latency"]))
        + section(
            "Parameters",
            table(("parameter", "value", "default, if another"), parameters, "Values and defaults"),
        )
    )


def _latency(latency: Data | None) -> str:
    if latency is None:
        return ""
    return cards(
        [
            ("single row, median", f"{latency['single_ms']:.3g} ms"),
            ("single row, 95%", f"{latency['single_p95_ms']:.3g} ms"),
            (f"per row in a batch of {latency['batch_rows']:,}", f"{latency['batch_ms_per_row']:.3g} ms"),
            ("threads", str(latency["threads"])),
        ]
    )


# --- classification


def _labels(data: Data) -> str:
    metrics = data["metrics"]
    depths = [int(name.partition("@")[2]) for name in metrics if name.startswith("precision@")]
    best = [(f"{TITLES[name]}@{k}", percent(metrics[f"{name}@{k}"])) for name, k in _headline(depths)]
    best.append(("F1 of predict, micro", percent(metrics["f1_micro"])))
    rows = [(TITLES[name], *(percent(metrics[f"{name}@{k}"]) for k in depths)) for name in METRICS]
    sets = [
        (average, *(percent(metrics[f"{name}_{average}"]) for name in ("precision", "recall", "f1")))
        for average in ("micro", "macro")
    ]
    curve = svg.lines(
        {TITLES[name]: values for name, values in data["curve"].items()},
        "Precision, nDCG and recall by number of predictions",
        "k",
        "metric at k",
        y_range=(0, 1),
    )
    return (
        section("Accuracy", cards(best))
        + section(
            "By number of predictions",
            figures(
                figure(curve),
                column(
                    table(
                        ("metric", *(f"@{k}" for k in depths)),
                        rows,
                        "Metrics of the k best labels of every row",
                    ),
                    table(("average", "precision", "recall", "F1"), sets, "Labels that predict returns"),
                ),
            ),
        )
        + section(
            "By frequency of labels",
            _groups(data["groups"]),
            note="Labels are sorted by frequency in training; each group has a third of all occurrences. P@k is what"
            " the labels of a group contribute to the precision of all labels.",
        )
        + _curves(data)
        + section("Important features", bars(data["importances"], "Fraction of the total importance"))
    )


def _headline(depths: list[int]) -> list[tuple[str, int]]:
    last = max(k for k in depths if k <= 5)
    chosen = [("precision", 1), ("precision", last), ("ndcg", last), ("recall", last), ("psp", last)]
    return list(dict.fromkeys(chosen))


def _groups(groups: list[Data]) -> str:
    depths = [name.partition("@")[2] for name in groups[0] if name.startswith("psp@")]
    head = ("group", "labels", "training rows", "in the data", *(f"P@{k}" for k in depths))
    rows = [
        (
            group["name"],
            f"{group['labels']:,}",
            f"{group['least']:,} – {group['most']:,}",
            f"{group['true']:,}",
            *(percent(group[f"precision@{k}"]) for k in depths),
            *(percent(group[f"psp@{k}"]) for k in depths),
            percent(group["f1"]),
        )
        for group in groups
    ]
    return table((*head, *(f"PSP@{k}" for k in depths), "F1"), rows, "Head, torso and tail")


def _curves(data: Data) -> str:
    """Learning curve and reliability diagram, where there is one."""
    reliability = data.get("reliability")
    calibration = ""
    if reliability is not None:
        calibration = figure(
            svg.reliability(**reliability),
            f"Probabilities of the best labels of every row: expected calibration error {data['metrics']['ece']:.4f},"
            f" Brier score {data['metrics']['brier']:.4f}.",
        )
    curve = section("Learning curve", _learning_curve(data["history"]))
    return figures(*(column(part) for part in (curve, section("Calibration", calibration)) if part))


def _learning_curve(history: dict[str, list[float | None]]) -> str:
    curves = {name: values for name, values in history.items() if any(value is not None for value in values)}
    if not curves:
        return ""
    metrics = {name.rpartition(" ")[2] for name in curves}
    return figures(
        figure(svg.lines(curves, "Learning curve", "trees", metrics.pop() if len(metrics) == 1 else "metric"))
    )


# --- regression and ranking


def _outputs(data: Data) -> str:
    metrics = data["metrics"]
    best = [
        ("R², mean", number(metrics["r2"])),
        ("RMSE, mean", number(metrics["rmse"])),
        ("MAE, mean", number(metrics["mae"])),
    ]
    plots = []
    for one in data["residuals"]:
        plots.append(
            figures(
                figure(
                    svg.scatter(one["true"], one["predicted"], f"Predicted and true values of {one['name']}"),
                    one["name"],
                ),
                figure(
                    svg.histogram(
                        one["edges"], one["counts"], f"Residuals of {one['name']}", "true - predicted", "rows"
                    ),
                    f"{one['name']}: residuals",
                ),
            )
        )
    return (
        section("Accuracy", cards(best))
        + section("Residuals", *plots, note="The outputs of lowest R², if there are many.")
        + section("Learning curve", _learning_curve(data["history"]))
        + section("Important features", bars(data["importances"], "Fraction of the total importance"))
    )


def _queries(data: Data) -> str:
    metrics = data["metrics"]
    histogram = data["ndcg_histogram"]
    groups = {f"{grade['grade']:g}": grade["quantiles"] for grade in data["grades"]}
    return (
        section("Accuracy", cards([(name.upper(), number(value)) for name, value in metrics.items()]))
        + section(
            "Queries and grades",
            figures(
                figure(
                    svg.histogram(
                        histogram["edges"],
                        histogram["counts"],
                        "NDCG@10 of the queries",
                        "NDCG@10",
                        "queries",
                    ),
                    "NDCG@10 of the queries",
                ),
                figure(
                    svg.boxes(groups, "Scores by grade", "grade", "score"),
                    "Scores by grade: median, 25% to 75%, and 5% to 95% of the documents",
                ),
            ),
        )
        + section("Learning curve", _learning_curve(data["history"]))
        + section("Important features", bars(data["importances"], "Fraction of the total importance"))
    )


_OVERVIEWS: dict[str, Callable[[Data], str]] = {"labels": _labels, "outputs": _outputs, "queries": _queries}
