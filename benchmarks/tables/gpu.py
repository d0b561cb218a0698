"""Training on a GPU, from the results of ``python -m benchmarks.gpu``."""

from __future__ import annotations

from benchmarks.tables.common import DOCS, about, read, table, with_tables
from benchmarks.tables.scaling import TITLES

PAGE = DOCS / "gpu.md"
LABELS = "205,443"
FEATURES = {"mnist": 784, "million_rows": 100}
SYSTEMS = {"xgboost": "XGBoost, GPU", "py_boost": "Py-Boost, GPU"}


def page() -> str:
    """The page on GPUs with its tables regenerated."""
    return with_tables(PAGE, tables())


def tables() -> str:
    return f"{_trainings()}\n{_predictions()}"


def _trainings() -> str:
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
both were trained, the hashes of the two models are equal. The run with {LABELS} labels is of a later day than the others. The fit includes binning and projections, which run on the CPU; the time per
tree leaves out the first tree, and for other libraries is the fit divided by the trees. XGBoost's fit leaves out binning.
The memory of the last row is {_formula() / 1e9:.2f} GB by the [formula](#memory-on-the-gpu).
"""


def _formula(n: int = 10**7, features: int = 100, outputs: int = 32, bins: int = 64, depth: int = 8) -> float:
    """Bytes by the formula of the page, for the mean squared error."""
    histogram = 4 * bins * features * (outputs + 1)
    return n * (features + 2 * outputs + 16 + 3 * 4 * outputs) + (2**depth + 64) * histogram


def _predictions() -> str:
    results = read("gpu_prediction")
    rows = []
    for name, of in results["predictions"].items():
        gpu, cpu = of["cuda"], of["cpu"]
        shape = f"{gpu['n_rows']:,} rows × {FEATURES[name]} features, {gpu['n_trees']} trees"
        rows.append([shape, *(f"{run['predict_seconds']:.3f}" for run in (gpu, cpu))])
    return f"""{table(["all rows, s", "GPU", "all cores"], rows)}

`python -m benchmarks.gpu --predict --data DIR`, from and to main memory, checks of the rows included; the bytes of the scores are equal.
"""


def _seconds(run: dict | None) -> str:
    return "–" if run is None else f"{run['fit_seconds']:.2f} ({run['tree_seconds']:.4f})"
