"""Models of random trees, with all that a tree can have, and rows for them."""

from __future__ import annotations

import numpy as np

from sparseleaf.model import AxisScorer, Model, Trees


def random_tree(rng, n_leaves, n_features, categorical, n_sets):
    """Node arrays of a random binary tree in order of making, and its number of sets so far."""
    feature, threshold, child, cover = [-1], [0.0], [0], [int(rng.integers(n_leaves, 50 * n_leaves))]
    missing, sets = [0], []
    room = {0: cover[0]}
    while feature.count(-1) < n_leaves:
        able = [v for v, f in enumerate(feature) if f < 0 and room[v] > 1]
        v = int(rng.choice(able))
        f = int(rng.integers(n_features))
        feature[v], missing[v], child[v] = f, int(rng.integers(2)), len(feature)
        if categorical[f]:
            sets.append(rng.integers(0, 256, 32).astype(np.uint8))
            threshold[v] = float(n_sets + len(sets) - 1)
        else:
            # few values, so that rows lie exactly on cuts and a path cuts a feature again; +inf parts off NaN
            threshold[v] = float(rng.choice([-1.0, 0.0, 0.5, 1.0, np.inf]))
        left = int(rng.integers(1, cover[v]))
        for rows in (left, cover[v] - left):
            room[len(feature)] = rows
            for values, new in zip(
                (feature, threshold, missing, child, cover), (-1, 0.0, 0, 0, rows), strict=True
            ):
                values.append(new)
    return feature, threshold, missing, child, cover, sets


def random_model(
    seed, n_trees=3, n_features=4, n_labels=3, most_leaves=6, *, dense=True, categories=False, small=False
):
    """A model of random trees; ``small`` has 16-bit leaf values."""
    rng = np.random.default_rng(seed)
    categorical = (rng.random(n_features) < 0.5 if categories else np.zeros(n_features)).astype(np.uint8)
    parts = [[] for _ in range(5)]
    offsets, sets, n_leaves = [0], [], 0
    for _ in range(n_trees):
        *nodes, own_sets = random_tree(
            rng, int(rng.integers(1, most_leaves + 1)), n_features, categorical, len(sets)
        )
        sets += own_sets
        for v, f in enumerate(nodes[0]):
            if f < 0:
                nodes[3][v] = n_leaves
                n_leaves += 1
        for part, values in zip(parts, nodes, strict=True):
            part += values
        offsets.append(offsets[-1] + len(nodes[0]))
    sizes = np.full(n_leaves, n_labels) if dense else rng.integers(0, n_labels + 1, n_leaves)
    labels = np.concatenate(
        [np.empty(0), *(np.sort(rng.choice(n_labels, n, replace=False)) for n in sizes)]
    ).astype(np.uint16)
    values = rng.normal(size=sizes.sum()).astype(np.float32)
    scale = np.empty(0, np.float32)
    if small:
        values, scale = (values * 100).astype(np.int16), rng.random(n_trees).astype(np.float32)
    trees = Trees(
        np.array(offsets, np.int64),
        np.array(parts[0], np.int32),
        np.array(parts[1], np.float32),
        np.array(parts[2], np.uint8),
        np.array(parts[3], np.int32),
        np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
        np.empty(0, np.uint16) if dense else labels,
        values,
        scale,
        np.zeros(n_features),
        np.array(parts[4], np.uint32),
        categorical if categories else np.empty(0, np.uint8),
        np.array(sets, np.uint8).reshape(-1, 32),
    )
    base = rng.normal(size=n_labels).astype(np.float32) if dense else None
    return model_of(AxisScorer(trees, n_labels, base), n_features)


def model_of(scorer, n_features):
    """A model of a scorer alone."""
    return Model(
        stages=(scorer,),
        method="gbdt-mo",
        n_features=n_features,
        n_labels=scorer.n_labels,
        target_kind="regression",
        label_counts=np.ones(scorer.n_labels, np.int64),
        n_train_rows=9,
    )


def random_rows(seed, n, model, *, known=False):
    """Rows with values on and beside cuts; ``known``: no categories but those that training could have had."""
    rng = np.random.default_rng(seed)
    X = rng.choice([-2.0, -1.0, 0.0, 0.3, 0.5, 1.0, 2.0, np.nan], (n, model.n_features)).astype(np.float32)
    for f in np.flatnonzero(model.trees.categorical):
        X[:, f] = rng.choice([0, 1, 2, 7, 100, 255, np.nan, *([] if known else [256, -1])], n)
    return X
