"""SketchForestClassifier() with its defaults beside omikuji's Parabel, and what the defaults were chosen by.

    python -m benchmarks.default --data <folder> [--out results/default.json] [--only SET ...]
    python -m benchmarks.default --data <folder> --choice [--out results/default_choice.json] [--only SET ...]
    python -m benchmarks.default --data <folder> --noise [--out results/default_noise.json] [--only SET ...]

The first command trains on the training set and evaluates on the test set, each system in a process of its own, with
two threads. ``--choice`` compares numbers of trees on random validation splits of the training sets; test sets are not
used. ``--noise`` repeats the training with the defaults and other seeds, and evaluates every model on the test set: the
rows are the same. Runs that are in --out already are not repeated.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from statistics import mean

import numpy as np

from benchmarks import forest, rerank_choice
from benchmarks._common import in_child, load_set, machine, percentages, write_results
from benchmarks.sets import titles

SETS = ("tibkat-gnd", "delicious", "bibtex")

CHOICE = {
    "Bibtex": ("Bibtex", None, (50, 100), 6),
    "Delicious": ("Delicious", None, (50, 100), 4),
    "German titles": ("German titles", None, (10, 20, 50), 2),
    "English titles": ("English titles", None, (10, 20, 50), 2),
    "German titles, 5,000 rows": ("German titles", 5_000, (10, 50, 100), 2),
}
"""Dataset, number of training rows (None for all), numbers of trees to compare, and number of random splits."""

SPLIT_SEED = 100
"""The splits are not those that re-rankers were compared on."""

NOISE = {"tibkat-gnd": None, "delicious": None, "bibtex": None, "titles-de": "de", "titles-en": "en"}
"""Datasets whose noise is measured; for titles, their language."""

NOISE_SEEDS = 3


def ours(data, name, seed):
    """Train, save, load and predict with the defaults."""
    run = forest.forest(data, name, False, {"random_state": seed})
    return {key: value for key, value in run.items() if key != "without re-ranking"}


def parabel(data, name):
    """Omikuji's Parabel with its defaults."""
    return forest.omikuji(data, name, False)


def choice(data, title, n_trees):
    """Precision on the validation rows of every split, by metric; time and size of the models."""
    from sparseleaf import SketchForestClassifier
    from sparseleaf.metrics import propensities

    name, n_rows, _, n_splits = CHOICE[title]
    load, n_valid, _ = rerank_choice.SETS[name]
    X, Y = load(data)
    runs = []
    for seed in range(n_splits):
        order = np.random.default_rng(SPLIT_SEED + seed).permutation(X.shape[0])
        valid = np.sort(order[:n_valid])
        train = np.sort(order[n_valid : None if n_rows is None else n_valid + n_rows])
        clf = SketchForestClassifier(n_trees=n_trees, n_jobs=forest.THREADS, random_state=seed)
        before = time.process_time()
        clf.fit(X[train], Y[train])
        cpu = time.process_time() - before
        labels, _ = clf.predict_topk(X[valid], 5)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.safetensors"
            clf.save(path)
            size = path.stat().st_size
        runs.append(
            percentages(Y[valid], labels, propensities(Y[train]))
            | {"train_cpu_seconds": cpu, "model_bytes": size, "train_rows": len(train)}
        )
    return by_metric(runs)


def noise(data, name):
    """Metrics on the test set of models with several seeds."""
    from sparseleaf import SketchForestClassifier
    from sparseleaf.metrics import propensities

    if NOISE[name] is None:
        X, Y, X_test, Y_test = load_set(data, name)
    else:
        split = next(titles(NOISE[name])(data))
        X, Y, X_test, Y_test = split.X, split.Y, split.X_test, split.Y_test
    runs = []
    for seed in range(NOISE_SEEDS):
        clf = SketchForestClassifier(n_jobs=forest.THREADS, random_state=seed).fit(X, Y)
        labels, _ = clf.predict_topk(X_test, 5)
        runs.append(percentages(Y_test, labels, propensities(Y)))
    return by_metric(runs)


def by_metric(runs):
    """The values of all runs by metric."""
    return {metric: [run[metric] for run in runs] for metric in runs[0]}


def line(title, run):
    """One line of figures."""

    def value(name):
        return mean(run[name]) if isinstance(run[name], list) else run[name]

    text = " ".join(f"{value(f'{metric}@{k}'):5.2f}" for metric in ("P", "PSP") for k in (1, 3, 5))
    if "train_seconds" in run:
        text += f"  train {run['train_seconds']:6.1f} s"
    if "train_cpu_seconds" in run:
        text += f" ({value('train_cpu_seconds'):.1f} s CPU) {value('model_bytes') / 1e6:6.1f} MB"
    return f"{title:38s} {text}"


def planned(arguments):
    """(title, function, further arguments)."""
    if arguments.choice:
        for title in arguments.only or CHOICE:
            for n_trees in CHOICE[title][2]:
                yield f"{title} / {n_trees}", "choice", (title, n_trees)
    elif arguments.noise:
        for name in arguments.only or NOISE:
            yield name, "noise", (name,)
    else:
        for name in arguments.only or SETS:
            yield f"{name} / SketchForest", "ours", (name, 0)
            yield f"{name} / Parabel (omikuji)", "parabel", (name,)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", nargs="+", metavar="SET")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--choice", action="store_true")
    mode.add_argument("--noise", action="store_true")
    arguments = parser.parse_args()
    name = "default_choice" if arguments.choice else "default_noise" if arguments.noise else "default"
    out = arguments.out or Path("results") / f"{name}.json"
    results = json.loads(out.read_text()) if out.exists() else {"machine": machine(), "runs": {}}
    print(f"{'':38s}   P@1   P@3   P@5 PSP@1 PSP@3 PSP@5")
    for title, function, further in planned(arguments):
        if title not in results["runs"]:
            results["runs"][title] = in_child(function, arguments.data, *further)["result"]
            write_results(out, results)
        print(line(title, results["runs"][title]), flush=True)


if __name__ == "__main__":
    main()
