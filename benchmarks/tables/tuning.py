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
        cells = [
            (f"**{value:.4f}**" if value == best else f"{value:.4f}") + f" ({runs[system]['trials']})"
            for system, value in values.items()
        ]
        rows.append([f"{name}, {metric}", *cells])
    budget = next(iter(next(iter(results["runs"].values())).values()))["budget"]
    text = (
        f"One thread, {budget:g} seconds of search for every system; tested once, on three tenths of the rows (ranking:"
        " the published test set); in parentheses, the number of trials. LightGBM has one model per output. Lower is"
        " better, except for ndcg@5."
    )
    return with_tables(PAGE, f"{text}\n\n{table(['', *systems], rows)}\n\nOn {about(results['machine'])}.\n")
