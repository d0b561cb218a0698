"""Synthetic datasets with known structure: function of a seed that returns X and the targets."""

from __future__ import annotations

from typing import Any

import numpy as np

N_ROWS = 1_200


def _uniform(seed: int, n_features: int) -> tuple[Any, Any]:
    random = np.random.default_rng(seed)
    return random, random.uniform(-1, 1, (N_ROWS, n_features))


def _steps(X: Any) -> Any:
    """Smooth and stepwise functions of single features."""
    return np.stack([np.sin(3 * X[:, 0]), np.abs(X[:, 1]), X[:, 2] ** 2, (X[:, 3] > 0.2) * 1.0, X[:, 4]], 1)


def additive(seed: int) -> tuple[Any, Any]:
    """Six outputs, each a weighted sum of functions of single features; noise of a tenth of the variance."""
    random, X = _uniform(seed, 10)
    Y = _steps(X) @ random.normal(size=(5, 6))
    return X, Y + random.normal(size=Y.shape) * Y.std(axis=0) / 3


def interactions(seed: int) -> tuple[Any, Any]:
    """Six outputs, each a weighted sum of products of two or three features."""
    random, X = _uniform(seed, 10)
    products = np.stack([X[:, 0] * X[:, 1], X[:, 2] * X[:, 3] * 2, X[:, 4] * (X[:, 5] > 0)], 1)
    Y = products @ random.normal(size=(3, 6))
    return X, Y + random.normal(size=Y.shape) * Y.std(axis=0) / 3


def shared(seed: int) -> tuple[Any, Any]:
    """Twelve noisy copies of one function: trees for all outputs see twelve times the data."""
    random, X = _uniform(seed, 10)
    f = _steps(X).sum(axis=1) + 2 * X[:, 5] * X[:, 6]
    return X, f[:, None] * random.uniform(0.5, 2, 12) + random.normal(size=(N_ROWS, 12)) * 2 * f.std()


def unshared(seed: int) -> tuple[Any, Any]:
    """Six outputs that depend on disjoint pairs of features: nothing to share."""
    random, X = _uniform(seed, 12)
    Y = np.stack(
        [np.sin(3 * X[:, 2 * j]) + 2 * X[:, 2 * j] * X[:, 2 * j + 1] + X[:, 2 * j + 1] for j in range(6)], 1
    )
    return X, Y + random.normal(size=Y.shape) * Y.std(axis=0) / 4


def linear(seed: int) -> tuple[Any, Any]:
    """scikit-learn's ``make_regression`` with five targets."""
    from sklearn.datasets import make_regression

    return make_regression(N_ROWS, 20, n_informative=10, n_targets=5, noise=10.0, random_state=seed)


def noise(seed: int) -> tuple[Any, Any]:
    """Four outputs with three times as much noise as signal, from a heavy-tailed distribution."""
    random, X = _uniform(seed, 8)
    Y = _steps(X) @ random.normal(size=(5, 4))
    return X, Y + random.standard_t(4, Y.shape) * Y.std(axis=0) * 1.2


def irrelevant(seed: int) -> tuple[Any, Any]:
    """Four outputs of 5 of 200 features."""
    random, X = _uniform(seed, 200)
    Y = _steps(X) @ random.normal(size=(5, 4)) + 2 * (X[:, 0] * X[:, 1])[:, None]
    return X, Y + random.normal(size=Y.shape) * Y.std(axis=0) / 2


def categories(seed: int) -> tuple[Any, Any]:
    """Eight classes that depend on three categorical features, as arbitrary codes, and on two numbers."""
    random = np.random.default_rng(seed)
    codes = np.stack([random.integers(0, n, N_ROWS) for n in (6, 12, 30)], 1)
    effects = [random.normal(size=(n, 8)) for n in (6, 12, 30)]
    numbers = random.normal(size=(N_ROWS, 4))
    scores = sum(effect[codes[:, j]] for j, effect in enumerate(effects)) + numbers[:, :2] @ random.normal(
        size=(2, 8)
    )
    y = np.argmax(1.5 * scores + random.gumbel(size=scores.shape), axis=1)
    return np.hstack((codes, numbers)), y


def missing(seed: int) -> tuple[Any, Any]:
    """Five outputs of ten features, a quarter of whose values are missing, larger ones more often."""
    random, X = _uniform(seed, 10)
    Y = _steps(X) @ random.normal(size=(5, 5)) + (X[:, 5] * X[:, 6])[:, None]
    gone = random.uniform(size=X.shape) < 0.25 * (1 + X)
    return np.where(gone, np.nan, X), Y + random.normal(size=Y.shape) * Y.std(axis=0) / 3


def labels(seed: int) -> tuple[Any, Any]:
    """Twenty labels of different frequency whose logits share five functions of the features."""
    random, X = _uniform(seed, 15)
    f = np.hstack((_steps(X), (X[:, 5] * X[:, 6])[:, None]))
    logits = 3 * (f - f.mean(axis=0)) @ random.normal(size=(6, 20)) + random.uniform(-4, 0, 20)
    return X, (random.uniform(size=logits.shape) < 1 / (1 + np.exp(-logits))).astype(np.float32)


def covtype(seed: int) -> tuple[Any, Any]:
    """As Covertype: seven unbalanced classes, 10 numbers, 2 one-hot encoded categories with 4 and 40 values."""
    from sklearn.datasets import make_classification

    X, y = make_classification(
        2 * N_ROWS,
        12,
        n_informative=9,
        n_redundant=2,
        n_classes=7,
        n_clusters_per_class=2,
        weights=[0.36, 0.48, 0.06, 0.01, 0.02, 0.03, 0.04],
        flip_y=0.03,
        class_sep=1.5,
        random_state=seed,
    )
    wild = np.digitize(X[:, 10], np.quantile(X[:, 10], (0.25, 0.5, 0.75)))
    soil = np.digitize(X[:, 11], np.quantile(X[:, 11], np.arange(1, 40) / 40))
    return np.hstack((X[:, :10], np.eye(4)[wild], np.eye(40)[soil])), y


def _queries(seed: int, n_queries: int, n_features: int, spread: float) -> tuple[Any, Any, Any]:
    random = np.random.default_rng(seed)
    group = random.integers(8, 25, n_queries)
    query = np.repeat(np.arange(n_queries), group)
    X = (
        random.normal(size=(len(query), n_features))
        + spread * random.normal(size=(n_queries, n_features))[query]
    )
    utility = X[:, 0] + np.maximum(X[:, 1], 0) + X[:, 2] * X[:, 3] + np.sin(2 * X[:, 4])
    utility += random.normal(size=len(query)) + random.normal(size=n_queries)[query]
    grades = np.digitize(utility - np.median(utility), (0, 1, 2, 3))
    return X, grades, group


def ranking_narrow(seed: int) -> tuple[Any, Any, Any]:
    """300 queries, 20 features, queries alike."""
    return _queries(seed, 300, 20, 0.0)


def ranking_wide(seed: int) -> tuple[Any, Any, Any]:
    """200 queries, 100 features whose mean varies between queries."""
    return _queries(seed, 200, 100, 1.0)
