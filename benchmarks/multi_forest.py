"""MultiForest against scikit-learn's RandomForest and ExtraTrees: accuracy, time and model size.

    python -m benchmarks.multi_forest --data <folder> [--only SET ...] [--trees 100] [--out results/multi_forest.json]
    python -m benchmarks.multi_forest --data <folder> --search [--only SET ...]

All have the same number of trees and two threads, and otherwise their defaults. Splits are those of
`benchmarks.sets`; MNIST has the first 10,000 training rows, inpainting the first 10,000. Metrics: accuracy in percent,
RMSE (student-por, inpainting) or aRRMSE, the mean over the targets of RMSE relative to that of their means. A
scikit-learn model is measured by its pickle, ours by its file.

`--search` measures candidate defaults by cross-validation on the training part of the first split of every dataset:
test rows are not used.
"""

from __future__ import annotations

import argparse
import itertools
import json
import pickle
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks import sets

THREADS = 2
SETS = {
    "yeast": (sets.yeast, "accuracy"),
    "mnist": (sets.mnist, "accuracy"),
    "inpainting": (sets.inpainting, "rmse"),
    "student-por": (sets.student_por, "rmse"),
    **{name: (sets.multitarget(name), "arrmse") for name in ("atp1d", "enb", "oes97", "wq")},
}
MOST_ROWS = 10_000
SEARCH_ROWS = 3_000
FOLDS = 5
SEARCH = {
    "splitter": ("best", "random"),
    "max_features": ("sqrt", 0.33, 0.6, 1.0),
    "min_samples_leaf": (1, 2, 4),
}


def measure(metric, y, predicted, y_train):
    if metric == "accuracy":
        return 100 * float(np.mean(y == predicted))
    errors = np.sqrt(np.mean((np.asarray(y) - predicted) ** 2, axis=0))
    if metric == "rmse":
        return float(np.sqrt(np.mean(errors**2)))
    return float(np.mean(errors / np.sqrt(np.mean((y - y_train.mean(axis=0)) ** 2, axis=0))))


def ours(metric, n_trees, seed, **options):
    from sparseleaf import MultiForestClassifier, MultiForestRegressor

    kind = MultiForestClassifier if metric == "accuracy" else MultiForestRegressor
    return kind(n_trees, n_jobs=THREADS, random_state=seed, **options)


def theirs(metric, family, n_trees, seed):
    import sklearn.ensemble

    kind = getattr(sklearn.ensemble, family + ("Classifier" if metric == "accuracy" else "Regressor"))
    return kind(n_trees, n_jobs=THREADS, random_state=seed)


SYSTEMS = {
    "MultiForest": lambda metric, n, seed: ours(metric, n, seed),
    "MultiForest, splitter=random": lambda metric, n, seed: ours(metric, n, seed, splitter="random"),
    "RandomForest": lambda metric, n, seed: theirs(metric, "RandomForest", n, seed),
    "ExtraTrees": lambda metric, n, seed: theirs(metric, "ExtraTrees", n, seed),
}


def size_of(model):
    if not hasattr(model, "model_"):
        return len(pickle.dumps(model, protocol=5))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        model.save(path)
        return path.stat().st_size


def compare(data, names, n_trees):
    results = []
    for name in names:
        load, metric = SETS[name]
        rows = {system: [] for system in SYSTEMS}
        for split in load(data):
            X, y = split.X[:MOST_ROWS], split.Y[:MOST_ROWS]
            for system, make in SYSTEMS.items():
                model, began = make(metric, n_trees, split.seed), time.perf_counter()
                model.fit(X, y)
                fitted = time.perf_counter()
                predicted = model.predict(split.X_test)
                done = time.perf_counter()
                score = measure(metric, split.Y_test, predicted, y)
                rows[system].append((score, fitted - began, done - fitted, size_of(model) / 1e6))
        for system, values in rows.items():
            score, fit, predict, size = np.mean(values, axis=0).tolist()
            spread = float(np.std([value[0] for value in values]))
            results.append(
                {
                    "set": name,
                    "metric": metric,
                    "system": system,
                    "n_splits": len(values),
                    "score": score,
                    "deviation": spread,
                    "fit_s": fit,
                    "predict_s": predict,
                    "size_mb": size,
                }
            )
            print(
                f"{name:12} {system:30} {metric} {score:8.4f} ± {spread:.4f}  fit {fit:7.3f} s  predict"
                f" {predict:7.3f} s  {size:8.3f} MB",
                flush=True,
            )
    return results


def search(data, names, n_trees):
    """Mean of every candidate over the datasets, relative to the best of each dataset."""
    from sklearn.model_selection import KFold

    candidates = [dict(zip(SEARCH, values, strict=True)) for values in itertools.product(*SEARCH.values())]
    scores = {}
    for name in names:
        load, metric = SETS[name]
        split = next(iter(load(data)))
        X, y = split.X[:SEARCH_ROWS], split.Y[:SEARCH_ROWS]
        for number, options in enumerate(candidates):
            values = []
            for train, test in KFold(FOLDS, shuffle=True, random_state=0).split(X):
                model = ours(metric, n_trees, 0, **options).fit(X[train], y[train])
                values.append(measure(metric, y[test], model.predict(X[test]), y[train]))
            scores[name, number] = float(np.mean(values))
            print(f"{name:12} {options} {scores[name, number]:.4f}", flush=True)
    for task in ("accuracy", "regression"):
        mine = [name for name in names if (SETS[name][1] == "accuracy") == (task == "accuracy")]
        if not mine:
            continue
        relative = []
        for number, options in enumerate(candidates):
            ratios = [
                scores[name, number]
                / (max if task == "accuracy" else min)(
                    scores[name, other] for other in range(len(candidates))
                )
                for name in mine
            ]
            relative.append((float(np.mean(ratios)), str(options)))
        print(f"\n{task}: mean relative to the best candidate of each dataset")
        for ratio, options in sorted(relative, reverse=task == "accuracy")[:10]:
            print(f"  {ratio:.4f} {options}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--only", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--search", action="store_true")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if arguments.search:
        search(arguments.data, arguments.only, arguments.trees)
        return
    results = compare(arguments.data, arguments.only, arguments.trees)
    if arguments.out is not None:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
