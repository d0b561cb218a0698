"""Speed-up by number of threads, from the results of ``python -m benchmarks.scaling``."""

from __future__ import annotations

from benchmarks.scaling import RUNS
from benchmarks.tables.common import RESULTS, read, table

TITLES = {
    "delicious": "SparseGBDT on Delicious, defaults",
    "delicious_paper": "SparseGBDT on Delicious, the paper's settings",
    "mnist": "MultiGBDT on MNIST, 100 rounds",
    "million_rows": "MultiGBDT, 10⁶ rows × 100 features × 32 outputs, without binning",
    "many_labels": "SparseGBDT, 196,606 rows, 205,443 labels, without binning",
    "forest": "SketchForest, 129,000 rows, 60,000 labels",
}

WITHOUT_BINNING = ("million_rows", "many_labels")
"""Runs of a few trees, whose time would mostly be binning."""


def many_cores() -> str:
    """A section of the benchmark page; empty without results."""
    if not (RESULTS / "scaling.json").exists():
        return ""
    results = read("scaling")
    ceilings, rows = results["ceilings"], []
    for name in RUNS:
        runs = results["runs"].get(name, [])
        kind = "tree" if name in WITHOUT_BINNING else "fit"
        cells = [f"{run[f'{kind}_seconds']:.2f} ({run[f'{kind}_speed_up']:.1f} ×)" for run in runs]
        most = f"{ceilings[name]['throughput']:.1f} ×" if name in ceilings else "–"
        rows += [[TITLES[name], *cells, most]] if runs else []
    threads = [str(run["threads"]) for run in next(iter(results["runs"].values()))]
    machine, together = results["machine"], next(iter(ceilings.values()))["trainings"]
    return f"""### Many cores

Training time in seconds and speed-up over one thread on a machine with {machine["cores"]} cores ({machine["cpu"]}), measured
separately from the rest of this page; models are byte-identical. `python -m benchmarks.scaling --data DIR`

{table(["threads", *threads, f"{together} at once"], rows)}

Cores share clock rate, caches and memory. The last column is the throughput of {together} independent trainings at once, with one
thread each, over that of one alone: about the most that {together} threads can gain.
"""
