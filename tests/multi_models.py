"""Small sets and small models with dense losses."""

import numpy as np

from sparseleaf import MultiGBDTClassifier, MultiGBDTRegressor


def make(n=160, n_features=4, d=3, *, seed=0, missing=0.0, decimals=1, categories=0):
    """Features on a coarse grid (few bins), smooth targets; the first features may be categories."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n, n_features)), decimals).astype(np.float32)
    for f in range(categories):
        X[:, f] = rng.integers(0, 7, n)
    effects = rng.normal(size=(7, d))
    W = rng.normal(size=(n_features, d))
    Y = np.tanh(X @ W) + 0.1 * rng.normal(size=(n, d))
    for f in range(categories):
        Y += effects[X[:, f].astype(int)]
    if missing:
        X[rng.random(X.shape) < missing] = np.nan
    return X, Y


def classes_of(Y):
    return Y.argmax(axis=1)


def reg(**parameters):
    return MultiGBDTRegressor.from_settings(
        {"n_trees": 6, "learning_rate": 0.3, "min_samples_leaf": 4, "max_leaves": 31} | parameters
    )


def clf(**parameters):
    return MultiGBDTClassifier.from_settings(
        {"n_trees": 6, "learning_rate": 0.3, "min_samples_leaf": 4, "max_leaves": 31} | parameters
    )


def same_trees(a, b):
    for name, wanted in vars(a.model_.trees).items():
        np.testing.assert_array_equal(getattr(b.model_.trees, name), wanted, name)
    np.testing.assert_array_equal(a.model_.base_score, b.model_.base_score)


MODELS = {
    "mse": reg(),
    "categories, subsample": reg(categorical_features=[0, 1], subsample=0.6, colsample_bynode=0.5),
    "sketch": reg(split="sketch", sketch_dim=2),
    "sampling": reg(split="sketch", sketch="sampling", sketch_dim=2),
    "count sketch": reg(split="sketch", sketch="count-sketch", sketch_dim=2, colsample_bytree=0.5),
    "top outputs": reg(split="sketch", sketch="top-outputs", sketch_dim=2),
    "absolute": reg(loss="absolute"),
    "constraints": reg(monotone_constraints=[1, 0, -1, 0]),
    "tree per output": reg(tree_per_output=True, max_depth=3, growth="depth-wise"),
    "topk": reg(leaf_labels=1, split="topk"),
    "softmax": clf(),
    "softmax exact": clf(hessian="exact"),
    "logistic": clf(leaf_labels=2),
}
"""One of every kind."""
