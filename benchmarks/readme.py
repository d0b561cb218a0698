"""The generated part of the README: measured results against the tools that readers use today."""

from __future__ import annotations

from benchmarks.harness import Record
from benchmarks.plots import plot_file, plot_points
from benchmarks.results import (
    Records,
    by_system,
    completed,
    decimals,
    duration,
    main_metric,
    significant,
    stopped_early,
)
from benchmarks.suites import SUITES
from benchmarks.systems import SYSTEMS
from benchmarks.tables.common import table

TABLES = {
    "tibkat-gnd": (
        "41,218 labels (tibkat-gnd)",
        ("sketch-forest", "bonsai", "parabel", "plt", "xgboost", "lightgbm", "catboost"),
    ),
    "mnist": (
        "10 classes (MNIST, 100 rounds)",
        ("multi-gbdt", "lightgbm", "xgboost", "catboost"),
    ),
}  # fmt: skip
"""Suite, title and systems of every table."""


def readme_block(records: Records) -> str:
    parts = [results_table(records, name, title, keys) for name, (title, keys) in TABLES.items()]
    parts = [part for part in parts if part]
    text_set = SUITES["tibkat-gnd"]
    if plot_points(records, text_set):
        alt = "P@1 against training time and against prediction time, tibkat-gnd"
        image = f"![{alt}](docs/images/{plot_file(text_set.name)})"
        caption = (
            "*The same dataset: up and left is better. Blue: sparseleaf; grey: other systems. Those far below are not"
            " drawn.*"
        )

        parts.insert(1, f"{image}\n\n{caption}\n")
    return "\n" + "\n".join([headlines(records), *parts]) + "\n"


def results_table(records: Records, name: str, title: str, keys: tuple[str, ...]) -> str:
    suite = SUITES[name]
    rows = by_system(records, suite, next(iter(suite.cases)))
    rows = {key: rows[key] for key in keys if key in rows}
    if not rows:
        return ""
    metric = main_metric(suite)
    heads = [title, f"{metric}, %", "training, s", "prediction, ms/row", "model, MB"]
    note = ""
    if any(stopped_early(record) for record in rows.values()):
        note = "\n† stopped at the time limit; results of the trees trained so far.\n"
    return (
        table(heads, [[cell_name(key, record), *cells(record, metric)] for key, record in rows.items()])
        + f"\n{note}"
    )


def cell_name(key: str, record: Record) -> str:
    """The name of a system with its version, ours in bold."""
    system = SYSTEMS[key]
    if system.ours:
        return f"**sparseleaf {system.name}**"
    versions = [f" {record['machine'][name]}" for name in system.packages if name in record["machine"]]
    return system.name + "".join(versions)


def cells(record: Record, metric: str) -> list[str]:
    if record["status"] == "time limit" and "projected_seconds" in record:
        return ["–", f"about {duration(record['projected_seconds'])}", "", ""]
    if record["status"] != "ok":
        limit = record["limits"]
        text = {
            "time limit": f"more than {limit['seconds']:g} s",
            "memory limit": f"more than {limit['memory_gb']:g} GB of memory",
        }
        return ["–", text.get(record["status"], record["status"]), "", ""]
    return [
        f"{record['metrics'][metric]:.{decimals(metric)}f}" + " †" * stopped_early(record),
        significant(record["train_seconds"]),
        significant(record["predict_ms_per_row"]),
        significant(record["model_bytes"] / 1e6),
    ]


def headlines(records: Records) -> str:
    """The comparisons that matter most, in words."""
    lines = [
        against(records, "tibkat-gnd", "Tagging 90,452 texts with 41,218 labels", "sketch-forest", "bonsai"),
        against(records, "mnist", "Ten classes (MNIST)", "multi-gbdt", "lightgbm"),
        many_labels(records),
    ]
    return "\n".join(filter(None, lines)) + "\n"


def against(records: Records, name: str, title: str, ours: str, peer: str) -> str:
    suite = SUITES[name]
    rows = completed(records, suite, next(iter(suite.cases)))
    if ours not in rows or peer not in rows:
        return ""
    metric = main_metric(suite)
    a, b = rows[ours], rows[peer]
    return (
        f"- **{title}**: {SYSTEMS[ours].name} has {metric} {a['metrics'][metric]:.1f} %, {SYSTEMS[peer].name}"
        f" {b['metrics'][metric]:.1f} %. Training is {ratio(a, b, 'train_seconds')}, prediction"
        f" {ratio(a, b, 'predict_ms_per_row')}."
    )


def ratio(a: Record, b: Record, cost: str) -> str:
    times = b[cost] / a[cost]
    return f"{significant(times, 2)}× faster" if times >= 1 else f"{significant(1 / times, 2)}× slower"


def many_labels(records: Records) -> str:
    """Training time with the fewest and the most labels of the scaling sweep."""
    suite = SUITES["sweep-outputs"]
    few, *_, many = suite.cases
    runs = [completed(records, suite, case).get("sparse-gbdt") for case in (few, many)]
    if None in runs:
        return ""
    seconds = [significant(run["train_seconds"], 2) for run in runs if run]
    text = (
        f"- **Number of labels**: ten boosted trees (SparseGBDT) on 20,000 synthetic rows take {seconds[0]} s with"
        f" {int(few):,} labels and {seconds[1]} s with {int(many):,}."
    )
    return f"{text} {xgboost_limit(records)}".strip()


def xgboost_limit(records: Records) -> str:
    """The smallest number of labels of the sweep that XGBoost does not finish in time."""
    suite = SUITES["sweep-outputs"]
    for case in suite.cases:
        record = by_system(records, suite, case).get("xgboost", {})
        if record.get("status") == "time limit" and "projected_seconds" in record:
            return (
                f"XGBoost would take about {duration(record['projected_seconds'])} with {int(case):,} labels."
            )
    return ""
