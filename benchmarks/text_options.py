"""Accuracy with different options of TextVectorizer, from which its defaults were chosen.

    python -m benchmarks.text_options --data <folder> [--rows N] [--only NAME ...] [--out results/text_options.json]

Records of tibkat-gnd with title and abstract, German and English. Training and validation rows are drawn from the
training set; development and test sets are not used. Options that are in --out already are not repeated.
"""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.preprocessing import MultiLabelBinarizer

from benchmarks import dense_sets
from benchmarks._common import machine, measured, write_results
from sparseleaf import SketchForestClassifier, TextVectorizer
from sparseleaf.metrics import precision_at_k

FIELDS = ["title", "abstract"]
VARIANTS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "equal weights": {"fields": dict.fromkeys(FIELDS, 1.0)},
    "title: 2": {"fields": {"title": 2.0, "abstract": 1.0}},
    "title: 8": {"fields": {"title": 8.0, "abstract": 1.0}},
    "shared_vocabulary=False": {"shared_vocabulary": False},
    "sublinear_tf=False": {"sublinear_tf": False},
    "binary=True": {"binary": True},
    "use_idf=False": {"use_idf": False},
    "min_df=2": {"min_df": 2},
    "min_df=5": {"min_df": 5},
    "max_df=0.3": {"max_df": 0.3},
    "max_df=0.1": {"max_df": 0.1},
    "ngram_range=(1, 2), min_df=2": {"ngram_range": (1, 2), "min_df": 2},
    "char_ngram_range=(4, 5), char_weight=0.5, min_df=2": {
        "char_ngram_range": (4, 5),
        "char_weight": 0.5,
        "min_df": 2,
    },
    "strip_accents='unicode'": {"strip_accents": "unicode"},
    "n_hash_features=2**17": {"n_hash_features": 2**17},
}
N_TREES = 5


def records(data: str, n: int) -> list[dict[str, Any]]:
    """Records of the training set in random order."""
    path = dense_sets.need(Path(data) / "tibkat-gnd-text" / "train.jsonl.gz")
    with gzip.open(path, "rt") as file:
        lines = file.readlines()
    return [json.loads(lines[i]) for i in np.random.default_rng(0).permutation(len(lines))[:n]]


def measure(
    options: dict[str, Any], train: list[Any], valid: list[Any], Y: Any, Y_valid: Any
) -> dict[str, Any]:
    vectorizer = TextVectorizer(**({"fields": FIELDS} | options))
    X, seconds = measured(lambda: vectorizer.fit_transform(train))
    forest = SketchForestClassifier(n_trees=N_TREES, rerank="linear", random_state=0)
    clf, train_seconds = measured(lambda: forest.fit(X, Y))
    labels, _ = clf.predict_topk(vectorizer.transform(valid), 5)
    return {
        **{f"P@{k}": 100 * precision_at_k(Y_valid, labels, k) for k in (1, 3, 5)},
        "columns": X.shape[1],
        "fields": vectorizer.stage().parameters.fields,
        "vectorising_seconds": seconds,
        "train_seconds": train_seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True)
    parser.add_argument("--rows", type=int, default=16_000)
    parser.add_argument("--valid-rows", type=int, default=5_000)
    parser.add_argument("--out", type=Path, default=Path("docs/results/text_options.json"))
    parser.add_argument("--only", nargs="+", choices=VARIANTS, default=list(VARIANTS), metavar="NAME")
    arguments = parser.parse_args()
    about = {"rows": arguments.rows, "valid_rows": arguments.valid_rows, "n_trees": N_TREES}
    runs = json.loads(arguments.out.read_text())["runs"] if arguments.out.exists() else {}
    drawn = records(arguments.data, arguments.rows + arguments.valid_rows)
    headings = MultiLabelBinarizer(sparse_output=True)
    targets = headings.fit_transform([record["labels"] for record in drawn]).tocsr().astype(np.float32)
    parts = slice(None, arguments.rows), slice(arguments.rows, None)
    for name in arguments.only:
        if name in runs:
            continue
        runs[name] = measure(
            VARIANTS[name], *(drawn[part] for part in parts), *(targets[part] for part in parts)
        )
        print(
            f"{name:52s}",
            {key: round(runs[name][key], 2) for key in ("P@1", "P@3", "P@5", "columns")},
            flush=True,
        )
        write_results(arguments.out, {"machine": machine(), **about, "runs": runs})


if __name__ == "__main__":
    main()
