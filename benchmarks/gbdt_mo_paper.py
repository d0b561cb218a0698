"""The tables of the GBDT-MO paper, reproduced, with XGBoost, LightGBM and CatBoost.

    python -m benchmarks.gbdt_mo_paper --data <folder> [--only PART ...] [--runs TEXT] [--again]
        [--under-load] [--out FOLDER]

mnist-speed    time per round and prediction time against LightGBM and XGBoost (Figure 5, Table VI)
mnist          accuracy (Table V)
synthetic      friedman1 and random projection, one tree for all outputs against one per output (Table III)
synthetic-long random projection with as many rounds as the authors' scripts
yeast-searched Yeast with settings, too, chosen on the test set (Table V)
yeast, student-por, inpainting   all methods tuned in the same way (Table V)
sparse         k outputs per leaf, restricted and not, on MNIST and MNIST-inpainting (Tables VIII, IX)
hessian        exact against diagonal hessian on MNIST and Yeast (Table X)
many-outputs   1,000 outputs against XGBoost's vector leaves: time, memory, error

The paper stops training on the test set, 25 rounds after the best one, and reports the best round: "as the paper".
"held out" takes the number of rounds from a validation split of the training set, then trains on the whole training
set (MNIST: on the first 50,000 of 60,000 rows) and evaluates the test set once. Depth, learning rate and sampling are
chosen on the validation split, except for yeast-searched. Each part writes ``gbdt_mo_<part>.json``; existing runs are
not repeated unless --again. Times are comparable within a part only.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

from benchmarks._common import in_child, machine, measured, write_results
from benchmarks._peers import (
    THREADS,
    lightgbm_parameters,
    train_curves,
    xgboost_parameters,
)
from benchmarks.dense_sets import friedman1, inpainting, mnist, random_projection, student_por, yeast
from benchmarks.protocol import (
    evaluate,
    fifth_held_out,
    held_out_done,
    run_once,
    run_searched,
    run_small,
    search,
)


def sized(depth, rate, **others):
    """The paper's number of leaves for a depth, 0.75 · 2^depth, and its l2 (Appendix B)."""
    return {
        "max_depth": depth,
        "max_leaves": max(2, int(0.75 * 2**depth)),
        "learning_rate": rate,
        "l2": 1.0,
    } | others


MNIST = sized(8, 0.1, max_bins=8, min_samples_leaf=16)
INPAINTING = {"max_bins": 16, "min_samples_leaf": 4}
SAMPLED = {"subsample": 0.7, "colsample_bynode": 0.5}


def drawn_grid(max_bins, rates, n_trials=24):
    """Random settings, the same for every method."""
    random = np.random.default_rng(0)
    space = {
        "depth": (2, 3, 4, 6, 8),
        "rate": rates,
        "min_samples_leaf": (1, 4, 16),
        "subsample": (0.5, 0.7, 1.0),
        "colsample_bynode": (0.2, 0.5, 1.0),
        "l2": (0.3, 1.0, 3.0),
    }
    drawn = [{name: random.choice(values).item() for name, values in space.items()} for _ in range(n_trials)]
    return [sized(**settings, max_bins=max_bins) for settings in drawn]


PEERS = (
    "sparseleaf",
    "sparseleaf, one tree per output",
    "XGBoost",
    "XGBoost, vector leaves",
    "LightGBM",
    "CatBoost",
)


YEAST_RATES = (0.05, 0.1, 0.25, 0.5)
"""The paper's; with smaller learning rates accuracy plateaus for longer than its patience."""


def part_yeast(data, run):
    grid = drawn_grid(255, YEAST_RATES)
    for method in PEERS:
        run(method, lambda method=method: run_small(data, method, yeast, 10, grid))


def part_yeast_searched(data, run):
    """The settings of `part_yeast` and some around the paper's (Tables XI, XII; its script: leaves of 4 rows)."""
    grid = drawn_grid(255, YEAST_RATES) + [
        sized(depth, rate, max_bins=32, min_samples_leaf=rows, subsample=1.0, colsample_bynode=share)
        for depth in (4, 5)
        for rate in (0.05, 0.1, 0.25)
        for rows in (4, 16)
        for share in (0.2, 0.5, 1.0)
    ]
    for method in PEERS:
        run(method, lambda method=method: run_searched(data, method, yeast, 10, grid))


def part_student_por(data, run):
    grid = drawn_grid(8, (0.03, 0.05, 0.1, 0.2))
    for method in PEERS:
        run(method, lambda method=method: run_small(data, method, student_por, None, grid))


SYNTHETIC = {
    "friedman1": (friedman1, [sized(depth, 0.2) for depth in (2, 3)]),
    "random projection": (random_projection, [sized(depth, 0.5) for depth in (2, 3)]),
}


