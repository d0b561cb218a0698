"""Speed and memory of TextVectorizer beside scikit-learn's TfidfVectorizer, on the records of tibkat-gnd.

    python -m benchmarks.text --data <folder> [--rows N] [--jobs 2] [--out docs/results/text.json]

Both have the same options, and their results must be the same to the bit (float32). Every measurement is a process of
its own: wall time, processor time, and peak memory in addition to the texts. Several repetitions; the fastest counts.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import dense_sets
from benchmarks._common import in_child, machine, peak_bytes, write_results

WORDS: dict[str, Any] = {"ngram_range": (1, 1)}
CASES: dict[str, list[dict[str, Any]]] = {
    "words": [WORDS],
    "words, min_df=2": [WORDS | {"min_df": 2}],
    "words and pairs": [{"ngram_range": (1, 2), "min_df": 2}],
    "words and characters": [
        WORDS | {"min_df": 2},
        {"analyzer": "char_wb", "ngram_range": (3, 5), "min_df": 2},
    ],
}
"""Options of one vectorizer, or of two whose columns are joined."""

SYSTEMS = ("sparseleaf", "scikit-learn")
N_SINGLE = 500


def texts_of(data: str, rows: int) -> list[str]:
    path = dense_sets.need(Path(data) / "tibkat-gnd-text" / "train.jsonl.gz")
    texts: list[str] = []
    with gzip.open(path, "rt") as file:
        for line in file:
            if len(texts) == rows:
                break
            record = json.loads(line)
            texts.append(f"{record['title']} {record['abstract']}")
    return texts


def vectorizer(system: str, case: str, jobs: int) -> Any:
    first, *second = CASES[case]
    if system == "sparseleaf":
        from sparseleaf import TextVectorizer

        chars = {"char_ngram_range": second[0]["ngram_range"]} if second else {}
        return TextVectorizer(tokenizer="sklearn", sublinear_tf=True, n_jobs=jobs, **first, **chars)
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import FeatureUnion

    parts = [TfidfVectorizer(sublinear_tf=True, **options) for options in (first, *second)]
    if not second:
        return parts[0]
    return FeatureUnion([(str(number), part) for number, part in enumerate(parts)])


def timed(function: Any) -> tuple[Any, dict[str, float]]:
    wall, cpu = time.perf_counter(), time.process_time()
    result = function()
    return result, {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}


def digest(X: Any) -> str:
    X = X.tocsr()
    X.sort_indices()
    parts = X.indptr.astype(np.int64), X.indices.astype(np.int64), X.data.astype(np.float32)
    return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()


def measure(system: str, case: str, data: str, rows: int, jobs: int) -> dict[str, Any]:
    texts = texts_of(data, rows)
    model = vectorizer(system, case, jobs)
    vectorizer(system, case, jobs).fit(texts[:1000])  # imports and tables
    before = peak_bytes()
    X, fit = timed(lambda: model.fit_transform(texts))
    memory = peak_bytes() - before
    again, transform = timed(lambda: model.transform(texts))
    _, single = timed(lambda: [model.transform([text]) for text in texts[:N_SINGLE]])
    assert digest(again) == digest(X)
    return {
        "fit_transform": fit,
        "transform": transform,
        "single_row_ms": 1000 * single["cpu_seconds"] / min(rows, N_SINGLE),
        "added_memory_bytes": memory,
        "shape": list(X.shape),
        "entries": int(X.nnz),
        "digest": digest(X),
    }


def fastest(runs: list[dict[str, Any]]) -> dict[str, Any]:
    best = dict(runs[0])
    for name in ("fit_transform", "transform"):
        best[name] = {key: min(run[name][key] for run in runs) for key in ("seconds", "cpu_seconds")}
    best["single_row_ms"] = min(run["single_row_ms"] for run in runs)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True)
    parser.add_argument("--rows", type=int, default=90_452)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES), metavar="CASE")
    parser.add_argument("--out", type=Path, default=Path("results/text.json"))
    arguments = parser.parse_args()
    results: dict[str, Any] = {}
    for case in arguments.only:
        runs = {
            system: fastest([
                in_child("measure", system, case, arguments.data, arguments.rows, arguments.jobs)["result"]
                for _ in range(arguments.repeats)
            ])
            for system in SYSTEMS
        }  # fmt: skip
        ours, theirs = (runs[system] for system in SYSTEMS)
        ratios = {
            f"{what} {key}": theirs[what][key] / ours[what][key]
            for what in ("fit_transform", "transform")
            for key in ("seconds", "cpu_seconds")
        }
        results[case] = {
            "systems": runs,
            "times_faster": ratios,
            "identical": ours["digest"] == theirs["digest"],
        }
        print(f"{case}: {ours['shape'][0]:,} × {ours['shape'][1]:,}, identical: {results[case]['identical']}")
        for system, run in runs.items():
            print(
                f"  {system:13s} fit_transform {run['fit_transform']['seconds']:.2f} s"
                f" (cpu {run['fit_transform']['cpu_seconds']:.2f})  transform {run['transform']['seconds']:.2f} s"
                f" (cpu {run['transform']['cpu_seconds']:.2f})  single row {run['single_row_ms']:.3f} ms"
                f"  memory +{run['added_memory_bytes'] / 1e6:.0f} MB"
            )
        print("  times faster:", {name: round(ratio, 1) for name, ratio in ratios.items()}, flush=True)
    write_results(
        arguments.out,
        {"machine": machine(), "rows": arguments.rows, "jobs": arguments.jobs, "cases": results},
    )


if __name__ == "__main__":
    main()
