"""Which re-ranking stage is best for a forest's candidates, and which one `rerank="auto"` chooses.

    python -m benchmarks.rerank_choice --data <folder> [--out docs/results/rerank_choice.json] [--only SET ...]

Evaluated on validation splits of the training sets, three for small datasets; test sets are not used. Datasets that are
in --out already are not repeated.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import sets
from benchmarks._common import machine, measured, write_results
from sparseleaf import SketchForestClassifier
from sparseleaf.data import make_xc
from sparseleaf.metrics import precision_at_k

N_TREES = 50
STAGES = (None, "linear", "boosted", "bayes", "auto")
Rows = tuple[Any, Any]


def xc(name: str) -> Callable[[str], Rows]:
    from sparseleaf.data import load_xc

    return lambda data: load_xc(Path(data) / name / "train.txt.gz")[:2]


def titles(language: str) -> Callable[[str], Rows]:
    def load(data: str) -> Rows:
        split = next(sets.titles(language)(data))
        return split.X, split.Y

    return load


def synthetic(n_rows: int, n_features: int, n_labels: int, labels_per_row: int) -> Callable[[str], Rows]:
    return lambda _: make_xc(n_rows, n_features, n_labels, labels_per_row=labels_per_row, seed=5)


SETS: dict[str, tuple[Callable[[str], Rows], int, int]] = {
    "Bibtex": (xc("bibtex"), 1_000, 3),
    "Delicious": (xc("delicious"), 2_500, 3),
    "German titles": (titles("de"), 8_000, 1),
    "English titles": (titles("en"), 8_000, 1),
    "make_xc, 300 labels": (synthetic(5_000, 1_000, 300, 3), 1_000, 1),
    "make_xc, 5,000 labels": (synthetic(20_000, 5_000, 5_000, 3), 4_000, 1),
    "make_xc, 20,000 labels": (synthetic(20_000, 20_000, 20_000, 5), 4_000, 1),
    "tibkat-gnd": (xc("tibkat-gnd"), 10_000, 1),
}
"""Loader, number of validation rows and number of random splits of every dataset."""


def splits(X: Any, Y: Any, n_valid: int, n_splits: int) -> Iterator[tuple[Rows, Rows]]:
    for seed in range(n_splits):
        order = np.random.default_rng(seed).permutation(X.shape[0])
        valid, train = np.sort(order[:n_valid]), np.sort(order[n_valid:])
        yield (X[train], Y[train]), (X[valid], Y[valid])


def measure(train: Rows, valid: Rows, stage: str | None) -> dict[str, Any]:
    clf, seconds = measured(lambda: SketchForestClassifier(n_trees=N_TREES, rerank=stage).fit(*train))
    labels, _ = clf.predict_topk(valid[0], 5)
    return {
        "P": [100 * precision_at_k(valid[1], labels, k) for k in (1, 3, 5)],
        "taken": getattr(clf.model_.rerank, "kind", None),
        "train_seconds": seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", type=Path, default=Path("docs/results/rerank_choice.json"))
    parser.add_argument("--only", nargs="+", choices=SETS, default=list(SETS), metavar="SET")
    arguments = parser.parse_args()
    runs = json.loads(arguments.out.read_text())["runs"] if arguments.out.exists() else {}
    for name in arguments.only:
        if name in runs:
            continue
        load, n_valid, n_splits = SETS[name]
        results = []
        for train, valid in splits(*load(arguments.data), n_valid, n_splits):
            results.append({str(stage): measure(train, valid, stage) for stage in STAGES})
            print(name, {stage: [round(p, 2) for p in one["P"]] for stage, one in results[-1].items()},
                  "auto:", results[-1]["auto"]["taken"], flush=True)  # fmt: skip
        runs[name] = results
        write_results(arguments.out, {"machine": machine(), "runs": runs})


if __name__ == "__main__":
    main()
