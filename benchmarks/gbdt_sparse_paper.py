"""The tables and figures of the GBDT-SPARSE paper, reproduced.

    python -m benchmarks.gbdt_sparse_paper --data <folder> [--out results/gbdt_sparse_paper.json] [--only SET ...]

Table 1: random projection, PCA, LEML and vanilla GBDT (all labels in every leaf). Table 3: prediction time, model size
and accuracy. Figure 1: P@1 against prediction time and against model size. "size": model size and accuracy with an L0
penalty on leaf entries (`leaf_min_gain`). The paper's settings: depth 10, leaves of at least 100 rows, λ 5, k 20 (100
for Delicious-200K), 20 bins; learning rate 0.1; 100 trees.

Wiki10-31K and Delicious-200K are replaced by synthetic datasets of their shape, for time, memory and size only; their
accuracy says nothing about the real ones. Every run is a process of its own, on two threads; runs that are in --out
already are not repeated.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from benchmarks._common import in_child, load_set, machine, measured, percentages, write_results

PAPER = {
    "learning_rate": 0.1,
    "max_depth": 10,
    "min_samples_leaf": 100,
    "l2": 5.0,
    "max_bins": 20,
    "colsample_bynode": 1.0,
    "keep_raw": False,
    "n_jobs": 2,
}

SYNTHETIC = {
    # training rows, test rows, features, labels, labels per row, non-zeros per row
    "wiki10-shaped": (14_146, 6_616, 101_938, 30_938, 18.6, 670),
    "delicious200k-shaped": (196_606, 20_000, 782_585, 205_443, 75.0, 300),
}

PROJECTIONS = {
    "random": {"projection": "random"},
    "PCA": {"projection": "pca"},
    "LEML": {"projection": "leml"},
    "vanilla (LEML, all labels per leaf)": {"projection": "leml", "leaf_labels": None},
}

SETS = {
    "delicious": ({"n_trees": 100, "leaf_labels": 20, "projection_dim": 100}, list(PROJECTIONS)),
    "bibtex": ({"n_trees": 100, "leaf_labels": 20, "projection_dim": 100}, list(PROJECTIONS)),
    # without vanilla GBDT, whose scores become dense (8 GB after three minutes)
    "wiki10-shaped": ({"n_trees": 100, "leaf_labels": 20, "projection_dim": 100}, ["random", "PCA", "LEML"]),
    "tibkat-gnd": ({"n_trees": 60, "leaf_labels": 50, "projection_dim": 100}, ["PCA", "LEML"]),
    "delicious200k-shaped": ({"n_trees": 20, "leaf_labels": 100, "projection_dim": 50}, ["LEML"]),
}

FIGURE_TREES = (5, 10, 20, 40, 70, 100)

# small leaves with many labels, where an L0 penalty matters
SIZE = {
    "n_trees": 100,
    "leaf_labels": 100,
    "min_samples_leaf": 10,
    "l2": 1.0,
    "max_bins": 64,
    "projection": "leml",
}
SIZE_GAINS = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)


def load(data, name):
    if name not in SYNTHETIC:
        return load_set(data, name)
    from sparseleaf.data import make_xc

    n_train, n_test, n_features, n_labels, labels_per_row, nnz_per_row = SYNTHETIC[name]
    X, Y = make_xc(n_train + n_test, n_features, n_labels, labels_per_row, nnz_per_row, seed=0)
    return X[:n_train], Y[:n_train], X[n_train:], Y[n_train:]


def train(data, name, settings):
    """Train and predict; returns the measurements."""
    from sparseleaf import SparseGBDTClassifier
    from sparseleaf import load as load_file

    X, Y, X_test, Y_test = load(data, name)
    states = []
    classifier = SparseGBDTClassifier.from_settings(PAPER | settings)
    _, seconds = measured(lambda: classifier.fit(X, Y, callbacks=[states.append]))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        classifier.save(path)
        size = path.stat().st_size
        saved = load_file(path)
        saved.n_jobs = 2
        times = [measured(lambda: saved.predict_topk(X_test, 5)) for _ in range(5)]
    ids = times[0][0][0]
    exact, _ = classifier.predict_topk(X_test, 5)
    return {
        **percentages(Y_test, ids),
        "P@1 before rounding": percentages(Y_test, exact)["P@1"],
        "train_seconds": seconds,
        "trees_seconds": states[-1].seconds,
        "preparation_seconds": seconds - states[-1].seconds,
        "predict_ms_per_row": 1e3 * min(t for _, t in times) / X_test.shape[0],
        "model_bytes": size,
        "projection_bytes": classifier.model_.projection.components.nbytes,
    }


def draw(results, path):
    """Figure 1: P@1 against prediction time and model size, by number of trees."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.4, 3.4), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    colours = dict(zip(PROJECTIONS, ("#E69F00", "#0072B2", "#D55E00", "#6b6b6b"), strict=True))
    for projection, colour in colours.items():
        runs = [results["runs"].get(f"delicious / {projection} / {trees} trees") for trees in FIGURE_TREES]
        runs = [run for run in runs if run]
        for ax, key, unit in ((axes[0], "predict_ms_per_row", 1), (axes[1], "model_bytes", 1e6)):
            ax.plot(
                [run[key] / unit for run in runs],
                [run["P@1"] for run in runs],
                "o-",
                color=colour,
                label=projection,
            )
    axes[0].set_xlabel("prediction, ms/row (two threads)")
    axes[1].set_xlabel("model, MB")
    axes[0].set_ylabel("P@1 on Delicious, %")
    for ax in axes:
        ax.set_xscale("log")
        ax.grid(alpha=0.3)
        ax.spines[["top", "right"]].set_visible(False)
    axes[1].legend(frameon=False, fontsize=8, loc="lower right")
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", default="results/gbdt_sparse_paper.json")
    everything = (*SETS, "figure", "size")
    parser.add_argument("--only", nargs="*", choices=everything, default=everything)
    parser.add_argument("--picture", default="docs/images/gbdt-sparse-figure-1.png")
    arguments = parser.parse_args()
    out = Path(arguments.out)
    results = json.loads(out.read_text()) if out.exists() else {"machine": machine(), "runs": {}}
    planned = [
        (name, f"{name} / {projection}", settings | PROJECTIONS[projection])
        for name, (settings, projections) in SETS.items()
        if name in arguments.only
        for projection in projections
    ]
    if "figure" in arguments.only:
        planned += [
            (
                "delicious",
                f"delicious / {projection} / {trees} trees",
                SETS["delicious"][0] | PROJECTIONS[projection] | {"n_trees": trees},
            )
            for projection in PROJECTIONS
            for trees in FIGURE_TREES
        ]
    if "size" in arguments.only:
        planned += [
            ("delicious", f"size / leaf_min_gain {gain:g}", SIZE | {"leaf_min_gain": gain})
            for gain in SIZE_GAINS
        ]
    print(f"{'':58s} P@1   P@3   P@5   prepare s  trees s     ms/row      MB  peak GB")
    for name, title, settings in planned:
        if title not in results["runs"]:
            child = in_child("train", arguments.data, name, settings)
            results["runs"][title] = {
                **child["result"],
                "peak_bytes": child["peak_bytes"],
                "settings": settings,
            }
            write_results(out, results)
        run = results["runs"][title]
        print(
            f"{title:58s} {run['P@1']:.2f} {run['P@3']:.2f} {run['P@5']:.2f} {run['preparation_seconds']:10.1f}"
            f" {run['trees_seconds']:8.1f} {run['predict_ms_per_row']:10.4f} {run['model_bytes'] / 1e6:7.2f}"
            f" {run['peak_bytes'] / 1e9:8.2f}",
            flush=True,
        )
    if "figure" in arguments.only:
        draw(results, arguments.picture)


if __name__ == "__main__":
    main()
