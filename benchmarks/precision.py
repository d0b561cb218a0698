"""What the few levels that gradients have with 10⁹ rows cost: nothing if they are rounded at random.

    python -m benchmarks.precision --data <folder> [--out docs/results/precision.json] [--seeds 6]

Histograms are sums of 32-bit integers, so 10⁹ rows leave the mean gradient two levels. The limit is lowered here by as
much as a set has fewer rows. Models are trained with 16-bit gradients, as so few rows have them ("fine"); with the
levels of many rows, rounded at random as in such a training ("random"); and with as many rounded to nearest
("nearest"). Nodes are those of the small set: with really many rows errors would cancel better.
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

WAYS = ((10**9, "random"), (10**9, "nearest"), (2**31 - 1, "random"))
"""Levels of so many rows, the last as many as can be trained on, and how to round."""

SUBSAMPLE = 0.8  # seeds differ in the rows of every tree as well

Measures = dict[str, float]


@contextmanager
def levels(n_rows: int, as_rows: int, rounding: str) -> Iterator[None]:
    """Train with the levels of so many rows, and round that way."""
    before = scales.LARGEST_SUM, scales.NEAREST_LEVELS
    scales.LARGEST_SUM = before[0] * n_rows // as_rows
    scales.NEAREST_LEVELS = 0 if rounding == "nearest" else before[1]
    try:
        yield
    finally:
        scales.LARGEST_SUM, scales.NEAREST_LEVELS = before


def delicious(data: str) -> tuple[Callable[[int], Measures], int]:
    """Sparse residuals of 983 labels in a count sketch."""
    X, Y, X_test, Y_test = load_set(data, "delicious")

    def run(seed: int) -> Measures:
        clf = SparseGBDTClassifier(60, projection="random", subsample=SUBSAMPLE, random_state=seed).fit(X, Y)
        best = clf.predict_topk(X_test, 5)[0]
        error = (clf.decision_function(X_test) - Y_test).power(2).sum() / X_test.shape[0]
        measures = {f"P@{k}": 100 * precision_at_k(Y_test, best, k) for k in (1, 3, 5)}
        return {"squared error of a row": float(error)} | measures

    return run, X.shape[0]


def rare_labels(data: str) -> tuple[Callable[[int], Measures], int]:
    """Logistic gradients of 16 labels that 4 % of the rows have: few are large, and most near 0."""
    X, Y, X_test, Y_test = load_set(data, "delicious")
    labels = np.argsort(-np.asarray(Y.sum(axis=0)).ravel(), kind="stable")[100:116]
    y, y_test = (found[:, labels].toarray().astype(np.int64) for found in (Y, Y_test))

    def run(seed: int) -> Measures:
        clf = MultiGBDTClassifier(40, max_leaves=8, subsample=SUBSAMPLE, random_state=seed).fit(X, y)
        p = clf.predict_proba(X_test).clip(1e-7, 1 - 1e-7)
        return {"log loss": float(-np.where(y_test > 0, np.log(p), np.log1p(-p)).mean())}

    return run, X.shape[0]


def inpainting(data: str) -> tuple[Callable[[int], Measures], int]:
    """Squared error of 24 pixels."""
    X, Y, X_test, Y_test = dense_sets.inpainting(data)

    def run(seed: int) -> Measures:
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
    found: dict[str, Any] = {}
    for name in arguments.only:
        run, n_rows = SETS[name](arguments.data)
        found[name] = {"rows": n_rows, "runs": []}
        for as_rows, rounding in ((n_rows, "fine"), *WAYS):
            with levels(n_rows, as_rows, rounding):
                runs = [run(seed) for seed in range(arguments.seeds)]
            measures = {key: [own[key] for own in runs] for key in runs[0]}
            found[name]["runs"].append({"as_rows": as_rows, "rounding": rounding, **measures})
            for key, values in measures.items():
                error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
                sys.stdout.write(
                    f"{name}, {as_rows:.0e} rows, {rounding}: {key} {np.mean(values):.5g} ± {error:.2g}\n"
                )
            sys.stdout.flush()
    write_results(arguments.out, {"machine": machine(), "sets": found})


if __name__ == "__main__":
    main()
