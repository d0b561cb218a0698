"""Tuning with a time budget, on the page about it."""

from __future__ import annotations

from benchmarks.tables.common import DOCS, about, read, table, with_tables

PAGE = DOCS / "guide" / "tuning.md"


def page() -> str:
    results = read("tuning")
    systems = list(dict.fromkeys(system for runs in results["runs"].values() for system in runs))
    rows = []
    for name, runs in results["runs"].items():
        metric = next(iter(next(iter(runs.values()))["test"]))
        values = {system: run["test"][metric] for system, run in runs.items()}
        best = (max if metric.startswith("ndcg") else min)(values.values())
        cells = [f"**{value:.4f}**" if value == best else f"{value:.4f}" for value in values.values()]
        rows.append([f"{name}, {metric}", *cells])
    return with_tables(PAGE, f"{table(['', *systems], rows)}\n\nOn {about(results['machine'])}.\n")
