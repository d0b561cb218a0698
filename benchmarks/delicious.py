"""Delicious: accuracy of all split searches, training time against XGBoost, prediction time.

    python -m benchmarks.delicious --data <folder with delicious/> [--out results/delicious.json] [--skip-slow]

The paper's settings: 100 trees, k 20, depth 10, leaves of at least 100 rows, λ 5, 20 bins (5 % of a node's rows).
The paper gives no learning rate; 0.1 is used. Every run is a process of its own, on two threads; times include the
projection. XGBoost's setting is its `multi_output_tree` on the same PCA features, histograms of 32 bins, depth 6.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks._common import in_child, load_set, machine, measured, percentages, write_results

PAPER = {
    "n_trees": 100,
    "learning_rate": 0.1,
    "leaf_labels": 20,
    "max_depth": 10,
    "min_samples_leaf": 100,
    "l2": 5.0,
    "max_bins": 20,
    "colsample_bynode": 1.0,
    "projection": None,
    "keep_raw": False,
    "n_jobs": 2,
}

RUNS = {
    "raw, sketch": {},
    "raw, full": {"split": "full"},
    "raw, exact": {"split": "exact"},
    "pca, sketch": {"projection": "pca"},
    "pca, full": {"projection": "pca", "split": "full"},
    "pca, exact": {"projection": "pca", "split": "exact"},
    "raw, sketch, squared hinge": {"loss": "squared_hinge"},
    "raw, random projection": {"sketch": "random-projection"},
    "raw, top outputs": {"sketch": "top-outputs"},
    "raw, sampling": {"sketch": "sampling"},
    "raw, best-first, 128 leaves": {"growth": "best-first", "max_leaves": 128, "max_depth": None},
    "random projection of features": {"projection": "random"},
    "defaults": None,
}

SLOW = ("raw, exact", "raw, full", "pca, exact", "pca, full")


def train(data, settings):
    """Train, predict the test set at once and row by row; returns the measurements."""
    from sparseleaf import SparseGBDTClassifier

    X, Y, X_test, Y_test = load_set(data, "delicious")
    parameters = {"n_jobs": 2} if settings is None else {**PAPER, **settings}
    classifier, seconds = measured(lambda: SparseGBDTClassifier.from_settings(parameters).fit(X, Y))
    batches = [measured(lambda: classifier.predict_topk(X_test, 5)) for _ in range(7)]
    (ids, _), _ = batches[0]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        classifier.save(path)
        size = path.stat().st_size
    return {
        **percentages(Y_test, ids),
        "train_seconds": seconds,
        "batch_ms_per_row": 1e3 * min(t for _, t in batches) / X_test.shape[0],
        "single_row_ms_p50": single_row_ms(classifier, X_test),
        "model_bytes": size,
    }


def single_row_ms(classifier, X, count=500):
    """Median time of predicting a single dense row, as in online serving."""
    rows = [np.ascontiguousarray(X[i].toarray(), np.float32) for i in range(min(count, X.shape[0]))]
    times = []
    for row in rows:
        started = time.perf_counter()
        classifier.predict_topk(row, 5)
        times.append(time.perf_counter() - started)
    return 1e3 * float(np.median(times))


def train_xgboost(data):
    """XGBoost with vector leaves on the same PCA features: 20 trees."""
    import xgboost
    from sklearn.decomposition import TruncatedSVD

    X, Y, X_test, Y_test = load_set(data, "delicious")
    svd = TruncatedSVD(100, random_state=0).fit(X)
    projected, dense = svd.transform(X).astype(np.float32), Y.toarray()
    model = xgboost.XGBRegressor(
        n_estimators=20,
        multi_strategy="multi_output_tree",
        tree_method="hist",
        max_depth=6,
        max_bin=32,
        learning_rate=0.3,
        n_jobs=2,
    )
    _, seconds = measured(lambda: model.fit(projected, dense))
    scores = model.predict(svd.transform(X_test).astype(np.float32))
    return {
        **percentages(Y_test, np.argsort(-scores, axis=1)[:, :5].astype(np.int32)),
        "train_seconds": seconds,
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", default="results/delicious.json")
    parser.add_argument("--skip-slow", action="store_true", help="skip the split searches on all labels")
    parser.add_argument("--skip-peer", action="store_true", help="skip XGBoost")
    arguments = parser.parse_args()
    load_set(arguments.data, "delicious")
    results = {"machine": machine(), "runs": {}}
    print(f"{'':32s} P@1   P@3   P@5    train s  batch ms  single ms  model MB  peak MB")
    for name, settings in RUNS.items():
        if arguments.skip_slow and name in SLOW:
            continue
        child = in_child("train", arguments.data, settings)
        run = {**child["result"], "peak_bytes": child["peak_bytes"]}
        results["runs"][name] = run
        print(
            f"{name:32s} {run['P@1']:.2f} {run['P@3']:.2f} {run['P@5']:.2f} {run['train_seconds']:9.2f}"
            f" {run['batch_ms_per_row']:9.4f} {run['single_row_ms_p50']:10.4f} {run['model_bytes'] / 1e6:9.2f}"
            f" {run['peak_bytes'] / 1e6:8.0f}",
            flush=True,
        )
        write_results(arguments.out, results)
    if not arguments.skip_peer:
        try:
            import xgboost  # noqa: F401
        except ImportError:
            sys.exit('XGBoost is not installed: pip install "sparseleaf[bench]", or --skip-peer.')
        child = in_child("train_xgboost", arguments.data)
        peer = {**child["result"], "peak_bytes": child["peak_bytes"]}
        again = in_child("train", arguments.data, RUNS["pca, sketch"])[
            "result"
        ]  # beside it, not minutes before
        ratio = peer["train_seconds"] / again["train_seconds"]
        results |= {"xgboost": peer, "xgboost_seconds_over_ours": ratio}
        print(
            f"XGBoost, 20 trees: P@1 {peer['P@1']:.2f}, {peer['train_seconds']:.1f} s,"
            f" {peer['peak_bytes'] / 1e6:.0f} MB; 100 trees of ours take {again['train_seconds']:.2f} s: 1/{ratio:.0f}"
        )
        write_results(arguments.out, results)


if __name__ == "__main__":
    main()
