"""SketchForest against label trees: omikuji (Parabel) and napkinXC (PLT), from PyPI, in the same run.

    python -m benchmarks.forest --data <folder> [--out results/forest.json] [--only SET ...] [--small]

The forest was tuned on a validation split of the training set (`--search SET` repeats the trials); peers have their
defaults. Every run is a process of its own, on two threads; runs that are in --out already are not repeated.
"synthetic" is a dataset of `make_xc`; "blend" combines the forest with the boosted trees of `benchmarks.tuned`, equally
weighted, in one model. omikuji predicts row by row from Python, which is part of its time. `--small` takes the first
rows of every dataset, to test the script.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks._common import in_child, load_set, machine, measured, percentages, write_results

THREADS = 2
SYNTHETIC = {
    "n_rows": 129_000,
    "n_features": 20_000,
    "n_labels": 60_000,
    "labels_per_row": 5,
    "nnz_per_row": 30,
}
SYNTHETIC_TEST = 10_000
SMALL_ROWS = 2_000
SINGLE_ROWS = 200  # rows for single-row prediction
TUNED = {
    "bibtex": {"n_trees": 100, "rerank": "cosine"},
    "delicious": {"n_trees": 150, "sketch_dim": 128, "rerank": "cosine"},
    "tibkat-gnd": {"n_trees": 10},
    "synthetic": {"n_trees": 3, "rerank": "bayes"},
}
BOOSTED = {
    "colsample_bynode": 0.3,
    "min_samples_leaf": 10,
    "max_bins": 64,
    "sketch_dim": 64,
    "learning_rate": 0.03,
    "n_trees": 400,
    "leaf_labels": 100,
    "max_depth": 10,
    "l2": 1.0,
}
BLENDED = "delicious"
SEARCH = [
    {},
    {"label_weight": 0.5},
    {"label_weight": 1.0},
    {"sketch_dim": 32},
    {"sketch_dim": 128},
    {"arity": 2},
    {"arity": 8},
    {"min_samples_leaf": 4},
    {"router_weights": 100},
    {"router_weights": 1000},
    {"max_features": 0.5},
    {"bootstrap": True},
    {"rerank": None},
    {"rerank": "cosine"},
    {"rerank": "log"},
    {"rerank": "boosted"},
    {"rerank": "bayes"},
]


def load(data, name, small, validate=False):
    """``X_train, Y_train, X_test, Y_test``."""
    import numpy as np

    if name == "synthetic":
        from sparseleaf.data import make_xc

        shape = SYNTHETIC | (
            {"n_rows": 2 * SMALL_ROWS, "n_features": 2_000, "n_labels": 1_000} if small else {}
        )
        X, Y = make_xc(**shape, seed=1)
        test = SMALL_ROWS // 2 if small else SYNTHETIC_TEST
        parts = [X[:-test], Y[:-test], X[-test:], Y[-test:]]
    else:
        parts = list(load_set(data, name))
    if validate:
        held, kept = np.split(
            np.random.default_rng(0).permutation(parts[0].shape[0]), [parts[0].shape[0] // 5]
        )
        parts = [parts[0][kept], parts[1][kept], parts[0][held], parts[1][held]]
    return [part[:SMALL_ROWS] for part in parts] if small else parts


def figures(labels, truth, Y, train_seconds, cpu_seconds, predict_seconds, size):
    """The metrics of a run."""
    from sparseleaf.metrics import propensities

    return {
        **percentages(truth, labels, propensities(Y)),
        "train_seconds": train_seconds,
        "train_cpu_seconds": cpu_seconds,
        "predict_ms_per_row": 1e3 * predict_seconds / len(labels),
        "model_bytes": size,
    }


def forest(data, name, small, settings, validate=False):
    """Train, save, load and predict with SketchForest; also without its re-ranking stage."""
    from sparseleaf import SketchForestClassifier
    from sparseleaf import load as load_file

    X, Y, X_test, Y_test = load(data, name, small, validate)
    classifier = SketchForestClassifier.from_settings({"n_jobs": THREADS, **settings})
    before = time.process_time()
    _, seconds = measured(lambda: classifier.fit(X, Y))
    cpu = time.process_time() - before
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        classifier.save(path)
        size = path.stat().st_size
        saved = load_file(path)
        saved.n_jobs = THREADS
        saved.predict_topk(X_test[:1], 5)
        before = time.process_time()
        (labels, _), taken = measured(lambda: saved.predict_topk(X_test, 5))
        predict_cpu = time.process_time() - before
        rows = [X_test[i] for i in range(min(SINGLE_ROWS, X_test.shape[0]))]
        times = [measured(lambda row=row: saved.predict_topk(row, 5))[1] for row in rows]
    from sparseleaf.model import Role

    trees = classifier.model_.with_stage(Role.RERANKER, None).topk(X_test, 5, None, THREADS)[0]
    return figures(labels, Y_test, Y, seconds, cpu, taken, size) | {
        "predict_cpu_ms_per_row": 1e3 * predict_cpu / X_test.shape[0],
        "single_row_ms": 1e3 * statistics.median(times),
        "single_row_min_ms": 1e3 * min(times),
        "rerank_weight": classifier.rerank_weight_,
        "without re-ranking": {
            f"P@{k}": value for k, value in _precision(percentages(Y_test, trees)).items()
        },
    }


def blend(data, name, small, settings):
    """SketchForest and SparseGBDT, equally weighted, in one model."""
    from sparseleaf import BlendClassifier, SketchForestClassifier, SparseGBDTClassifier
    from sparseleaf import load as load_file

    X, Y, X_test, Y_test = load(data, name, small)
    members = [
        SketchForestClassifier.from_settings({"n_jobs": THREADS, **settings}),
        SparseGBDTClassifier.from_settings(
            {"n_jobs": THREADS, **BOOSTED | ({"n_trees": 5} if small else {})}
        ),
    ]
    classifier = BlendClassifier(members, weights=[0.5, 0.5])
    before = time.process_time()
    _, seconds = measured(lambda: classifier.fit(X, Y))
    cpu = time.process_time() - before
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        classifier.save(path)
        size = path.stat().st_size
        saved = load_file(path)
        (labels, _), taken = measured(lambda: saved.predict_topk(X_test, 5))
    return figures(labels, Y_test, Y, seconds, cpu, taken, size)


def _precision(values):
    return {k: values[f"P@{k}"] for k in (1, 3, 5)}


def omikuji(data, name, small):
    """Parabel with its defaults: three balanced trees."""
    import numpy as np
    import omikuji as peer

    from sparseleaf.data import save_xc

    X, Y, X_test, Y_test = load(data, name, small)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.txt"
        save_xc(path, X, Y)
        before = time.process_time()
        model, seconds = measured(lambda: peer.Model.train_on_data(str(path), None, THREADS))
        cpu = time.process_time() - before
        model.save(str(Path(folder) / "model"))
        size = _folder_bytes(Path(folder) / "model")
    rows = [
        list(zip(X_test.indices[a:b].tolist(), X_test.data[a:b].tolist(), strict=True))
        for a, b in zip(X_test.indptr[:-1], X_test.indptr[1:], strict=True)
    ]
    predicted, taken = measured(lambda: [model.predict(row, top_k=5) for row in rows])
    labels = np.full((len(rows), 5), -1)
    for i, row in enumerate(predicted):
        labels[i, : len(row)] = [label for label, _ in row]
    return figures(labels, Y_test, Y, seconds, cpu, taken, size)


def napkinxc(data, name, small):
    """A probabilistic label tree with its defaults."""
    import numpy as np
    from napkinxc.models import PLT

    X, Y, X_test, Y_test = load(data, name, small)
    targets = [row.indices.tolist() for row in Y]
    with tempfile.TemporaryDirectory() as folder:
        model = PLT(folder, threads=THREADS)
        before = time.process_time()
        _, seconds = measured(lambda: model.fit(X, targets))
        cpu = time.process_time() - before
        size = _folder_bytes(Path(folder))
        model.predict(X_test[:1], top_k=5)  # loads the model
        predicted, taken = measured(lambda: model.predict(X_test, top_k=5))
    labels = np.full((X_test.shape[0], 5), -1)
    for i, row in enumerate(predicted):
        labels[i, : len(row)] = row
    return figures(labels, Y_test, Y, seconds, cpu, taken, size)


def _folder_bytes(folder):
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def planned_runs(names, small):
    """(title, function, dataset, further arguments)."""
    runs = []
    for name in names:
        settings = TUNED[name] | ({"n_trees": 5} if small else {})
        runs.append((f"{name} / SketchForest", "forest", name, [settings]))
        if name == BLENDED:
            runs.append((f"{name} / blend", "blend", name, [settings]))
        runs.append((f"{name} / omikuji", "omikuji", name, []))
        runs.append((f"{name} / napkinXC", "napkinxc", name, []))
    return runs


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", default="results/forest.json")
    parser.add_argument("--only", nargs="*", choices=tuple(TUNED), default=tuple(TUNED))
    parser.add_argument("--small", action="store_true", help="test the script on few rows")
    parser.add_argument("--search", choices=tuple(TUNED), help="try settings on a validation split")
    arguments = parser.parse_args()
    if arguments.search:
        for settings in SEARCH:
            run = forest(
                arguments.data, arguments.search, arguments.small, {"n_trees": 30} | settings, validate=True
            )
            print(
                f"{run['P@1']:.2f} {run['P@3']:.2f} {run['P@5']:.2f} {run['train_cpu_seconds']:7.1f} s CPU"
                f" {run['model_bytes'] / 1e6:7.1f} MB  {settings}",
                flush=True,
            )
        return
    out = Path(arguments.out)
    results = json.loads(out.read_text()) if out.exists() else {"machine": machine(), "runs": {}}
    print(f"{'':28s} P@1   P@3   P@5   PSP@1 PSP@3 PSP@5  train s (CPU)     ms/row      MB  peak GB")
    for title, function, name, further in planned_runs(arguments.only, arguments.small):
        if title not in results["runs"]:
            child = in_child(function, arguments.data, name, arguments.small, *further)
            results["runs"][title] = {
                **child["result"],
                "peak_bytes": child["peak_bytes"],
                "settings": further[0] if further else {},
            }
            write_results(out, results)
        run = results["runs"][title]
        print(
            f"{title:28s} {run['P@1']:.2f} {run['P@3']:.2f} {run['P@5']:.2f} {run['PSP@1']:.2f}"
            f" {run['PSP@3']:.2f} {run['PSP@5']:.2f} {run['train_seconds']:8.1f} ({run['train_cpu_seconds']:.1f})"
            f" {run['predict_ms_per_row']:10.4f} {run['model_bytes'] / 1e6:7.2f}"
            f" {run['peak_bytes'] / 1e9:8.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
