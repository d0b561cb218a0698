"""Speed-up by threads, from what ``python -m benchmarks.scaling`` wrote."""

from __future__ import annotations

from benchmarks.scaling import RUNS
from benchmarks.tables.common import RESULTS, read, table

TITLES = {
    "delicious": "SparseGBDT on Delicious, defaults",
    "delicious_paper": "SparseGBDT on Delicious, the paper's settings",
    "mnist": "MultiGBDT on MNIST, 100 rounds",
    "million_rows": "MultiGBDT, 10⁶ rows × 100 features × 32 outputs, trees alone",
    "many_labels": "SparseGBDT, 196,606 rows, 205,443 labels, trees alone",
    "forest": "SketchForest, 129,000 rows, 60,000 labels",
}

TREES_ALONE = ("million_rows", "many_labels")
"""Where a training of a few trees would mostly be the binning."""


def many_cores() -> str:
    """A section of the benchmark page; nothing where nothing was measured."""
    if not (RESULTS / "scaling.json").exists():
        return ""
    results = read("scaling")
    rows = []
    for name in RUNS:
        runs = results["runs"].get(name, [])
        kind = "tree" if name in TREES_ALONE else "fit"
        cells = [f"{run[f'{kind}_seconds']:.2f} ({run[f'{kind}_speed_up']:.1f} ×)" for run in runs]
        rows += [[TITLES[name], *cells]] if runs else []
    threads = [str(run["threads"]) for run in next(iter(results["runs"].values()))]
    machine = results["machine"]
    return f"""### Many cores

Seconds, and the speed-up over one thread, on a machine of {machine["cores"]} cores ({machine["cpu"]}); the model is the
same, byte for byte. `python -m benchmarks.scaling --data DIR`

{table(["by threads", *threads], rows)}
"""
