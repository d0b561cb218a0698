"""Results of the test bed as JSON and as the tables of `docs/defaults.md`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._common import commit, machine
from benchmarks.bed.compare import Ranks, outcome, rank_systems, signed_rank_p_values
from benchmarks.bed.errors import NAMES
from benchmarks.bed.run import read
from benchmarks.bed.sets import DEVELOPMENT, EVALUATION, SETS, TRAINING_SHARE
from benchmarks.bed.systems import OURS, SYSTEMS, takes

Results = dict[str, Any]

LIGHTGBM = "LightGBM"
LARGE = 1_000
"""Rows of the training sets whose times are compared one by one."""

TEST_SHARE = (1 - TRAINING_SHARE) / TRAINING_SHARE


def collect(out: Path, n_splits: int, n_jobs: int) -> Results:
    """Errors and times of the fits that succeeded, by dataset and system; other fits by their status."""
    by_set: dict[str, Any] = {}
    for name, bed_set in SETS.items():
        systems: dict[str, Any] = {}
        for system in SYSTEMS:
            records = list(read(out, name, system, n_splits).values()) if takes(system, bed_set.kind) else []
            failed = [record["status"] for record in records if record["status"] != "ok"]
            if failed or len(records) < n_splits:
                systems.update({system: {"status": failed[0]}} if failed else {})
                continue
            systems[system] = {
                "status": "ok",
                "n_rows": records[0]["n_rows"],
                "errors": [record["error"] for record in records],
                "processor_seconds": float(np.median([record["processor_seconds"] for record in records])),
            }
        by_set[name] = {"kind": bed_set.kind, "role": bed_set.role, "systems": systems}
    about = {"machine": machine(), "commit": commit(), "splits": n_splits, "n_jobs": n_jobs}
    return about | {"sets": by_set}


def errors_of(results: Results, role: str) -> dict[str, dict[str, Any]]:
    return {
        name: {system: one["errors"] for system, one in entry["systems"].items() if one["status"] == "ok"}
        for name, entry in results["sets"].items()
        if entry["role"] == role
    }


def ranks(results: Results, role: str) -> Ranks:
    """Average ranks of the systems with results on at least half of the datasets, over those that all of them have.

    Datasets with queries, which some do not take, are left out.
    """
    errors = {name: one for name, one in errors_of(results, role).items() if SETS[name].kind != "ranking"}
    known = [system for system in SYSTEMS if 2 * sum(system in one for one in errors.values()) >= len(errors)]
    return rank_systems(errors, known)


def duels(results: Results, role: str) -> list[list[str]]:
    """Wins, ties and losses of ours against every other system, with the test over datasets."""
    errors = errors_of(results, role)
    peers = [system for system in SYSTEMS if system != OURS]
    p_values = signed_rank_p_values(errors, OURS, peers)
    rows = []
    for peer in peers:
        both = [one for one in errors.values() if OURS in one and peer in one]
        if not both:
            continue
        outcomes = [outcome(one[OURS], one[peer], TEST_SHARE) for one in both]
        lower = sum(np.mean(one[OURS]) < np.mean(one[peer]) for one in both)
        counts = (str(outcomes.count(kind)) for kind in ("win", "tie", "loss"))
        rows.append([peer, *counts, f"{lower} of {len(both)}", f"{p_values[peer]:.2g}"])
    return rows


def _cell(one: dict[str, Any] | None, best: float) -> str:
    if one is None:
        return "–"
    if one["status"] != "ok":
        return str(one["status"])
    mean = float(np.mean(one["errors"]))
    return f"**{mean:.4f}**" if mean == best else f"{mean:.4f}"


def error_rows(results: Results, role: str) -> list[list[str]]:
    rows = []
    for name, entry in results["sets"].items():
        systems = entry["systems"]
        if entry["role"] != role or OURS not in systems:
            continue
        means = [np.mean(one["errors"]) for one in systems.values() if one["status"] == "ok"]
        cells = [_cell(systems.get(system), min(means, default=0.0)) for system in SYSTEMS]
        rows.append([name, NAMES[entry["kind"]], *cells])
    return rows


def time_rows(results: Results) -> list[list[str]]:
    """Median processor time of a fit, over all datasets."""
    rows = []
    for system in SYSTEMS:
        times = [
            entry["systems"][system]["processor_seconds"]
            for entry in results["sets"].values()
            if entry["systems"].get(system, {}).get("status") == "ok"
        ]
        if times:
            low, median, high = np.quantile(times, (0.1, 0.5, 0.9))
            rows.append([system, f"{median:.2f}", f"{low:.2f}", f"{high:.2f}", str(len(times))])
    return rows


def large_rows(results: Results) -> list[list[str]]:
    """Median processor times of ours and of LightGBM on datasets with more than LARGE training rows."""
    rows = []
    for name, entry in results["sets"].items():
        ours, theirs = (entry["systems"].get(system, {}) for system in (OURS, LIGHTGBM))
        if ours.get("status") == theirs.get("status") == "ok" and ours["n_rows"] > LARGE:
            times = ours["processor_seconds"], theirs["processor_seconds"]
            rows.append(
                [
                    name,
                    f"{ours['n_rows']:,}",
                    *(f"{one:.2f}" for one in times),
                    f"{times[0] / times[1]:.1f} ×",
                ]
            )
    return rows


def rank_rows(results: Results) -> list[list[str]]:
    average = ranks(results, EVALUATION).average
    return [[system, f"{average[system]:.2f}"] for system in sorted(average, key=lambda one: average[one])]


def losses(results: Results, role: str) -> list[list[str]]:
    """Datasets on which another system has a lower mean error."""
    rows = []
    for name, entry in results["sets"].items():
        systems = {key: one["errors"] for key, one in entry["systems"].items() if one["status"] == "ok"}
        if entry["role"] != role or OURS not in systems:
            continue
        best = min(systems, key=lambda system: float(np.mean(systems[system])))
        if best != OURS:
            ours, theirs = systems[OURS], systems[best]
            verdict = outcome(ours, theirs, TEST_SHARE)
            figures = [f"{np.mean(ours):.4f}", f"{np.mean(theirs):.4f}"]
            rows.append([name, best, *figures, "significant" if verdict == "loss" else "not significant"])
    return rows


def table(header: list[str], rows: list[list[str]], n_left: int = 1) -> str:
    marks = ["---" if i < n_left else "---:" for i in range(len(header))]
    return "\n".join("| " + " | ".join(row) + " |" for row in (header, marks, *rows))


def all_tables(results: Results) -> dict[str, str]:
    """The tables of the page, by the name of their place in it."""
    one = ranks(results, EVALUATION)
    duel = ["sparseleaf against", "wins", "ties", "losses", "lower mean error", "p over sets"]
    columns = ["dataset", "error", *SYSTEMS]
    developed = error_rows(results, DEVELOPMENT)
    return {
        "ranks": table(["system", "average rank"], rank_rows(results))
        + f"\n\n{one.n_sets} evaluation sets without queries that all of them were fitted to, critical difference"
        f" {one.critical:.2f}, Friedman's test p = {one.p_value:.1g}; {results['splits']} splits per dataset.",
        "duels": table(duel, duels(results, EVALUATION)),
        "evaluation": table(columns, error_rows(results, EVALUATION), 2),
        "development": table(columns, developed, 2) if developed else "Not measured.",
        "losses": table(
            ["dataset", "best system", "sparseleaf", "best", "paired test"], losses(results, EVALUATION), 2
        ),
        "large": table(["dataset", "training rows", "sparseleaf", "LightGBM", "ratio"], large_rows(results)),
        "times": table(["system", "median", "10 %", "90 %", "datasets"], time_rows(results)),
    }


def text(results: Results) -> str:
    try:
        return "\n\n".join(f"{name}\n{rows}" for name, rows in all_tables(results).items())
    except (ValueError, IndexError):
        return "There are too few results for a comparison."


def write_page(results: Results, path: Path) -> None:
    """Replace the tables of the page."""
    replace_tables(path, all_tables(results))


def replace_tables(path: Path, tables: dict[str, str]) -> None:
    """Replace tables of a page by name, each between its two comments (``made by ...: NAME``, ``end of table``)."""
    page = path.read_text()
    for name, rows in tables.items():
        pattern = rf"(<!-- made by python -m benchmarks.bed: {name} -->\n).*?(<!-- end of table -->)"
        page = re.sub(
            pattern, lambda match, rows=rows: f"{match[1]}{rows}\n{match[2]}", page, flags=re.DOTALL
        )
    path.write_text(page)
