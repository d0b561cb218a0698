"""SparseGBDT tuned for accuracy on a validation split, then tested once.

    python -m benchmarks.tuned --data <folder> [--out results/tuned.json] [--search]

`--search` trains the candidates on four fifths of the training set and evaluates them on the rest (Delicious, Bibtex).
Without it, the settings found by that search are trained on the whole training set and tested.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

from benchmarks._common import in_child, load_set, machine, measured, percentages, write_results

BASE = {
    "n_trees": 200,
    "learning_rate": 0.05,
    "leaf_labels": 100,
    "max_depth": 10,
    "min_samples_leaf": 10,
    "l2": 1.0,
    "max_bins": 64,
    "colsample_bynode": 0.3,
    "n_jobs": 2,
}

CHANGES = [
    {},
    {"colsample_bynode": 0.1},
    {"colsample_bynode": 0.2},
    {"min_samples_leaf": 5},
    {"min_samples_leaf": 20},
    {"max_depth": 8},
    {"max_depth": 14},
    {"loss": "squared_hinge"},
    {"keep_raw": False},
    {"subsample": 0.7},
    {"l2": 5.0},
    {"max_bins": 255},
    {"sketch_dim": 64},
    {"projection_dim": 200},
    {"learning_rate": 0.03, "n_trees": 400},
    {"leaf_labels": 200},
]

TUNED = {
    "delicious": {"sketch_dim": 64, "learning_rate": 0.03, "n_trees": 400},
    "bibtex": {"min_samples_leaf": 20, "learning_rate": 0.03, "n_trees": 400},
}


def split(X, Y):
    """Random split into four fifths and one fifth, with a fixed seed."""
    order = np.random.default_rng(0).permutation(X.shape[0])
    n_train = X.shape[0] * 4 // 5
    kept, held = np.sort(order[:n_train]), np.sort(order[n_train:])
    return X[kept], Y[kept], X[held], Y[held]


def train(data, name, settings, searching):
    from sparseleaf import SparseGBDTClassifier

    X, Y, X_test, Y_test = load_set(data, name)
    if searching:
        X, Y, X_test, Y_test = split(X, Y)
    classifier, seconds = measured(lambda: SparseGBDTClassifier.from_settings(settings).fit(X, Y))
    (ids, _), predict_seconds = measured(lambda: classifier.predict_topk(X_test, 5))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        classifier.save(path)
        size = path.stat().st_size
    return {
        **percentages(Y_test, ids),
        "settings": settings,
        "train_seconds": seconds,
        "predict_ms_per_row": 1e3 * predict_seconds / X_test.shape[0],
        "model_bytes": size,
    }


def show(name, run):
    print(
        f"{name:60s} {run['P@1']:.2f} {run['P@3']:.2f} {run['P@5']:.2f} {run['train_seconds']:7.1f} s"
        f" {run['model_bytes'] / 1e6:7.2f} MB",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", default="results/tuned.json")
    parser.add_argument("--search", action="store_true")
    arguments = parser.parse_args()
    if arguments.search:
        for name in TUNED:
            for change in CHANGES:
                show(
                    f"{name} {change}", in_child("train", arguments.data, name, BASE | change, True)["result"]
                )
        return
    results = {"machine": machine(), "runs": {}}
    for name, changes in TUNED.items():
        for title, settings in (("defaults", {"n_jobs": 2}), ("tuned", BASE | changes)):
            run = in_child("train", arguments.data, name, settings, False)["result"]
            results["runs"][f"{name}, {title}"] = run
            show(f"{name}, {title}", run)
            write_results(arguments.out, results)


if __name__ == "__main__":
    main()
