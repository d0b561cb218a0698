"""Tuning with a time budget, on the page about it."""

from __future__ import annotations

from typing import Any

from benchmarks.tables.common import DOCS, about, read, table, with_tables

PAGE = DOCS / "guide" / "tuning.md"
OURS = "sparseleaf.tune"


def score(run: dict[str, Any]) -> float:
    """The metric that was tuned for; lower is better."""
    metric, value = next(iter(run["test"].items()))
    return -value if metric.startswith("ndcg") else value


def ahead(results: dict[str, Any], systems: list[str]) -> str:
    """On how many datasets tune has a better test score than each of the others."""
    texts = []
    for system in systems:
        pairs = [
            (score(runs[OURS]), score(runs[system]))
            for runs in results["runs"].values()
            if OURS in runs and system in runs
        ]
        if system != OURS:
            n_ahead = sum(ours < other for ours, other in pairs)
            texts.append(f"{n_ahead} of {len(pairs)} datasets against *{system}*")
    return ", ".join(texts)


def page() -> str:
    results = read("tuning")
    systems = list(dict.fromkeys(system for runs in results["runs"].values() for system in runs))
    rows = []
    for name, runs in results["runs"].items():
        metric = next(iter(next(iter(runs.values()))["test"]))
        best = min(map(score, runs.values()))
        cells = []
        for system in systems:
            if system not in runs:
                cells.append("–")
                continue
            run = runs[system]
            value = f"{run['test'][metric]:.4f}"
            cells.append((f"**{value}**" if score(run) == best else value) + f" ({run['trials']})")
        rows.append([f"{name}, {metric}", *cells])
    budget = next(iter(next(iter(results["runs"].values())).values()))["budget"]
    text = (
        f"One thread, {budget:g} seconds of search for every system, two systems at a time; tested once, on three tenths of"
        " the rows (lambdarank: the published test set); in parentheses, the number of trials. LightGBM has one model per"
        " output. Lower is better, except for ndcg@5."
        f" {OURS} has the better score on {ahead(results, systems)}."
    )
    return with_tables(PAGE, f"{text}\n\n{table(['', *systems], rows)}\n\nOn {about(results['machine'])}.\n")
