"""Explanations: do contributions add up to the score, and how long does a row take?

    python -m benchmarks.explain --data <folder> [--models <folder>] [--rows 1000] [--out docs/results/explain.json]

Models are trained, or loaded from --models if they are there. The time is the CPU time of one thread, for all rows in
one call and for one row per call, with the five best labels of every row.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import sparseleaf
from benchmarks._common import load_set, machine, write_results
from sparseleaf import BlendClassifier, LdSMClassifier, SketchForestClassifier, SparseGBDTClassifier

SINGLE_ROWS = 100
"""Rows that are explained in one call each."""

MODELS: dict[str, dict[str, Callable[[], Any]]] = {
    "bibtex": {
        "sparse, no projection": lambda: SparseGBDTClassifier(n_trees=100, projection=None),
        "LdSM": lambda: LdSMClassifier(n_trees=10, rerank="log"),
        "forest, bayes": lambda: SketchForestClassifier(n_trees=10, rerank="bayes"),
        "forest, boosted": lambda: SketchForestClassifier(n_trees=10, rerank="boosted"),
    },
    "delicious": {
        "sparse, LEML": lambda: SparseGBDTClassifier(n_trees=100, projection="leml"),
        "forest, linear": lambda: SketchForestClassifier(n_trees=10, rerank="linear"),
        "blend": lambda: BlendClassifier(
            [
                SparseGBDTClassifier(n_trees=50, rerank="cosine"),
                SketchForestClassifier(n_trees=10, rerank="boosted"),
            ],
            weights=[0.5, 0.5],
        ),
    },
    "tibkat-gnd": {
        "forest": lambda: SketchForestClassifier(n_trees=10, rerank=None),
        "forest, linear": lambda: SketchForestClassifier(n_trees=10, rerank="linear"),
        "forest, boosted": lambda: SketchForestClassifier(n_trees=10, rerank="boosted"),
    },
}


def trained(data: str, models: Path | None, dataset: str, name: str) -> tuple[Any, Any]:
    """The model, and test rows."""
    X, Y, X_test, _ = load_set(data, dataset)
    path = None if models is None else models / f"{dataset}-{name.replace(', ', '-')}.safetensors"
    if path is not None and path.exists():
        return sparseleaf.load(path), X_test
    model = MODELS[dataset][name]().fit(X, Y)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        model.save(path)
    return model, X_test


def measure(model: Any, X: Any) -> dict[str, float]:
    """Largest difference between score and sum, and milliseconds of CPU time per row."""
    model.n_jobs = 1
    explanation = model.explain(X[:1])  # builds indices that later calls share
    start = time.process_time()
    explanation = model.explain(X)
    batch = (time.process_time() - start) / X.shape[0]
    start = time.process_time()
    for row in explanation:  # names, sorted contributions, neighbours
        len(row)
    shown = (time.process_time() - start) / X.shape[0]
    single = min(SINGLE_ROWS, X.shape[0])
    start = time.process_time()
    for row in range(single):
        model.explain(X[row : row + 1])[0]
    alone = (time.process_time() - start) / single
    start = time.process_time()
    _, scores = model.predict_topk(X, 5)
    predicted = (time.process_time() - start) / X.shape[0]
    sums = explanation.base + np.asarray(explanation.contributions.sum(axis=1)).ravel()
    listed = scores[np.isfinite(scores)]
    return {
        "labels": len(sums),
        "largest_error": float(np.abs(sums - listed).max(initial=0.0)),
        "explain_ms_per_row": 1000 * batch,
        "objects_ms_per_row": 1000 * shown,
        "single_row_ms": 1000 * alone,
        "predict_ms_per_row": 1000 * predicted,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True)
    parser.add_argument("--models", type=Path, help="folder of trained models, written if they are missing")
    parser.add_argument("--rows", type=int, default=1_000, help="number of test rows")
    parser.add_argument("--only", nargs="+", choices=MODELS, default=list(MODELS), metavar="SET")
    parser.add_argument("--out", type=Path, help="JSON file of the results")
    arguments = parser.parse_args()
    results: dict[str, Any] = {}
    print(f"{'':36} {'largest error':>14} {'batch ms/row':>13} {'single row ms':>14} {'predict ms/row':>15}")
    for dataset in arguments.only:
        for name in MODELS[dataset]:
            model, X = trained(arguments.data, arguments.models, dataset, name)
            one = results.setdefault(dataset, {})[name] = measure(model, X[: arguments.rows])
            print(
                f"{dataset + ': ' + name:36} {one['largest_error']:14.1e}"
                f" {one['explain_ms_per_row'] + one['objects_ms_per_row']:13.2f}"
                f" {one['single_row_ms']:14.2f} {one['predict_ms_per_row']:15.3f}",
                flush=True,
            )
            if one["largest_error"] > 1e-5:
                raise SystemExit("Contributions do not add up to the scores.")
    if arguments.out:
        write_results(arguments.out, {"machine": machine(), "rows": arguments.rows, "sets": results})


if __name__ == "__main__":
    main()
