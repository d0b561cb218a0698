"""What all tables share: reading results, formatting cells, pages with generated tables."""

from __future__ import annotations

import json
from math import sqrt
from pathlib import Path
from statistics import mean, stdev

DOCS = Path(__file__).parents[2] / "docs"
RESULTS = DOCS / "results"
TABLES, END = "<!-- tables: made by python -m benchmarks.tables -->\n", "<!-- end of tables -->\n"


def read(name: str) -> dict:
    return json.loads((RESULTS / f"{name}.json").read_text())


def table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines)


def precision(run: dict, ks: tuple[int, ...] = (1, 3, 5)) -> str:
    return " / ".join(f"{run[f'P@{k}']:.2f}" for k in ks)


def megabytes(n_bytes: float) -> str:
    return f"{n_bytes / 1e6:.2f}"


def spread(values: float | list[float], digits: int) -> str:
    """A mean with its standard error over seeds, or a single number."""
    if not isinstance(values, list):
        return f"{values:.{digits}f}"
    return f"{mean(values):.{digits}f} ± {stdev(values) / sqrt(len(values)):.{digits}f}"


def about(machine: dict) -> str:
    names = ("numpy", "scipy", "scikit-learn", "xgboost", "xgboost-cpu", "lightgbm", "catboost")
    versions = ", ".join(f"{name} {machine[name]}" for name in names if name in machine)
    return f"{machine['cpu']}, {machine['cores']} cores, Python {machine['python']}, {versions}"


def with_tables(page: Path, tables: str) -> str:
    """A page with the part between its markers replaced."""
    before, rest = page.read_text().split(TABLES)
    return f"{before}{TABLES}\n{tables}\n{END}{rest.split(END)[1]}"
