"""Training on a GPU, on the CPU of the same machine, and with the GPU modes of other libraries that are installed.

    python -m benchmarks.gpu --data <folder with delicious/ and mnist/> [--out docs/results/gpu.json] [--only NAME ...]
    python -m benchmarks.gpu --predict --data <folder with mnist/> [--out results/gpu_prediction.json]

Settings are those of ``benchmarks.scaling``. Every run is a process of its own that trains twice; the second training
counts, as the first compiles the kernels. The bytes of both models must be equal. XGBoost (``multi_strategy=
"multi_output_tree"``) and Py-Boost have the same data, number of trees, depth and bins.

With ``--predict``, the second of two predictions of all rows by 100 trees is measured, from and to main memory; the
bytes of both scores must be equal. XGBoost's prediction includes its DMatrix.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import sys
import tempfile
from pathlib import Path

from benchmarks import scaling
from benchmarks._common import in_child, machine, measured, write_results


def ten_million_rows(data):
    """10⁷ × 100 features × 32 outputs."""
    import numpy as np

    from sparseleaf import MultiGBDTRegressor

    rng = np.random.default_rng(0)
    X = rng.standard_normal((10_000_000, 100), np.float32)
    y = X[:, :10] @ rng.standard_normal((10, 32), np.float32)
    y += np.sin(3 * X[:, :32])
    return MultiGBDTRegressor.from_settings(scaling.MILLION), X, y


RUNS = {
    "delicious_paper": scaling.delicious_paper,
    "delicious": scaling.delicious,
    "mnist": scaling.mnist,
    "million_rows": scaling.million_rows,
    "many_labels": scaling.many_labels,
    "ten_million_rows": ten_million_rows,
}
SHAPES = {"mnist": (8, 8, 100, "multi:softprob"), "million_rows": (8, 64, 5, "reg:squarederror")}
"""Depth, bins, trees and objective of other libraries."""


def ours(data, name, device, n_jobs):
    """Seconds of the second training, hash of the model, GPU memory."""
    estimator, X, y = RUNS[name](data)
    settings = (estimator.get_params().get("advanced") or {}) | {"device": device}
    estimator.set_params(advanced=settings, n_jobs=n_jobs)
    n_trainings = 1 if name == "ten_million_rows" else 2
    for _ in range(n_trainings):
        states = []
        _, seconds = measured(lambda states=states: estimator.fit(X, y, callbacks=[states.append]))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        estimator.save(path)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    # the first tree includes what is done once
    trees = (states[-1].seconds - states[0].seconds) / (len(states) - 1)
    result = {"fit_seconds": seconds, "tree_seconds": trees, "n_trees": len(states), "sha256": digest}
    if device == "cuda":
        import cupy

        result["gpu_bytes"] = cupy.get_default_memory_pool().total_bytes()
        result["gpu"] = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    return result


def xgboost_settings(name, y):
    """Parameters, and the number of bins."""
    depth, bins, _, objective = SHAPES[name]
    settings = {
        "device": "cuda",
        "tree_method": "hist",
        "multi_strategy": "multi_output_tree",
        "max_depth": depth,
        "max_bin": bins,
        "eta": 0.1,
        "objective": objective,
    }
    if objective == "multi:softprob":
        settings["num_class"] = int(y.max()) + 1
    return settings, bins


def xgboost(data, name):
    """Seconds of the second training."""
    import xgboost

    _, X, y = RUNS[name](data)
    n_trees = SHAPES[name][2]
    settings, bins = xgboost_settings(name, y)
    matrix = xgboost.QuantileDMatrix(X, y, max_bin=bins)
    for _ in range(2):
        _, seconds = measured(lambda: xgboost.train(settings, matrix, n_trees))
    return {"fit_seconds": seconds, "tree_seconds": seconds / n_trees, "n_trees": n_trees}


def py_boost(data, name):
    """Seconds of the second training."""
    from py_boost import SketchBoost

    _, X, y = RUNS[name](data)
    depth, bins, n_trees, objective = SHAPES[name]
    loss = "multilabel" if name.startswith("delicious") else "crossentropy" if "soft" in objective else "mse"
    for _ in range(2):
        model = SketchBoost(loss, ntrees=n_trees, lr=0.1, max_depth=depth, max_bin=bins, verbose=-1)
        _, seconds = measured(lambda model=model: model.fit(X, y))
    return {"fit_seconds": seconds, "tree_seconds": seconds / n_trees, "n_trees": n_trees}


PEERS = {"xgboost": xgboost, "py_boost": py_boost}

PREDICTED = ("mnist", "million_rows")
PREDICTION_TREES = 100
TRAINING_ROWS = 60_000
"""Rows of the training before predictions are measured."""


def our_predictions(data, name, device, n_jobs):
    """Seconds of the second prediction, and the hash of the scores."""
    estimator, X, y = RUNS[name](data)
    estimator.set_params(n_trees=PREDICTION_TREES, n_jobs=n_jobs, advanced__device=device)
    estimator.fit(X[:TRAINING_ROWS], y[:TRAINING_ROWS])
    predict = estimator.decision_function if hasattr(estimator, "decision_function") else estimator.predict
    for _ in range(2):
        scores, seconds = measured(lambda: predict(X))
    digest = hashlib.sha256(scores.tobytes()).hexdigest()
    return {"predict_seconds": seconds, "n_rows": len(X), "n_trees": PREDICTION_TREES, "sha256": digest}


def xgboost_predictions(data, name):
    """Seconds of the second prediction."""
    import xgboost

    _, X, y = RUNS[name](data)
    settings, bins = xgboost_settings(name, y)
    matrix = xgboost.QuantileDMatrix(X[:TRAINING_ROWS], y[:TRAINING_ROWS], max_bin=bins)
    booster = xgboost.train(settings, matrix, PREDICTION_TREES)
    for _ in range(2):
        _, seconds = measured(lambda: booster.predict(xgboost.DMatrix(X), output_margin=True))
    return {"predict_seconds": seconds, "n_rows": len(X), "n_trees": PREDICTION_TREES}


def measure_predictions(arguments):
    """Predictions of every system, written as JSON."""
    results = {"machine": machine(), "predictions": {}}
    print(f"{'run':18} {'system':12} {'predict s':>9}")
    for name in [one for one in PREDICTED if one in arguments.only]:
        runs = results["predictions"][name] = {}
        systems = [
            ("cuda", "our_predictions", "cuda", -1),
            ("cpu", "our_predictions", "cpu", os.cpu_count() or 1),
        ]
        if importlib.util.find_spec("xgboost"):
            systems.append(("xgboost", "xgboost_predictions"))
        for system, function, *options in systems:
            try:
                run = runs[system] = in_child(function, arguments.data, name, *options)["result"]
            except RuntimeError as error:
                print(f"{name:18} {system:12} {error}", file=sys.stderr)
                continue
            print(f"{name:18} {system:12} {run['predict_seconds']:9.4f}", flush=True)
            write_results(arguments.out, results)
        digests = {runs[device]["sha256"] for device in ("cpu", "cuda") if device in runs}
        assert len(digests) <= 1, f"{name}: the scores depend on the device"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", help="default: results/gpu.json, or results/gpu_prediction.json")
    parser.add_argument("--only", nargs="+", choices=list(RUNS), default=list(RUNS))
    parser.add_argument("--predict", action="store_true", help="measure predictions in place of trainings")
    arguments = parser.parse_args()
    if arguments.out is None:
        arguments.out = f"results/gpu{'_prediction' if arguments.predict else ''}.json"
    if arguments.predict:
        measure_predictions(arguments)
        return
    results = {"machine": machine(), "runs": {}}
    print(f"{'run':18} {'system':12} {'fit s':>8} {'s/tree':>8} {'GPU GB':>7}")
    for name in arguments.only:
        runs = results["runs"][name] = {}
        trainings = [("cuda", "ours", "cuda", -1), ("cpu", "ours", "cpu", os.cpu_count() or 1)]
        trainings += [(peer, peer) for peer in PEERS if name in SHAPES and importlib.util.find_spec(peer)]
        for system, function, *options in trainings:
            try:
                run = in_child(function, arguments.data, name, *options)["result"]
            except RuntimeError as error:
                print(f"{name:18} {system:12} {error}", file=sys.stderr)
                continue
            runs[system] = run
            gpu = f"{run['gpu_bytes'] / 1e9:7.2f}" if "gpu_bytes" in run else ""
            print(
                f"{name:18} {system:12} {run['fit_seconds']:8.3f} {run['tree_seconds']:8.4f} {gpu}",
                flush=True,
            )
            write_results(arguments.out, results)
        digests = {runs[device]["sha256"] for device in ("cpu", "cuda") if device in runs}
        assert len(digests) <= 1, f"{name}: the model depends on the device"


if __name__ == "__main__":
    main()
