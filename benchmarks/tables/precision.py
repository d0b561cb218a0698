"""Accuracy with coarsely quantised gradients, on the page about memory."""

from __future__ import annotations

from benchmarks.tables.common import DOCS, about, read, spread, table, with_tables

PAGE = DOCS / "memory.md"
DIGITS = {"squared error per row": 3, "log loss": 5, "RMSE": 4}
"""Decimal places of the metrics that are not percentages."""


def page() -> str:
    results = read("precision")
    rows = []
    for name, dataset in results["sets"].items():
        metrics = [key for key, value in dataset["runs"][0].items() if isinstance(value, list)]
        for metric in metrics:
            cells = [spread(run[metric], DIGITS.get(metric, 1)) for run in dataset["runs"]]
            rows.append([f"{name}: {metric}", *cells])
    heads = [
        "16-bit gradients"
        if run["rounding"] == "fine"
        else f"scale of {run['as_rows']:.1e} rows, {ROUNDING[run['rounding']]}"
        for run in next(iter(results["sets"].values()))["runs"]
    ]
    return with_tables(
        PAGE, f"{table(['dataset: metric', *heads], rows)}\n\nOn {about(results['machine'])}.\n"
    )


ROUNDING = {"random": "stochastic rounding", "nearest": "rounding to nearest"}
