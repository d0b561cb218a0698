"""Ranking: NDCG@5 and time against LightGBM, on a real dataset and on 2,000,000 synthetic rows.

    python -m benchmarks.ranking --data <folder with lambdarank/> [--out docs/results/ranking.json]
        [--seeds 20] [--rows 2000000] [--trees 20] [--skip-large] [--again] [--under-load]

LightGBM's example "lambdarank": 3,005 training and 768 test rows, 300 features, 201 and 50 queries, grades 0 to 4
(`rank.train.gz`, `rank.test.gz` in svmlight, `rank.train.query`, `rank.test.query` with the number of rows per query).
All methods have the same settings: 100 trees, learning rate 0.1, 31 leaves of at least 20 rows, no l2, 80 % of the rows
and features per tree, two threads. Results are means over many seeds, because there are only 50 test queries.
LightGBM estimates the rows of a leaf from its hessian, so "at least 20 rows" is not the same constraint in both;
"min hessian 1" is. Methods that are in the results are not repeated unless --again.

The large dataset is synthetic: 100 features, queries of 20 documents, trees of 20 leaves; every run is a process of its
own. Before that, LambdaMART's gradients and trees are compared with LightGBM's.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks._common import in_child, machine, measured, write_results

TREES = 100
OURS = {
    "n_trees": TREES,
    "learning_rate": 0.1,
    "max_leaves": 31,
    "min_samples_leaf": 20,
    "l2": 0.0,
    "subsample": 0.8,
    "colsample_bytree": 0.8,
    "n_jobs": 2,
}
LIGHTGBM = {
    "n_estimators": TREES,
    "learning_rate": 0.1,
    "num_leaves": 31,
    "min_child_samples": 20,
    "reg_lambda": 0.0,
    "subsample": 0.8,
    "subsample_freq": 1,
    "colsample_bytree": 0.8,
    "n_jobs": 2,
    "verbosity": -1,
}
METHODS = {
    "LightGBM, lambdarank": ("LightGBM", {}),
    "LambdaMART": ("sparseleaf", {"loss": "lambdamart", "metric": "ndcg"}),
    "LightGBM, lambdarank, min hessian 1": (
        "LightGBM",
        {"min_child_samples": 1, "min_child_weight": 1.0},
    ),
    "LambdaMART, min hessian 1": ("sparseleaf", {"min_samples_leaf": 1, "min_hessian_leaf": 1.0}),
    "GBRank": ("sparseleaf", {"loss": "gbrank"}),
    "GBRank, learning rate 0.3": ("sparseleaf", {"loss": "gbrank", "learning_rate": 0.3}),
    "GBRank, summed trees": ("sparseleaf", {"loss": "gbrank", "averaged": False}),
    "SmoothDCG": ("sparseleaf", {"loss": "smoothdcg"}),
}
LARGE_LEAVES, LARGE_FEATURES, DOCUMENTS = 20, 100, 20


# --- the real dataset


def read(data):
    """``X, y, rows per query`` of the training and the test set."""
    from sparseleaf.data import load_table

    folder = Path(data) / "lambdarank"
    parts = []
    for part in ("train", "test"):
        rows, queries = folder / f"rank.{part}.gz", folder / f"rank.{part}.query"
        for file in (rows, queries):
            if not file.is_file():
                sys.exit(f"The dataset 'lambdarank' was not found in --data {data}: {file} does not exist.")
        table = load_table(rows, format="svmlight")
        parts.append((table.X, table.y, np.loadtxt(queries, dtype=int)))
    width = max(X.shape[1] for X, _, _ in parts)
    for X, _, _ in parts:
        X.resize(X.shape[0], width)
    return [(X.toarray(), y, group) for X, y, group in parts]


def ranker(method, seed, **changes):
    library, settings = METHODS[method]
    if library == "LightGBM":
        import lightgbm

        return lightgbm.LGBMRanker(**LIGHTGBM | settings | changes, random_state=seed)
    from sparseleaf import GBDTRanker

    return GBDTRanker.from_settings({**OURS | settings | changes, "random_state": seed})


def fit_and_rank(method, seed, train, X_test):
    """Scores of the test rows, and the training time."""
    X, y, group = train
    model = ranker(method, seed)
    _, seconds = measured(lambda: model.fit(X, y, group=group))
    return model.predict(X_test), seconds


def real(data, method, n_seeds):
    """NDCG@5 and time per tree for every seed."""
    from sparseleaf.ranking import mean_of, ndcg

    train, (X_test, y_test, group) = read(data)
    fit_and_rank(method, 0, train, X_test)  # warm-up: the first run starts the threads
    runs = [fit_and_rank(method, seed, train, X_test) for seed in range(n_seeds)]
    return {
        "ndcg@5": [mean_of(ndcg(y_test, scores, group=group, k=5)) for scores, _ in runs],
        "seconds_per_tree": [seconds / TREES for _, seconds in runs],
    }


ALTERNATING = ("LightGBM, lambdarank", "LambdaMART")


def alternating(data, n_runs):
    """Time per tree of both libraries, alternating in one process, so that they see the same load."""
    train, (X_test, _, _) = read(data)
    times = {method: [] for method in ALTERNATING}
    for i in range(n_runs + 1):
        for method in ALTERNATING:
            seconds = fit_and_rank(method, i, train, X_test)[1] / TREES
            if i:  # the first is a warm-up
                times[method].append(seconds)
    theirs, ours = (float(np.median(times[method])) for method in ALTERNATING)
    return {
        "seconds_per_tree": times,
        "medians": {ALTERNATING[0]: theirs, ALTERNATING[1]: ours},
        "over": ours / theirs,
    }


def summary(run):
    """Means and standard errors, of all seeds and of the first five."""
    values = np.array(run["ndcg@5"])
    first = values[:5]
    return {
        **run,
        "mean": values.mean(),
        "standard_error": _error(values),
        "mean_of_first_five": first.mean(),
        "standard_error_of_first_five": _error(first),
        "median_seconds_per_tree": float(np.median(run["seconds_per_tree"])),
    }


def _error(values):
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


# --- the large dataset


def make_large(n_rows):
    """Features, and grades that depend on the first ten of them."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, LARGE_FEATURES), np.float32)
    worth = X[:, :5].sum(axis=1) + X[:, 5] * X[:, 6] + np.abs(X[:, 7:10]).sum(axis=1)
    worth += rng.standard_normal(n_rows, np.float32)
    grades = np.digitize(worth, np.quantile(worth, [0.5, 0.75, 0.9, 0.97])).astype(np.int32)
    group = np.full(n_rows // DOCUMENTS, DOCUMENTS)
    return X, grades, group


def large(library, n_rows, n_trees):
    """Preparation time and time per tree of one library."""
    X, y, group = make_large(n_rows // DOCUMENTS * DOCUMENTS)
    times = []
    if library == "LightGBM":
        import lightgbm

        settings = {**LIGHTGBM, "num_leaves": LARGE_LEAVES, "n_estimators": n_trees}
        ranker = lightgbm.LGBMRanker(**settings | {"subsample": 1.0, "colsample_bytree": 1.0})
        began = time.perf_counter()
        ranker.fit(X, y, group=group, callbacks=[lambda _: times.append(time.perf_counter())])
    else:
        from sparseleaf import GBDTRanker

        settings = {**OURS, "max_leaves": LARGE_LEAVES, "n_trees": n_trees}
        ranker = GBDTRanker.from_settings(settings | {"subsample": 1.0, "colsample_bytree": 1.0})
        began = time.perf_counter()
        ranker.fit(X, y, group=group, callbacks=[lambda _: times.append(time.perf_counter()) and None])
    from sparseleaf.ranking import mean_of, ndcg

    some = slice(0, 2_000 * DOCUMENTS)
    steps = np.diff(times)
    return {
        "rows": len(y),
        "features": X.shape[1],
        "data_bytes": X.nbytes,
        "trees": n_trees,
        "seconds_to_first_tree": times[0] - began,
        "seconds_per_tree": steps.mean(),
        "median_seconds_per_tree": np.median(steps),
        "ndcg@5 of training queries": mean_of(
            ndcg(y[some], ranker.predict(X[some]), group=group[:2_000], k=5)
        ),
    }


# --- gradients and trees


def trees_agree(data, counts=(1, 3, 10, 20)):
    """Fraction of training rows whose score equals LightGBM's within 1e-4, by number of trees, without sampling."""
    (X, y, group), _ = read(data)
    whole = {"subsample": 1.0, "colsample_bytree": 1.0}
    shares = {}
    for n in counts:
        theirs = ranker("LightGBM, lambdarank, min hessian 1", 0, **whole, n_estimators=n, min_data_in_bin=1)
        ours = ranker("LambdaMART, min hessian 1", 0, **whole, n_trees=n)
        scores = [model.fit(X, y, group=group).predict(X) for model in (theirs, ours)]
        shares[str(n)] = float(np.mean(np.abs(scores[0] - scores[1]) < 1e-4))
    return shares


def gradients_agree():
    """Largest difference between LambdaMART's Newton steps and LightGBM's, with and without normalisation.

    LightGBM does not expose its gradients, but the leaves of a tree with one row per leaf are -g/(h + l2).
    """
    import lightgbm

    from sparseleaf.objectives.lambdamart import LambdaMART
    from sparseleaf.objectives.targets import NO_CLASSES, NO_VALUES, DenseTargets
    from sparseleaf.ranking import make_queries

    rng = np.random.default_rng(0)
    group = rng.integers(1, 25, 18)
    n = int(group.sum())
    grades = rng.integers(0, 5, n).astype(np.float32)
    targets = DenseTargets(grades[:, None], NO_CLASSES, NO_VALUES, 1)
    queries = make_queries(n, group=group)
    largest = {}
    for normalise in (True, False):
        for places in (5, 30):
            for kind, start in (("equal scores", np.zeros(n)), ("any scores", rng.normal(size=n))):
                loss = LambdaMART(queries, places=places, normalise=normalise)
                g, h = np.empty((n, 1), np.float32), np.empty((n, 1), np.float32)
                loss.gradients(targets, start.astype(np.float32)[:, None], g, h, 1)
                for l2 in (0.1, 1.0):
                    theirs = _steps(lightgbm, grades, group, start, places, normalise, l2)
                    apart = np.abs(theirs + (g / (h + l2))[:, 0]).max()
                    key = f"{kind}, {places} places, {'normalised' if normalise else 'plain'}"
                    largest[key] = max(largest.get(key, 0.0), float(apart))
    return largest


def _steps(lightgbm, grades, group, start, places, normalise, l2):
    """Leaf values of a tree with one row per leaf, grown on other targets and refitted to these."""
    n = len(grades)
    rows = np.arange(n, dtype=np.float64)[:, None]
    settings = {
        "num_leaves": n,
        "min_data_in_leaf": 1,
        "min_data_in_bin": 1,
        "max_bin": n + 1,
        "learning_rate": 1.0,
        "verbosity": -1,
        "num_threads": 1,
    }
    targets = np.random.default_rng(1).permutation(n)
    booster = lightgbm.train({**settings, "objective": "regression"}, lightgbm.Dataset(rows, targets), 1)
    assert len(np.unique(booster.predict(rows, pred_leaf=True))) == n
    booster.params = {
        **settings,
        "objective": "lambdarank",
        "lambdarank_truncation_level": places,
        "lambdarank_norm": normalise,
        "lambda_l2": l2,
    }
    again = booster.refit(rows, grades, decay_rate=0.0, group=group, init_score=start)
    return again.predict(rows, raw_score=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", default="results/ranking.json")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--trees", type=int, default=20, help="trees on the large dataset")
    parser.add_argument("--skip-large", action="store_true")
    parser.add_argument("--again", action="store_true", help="repeat methods that are in the results")
    parser.add_argument("--under-load", action="store_true", help="mark the times as measured under load")
    arguments = parser.parse_args()
    read(arguments.data)
    out = Path(arguments.out)
    before = json.loads(out.read_text()) if out.exists() else {}
    if arguments.again:  # skipped parts keep their results
        before.pop("lambdarank", None)
        before.pop("alternating", None)
        if not arguments.skip_large:
            before.pop("large", None)
    results = before | {"machine": machine(), "settings": OURS, "lightgbm_settings": LIGHTGBM}

    results["gradient_differences"] = gradients_agree()
    for name, apart in results["gradient_differences"].items():
        print(f"Newton steps, {name}: at most {apart:.1e} from LightGBM's")

    results["trees_agree"] = trees_agree(arguments.data)
    for n, share in results["trees_agree"].items():
        print(f"rows with LightGBM's score after {n} trees: {share:.2%}")

    known, results["lambdarank"] = results.get("lambdarank", {}), {}
    print(f"\nNDCG@5 on lambdarank{'':25s} {arguments.seeds} seeds          first five          ms/tree")
    for method in METHODS:
        run = known.get(method)
        if run is None:
            run = summary(in_child("real", arguments.data, method, arguments.seeds)["result"])
            run["under_load"] = arguments.under_load
        results["lambdarank"][method] = run
        print(
            f"{method:41s} {run['mean']:9.4f} ± {run['standard_error']:.4f}"
            f" {run['mean_of_first_five']:9.4f} ± {run['standard_error_of_first_five']:.4f}"
            f" {1e3 * run['median_seconds_per_tree']:10.2f}",
            flush=True,
        )
        write_results(out, results | {"lambdarank": known | results["lambdarank"]})

    if "alternating" not in results:
        results["alternating"] = in_child("alternating", arguments.data, arguments.seeds)["result"]
        results["alternating"]["under_load"] = arguments.under_load
        write_results(out, results)
    print(
        "\nin turns: "
        + ", ".join(f"{m} {1e3 * s:.2f} ms" for m, s in results["alternating"]["medians"].items())
    )

    if not arguments.skip_large and "large" not in before:
        results["large"] = {}
        print(f"\n{arguments.rows:,} rows{'':10s} s to first tree    s/tree  peak GB   NDCG@5")
        for library in ("sparseleaf", "LightGBM"):
            child = in_child("large", library, arguments.rows, arguments.trees)
            run = {**child["result"], "peak_bytes": child["peak_bytes"]}
            results["large"][library] = run
            print(
                f"{library:24s} {run['seconds_to_first_tree']:10.2f} {run['seconds_per_tree']:9.3f}"
                f" {run['peak_bytes'] / 1e9:8.2f} {run['ndcg@5 of training queries']:8.4f}",
                flush=True,
            )
        ours, theirs = results["large"]["sparseleaf"], results["large"]["LightGBM"]
        results["large_seconds_over_lightgbm"] = ours["seconds_per_tree"] / theirs["seconds_per_tree"]
        print(f"time per tree: {results['large_seconds_over_lightgbm']:.2f} x LightGBM's")
    write_results(out, results)


if __name__ == "__main__":
    main()
