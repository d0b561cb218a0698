"""What the few levels of gradients cost, on the page about memory."""

from __future__ import annotations

from benchmarks.tables.common import DOCS, about, read, spread, table, with_tables

PAGE = DOCS / "memory.md"
DIGITS = {"squared error of a row": 3, "log loss": 5, "RMSE": 4}
"""Of the measures; all others are in percent."""


def page() -> str:
    results = read("precision")
    rows = []
    for name, found in results["sets"].items():
        measures = [key for key, value in found["runs"][0].items() if isinstance(value, list)]
        for measure in measures:
            cells = [spread(run[measure], DIGITS.get(measure, 1)) for run in found["runs"]]
            rows.append([f"{name}: {measure}", *cells])
    ways = [
        "16-bit gradients" if run["rounding"] == "fine" else f"{run['as_rows']:.1e} rows, {run['rounding']}"
        for run in next(iter(results["sets"].values()))["runs"]
    ]
    return with_tables(PAGE, f"{table(['', *ways], rows)}\n\nOn {about(results['machine'])}.\n")
