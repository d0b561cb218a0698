"""``python -m benchmarks --quick``: a check for performance regressions. Three minutes; by hand or nightly.

Every workload runs on one thread. Its CPU time, which other load affects little, is divided by that of a fixed numpy
workload measured right before and after it, so that ratios are comparable between days. Ratios are compared with those
in ``benchmarks/baseline.json``; a workload more than 20 % above is measured again and reported if it still is. After a
change that is meant to cost time, run ``--quick --write-baseline`` on an idle machine.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks._common import machine, write_results

BASELINE = Path(__file__).with_name("baseline.json")
SLOWER = 1.2
REPEATS = 5


@cache
def sparse_set() -> tuple[Any, Any]:
    from sparseleaf.data import make_xc

    return make_xc(6_000, 500, 2_000, labels_per_row=5, nnz_per_row=30, seed=0)


@cache
def dense_set() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 40)).astype(np.float32)
    return X, np.sin(2 * X[:, :10]) + X[:, 10:20] * X[:, 20:30]


def sparse_fit() -> Any:
    from sparseleaf import SparseGBDTClassifier

    return SparseGBDTClassifier(n_trees=20, n_jobs=1).fit(*sparse_set())


def sparse_raw_fit() -> Any:
    from sparseleaf import SparseGBDTClassifier

    return SparseGBDTClassifier(n_trees=20, projection=None, n_jobs=1).fit(*sparse_set())


@cache
def sparse_model() -> Any:
    return sparse_fit()


def sparse_predict() -> None:
    for _ in range(20):
        sparse_model().predict_topk(sparse_set()[0], 5)


def multi_fit() -> None:
    from sparseleaf import MultiGBDTRegressor

    MultiGBDTRegressor(n_trees=20, n_jobs=1).fit(*dense_set())


def classes_fit() -> None:
    from sparseleaf import MultiGBDTClassifier

    X, Y = dense_set()
    MultiGBDTClassifier(n_trees=20, n_jobs=1).fit(X, Y.argmax(axis=1))


def many_outputs_fit() -> None:
    from sparseleaf import MultiGBDTRegressor

    X, Y = dense_set()
    MultiGBDTRegressor(n_trees=10, n_jobs=1).fit(X[:5_000], np.tile(Y[:5_000], (1, 30)))


def rank_fit() -> None:
    from sparseleaf import GBDTRanker

    X, Y = dense_set()
    grades = np.digitize(Y[:, 0], [0, 1, 2])
    GBDTRanker(n_trees=20, n_jobs=1).fit(X, grades, group=np.full(1_000, 20))


@cache
def ldsm_model() -> Any:
    from sparseleaf import LdSMClassifier

    return LdSMClassifier(n_trees=2, n_jobs=1).fit(*sparse_set())


def ldsm_fit() -> None:
    ldsm_model.cache_clear()
    ldsm_model()


def ldsm_predict() -> None:
    for _ in range(20):
        ldsm_model().predict_topk(sparse_set()[0], 5)


def forest_fit() -> None:
    import sparseleaf

    sparseleaf.SketchForestClassifier(n_trees=5, n_jobs=1).fit(*sparse_set())


def read_and_write() -> None:
    """Write and read XC text and a model."""
    import sparseleaf
    from sparseleaf.data import load_xc, save_xc

    with tempfile.TemporaryDirectory() as folder:
        save_xc(Path(folder) / "set.txt", *sparse_set())
        load_xc(Path(folder) / "set.txt")
        sparse_model().save(Path(folder) / "model.safetensors")
        for _ in range(10):
            sparseleaf.load(Path(folder) / "model.safetensors")


WORKLOADS: dict[str, Callable[[], Any]] = {
    "SparseGBDT, training": sparse_fit,
    "SparseGBDT, training on raw features": sparse_raw_fit,
    "SparseGBDT, prediction": sparse_predict,
    "MultiGBDT, training on 10 outputs": multi_fit,
    "MultiGBDT, training on 10 classes": classes_fit,
    "MultiGBDT, training on 300 outputs": many_outputs_fit,
    "GBDTRanker, training": rank_fit,
    "LdSM, training": ldsm_fit,
    "LdSM, prediction": ldsm_predict,
    "SketchForest, training": forest_fit,
    "files, reading and writing": read_and_write,
}


def workloads() -> dict[str, Callable[[], Any]]:
    """The workloads whose estimators are available."""
    import sparseleaf

    absent = set() if "SketchForestClassifier" in sparseleaf.__all__ else {"SketchForest, training"}
    return {name: fn for name, fn in WORKLOADS.items() if name not in absent}


def numpy_workload() -> None:
    """Sorting, counting and summing on one thread: like the kernels, in code that does not change."""
    rng = np.random.default_rng(0)
    values = rng.integers(0, 1 << 20, 1 << 20)
    np.bincount(values, weights=values.astype(np.float64))
    np.sort(values)
    np.add.reduceat(values[np.argsort(values)], np.arange(0, len(values), 64))


def cpu_seconds(fn: Callable[[], Any]) -> float:
    before = time.process_time()
    fn()
    return time.process_time() - before


def ratio(
    fn: Callable[[], Any], reference: Callable[[], Any] = numpy_workload, repeats: int = REPEATS
) -> float:
    """Minimum CPU time of several repeats over that of the reference workload, which alternates with it."""
    fn()  # warm-up: caches and first touch of memory
    times, reference_times = [], []
    for _ in range(repeats):
        reference_times.append(cpu_seconds(reference))
        times.append(cpu_seconds(fn))
    reference_times.append(cpu_seconds(reference))
    return min(times) / min(reference_times)


def slower(ratios: dict[str, float], baseline: dict[str, float]) -> dict[str, float]:
    """Factors of the workloads that are more than 20 % above their baseline."""
    return {
        name: value / baseline[name]
        for name, value in ratios.items()
        if name in baseline and value > SLOWER * baseline[name]
    }


def read_baseline() -> dict[str, float]:
    if not BASELINE.exists():
        return {}
    ratios: dict[str, float] = json.loads(BASELINE.read_text())["ratios"]
    return ratios


def main(console: Console, *, write: bool) -> int:
    """Exit code: 0 if nothing became slower."""
    from threadpoolctl import threadpool_limits

    baseline = read_baseline()
    ratios: dict[str, float] = {}
    with threadpool_limits(1):
        for name, fn in workloads().items():
            with console.status(name):
                ratios[name] = ratio(fn)
                if not write and slower({name: ratios[name]}, baseline):
                    ratios[name] = min(ratios[name], ratio(fn))  # repeated: it may be noise
    shown = Table("workload", "ratio", "baseline", "change", box=None)
    for name, value in ratios.items():
        before = baseline.get(name)
        change = "" if before is None else f"{100 * (value / before - 1):+.0f} %"
        shown.add_row(name, f"{value:.2f}", "" if before is None else f"{before:.2f}", change)
    console.print(shown)
    if write:
        write_results(BASELINE, {"machine": machine(), "ratios": ratios})
        console.print(f"Written: {BASELINE}")
        return 0
    regressions = slower(ratios, baseline)
    for name, factor in regressions.items():
        console.print(f"Slower: {name}, {100 * (factor - 1):.0f} % above the baseline.", style="bold red")
    if not regressions:
        console.print("Nothing became slower by more than 20 %.")
    return 1 if regressions else 0
