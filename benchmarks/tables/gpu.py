"""Training on a GPU, from the results of ``python -m benchmarks.gpu``."""

from __future__ import annotations

from benchmarks.tables.common import DOCS, about, read, table, with_tables
from benchmarks.tables.scaling import TITLES

PAGE = DOCS / "gpu.md"
SYSTEMS = {"xgboost": "XGBoost, GPU", "py_boost": "Py-Boost, GPU"}


def page() -> str:
    """The page on GPUs with its tables regenerated."""
    return with_tables(PAGE, tables())


def tables() -> str:
    results = read("gpu")
    titles = TITLES | {"ten_million_rows": "MultiGBDT, 10⁷ rows × 100 features × 32 outputs"}
    runs = results["runs"]
    peers = [name for name in SYSTEMS if any(name in of for of in runs.values())]
    rows = []
    for name, of in runs.items():
        gpu, cpu = of["cuda"], of.get("cpu")
        title = titles[name].removesuffix(", without binning")
        rows.append([
            title,
            str(gpu["n_trees"]),
            _seconds(gpu),
            _seconds(cpu),
            *(_seconds(of.get(peer)) for peer in peers),
            f"{gpu['gpu_bytes'] / 1e9:.2f}",
        ])  # fmt: skip
    heads = ["fit, s (s per tree)", "trees", "GPU", "all cores"]
    name = next(iter(runs.values()))["cuda"]["gpu"]
    return f"""{table([*heads, *(SYSTEMS[peer] for peer in peers), "GPU memory, GB"], rows)}

`python -m benchmarks.gpu --data DIR` on one {name}; {about(results["machine"])}. Where
both were trained, the hashes of the two models are equal. The fit includes binning and projections, which run on the CPU; the time per
tree leaves out the first tree, and for other libraries is the fit divided by the trees. XGBoost's fit leaves out binning.
"""


def _seconds(run: dict | None) -> str:
    return "–" if run is None else f"{run['fit_seconds']:.2f} ({run['tree_seconds']:.4f})"
