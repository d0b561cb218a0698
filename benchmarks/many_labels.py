"""200,000 labels and more: time per tree and peak memory by the number of labels.

    python -m benchmarks.many_labels [--out results/many_labels.json] [--trees 20]

A synthetic dataset of the shape of Delicious-200K after its projection: 196,606 rows, 50 dense features, 75 labels per
row; k 100, depth 10, leaves of at least 100 rows, 20 bins, two threads. The paper reports 1,093 s per tree on one
thread and 353 s on four.
"""

from __future__ import annotations

import argparse

from benchmarks._common import in_child, machine, write_results

SETTINGS = {
    "learning_rate": 0.1,
    "leaf_labels": 100,
    "max_depth": 10,
    "min_samples_leaf": 100,
    "l2": 5.0,
    "max_bins": 20,
    "colsample_bynode": 1.0,
}


def train(n_labels, n_trees, n_jobs):
    """Mean time per tree, and the size of trees and scores."""
    from sparseleaf import SparseGBDTClassifier
    from sparseleaf.data import make_xc

    X, Y = make_xc(196_606, 50, n_labels, labels_per_row=75, seed=0, dense_features=True)
    states = []
    SparseGBDTClassifier.from_settings({"n_trees": n_trees, "n_jobs": n_jobs, **SETTINGS}).fit(
        X, Y, callbacks=[states.append]
    )
    return {
        "labels": n_labels,
        "labels_seen": int((Y.getnnz(axis=0) > 0).sum()),
        "target_entries": int(Y.nnz),
        "threads": n_jobs,
        "trees": n_trees,
        "seconds_per_tree": states[-1].seconds / n_trees,
        "scores_per_row": states[-1].n_entries / X.shape[0],
        "leaves_last_tree": states[-1].n_leaves,
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", default="results/many_labels.json")
    parser.add_argument("--trees", type=int, default=20)
    arguments = parser.parse_args()
    results = {"machine": machine(), "settings": SETTINGS, "runs": []}
    print("   labels  threads    s/tree    scores/row  peak GB")
    for n_labels, n_jobs in ((20_000, 2), (205_443, 2), (1_000_000, 2), (205_443, 1)):
        child = in_child("train", n_labels, arguments.trees, n_jobs)
        run = {**child["result"], "peak_bytes": child["peak_bytes"]}
        results["runs"].append(run)
        print(
            f"{n_labels:9,d} {n_jobs:8d} {run['seconds_per_tree']:9.2f} {run['scores_per_row']:13.0f}"
            f" {run['peak_bytes'] / 1e9:8.2f}",
            flush=True,
        )
        write_results(arguments.out, results)
    few, _, many, _ = results["runs"]
    results["million_over_20000"] = many["seconds_per_tree"] / few["seconds_per_tree"]
    print(f"1,000,000 labels against 20,000: {results['million_over_20000']:.2f} x the time")
    write_results(arguments.out, results)


if __name__ == "__main__":
    main()
