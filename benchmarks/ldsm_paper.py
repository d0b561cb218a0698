"""The tables and figures of the LdSM paper, reproduced.

    python -m benchmarks.ldsm_paper --data <folder> [--out results/ldsm_paper.json] [--only PART ...]

"as published": the settings of the authors' script (M 2, 1,000 nodes, 20 epochs, learning rate 0.1, λ1 2, λ2 1), an
ensemble of 10. "tuned": settings chosen on a validation split of a fifth of the training set (`--search` repeats the
main trials), then trained on the whole training set; re-ranked models are also evaluated without re-ranking. Figures: J
during training (1), depth against labels (2), precision against trees and against nodes (3). Every run is a process of
its own, on two threads; runs that are in --out already are not repeated.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

from benchmarks._common import in_child, load_set, machine, measured, peak_bytes, percentages, write_results

PUBLISHED = {"n_trees": 10, "max_nodes": 1000, "epochs": 20, "tol": 0.0}
TUNED = {
    "delicious": {"n_trees": 50, "max_nodes": 6000, "tol": 0.0},
    "bibtex": {"n_trees": 60, "max_nodes": 3000, "lambda_2": 3.0},
    "tibkat-gnd": {"n_trees": 20, "max_nodes": 4000, "epochs": 3, "prune": 0.03, "leaf_labels": 200},
}
RERANKED = {"bibtex": {"rerank": "cosine"}, "tibkat-gnd": {"rerank": "log"}}
NODES = (100, 300, 1000, 3000)
SEARCH = [
    {},
    {"lambda_2": 2.0},
    {"lambda_2": 3.0},
    {"learning_rate": 0.3},
    {"max_nodes": 3000},
    {"max_nodes": 3000, "lambda_2": 2.0},
    {"max_nodes": 6000, "lambda_2": 2.0},
    {"max_nodes": 3000, "lambda_2": 2.0, "rerank": "cosine"},
    {"max_nodes": 3000, "lambda_2": 2.0, "rerank": "log"},
    {"max_nodes": 3000, "lambda_2": 4.0, "arity": 4},
]


def train(data, name, settings, validate=False, records=False):
    """Train, save, load and predict; returns the measurements."""
    import numpy as np

    from sparseleaf import LdSMClassifier
    from sparseleaf import load as load_file
    from sparseleaf.metrics import propensities
    from sparseleaf.routed.diagnostics import level_summary, objective_by_level

    X, Y, X_test, Y_test = load_set(data, name)
    if validate:
        order = np.random.default_rng(0).permutation(X.shape[0])
        held, kept = np.split(order, [X.shape[0] // 5])
        X, Y, X_test, Y_test = X[kept], Y[kept], X[held], Y[held]
    classifier = LdSMClassifier.from_settings({"n_jobs": 2, **settings})
    before = time.process_time()  # CPU time of all threads, little affected by other load
    _, seconds = measured(lambda: classifier.fit(X, Y))
    cpu_seconds = time.process_time() - before
    train_peak = peak_bytes()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        classifier.save(path)
        size = path.stat().st_size
        saved = load_file(path)
        saved.n_jobs = 2
        times = [measured(lambda: saved.predict_topk(X_test, 5)) for _ in range(9)]
    exact, _ = classifier.predict_topk(X_test, 5)
    depths = classifier.model_.trees.depths()
    result = {
        **percentages(Y_test, times[0][0][0], propensities(Y)),
        "P@1 before rounding": percentages(Y_test, exact)["P@1"],
        "train_seconds": seconds,
        "train_cpu_seconds": cpu_seconds,
        "train_peak_bytes": train_peak,
        "predict_ms_per_row": 1e3 * min(t for _, t in times) / X_test.shape[0],
        "model_bytes": size,
        "depth_min": int(depths.min()),
        "depth_max": int(depths.max()),
        "nodes_per_tree": len(classifier.model_.trees.child) / classifier.model_.n_trees,
        "labels": int(Y.shape[1]),
        "passes": float(np.mean([len(s.objective) for tree in classifier.split_records_ for s in tree])),
        "rerank_weight": classifier.rerank_weight_,
    }
    if classifier.rerank is not None:
        from sparseleaf.model import Role

        labels, _ = classifier.model_.apply(X_test, None, 2, last=Role.SCORER).topk(5)
        result["without re-ranking"] = percentages(Y_test, labels, propensities(Y))
    if records:
        result["objective_by_level"] = {
            str(k): v for k, v in objective_by_level(classifier.split_records_).items()
        }
        result["levels"] = [vars(level) for level in level_summary(classifier.split_records_)]
        result["by_trees"] = [
            percentages(Y_test, ids) for ids, _ in classifier.staged_predict_topk(X_test, 5)
        ]
    return result


def planned_runs(parts):
    """(title, dataset, settings, whether to keep the records of all splits)."""
    runs = []
    for name in TUNED:
        if name not in parts:
            continue
        if name != "tibkat-gnd":
            runs.append((f"{name} / as published", name, PUBLISHED, True))
        if name not in RERANKED:
            runs.append((f"{name} / tuned", name, TUNED[name], False))
        else:
            runs.append((f"{name} / tuned, re-ranked", name, TUNED[name] | RERANKED[name], False))
    if "figures" in parts:
        runs.append(("delicious / 50 trees", "delicious", PUBLISHED | {"n_trees": 50}, True))
        runs += [
            (f"delicious / {nodes} nodes", "delicious", PUBLISHED | {"max_nodes": nodes}, False)
            for nodes in NODES
        ]
    return runs


def draw(results, folder):
    """Figures 1 to 3."""
    from matplotlib.figure import Figure

    from sparseleaf.routed.plotting import plot_depths

    runs, folder = results["runs"], Path(folder)
    shades = ("#08306b", "#2171b5", "#6baed6", "#bdd7e7")
    figure = Figure(figsize=(8.4, 3.2), layout="constrained")
    first, levels = figure.subplots(1, 2)
    published = runs["delicious / as published"]
    chosen = [depth for depth in ("0", "2", "5", "9") if depth in published["objective_by_level"]]
    for depth, shade in zip(chosen, shades, strict=False):
        values = published["objective_by_level"][depth]
        first.plot(range(1, len(values) + 1), values, color=shade, label=f"level {depth}")
    first.set_xlabel("epochs")
    first.set_ylabel("objective J")
    for key, colour in (("balance", "#0072B2"), ("purity", "#D55E00")):
        values = [level[key] for level in published["levels"]]
        levels.plot(
            range(len(values)), values, "o-", color=colour, label=f"{key} (0 is perfect)", markersize=4
        )
    levels.set_xlabel("level")
    finish(figure, folder / "ldsm-figure-1.png")

    sets = {name: runs.get(f"{name} / tuned{', re-ranked' * (name in RERANKED)}") for name in TUNED}
    points = {name: (run["depth_max"], run["labels"], 2) for name, run in sets.items() if run}
    plot_depths(points, folder / "ldsm-figure-2.png")

    figure = Figure(figsize=(8.4, 3.2), layout="constrained")
    trees, nodes = figure.subplots(1, 2, sharey=True)
    by_trees = runs["delicious / 50 trees"]["by_trees"]
    by_nodes = {n: runs[f"delicious / {n} nodes"] for n in NODES}
    for k, colour in ((1, "#0072B2"), (3, "#D55E00"), (5, "#009E73")):
        trees.plot(range(1, len(by_trees) + 1), [e[f"P@{k}"] for e in by_trees], color=colour, label=f"P@{k}")
        nodes.plot(NODES, [by_nodes[n][f"P@{k}"] for n in NODES], "o-", color=colour, label=f"P@{k}")
    trees.set_xlabel("trees (1,000 nodes)")
    trees.set_ylabel("% on Delicious")
    nodes.set_xlabel("nodes per tree (10 trees)")
    nodes.set_xscale("log")
    finish(figure, folder / "ldsm-figure-3.png")


def finish(figure, path):
    for ax in figure.axes:
        ax.grid(alpha=0.3)
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=90)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    everything = (*TUNED, "figures")
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", default="results/ldsm_paper.json")
    parser.add_argument("--only", nargs="*", choices=everything, default=everything)
    parser.add_argument("--pictures", default="docs/images")
    parser.add_argument(
        "--search", choices=("delicious", "bibtex"), help="try settings on a validation split"
    )
    arguments = parser.parse_args()
    if arguments.search:
        for settings in SEARCH:
            run = train(arguments.data, arguments.search, {"n_trees": 20} | settings, validate=True)
            print(
                f"{run['P@1']:.2f} {run['P@3']:.2f} {run['P@5']:.2f} {run['train_seconds']:6.1f} s  {settings}",
                flush=True,
            )
        return
    out = Path(arguments.out)
    results = json.loads(out.read_text()) if out.exists() else {"machine": machine(), "runs": {}}
    print(f"{'':36s} P@1   P@3   P@5   PSP@1 PSP@3 PSP@5  train s     ms/row      MB  peak GB")
    for title, name, settings, records in planned_runs(arguments.only):
        if title not in results["runs"]:
            child = in_child("train", arguments.data, name, settings, False, records)
            results["runs"][title] = {
                **child["result"],
                "peak_bytes": child["peak_bytes"],
                "settings": settings,
            }
            write_results(out, results)
        run = results["runs"][title]
        print(
            f"{title:36s} {run['P@1']:.2f} {run['P@3']:.2f} {run['P@5']:.2f} {run['PSP@1']:.2f} {run['PSP@3']:.2f}"
            f" {run['PSP@5']:.2f} {run['train_seconds']:8.1f} {run['predict_ms_per_row']:10.4f}"
            f" {run['model_bytes'] / 1e6:7.2f} {run['peak_bytes'] / 1e9:8.2f}",
            flush=True,
        )
    if "figures" in arguments.only:
        draw(results, arguments.pictures)


if __name__ == "__main__":
    main()
