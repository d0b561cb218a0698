"""Accuracy with gradients quantised as coarsely as for 10⁹ rows, with stochastic rounding and rounding to nearest.

    python -m benchmarks.precision --data <folder> [--out docs/results/precision.json] [--seeds 6]

Histograms are sums of 32-bit integers, so 10⁹ rows leave about two quantisation levels for the mean gradient. Here the
largest sum is smaller, in proportion to the rows. Models are trained with 16-bit gradients, as usual for so
few rows ("fine"); with the scale of many rows and stochastic rounding, as a training on many rows does ("random"); and
with the same scale and rounding to nearest ("nearest"). Nodes are as small as the dataset: with really many rows,
rounding errors would average out better.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import dense_sets
from benchmarks._common import load_set, machine, write_results
from sparseleaf import MultiGBDTClassifier, MultiGBDTRegressor, SparseGBDTClassifier
from sparseleaf.metrics import precision_at_k
from sparseleaf.training import scales

QUANTISATIONS = ((10**9, "random"), (10**9, "nearest"), (2**31 - 1, "random"))
"""Number of rows that determines the scale (the last is the maximum), and the rounding."""

SUBSAMPLE = 0.8  # so that seeds differ

Metrics = dict[str, float]


@contextmanager
def levels(n_rows: int, as_rows: int, rounding: str) -> Iterator[None]:
    """Train with the gradient scale of ``as_rows`` rows and the given rounding."""
    before = scales.LARGEST_SUM, scales.NEAREST_LEVELS
    scales.LARGEST_SUM = before[0] * n_rows // as_rows
    scales.NEAREST_LEVELS = 0 if rounding == "nearest" else before[1]
    try:
        yield
    finally:
        scales.LARGEST_SUM, scales.NEAREST_LEVELS = before


def delicious(data: str) -> tuple[Callable[[int], Metrics], int]:
    """Sparse gradients of 983 labels in a count sketch."""
    X, Y, X_test, Y_test = load_set(data, "delicious")

    def run(seed: int) -> Metrics:
        clf = SparseGBDTClassifier(60, projection="random", subsample=SUBSAMPLE, random_state=seed).fit(X, Y)
        best = clf.predict_topk(X_test, 5)[0]
        error = (clf.decision_function(X_test) - Y_test).power(2).sum() / X_test.shape[0]
        metrics = {f"P@{k}": 100 * precision_at_k(Y_test, best, k) for k in (1, 3, 5)}
        return {"squared error per row": float(error)} | metrics

    return run, X.shape[0]


def rare_labels(data: str) -> tuple[Callable[[int], Metrics], int]:
    """Logistic gradients of 16 labels with 4 % positive rows: few are large, most near 0."""
    X, Y, X_test, Y_test = load_set(data, "delicious")
    labels = np.argsort(-np.asarray(Y.sum(axis=0)).ravel(), kind="stable")[100:116]
    y, y_test = (part[:, labels].toarray().astype(np.int64) for part in (Y, Y_test))

    def run(seed: int) -> Metrics:
        clf = MultiGBDTClassifier(40, max_leaves=8, subsample=SUBSAMPLE, random_state=seed).fit(X, y)
        p = clf.predict_proba(X_test).clip(1e-7, 1 - 1e-7)
        return {"log loss": float(-np.where(y_test > 0, np.log(p), np.log1p(-p)).mean())}

    return run, X.shape[0]


def inpainting(data: str) -> tuple[Callable[[int], Metrics], int]:
    """Squared error of 24 pixels."""
    X, Y, X_test, Y_test = dense_sets.inpainting(data)

    def run(seed: int) -> Metrics:
        reg = MultiGBDTRegressor(40, 0.2, subsample=SUBSAMPLE, random_state=seed).fit(X, Y)
        return {"RMSE": float(np.sqrt(np.mean((reg.predict(X_test) - Y_test) ** 2)))}

    return run, len(X)


SETS = {"Delicious": delicious, "Delicious, 16 labels": rare_labels, "MNIST inpainting": inpainting}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", type=Path, default=Path("docs/results/precision.json"))
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--only", nargs="+", choices=SETS, default=list(SETS), metavar="SET")
    arguments = parser.parse_args()
    results: dict[str, Any] = {}
    for name in arguments.only:
        run, n_rows = SETS[name](arguments.data)
        results[name] = {"rows": n_rows, "runs": []}
        for as_rows, rounding in ((n_rows, "fine"), *QUANTISATIONS):
            with levels(n_rows, as_rows, rounding):
                runs = [run(seed) for seed in range(arguments.seeds)]
            metrics = {key: [run[key] for run in runs] for key in runs[0]}
            results[name]["runs"].append({"as_rows": as_rows, "rounding": rounding, **metrics})
            for key, values in metrics.items():
                error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
                sys.stdout.write(
                    f"{name}, {as_rows:.0e} rows, {rounding}: {key} {np.mean(values):.5g} ± {error:.2g}\n"
                )
            sys.stdout.flush()
    write_results(arguments.out, {"machine": machine(), "sets": results})


if __name__ == "__main__":
    main()
