"""Table of the page on reports, from the results of ``benchmarks.report``."""

from __future__ import annotations

from benchmarks.tables.common import DOCS, about, read, table, with_tables

PAGE = DOCS / "guide" / "report.md"


def page() -> str:
    return with_tables(PAGE, reports())


def reports() -> str:
    results = read("report")
    rows = [
        [
            f"{int(n_labels):,}",
            f"{one['bytes'] / 1e6:.1f}",
            *(f"{one[f'{step}_ms']:,.0f}" for step in ("opening", "search", "sort")),
        ]
        for n_labels, one in results["reports"].items()
    ]
    return f"""{table(["labels", "size, MB", "opening, ms", "search, ms", "sort, ms"], rows)}

Chromium {results["chromium"].partition(".")[0]}; {about(results["machine"])}. `python -m benchmarks.report`
"""
