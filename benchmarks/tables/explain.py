"""Accuracy and time of explanations, on their page."""

from __future__ import annotations

from benchmarks.tables.common import DOCS, about, read, table, with_tables

PAGE = DOCS / "explain.md"


def page() -> str:
    results = read("explain")
    rows = [
        [
            f"{dataset}: {name}",
            f"{run['largest_error']:.0e}",
            f"{run['explain_ms_per_row'] + run['objects_ms_per_row']:.2f}",
            f"{run['single_row_ms']:.1f}",
            f"{run['predict_ms_per_row']:.2f}",
        ]
        for dataset, runs in results["sets"].items()
        for name, run in runs.items()
    ]
    heads = ["model", "largest difference between score and sum", "all rows in one call, ms per row"]
    heads += ["one row per call, ms", "prediction, ms per row"]
    return with_tables(
        PAGE,
        f"""## Time

The five best labels of {results["rows"]:,} test rows, CPU time of one thread (`python -m benchmarks.explain --data DIR`):

{table(heads, rows)}

On {about(results["machine"])}.
""",
    )
