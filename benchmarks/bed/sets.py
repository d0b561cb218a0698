"""The datasets of the test bed, and their division into development and evaluation sets.

Defaults are chosen on development sets only. The division was fixed, in this file, before any result was looked at.
Real and generated datasets of every kind are on both sides; datasets that the benchmark page and the issue of the
defaults name are evaluation sets. Of "lambdarank", the only real dataset with queries, the training queries are a
development set (divided into training and test queries) and the published test queries an evaluation set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import dense_sets, ranking
from benchmarks._common import load_set
from benchmarks.bed import generators
from benchmarks.sets import OUTPUTS, Split, read_arff

SPLITS = 5
TRAINING_SHARE = 0.7


@dataclass(frozen=True)
class BedSet:
    """A dataset; ``load(data, seed)`` returns the split with this seed. Kinds are those of `benchmarks.sets`."""

    name: str
    kind: str
    role: str
    load: Callable[[str, int], Split]
    description: str

    def splits(self, data: str, n_splits: int) -> Iterator[Split]:
        for seed in range(n_splits):
            yield self.load(data, seed)


def _divided(X: Any, Y: Any, seed: int) -> Split:
    order = np.random.default_rng(seed).permutation(len(X))
    train, test = np.split(order, [int(TRAINING_SHARE * len(X))])
    return Split(X[train], Y[train], X[test], Y[test], seed=seed)


def _table(read: Callable[[str], tuple[Any, Any]]) -> Callable[[str, int], Split]:
    def load(data: str, seed: int) -> Split:
        X, Y = read(data)
        return _divided(np.asarray(X, np.float32), Y, seed)

    return load


def _generated(make: Callable[[int], tuple[Any, ...]]) -> Callable[[str, int], Split]:
    """New rows for every seed."""

    def load(_: str, seed: int) -> Split:
        X, Y, *group = make(seed)
        X = np.asarray(X, np.float32)
        return _by_query(X, Y, group[0], seed) if group else _divided(X, Y, seed)

    return load


def _by_query(X: Any, y: Any, group: Any, seed: int) -> Split:
    """70 % of the queries for training."""
    order = np.random.default_rng(seed).permutation(len(group))
    ends = np.cumsum(group)
    parts = []
    for queries in np.split(order, [int(TRAINING_SHARE * len(group))]):
        rows = np.concatenate([np.arange(ends[q] - group[q], ends[q]) for q in queries])
        parts += [X[rows], y[rows], group[queries]]
    X, y, group, X_test, y_test, group_test = parts
    return Split(X, y, X_test, y_test, group, group_test, seed)


def _sklearn(name: str) -> Callable[[str], tuple[Any, Any]]:
    def read(_: str) -> tuple[Any, Any]:
        import sklearn.datasets

        X, y = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
        return X, y.astype(np.float64)[:, None] if name == "diabetes" else y

    return read


def _made(name: str, **options: Any) -> Callable[[int], tuple[Any, Any]]:
    def make(seed: int) -> tuple[Any, Any]:
        import sklearn.datasets

        X, y = getattr(sklearn.datasets, f"make_{name}")(generators.N_ROWS, random_state=seed, **options)
        return X, y[:, None]

    return make


def _multitarget(name: str) -> Callable[[str], tuple[Any, Any]]:
    def read(data: str) -> tuple[Any, Any]:
        table = read_arff(dense_sets.need(Path(data) / "multitarget" / f"{name}.arff.gz"))
        return table[:, : -OUTPUTS[name]], table[:, -OUTPUTS[name] :]

    return read


def _images(read: Callable[[str], tuple[Any, ...]]) -> Callable[[str, int], Split]:
    """3,000 training and 2,000 test images, drawn from the published parts."""

    def load(data: str, seed: int) -> Split:
        X, Y, X_test, Y_test = read(data)
        random = np.random.default_rng(seed)
        train, test = random.permutation(len(X))[:3_000], random.permutation(len(X_test))[:2_000]
        return Split(X[train], Y[train], X_test[test], Y_test[test], seed=seed)

    return load


def _labels(name: str, n_rows: int, n_labels: int) -> Callable[[str, int], Split]:
    """A draw of the rows and the most frequent labels, as dense targets."""

    def load(data: str, seed: int) -> Split:
        X, Y, _, _ = load_set(data, name)
        rows = np.random.default_rng(seed).permutation(X.shape[0])[:n_rows]
        frequent = np.sort(np.argsort(-np.asarray(Y.sum(axis=0)).ravel(), kind="stable")[:n_labels])
        return _divided(X[rows].toarray(), Y[rows][:, frequent].toarray().astype(np.float32), seed)

    return load


def _training_queries(data: str, seed: int) -> Split:
    (X, y, group), _ = ranking.read(data)
    return _by_query(X, y, group, seed)


def _test_queries(data: str, seed: int) -> Split:
    (X, y, group), (X_test, y_test, group_test) = ranking.read(data)
    return Split(X, y, X_test, y_test, group, group_test, seed)


DEVELOPMENT, EVALUATION = "development", "evaluation"


def _sets() -> Iterator[BedSet]:
    def one(name: str, kind: str, role: str, load: Any, description: str) -> BedSet:
        return BedSet(name, kind, role, load, description)

    regression, classes, labels, rank = "regression", "multiclass", "multilabel", "ranking"
    for name, role in (
        ("atp1d", DEVELOPMENT),
        ("enb", DEVELOPMENT),
        ("scpf", DEVELOPMENT),
        ("oes97", EVALUATION),
        ("wq", EVALUATION),
    ):
        yield one(name, regression, role, _table(_multitarget(name)), f"Mulan, {OUTPUTS[name]} outputs")
    yield one("student-por", regression, EVALUATION, _table(dense_sets.student_por), "three grades")
    yield one("inpainting", regression, EVALUATION, _images(dense_sets.inpainting), "24 pixels, 3,000 rows")
    yield one("mnist", classes, DEVELOPMENT, _images(dense_sets.mnist), "10 digits, 3,000 rows")
    yield one("yeast", classes, EVALUATION, _table(dense_sets.yeast), "10 classes")
    yield one(
        "bibtex", labels, DEVELOPMENT, _labels("bibtex", 2_000, 20), "20 most frequent labels, 2,000 rows"
    )
    yield one(
        "delicious",
        labels,
        EVALUATION,
        _labels("delicious", 2_000, 40),
        "40 most frequent labels, 2,000 rows",
    )
    yield one("lambdarank-train", rank, DEVELOPMENT, _training_queries, "the training queries, divided")
    yield one("lambdarank", rank, EVALUATION, _test_queries, "the published split; seeds of the systems vary")
    for name, kind, role in (
        ("digits", classes, DEVELOPMENT),
        ("wine", classes, DEVELOPMENT),
        ("diabetes", regression, DEVELOPMENT),
        ("breast_cancer", classes, EVALUATION),
        ("linnerud", regression, EVALUATION),
    ):
        yield one(name, kind, role, _table(_sklearn(name)), "scikit-learn")
    for name, role, options in (
        ("friedman1", DEVELOPMENT, {"noise": 1.0}),
        ("friedman3", DEVELOPMENT, {"noise": 0.1}),
        ("friedman2", EVALUATION, {"noise": 100.0}),
        ("sparse_uncorrelated", EVALUATION, {}),
    ):
        yield one(name, regression, role, _generated(_made(name, **options)), "scikit-learn's generator")
    for make, kind, role in (
        (generators.additive, regression, DEVELOPMENT),
        (generators.linear, regression, DEVELOPMENT),
        (generators.shared, regression, DEVELOPMENT),
        (generators.unshared, regression, EVALUATION),
        (generators.interactions, regression, EVALUATION),
        (generators.noise, regression, DEVELOPMENT),
        (generators.irrelevant, regression, EVALUATION),
        (generators.missing, regression, EVALUATION),
        (generators.categories, classes, DEVELOPMENT),
        (generators.covtype, classes, EVALUATION),
        (generators.labels, labels, EVALUATION),
        (generators.ranking_narrow, rank, DEVELOPMENT),
        (generators.ranking_wide, rank, EVALUATION),
    ):
        name = make.__name__.replace("_", "-")
        yield one(name, kind, role, _generated(make), (make.__doc__ or "").rstrip("."))


SETS = {bed_set.name: bed_set for bed_set in _sets()}