def part_synthetic(data, run):
    """10,000 training and 10,000 test rows, five seeds; settings chosen with the first seed."""
    for name, (make, grid) in SYNTHETIC.items():
        grid = [settings | {"max_bins": 255, "min_samples_leaf": 4} for settings in grid]
        for method in ("sparseleaf", "sparseleaf, one tree per output"):

            def train(make=make, grid=grid, method=method):
                sets = [make(seed) for seed in range(5)]
                splits = [(X[:10_000], y[:10_000], X[10_000:], y[10_000:]) for X, y in sets]
                draws = [fifth_held_out(*split[:2]) for split in splits]
                chosen, _ = search(method, None, grid, draws[:1])
                return evaluate(chosen.on(draws), chosen, splits)

            run(f"{name} / {method}", train)


LONG_ROUNDS = 8_000
"""Rounds of the authors' scripts for regression; 2,000 are far too few for a dataset without noise."""


LONG_GRID = [sized(depth, rate, max_bins=255, min_samples_leaf=4) for depth, rate in ((2, 0.5), (1, 1.0))]


def part_synthetic_long(data, run):
    """Random projection with many rounds, without early stopping; settings chosen with the first seed."""
    from sparseleaf import MultiGBDTRegressor

    sets = [(X[:10_000], y[:10_000], X[10_000:], y[10_000:]) for X, y in map(random_projection, range(5))]
    X, y, held_out = fifth_held_out(*sets[0][:2])
    methods = {
        "sparseleaf": {"n_trees": LONG_ROUNDS},
        "sparseleaf, one tree per output": {"n_trees": LONG_ROUNDS, "tree_per_output": True},
        "sparseleaf, one tree per output, as many trees": {
            "n_trees": LONG_ROUNDS // 8,
            "tree_per_output": True,
        },
    }

    def error(settings, X, y, X_test, y_test):
        estimator = MultiGBDTRegressor.from_settings({**settings, "n_jobs": THREADS}).fit(X, y)
        return rmse(estimator.predict(X_test), y_test)

    for title, changes in methods.items():

        def train(changes=changes):
            settings = min((s | changes for s in LONG_GRID), key=lambda s: error(s, X, y, *held_out))
            return {"rmse": [error(settings, *rows) for rows in sets], "settings": settings}

        run(f"random projection / {title}", train)


MNIST_RUNS = {
    "sparseleaf, the paper's settings": ("sparseleaf", MNIST),
    "sparseleaf, sampled rows and features": (
        "sparseleaf",
        MNIST | {"max_leaves": 128, "subsample": 0.7, "colsample_bynode": 0.2},
    ),
    "LightGBM, the paper's settings": ("LightGBM", MNIST),
}


def part_mnist(data, run):
    for title, (method, settings) in MNIST_RUNS.items():
        run(title, lambda m=method, s=settings: run_once(m, 10, s, *mnist(data), 1000))


INPAINTING_GRID = [sized(depth, 0.1, **INPAINTING, **s) for depth in (6, 8) for s in ({}, SAMPLED)]
INPAINTING_ROUNDS = {"sparseleaf": 3000, "XGBoost": 3000, "LightGBM": 3000, "CatBoost": 250}
"""Maximum number of rounds; CatBoost takes seconds per round."""


def part_inpainting(data, run):
    """Settings chosen with every eighth row and at most 100 rounds; then trained on the first 50,000 rows."""
    for method, max_rounds in INPAINTING_ROUNDS.items():

        def train(method=method, max_rounds=max_rounds):
            X, y, X_test, y_test = inpainting(data)
            few = (X[:50_000:8], y[:50_000:8], (X[50_000::4], y[50_000::4]))

            def done(curves):
                return len(curves) >= 100 or held_out_done(curves)

            losses = [
                np.mean(
                    [
                        min(curves.loss[0])
                        for curves in train_curves(method, None, s, few[0], few[1], [few[2]], 100, done)
                    ]
                )
                for s in INPAINTING_GRID
            ]
            settings = INPAINTING_GRID[int(np.argmin(losses))]
            return run_once(method, None, settings, X, y, X_test, y_test, max_rounds)

        run(method, train)


def seconds_per_round(settings, X, y, classify, n_rounds=10):
    """Time per round without the first one, which includes binning."""
    from sparseleaf import MultiGBDTClassifier, MultiGBDTRegressor

    at = []
    kind = MultiGBDTClassifier if classify else MultiGBDTRegressor
    estimator = kind.from_settings({**settings, "n_trees": n_rounds + 1, "n_jobs": THREADS})
    estimator.fit(X, y, callbacks=[lambda state: at.append(state.seconds)])
    return (at[-1] - at[0]) / n_rounds


SPARSE_RATE, SPARSE_ROUNDS = 0.3, 120
"""A larger learning rate and fewer rounds than the paper's, to save time."""


