"""Tables of the pages on serving and on Annif, from the results of ``benchmarks.serve`` and ``benchmarks.annif``."""

from __future__ import annotations

from benchmarks.tables.common import DOCS, RESULTS, about, read, table, with_tables

PAGE, ANNIF_PAGE = DOCS / "guide" / "serving.md", DOCS / "guide" / "annif.md"
RUNS = {"steady": "one model", "replaced": "model file replaced every second"}


def page() -> str:
    return with_tables(PAGE, load())


def load() -> str:
    """Empty without results."""
    if not (RESULTS / "serve.json").exists():
        return ""
    results = read("serve")
    rows = [
        [
            f"{model}, {text}",
            *(f"{runs[name][key]:,.{digits}f}" for key, digits in COLUMNS.values()),
        ]
        for model, runs in results["models"].items()
        for name, text in RUNS.items()
    ]
    workers = results["workers"]
    return f"""`wrk` with {results["connections"]} connections for {results["seconds"]} s, requests with one row of Delicious each, {workers} worker process{"es" * (workers > 1)};
client and server share two cores. `python -m benchmarks.serve --data DIR`

{table(["model", *COLUMNS], rows)}

{about(results["machine"])}.
"""


COLUMNS = {
    "requests per second": ("requests_per_second", 0),
    "median, ms": ("p50_ms", 1),
    "99th percentile, ms": ("p99_ms", 1),
    "longest, ms": ("max_ms", 0),
    "failed requests": ("errors", 0),
}


def annif_page() -> str:
    return with_tables(ANNIF_PAGE, annif())


def annif() -> str:
    results = read("annif")
    rows = [
        [
            name,
            *(f"{run[metric]:.3f}" for metric in ("F1@5", "Precision@1", "NDCG@5")),
            f"{run['bytes'] / 1e6:.0f}",
        ]
        for name, run in results["runs"].items()
    ]
    return f"""{results["rows"]:,} German records of tibkat-gnd with title and abstract for training, {results["test_rows"]:,} development records to evaluate,
all by `annif train` and `annif eval`. Parabel is the default of Annif's omikuji backend; Bonsai has
`cluster_balanced=False`, `cluster_k=100` and `max_depth=3`; both have `snowball(german)` and `min_df=2`. sparseleaf has its defaults,
without and with that analyzer.
`python -m benchmarks.annif --data DIR`

{table(["backend", "F1@5", "precision@1", "NDCG@5", "size, MB"], rows)}
"""
