"""Training time on 1, 2, 4, … threads, and the speed-up over one thread.

    python -m benchmarks.scaling --data <folder with delicious/ and mnist/> [--out results/scaling.json]
        [--threads 1 2 4 8 16] [--only NAME ...]

Every run is a process of its own. "fit" is the whole training; "trees" is the boosting loop without projection and
binning. The hash of the model must not depend on the number of threads.

Cores that share clock rate, caches and memory are slower together than alone. How much, is measured by as many
independent trainings at once as there are cores, one thread each (``CEILINGS``). Their throughput over that of one is
the most that threads can gain.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import os
import tempfile
from pathlib import Path

from benchmarks._common import in_child, load_set, machine, measured, write_results

PAPER = {
    "n_trees": 100,
    "leaf_labels": 20,
    "max_depth": 10,
    "min_samples_leaf": 100,
    "l2": 5.0,
    "max_bins": 20,
    "colsample_bynode": 1.0,
    "projection": "leml",
    "keep_raw": False,
}
MNIST = {
    "n_trees": 100,
    "max_depth": 8,
    "max_leaves": 192,
    "learning_rate": 0.1,
    "max_bins": 8,
    "min_samples_leaf": 16,
}
MILLION = {"n_trees": 5, "growth": "depth-wise", "max_depth": 8, "max_leaves": None, "max_bins": 64}
LABELS = {
    "n_trees": 10,
    "leaf_labels": 100,
    "max_depth": 10,
    "min_samples_leaf": 100,
    "l2": 5.0,
    "max_bins": 20,
    "colsample_bynode": 1.0,
}
FOREST = {"n_trees": 3, "rerank": "bayes"}
SYNTHETIC = {
    "n_rows": 129_000,
    "n_features": 20_000,
    "n_labels": 60_000,
    "labels_per_row": 5,
    "nnz_per_row": 30,
}


def delicious(data):
    """Defaults: LEML projection and raw features, a random third of the features per node."""
    from sparseleaf import SparseGBDTClassifier

    return SparseGBDTClassifier(), *load_set(data, "delicious")[:2]


def delicious_paper(data):
    """The settings of the paper."""
    from sparseleaf import SparseGBDTClassifier

    return SparseGBDTClassifier.from_settings(PAPER), *load_set(data, "delicious")[:2]


def mnist(data):
    """60,000 × 784, 10 classes."""
    from benchmarks.dense_sets import mnist as images
    from sparseleaf import MultiGBDTClassifier

    return MultiGBDTClassifier.from_settings(MNIST), *images(data)[:2]


def million_rows(data):
    """10⁶ × 100 features × 32 outputs."""
    import numpy as np

    from sparseleaf import MultiGBDTRegressor

    rng = np.random.default_rng(0)
    X = rng.standard_normal((1_000_000, 100), np.float32)
    y = X[:, :10] @ rng.standard_normal((10, 32), np.float32) + np.sin(3 * X[:, :32])
    return MultiGBDTRegressor.from_settings(MILLION), X, y


def many_labels(data):
    """196,606 rows × 50 dense features, 205,443 labels, 75 per row."""
    from sparseleaf import SparseGBDTClassifier
    from sparseleaf.data import make_xc

    X, Y = make_xc(196_606, 50, 205_443, labels_per_row=75, seed=0, dense_features=True)
    return SparseGBDTClassifier.from_settings(LABELS), X, Y


def forest(data):
    """129,000 sparse rows, 60,000 labels."""
    from sparseleaf import SketchForestClassifier
    from sparseleaf.data import make_xc

    return SketchForestClassifier.from_settings(FOREST), *make_xc(**SYNTHETIC, seed=1)


RUNS = {one.__name__: one for one in (delicious, delicious_paper, mnist, million_rows, many_labels, forest)}


def train(data, name, n_jobs, repeats):
    """The fastest of several trainings: whole fit and trees only."""
    estimator, X, y = RUNS[name](data)
    estimator.set_params(n_jobs=n_jobs)
    fit, trees = [], []
    for _ in range(repeats):
        states = []
        _, seconds = measured(lambda states=states: estimator.fit(X, y, callbacks=[states.append]))
        fit.append(seconds)
        trees.append(states[-1].seconds)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        estimator.save(path)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return {"fit_seconds": min(fit), "tree_seconds": min(trees), "sha256": digest}


CEILINGS = ("delicious_paper", "mnist", "million_rows", "many_labels", "forest")


def ceiling(data, name, n):
    """Throughput of ``n`` single-thread trainings at once over that of one alone."""
    alone, together = (_mean_seconds(data, name, size) for size in (1, n))
    return {"trainings": n, "alone": alone, "together": together, "throughput": n * alone / together}


def _mean_seconds(data, name, n):
    context = multiprocessing.get_context("spawn")
    barrier, seconds = context.Barrier(n), context.Queue()
    processes = [
        context.Process(target=_train_together, args=(data, name, barrier, seconds)) for _ in range(n)
    ]
    for process in processes:
        process.start()
    total = sum(seconds.get() for _ in processes)
    for process in processes:
        process.join()
    return total / n


def _train_together(data, name, barrier, seconds):
    estimator, X, y = RUNS[name](data)
    estimator.set_params(n_jobs=1)
    barrier.wait()
    seconds.put(measured(lambda: estimator.fit(X, y))[1])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", default="results/scaling.json")
    parser.add_argument("--only", nargs="+", choices=list(RUNS), default=list(RUNS))
    parser.add_argument("--threads", nargs="+", type=int, default=None)
    parser.add_argument("--repeats", type=int, default=2)
    arguments = parser.parse_args()
    cores = os.cpu_count() or 1
    threads = arguments.threads or [n for n in (1, 2, 4, 8, 16, 32, 64) if n <= cores]
    results = {"machine": machine(), "runs": {}}
    print(f"{'run':16} threads     fit s  speed-up   trees s  speed-up  peak GB")
    for name in arguments.only:
        runs = results["runs"][name] = []
        for n_jobs in threads:
            child = in_child("train", arguments.data, name, n_jobs, arguments.repeats)
            run = {"threads": n_jobs, **child["result"], "peak_bytes": child["peak_bytes"]}
            runs.append(run)
            fit, trees = (runs[0][key] / run[key] for key in ("fit_seconds", "tree_seconds"))
            run |= {"fit_speed_up": fit, "tree_speed_up": trees}
            print(
                f"{name:16} {n_jobs:7d} {run['fit_seconds']:9.2f} {fit:9.1f} {run['tree_seconds']:9.2f}"
                f" {trees:9.1f} {run['peak_bytes'] / 1e9:8.2f}",
                flush=True,
            )
            write_results(arguments.out, results)
        assert len({run["sha256"] for run in runs}) == 1, f"{name}: the model depends on the threads"
        if name in CEILINGS and len(threads) > 1:
            results.setdefault("ceilings", {})[name] = found = ceiling(arguments.data, name, max(threads))
            print(
                f"{name}: {found['trainings']} trainings at once: {found['throughput']:.1f} × one alone",
                flush=True,
            )
            write_results(arguments.out, results)


if __name__ == "__main__":
    main()