def part_sparse(data, run):
    ks = {"MNIST": (2, 4, 8), "MNIST-inpainting": (2, 4, 8, 16)}
    settings = {
        "MNIST": MNIST | {"learning_rate": SPARSE_RATE},
        "MNIST-inpainting": sized(7, SPARSE_RATE, **INPAINTING),
    }
    searches = {"restricted": "topk-shared", "unrestricted": "topk"}
    runs = [
        (name, f"k = {k} / {title}", {"leaf_labels": k, "split": split})
        for name in ks
        for k in ks[name]
        for title, split in searches.items()
    ]
    runs += [(name, "all outputs", {}) for name in ks]
    for name, title, changes in runs:

        def train(name=name, changes=changes):
            X, y, X_test, y_test = (mnist if name == "MNIST" else inpainting)(data)
            classify = name == "MNIST"
            chosen = settings[name] | changes
            seconds = seconds_per_round(chosen, X[:50_000], y[:50_000], classify)
            result = run_once(
                "sparseleaf", 10 if classify else None, chosen, X, y, X_test, y_test, SPARSE_ROUNDS
            )
            return result | {"seconds_per_round": seconds}

        run(f"{name} / {title}", train)


def part_hessian(data, run):
    yeast_grid = [sized(5, 0.1, max_bins=32, min_samples_leaf=16)]
    for hessian in ("diagonal", "exact"):

        def on_yeast(hessian=hessian):
            grid = [yeast_grid[0] | {"hessian": hessian}]
            result = run_small(data, "sparseleaf", yeast, 10, grid)
            return result | {"seconds_per_round": seconds_per_round(grid[0], *yeast(data), True)}

        def on_mnist(hessian=hessian):
            X, y, X_test, y_test = mnist(data)
            settings = MNIST | {"learning_rate": SPARSE_RATE, "hessian": hessian}
            result = run_once("sparseleaf", 10, settings, X, y, X_test, y_test, SPARSE_ROUNDS)
            return result | {
                "seconds_per_round": seconds_per_round(settings, X[:50_000], y[:50_000], True, 5)
            }

        run(f"Yeast / {hessian}", on_yeast)
        run(f"MNIST / {hessian}", on_mnist)


def part_mnist_speed(data, run):
    """The three libraries alternate; the fastest of three runs counts."""
    run("speed", lambda: mnist_speed(data))
    run("prediction", lambda: mnist_prediction(data))


def mnist_speed(data, repeats=3, n_rounds=10):
    import lightgbm
    import xgboost

    X, y, _, _ = mnist(data)
    X, y = X[:50_000], y[:50_000]
    theirs = lightgbm_parameters(MNIST) | {"objective": "multiclass", "num_class": 10}
    rows = lightgbm.Dataset(X, y, params=theirs).construct()
    vector = xgboost_parameters(MNIST, 10, vector=True)
    matrix = xgboost.QuantileDMatrix(X, y, max_bin=MNIST["max_bins"])

    def lightgbm_round():
        at = []
        lightgbm.train(theirs, rows, n_rounds + 1, callbacks=[lambda _: at.append(time.perf_counter())])
        return (at[-1] - at[0]) / n_rounds

    class Clock(xgboost.callback.TrainingCallback):
        def __init__(self):
            super().__init__()
            self.at = []

        def after_iteration(self, model, epoch, evals_log):
            self.at.append(time.perf_counter())
            return False

    def xgboost_round():
        clock = Clock()
        xgboost.train(vector, matrix, 4, callbacks=[clock])
        return (clock.at[-1] - clock.at[0]) / 3

    times = {"sparseleaf": [], "LightGBM": [], "XGBoost, vector leaves": []}
    for _ in range(repeats):
        times["sparseleaf"].append(seconds_per_round(MNIST, X, y, True, n_rounds))
        times["LightGBM"].append(lightgbm_round())
        times["XGBoost, vector leaves"].append(xgboost_round())
    best = {name: min(values) for name, values in times.items()}
    return {
        "seconds_per_round": best,
        "over": {name: best["sparseleaf"] / seconds for name, seconds in best.items()},
        "all": times,
        "settings": MNIST,
    }


def mnist_prediction(data, n_rounds=100, repeats=7):
    """Prediction time of 10,000 rows with the same number of rounds."""
    import lightgbm

    from sparseleaf import MultiGBDTClassifier

    X, y, X_test, _ = mnist(data)
    X, y = X[:50_000], y[:50_000]
    ours = MultiGBDTClassifier.from_settings({**MNIST, "n_trees": n_rounds, "n_jobs": THREADS}).fit(X, y)
    theirs = lightgbm_parameters(MNIST) | {"objective": "multiclass", "num_class": 10}
    booster = lightgbm.train(theirs, lightgbm.Dataset(X, y, params=theirs), n_rounds)
    times = {"sparseleaf": [], "LightGBM": []}
    for _ in range(repeats):
        times["sparseleaf"].append(measured(lambda: ours.predict_proba(X_test))[1])
        times["LightGBM"].append(measured(lambda: booster.predict(X_test, num_threads=THREADS))[1])
    best = {name: min(values) for name, values in times.items()}
    return {"seconds": best, "over": best["sparseleaf"] / best["LightGBM"], "rounds": n_rounds, "all": times}


