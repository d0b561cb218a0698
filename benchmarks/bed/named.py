"""The defaults on the datasets for which the benchmark page had other systems ahead, with its splits and metrics.

    python -m benchmarks.bed.named --data DIR [--write]

`--write` writes the results to `docs/results/named.json` and to the table of `docs/defaults.md`. The ranker is trained
with 20 seeds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import sets
from benchmarks._common import commit, machine, write_results
from benchmarks.bed.systems import OURS, SYSTEMS
from benchmarks.bed.tables import replace_tables, table
from benchmarks.sets import Split
from benchmarks.worker import evaluate

DOCS = Path(__file__).parents[2] / "docs"
SEEDS = 20


def lambdarank(data: str) -> Iterator[Split]:
    split = next(sets.lambdarank(data))
    for seed in range(SEEDS):
        yield replace(split, seed=seed)


NAMED: dict[str, tuple[str, Callable[[str], Iterator[Split]], str]] = {
    "yeast": ("multiclass", sets.yeast, "accuracy"),
    "student-por": ("regression", sets.student_por, "RMSE"),
    "inpainting": ("regression", sets.inpainting, "RMSE"),
    "wq": ("regression", sets.multitarget("wq"), "aRRMSE"),
    "lambdarank": ("ranking", lambdarank, "NDCG@5"),
}
"""Kind, splits and metric by dataset."""


def measure(name: str, data: str) -> dict[str, Any]:
    kind, splits, metric = NAMED[name]
    values, seconds = [], []
    for split in splits(data):
        model = SYSTEMS[OURS](kind, split.seed, 1)
        began = time.process_time()
        model.fit(split)
        seconds.append(time.process_time() - began)
        values.append(evaluate(kind, split, model.predict(split.X_test))[metric])
    return {"metric": metric, "values": values, "processor_seconds": float(np.median(seconds))}


def rows(results: dict[str, Any]) -> list[list[str]]:
    return [
        [
            name,
            one["metric"],
            f"{np.mean(one['values']):.{2 if one['metric'] == 'accuracy' else 4}f}",
            str(len(one["values"])),
            f"{one['processor_seconds']:.2f}",
        ]
        for name, one in results["sets"].items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True, help="folder of the datasets")
    parser.add_argument("--sets", nargs="+", choices=NAMED, default=list(NAMED))
    parser.add_argument("--write", action="store_true", help="write the results to docs/")
    options = parser.parse_args()
    about = {"machine": machine(), "commit": commit()}
    results = about | {"sets": {name: measure(name, options.data) for name in options.sets}}
    text = table(["dataset", "metric", "sparseleaf", "splits", "processor s per fit"], rows(results), 2)
    print(text)
    if options.write:
        write_results(DOCS / "results" / "named.json", results)
        replace_tables(DOCS / "defaults.md", {"named": text})


if __name__ == "__main__":
    main()
