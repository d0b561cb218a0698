"""SketchForestClassifier() with its defaults beside omikuji's Parabel, and what the defaults were chosen by.

    python -m benchmarks.default --data <folder> [--out results/default.json] [--only SET ...] [--seeds 3]
    python -m benchmarks.default --data <folder> --choice [--out results/default_choice.json] [--only SET ...]

The first command trains on the training set and evaluates on the test set, each system in a process of its own, with
two threads; ours also with further seeds on small sets. ``--choice`` compares numbers of trees on validation splits of
the training sets, of at most 20,000 training rows; test sets are not used.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

from benchmarks import forest, rerank_choice
from benchmarks._common import in_child, machine, percentages, write_results

SETS = ("tibkat-gnd", "delicious", "bibtex")
SMALL = ("delicious", "bibtex")
"""Sets whose precision varies by half a point with the seed."""

CHOICE_ROWS = 20_000
"""Training rows of a validation split, at most."""

CHOICE = {
    "auto": {},
    "5 trees": {"n_trees": 5},
    "10 trees": {"n_trees": 10},
    "20 trees": {"n_trees": 20},
    "50 trees": {"n_trees": 50},
}
"""Parameters to compare."""


def ours(data, name, seed):
    """Train, save, load and predict with the defaults."""
    run = forest.forest(data, name, False, {"random_state": seed})
    return {key: value for key, value in run.items() if key != "without re-ranking"}


def parabel(data, name):
    """Omikuji's Parabel with its defaults."""
    return forest.omikuji(data, name, False)


def choice(data, name, settings):
    """Precision on validation rows, averaged over the splits; rows per label of the first split."""
    from sparseleaf import SketchForestClassifier
    from sparseleaf.metrics import propensities

    load, n_valid, n_splits = rerank_choice.SETS[name]
    runs = []
    for seed, ((X, Y), (X_valid, Y_valid)) in enumerate(rerank_choice.splits(*load(data), n_valid, n_splits)):
        if X.shape[0] > CHOICE_ROWS:
            kept = np.sort(np.random.default_rng(seed).permutation(X.shape[0])[:CHOICE_ROWS])
            X, Y = X[kept], Y[kept]
        before = time.process_time()
        clf = SketchForestClassifier.from_settings(
            {"n_jobs": forest.THREADS, "random_state": seed} | settings
        )
        clf.fit(X, Y)
        cpu = time.process_time() - before
        labels, _ = clf.predict_topk(X_valid, 5)
        runs.append(
            percentages(Y_valid, labels, propensities(Y))
            | {
                "train_cpu_seconds": cpu,
                "n_trees": clf.model_.n_trees,
                "rerank": getattr(clf.model_.rerank, "kind", None),
                "rows_per_label": Y.nnz / np.count_nonzero(np.bincount(Y.indices)),
            }
        )
    kinds = sorted({str(run.pop("rerank")) for run in runs})
    return {key: float(np.mean([run[key] for run in runs])) for key in runs[0]} | {"rerank": kinds}


def line(title, run):
    """One line of figures."""
    precision = " ".join(f"{run[f'{metric}@{k}']:5.2f}" for metric in ("P", "PSP") for k in (1, 3, 5))
    rest = (
        f"train {run['train_seconds']:6.1f} s ({run['train_cpu_seconds']:.1f} CPU)"
        if "train_seconds" in run
        else ""
    )
    if "model_bytes" in run:
        rest += f" {run['model_bytes'] / 1e6:6.1f} MB {run['predict_ms_per_row']:.3f} ms/row"
    if "n_trees" in run:
        rest += f" {run['train_cpu_seconds']:.1f} s CPU, {run['n_trees']:.0f} trees,"
        rest += f" {run['rows_per_label']:.1f} rows/label {','.join(run['rerank'])}"
    return f"{title:38s} {precision}  {rest}"


def planned(arguments):
    """(title, function, further arguments)."""
    if arguments.choice:
        for name in arguments.only or rerank_choice.SETS:
            for title, settings in CHOICE.items():
                yield f"{name} / {title}", "choice", (name, settings)
        return
    for name in arguments.only or SETS:
        for seed in range(arguments.seeds if name in SMALL else 1):
            yield f"{name} / SketchForest" + (f", seed {seed}" if seed else ""), "ours", (name, seed)
        yield f"{name} / Parabel (omikuji)", "parabel", (name,)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", nargs="+", metavar="SET")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--choice", action="store_true")
    arguments = parser.parse_args()
    out = arguments.out or Path("results") / ("default_choice.json" if arguments.choice else "default.json")
    results = json.loads(out.read_text()) if out.exists() else {"machine": machine(), "runs": {}}
    print(f"{'':38s}   P@1   P@3   P@5 PSP@1 PSP@3 PSP@5")
    for title, function, further in planned(arguments):
        if title not in results["runs"]:
            results["runs"][title] = in_child(function, arguments.data, *further)["result"]
            write_results(out, results)
        print(line(title, results["runs"][title]), flush=True)


if __name__ == "__main__":
    main()
