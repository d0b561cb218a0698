"""The datasets of the benchmark page, real and synthetic, as iterators of `Split`.

Kinds: "multilabel" (Y a CSR of ones), "multiclass" (y the class numbers), "regression" (Y a dense matrix), "ranking"
(y grades, with the number of rows of every query). Datasets without a published split have several random ones.

"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import dense_sets, ranking
from benchmarks._common import load_set


@dataclass(frozen=True)
class Split:
    """Training and test rows."""

    X: Any
    Y: Any
    X_test: Any
    Y_test: Any
    group: Any = None
    group_test: Any = None
    seed: int = 0


def xc(name: str) -> Callable[[str], Iterator[Split]]:
    """A dataset in XC text, with its published split."""

    def load(data: str) -> Iterator[Split]:
        yield Split(*load_set(data, name))

    return load


def titles(language: str) -> Callable[[str], Iterator[Split]]:
    """Titles of tibkat-gnd's records in one language, as tf-idf; labels without training rows count as misses."""

    def load(data: str) -> Iterator[Split]:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.preprocessing import MultiLabelBinarizer

        train, test = (
            [record for record in _records(data, part) if record["lang"] == language]
            for part in ("train", "test")
        )
        words = TfidfVectorizer(sublinear_tf=True, min_df=2, dtype=np.float32)
        X = words.fit_transform(record["title"] for record in train)
        headings = MultiLabelBinarizer(sparse_output=True).fit(record["labels"] for record in train + test)
        Y, Y_test = (headings.transform(record["labels"] for record in part) for part in (train, test))
        X_test = words.transform(record["title"] for record in test)
        yield Split(X, Y.astype(np.float32), X_test, Y_test.astype(np.float32))

    return load


def _records(data: str, part: str) -> Iterator[dict[str, Any]]:
    with gzip.open(dense_sets.need(Path(data) / "tibkat-gnd-text" / f"{part}.jsonl.gz"), "rt") as file:
        for line in file:
            yield json.loads(line)


def mnist(data: str) -> Iterator[Split]:
    """All 60,000 training rows."""
    yield Split(*dense_sets.mnist(data))


def inpainting(data: str) -> Iterator[Split]:
    yield Split(*dense_sets.inpainting(data))


def _drawn(X: Any, y: Any, n_splits: int) -> Iterator[Split]:
    """``n_splits`` random splits, 70 % for training."""

    for seed in range(n_splits):
        order = np.random.default_rng(seed).permutation(len(X))
        train, test = np.split(order, [len(X) * 7 // 10])
        yield Split(X[train], y[train], X[test], y[test], seed=seed)


def yeast(data: str) -> Iterator[Split]:
    yield from _drawn(*dense_sets.yeast(data), 10)


def student_por(data: str) -> Iterator[Split]:
    yield from _drawn(*dense_sets.student_por(data), 10)


OUTPUTS = {"atp1d": 6, "enb": 2, "oes97": 16, "scpf": 3, "wq": 14}
"""Number of targets of each dataset; they are its last columns."""


def multitarget(name: str) -> Callable[[str], Iterator[Split]]:
    def load(data: str) -> Iterator[Split]:
        table = read_arff(dense_sets.need(Path(data) / "multitarget" / f"{name}.arff.gz"))
        n = OUTPUTS[name]
        yield from _drawn(table[:, :-n].astype(np.float32), table[:, -n:], 5)

    return load


def read_arff(path: Path) -> Any:
    """The rows of a gzipped ARFF file of numeric attributes; "?" is NaN."""
    with gzip.open(path, "rt") as file:
        text = file.read()
    _, marker, rows = re.split(r"^(@data)\s*$", text, maxsplit=1, flags=re.MULTILINE | re.IGNORECASE)
    assert marker
    lines = [line for line in rows.splitlines() if line.strip() and not line.startswith("%")]
    return np.array(
        [[np.nan if v.strip() == "?" else float(v) for v in line.rstrip(" ,").split(",")] for line in lines]
    )


RANKING_SEEDS = 5


def lambdarank(data: str) -> Iterator[Split]:
    """The same split with five seeds: one seed says little on 50 test queries."""
    (X, y, group), (X_test, y_test, group_test) = ranking.read(data)
    for seed in range(RANKING_SEEDS):
        yield Split(X, y, X_test, y_test, group, group_test, seed)


def synthetic(n_rows: int, n_features: int, n_labels: int) -> Callable[[str], Iterator[Split]]:
    """Sparse rows of 30 features and 3 labels each, and 2,000 further rows for testing."""

    def load(_: str) -> Iterator[Split]:
        from sparseleaf.data import make_xc

        X, Y = make_xc(n_rows + 2_000, n_features, n_labels, labels_per_row=3, nnz_per_row=30, seed=0)
        yield Split(X[:n_rows], Y[:n_rows], X[n_rows:], Y[n_rows:])

    return load
