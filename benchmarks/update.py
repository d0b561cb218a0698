"""Updating a model with new rows and labels, compared with retraining.

    python -m benchmarks.update --data <folder> [--out docs/results/update.json] [--only SET ...] [--small]

A model is trained on 80 % of the training rows, chosen at random, and updated with the other 20 %, whose new labels are
additional columns. It is compared on the test rows with the model before the update and with one trained on all rows.
Times are CPU seconds of two threads, of `fit` and `update` alone. `--small` takes the first rows of every dataset, to
test the script.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

from benchmarks._common import commit, in_child, load_set, machine, percentages, write_results

THREADS = 2
SMALL_ROWS = 2_000
METHODS = {
    "forest": ("SketchForestClassifier", {}),
    "ldsm": ("LdSMClassifier", {"rerank": "linear"}),
    "gbdt-sparse": ("SparseGBDTClassifier", {}),
}
RUNS = [
    ("bibtex", "forest"),
    ("delicious", "forest"),
    ("tibkat-gnd", "forest"),
    ("bibtex", "ldsm"),
    ("bibtex", "gbdt-sparse"),
    ("delicious", "gbdt-sparse"),
]


def load(data, name, small):
    """Old and new training rows, and test rows; labels without old rows are the last columns."""
    import numpy as np

    X, Y, X_test, Y_test = load_set(data, name)
    if small:
        X, Y, X_test, Y_test = (part[:SMALL_ROWS] for part in (X, Y, X_test, Y_test))
    order = np.random.default_rng(0).permutation(X.shape[0])
    old, new = np.split(order, [int(0.8 * len(order))])
    having = np.bincount(Y[old].indices, minlength=Y.shape[1]) > 0
    columns = np.concatenate((np.flatnonzero(having), np.flatnonzero(~having)))
    Y, Y_test = Y[:, columns], Y_test[:, columns]
    return (X[old], Y[old][:, : having.sum()]), (X[new], Y[new]), (X[order], Y[order]), (X_test, Y_test)


def timed(action):
    """CPU and wall seconds."""
    cpu, wall = time.process_time(), time.perf_counter()
    action()
    return {"cpu_seconds": time.process_time() - cpu, "seconds": time.perf_counter() - wall}


def precision(model, X_test, Y_test):
    """P@1, P@3 and P@5 in percent."""
    values = percentages(Y_test, model.predict_topk(X_test, 5)[0])
    return {name: values[name] for name in ("P@1", "P@3", "P@5")}


def measure(data, name, method, small, how):
    """Train, update and retrain."""
    import sparseleaf

    old, new, whole, test = load(data, name, small)
    kind, settings = METHODS[method]
    settings = {"n_jobs": THREADS, **settings}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        model = getattr(sparseleaf, kind).from_settings(settings)
        first = timed(lambda: model.fit(*old))
        model.save(path)
        model = sparseleaf.load(path, n_jobs=THREADS)
        before = precision(model, *test)
        update = timed(lambda: model.update(*new, **how))
        model.save(path)
        updated_bytes = path.stat().st_size
        after = precision(sparseleaf.load(path, n_jobs=THREADS), *test)
        drift = model.drift_
        model = getattr(sparseleaf, kind).from_settings(settings)
        retrain = timed(lambda: model.fit(*whole))
        model.save(path)
        return {
            "train": first | before,
            "update": update | after | {"model_bytes": updated_bytes},
            "retrain": retrain | precision(model, *test) | {"model_bytes": path.stat().st_size},
            "time_ratio": update["cpu_seconds"] / retrain["cpu_seconds"],
            "drift": drift.as_dict() | {"reasons": drift.reasons},
        }


def line(part, values):
    """One part of a run in words."""
    at = "/".join(f"{values[f'P@{k}']:.2f}" for k in (1, 3, 5))
    return f"{part} {at} in {values['cpu_seconds']:.1f} s"


def main():
    """Run what is not in --out yet."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", default="docs/results/update.json")
    parser.add_argument("--only", nargs="*", metavar="SET")
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    out = Path(args.out)
    results = json.loads(out.read_text()) if out.exists() else {"runs": {}}
    for name, method in RUNS:
        hows = [{"how": "leaves"}, {"how": "trees"}] if method == "gbdt-sparse" else [{}]
        for how in hows:
            key = " ".join((name, method, *how.values()))
            if key in results["runs"] or (args.only and name not in args.only):
                continue
            run = in_child("measure", args.data, name, method, args.small, how)["result"]
            results["runs"][key] = run
            results |= {"machine": machine(), "commit": commit()}
            write_results(out, results)
            parts = [line(part, run[part]) for part in ("train", "update", "retrain")]
            print(f"{key}: {'; '.join(parts)}; {100 * run['time_ratio']:.1f} % of the time", flush=True)


if __name__ == "__main__":
    main()