MANY = sized(6, 0.3, max_bins=64, min_samples_leaf=20) | {"max_leaves": 64}
MANY_ROUNDS = 5


def many_set():
    """20,000 training and 5,000 test rows, 50 features, 1,000 outputs: mixtures of 20 functions, with noise."""
    random = np.random.default_rng(0)
    X = random.uniform(-1, 1, (25_000, 50)).astype(np.float32)
    waves = np.sin(np.pi * X[:, :20]) + X[:, 20:40] * (X[:, 30:50] > 0)
    mixed = waves @ random.normal(size=(20, 1_000)).astype(np.float32)
    Y = mixed + random.standard_normal(mixed.shape, np.float32)
    return X[:20_000], Y[:20_000], X[20_000:], Y[20_000:]


def many_sparseleaf(n_rounds):
    from sparseleaf import MultiGBDTRegressor

    X, y, X_test, y_test = many_set()
    estimator = MultiGBDTRegressor.from_settings({**MANY, "n_trees": n_rounds, "n_jobs": THREADS})
    _, seconds = measured(lambda: estimator.fit(X, y))
    return {"train_seconds": seconds, "rmse": rmse(estimator.predict(X_test), y_test)}


def many_xgboost(n_rounds):
    import xgboost

    X, y, X_test, y_test = many_set()
    parameters = xgboost_parameters(MANY, None, vector=True)

    def fit():
        matrix = xgboost.QuantileDMatrix(X, y, max_bin=MANY["max_bins"])
        return xgboost.train(parameters, matrix, n_rounds)

    booster, seconds = measured(fit)
    return {"train_seconds": seconds, "rmse": rmse(booster.predict(xgboost.DMatrix(X_test)), y_test)}


def many_nothing():
    """Only the dataset, to know its part of the peak memory."""
    many_set()
    return {}


def rmse(predicted, truth):
    return float(np.sqrt(np.mean((predicted - truth) ** 2, dtype=np.float64)))


def part_many_outputs(data, run):
    def child(name, *arguments):
        measured_child = in_child(name, *arguments)
        return measured_child["result"] | {"peak_bytes": measured_child["peak_bytes"], "settings": MANY}

    run("dataset only", lambda: child("many_nothing"))
    run(f"sparseleaf, {MANY_ROUNDS} rounds", lambda: child("many_sparseleaf", MANY_ROUNDS))
    run(f"XGBoost, vector leaves, {MANY_ROUNDS} rounds", lambda: child("many_xgboost", MANY_ROUNDS))
    run("sparseleaf, 100 rounds", lambda: child("many_sparseleaf", 100))


PARTS = {
    "mnist-speed": part_mnist_speed,
    "mnist": part_mnist,
    "synthetic": part_synthetic,
    "synthetic-long": part_synthetic_long,
    "yeast": part_yeast,
    "yeast-searched": part_yeast_searched,
    "student-por": part_student_por,
    "inpainting": part_inpainting,
    "sparse": part_sparse,
    "hessian": part_hessian,
    "many-outputs": part_many_outputs,
}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True)
    parser.add_argument("--only", nargs="*", choices=PARTS, default=tuple(PARTS))
    parser.add_argument("--runs", default="", help="only runs whose title contains this text")
    parser.add_argument("--again", action="store_true", help="repeat existing runs")
    parser.add_argument("--under-load", action="store_true", help="mark the times as measured under load")
    parser.add_argument("--out", default="docs/results")
    arguments = parser.parse_args()
    for part in arguments.only:
        out = Path(arguments.out) / f"gbdt_mo_{part.replace('-', '_')}.json"
        results = json.loads(out.read_text()) if out.exists() else {"runs": {}}
        results["machine"] = machine()

        def run(title, fn, out=out, results=results, part=part):
            if arguments.runs not in title:
                return results["runs"].get(title)
            if arguments.again or title not in results["runs"]:
                results["runs"][title] = fn() | ({"under_load": True} if arguments.under_load else {})
                write_results(out, results)
            shown = {
                key: float(np.mean(value)) if isinstance(value, list) else value
                for key, value in results["runs"][title].items()
                if key not in ("settings", "all")
            }
            print(f"{part} / {title}: {shown}", flush=True)
            return results["runs"][title]

        PARTS[part](arguments.data, run)


if __name__ == "__main__":
    main()
