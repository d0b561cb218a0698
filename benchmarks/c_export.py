"""The exported C predictor: does it return the bits of ``predict_topk``, and how fast is it?

    python -m benchmarks.c_export --data <folder> [--models <folder>] [--set bibtex ...] [--check] [--out FILE]

Models are trained, or loaded from --models if they are there. With --check, the predictor is compiled with
AddressSanitizer and UBSan, all test rows are compared to the bit, and nothing is timed. Otherwise it is compiled with
the options of the Makefile. Times are CPU times of one thread: the Python package with all rows in one call and with
one row per call, the program ``predict`` from text to text, less the time that it takes to open the model, which is
listed apart.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import sparseleaf
from benchmarks._common import load_set, machine, write_results
from sparseleaf import LdSMClassifier, SketchForestClassifier, SparseGBDTClassifier
from sparseleaf.export import to_c

K = 5
SINGLE_ROWS = 200
"""Rows that Python predicts in one call each."""

REPEATS = 3
"""Times are the lowest of several runs."""

SANITIZED = (
    "CFLAGS=-O1 -g -std=c99 -Wall -Wextra -Werror -ffp-contract=off -fsanitize=address,undefined"
    " -fno-sanitize-recover=all"
)

MODELS: dict[str, dict[str, Callable[[], Any]]] = {
    "bibtex": {
        "forest": SketchForestClassifier,
        "leml": lambda: SparseGBDTClassifier(n_trees=100, projection="leml"),
        "ldsm": lambda: LdSMClassifier(n_trees=10, rerank="log"),
        "bayes": lambda: SketchForestClassifier(n_trees=10, rerank="bayes"),
    },
    "delicious": {
        "forest": SketchForestClassifier,
        "leml": lambda: SparseGBDTClassifier(n_trees=100, projection="leml"),
        "ldsm": lambda: LdSMClassifier(n_trees=10, rerank="log"),
    },
    "tibkat-gnd": {"forest": SketchForestClassifier},
}


def trained(models: Path | None, dataset: str, name: str, X: Any, Y: Any) -> Any:
    """A model, from its file if there is one."""
    path = None if models is None else models / f"{dataset}-{name}.safetensors"
    if path is not None and path.exists():
        return sparseleaf.load(path, n_jobs=1)
    model = MODELS[dataset][name]().fit(X, Y)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        model.save(path)
    model.n_jobs = 1
    return model


def write_rows(X: Any, path: Path) -> None:
    """Rows in the format of the program."""
    with path.open("w") as file:
        for row in range(X.shape[0]):
            entries = slice(X.indptr[row], X.indptr[row + 1])
            pairs = zip(X.indices[entries].tolist(), X.data[entries].tolist(), strict=True)
            file.write(" ".join(f"{feature}:{value!r}" for feature, value in pairs) + "\n")


def run(folder: Path, rows: Path) -> tuple[str, float]:
    """Output of the program, and its CPU seconds."""
    command, start = ["./predict", "-k", str(K), "model.bin"], children_seconds()
    with rows.open("rb") as file:
        done = subprocess.run(command, cwd=folder, stdin=file, capture_output=True, check=True)
    return done.stdout.decode(), children_seconds() - start


def children_seconds() -> float:
    """CPU seconds of all child processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def differing_rows(output: str, labels: Any, scores: Any) -> int:
    """Number of rows whose labels or bits of scores are not those of Python."""
    lines = output.splitlines()
    if len(lines) != len(labels):
        sys.exit(f"predict wrote {len(lines)} lines for {len(labels)} rows.")
    differing = 0
    for line, expected, values in zip(lines, labels.tolist(), scores, strict=True):
        pairs = [pair.rpartition(":") for pair in line.split("\t") if pair]
        names = [str(label) for label in expected if label is not None and label != -1]
        numbers = np.array([score for _, _, score in pairs], np.float32)
        same = [label for label, _, _ in pairs] == names and numbers.tobytes() == values[
            : len(names)
        ].tobytes()
        differing += not same
    return differing


def lowest(call: Callable[[], Any]) -> float:
    """CPU seconds of the fastest of several calls."""
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


def measure(model: Any, X: Any, folder: Path, *, check: bool) -> dict[str, Any]:
    """Compare or time one model."""
    to_c(model, folder)
    subprocess.run(["make", "-s", *([SANITIZED] if check else [])], cwd=folder, check=True)
    rows, nothing = folder / "rows.txt", folder / "nothing.txt"
    write_rows(X, rows)
    nothing.write_text("")
    labels, scores = model.predict_topk(X, k=K)
    result = {
        "n_rows": X.shape[0],
        "differing_rows": differing_rows(run(folder, rows)[0], labels, scores),
        "sanitized": check,
        "model_bytes": (folder / "model.bin").stat().st_size,
    }
    if check:
        return result
    opening = min(run(folder, nothing)[1] for _ in range(REPEATS))
    predicting = min(run(folder, rows)[1] for _ in range(REPEATS)) - opening
    singles = [X[row] for row in range(min(SINGLE_ROWS, X.shape[0]))]
    return result | {
        "c_open_seconds": opening,
        "c_rows_per_second": X.shape[0] / predicting,
        "c_microseconds_per_row": 1e6 * predicting / X.shape[0],
        "python_rows_per_second": X.shape[0] / lowest(lambda: model.predict_topk(X, k=K)),
        "python_microseconds_single_row": 1e6
        * lowest(lambda: [model.predict_topk(row, k=K) for row in singles])
        / len(singles),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True, help="folder with the datasets")
    parser.add_argument("--models", type=Path, help="folder with trained models, or where to save them")
    parser.add_argument("--set", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--rows", type=int, help="number of test rows (default: all)")
    parser.add_argument("--check", action="store_true", help="compare under sanitizers instead of timing")
    parser.add_argument("--out", type=Path, help="file for the results as JSON")
    options = parser.parse_args()
    results: dict[str, Any] = {"machine": machine()}
    for dataset in options.set:
        X, Y, X_test, _ = load_set(options.data, dataset)
        for name in MODELS[dataset]:
            model = trained(options.models, dataset, name, X, Y)
            with tempfile.TemporaryDirectory() as folder:
                result = measure(model, X_test[: options.rows], Path(folder), check=options.check)
            results[f"{dataset} {name}"] = result
            print(f"{dataset} {name}: {result}", flush=True)
    if options.out:
        write_results(options.out, results)
    if any(result.get("differing_rows") for result in results.values()):
        sys.exit("Some rows differ.")


if __name__ == "__main__":
    main()
