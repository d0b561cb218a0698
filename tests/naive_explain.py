"""Attributions by their definitions: one row, one label and one feature at a time."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp


def routed_leaves_below(trees, tree, node):
    """Leaves below a node, by number."""
    root = int(trees.tree_offsets[tree])
    if trees.inner[root + node] < 0:
        return [int(trees.child[root + node])]
    first = int(trees.child[root + node])
    return [
        leaf
        for child in range(first, first + trees.arity)
        for leaf in routed_leaves_below(trees, tree, child)
    ]


def leaf_value(trees, leaf, label):
    entries = slice(trees.leaf_indptr[leaf], trees.leaf_indptr[leaf + 1])
    there = trees.leaf_labels[entries] == label
    return float(trees.leaf_values[entries][there][0]) if there.any() else 0.0


def router(trees, inner, n_features):
    """Weights (arity, n_features) and biases (arity,) of an inner node; child 0 of 8-bit routers has zeros."""
    entries = slice(trees.router_indptr[inner], trees.router_indptr[inner + 1])
    weights = np.zeros((trees.arity, n_features))
    scale = trees.router_scale[inner] if len(trees.router_scale) else 1.0
    skipped = int(trees.router_weights.dtype == np.int8)
    weights[skipped:, trees.router_features[entries]] = (trees.router_weights[entries] * scale).T
    bias = np.concatenate((np.zeros(skipped), trees.router_bias[inner]))
    return weights, bias


def routed(scorer, x, label):
    """Base, and contributions of all features, of one label of one dense row."""
    trees, n_features = scorer.trees, scorer.n_features
    x = x.astype(np.float64) * (trees.feature_weights if len(trees.feature_weights) else 1.0)
    if trees.unit_rows:
        x = x / max(np.linalg.norm(x), 1e-300)
    largest_only = trees.router_weights.dtype == np.int8 or np.isinf(trees.threshold)
    base, contributions = 0.0, np.zeros(n_features)

    def value(tree, node):
        return np.mean([leaf_value(trees, leaf, label) for leaf in routed_leaves_below(trees, tree, node)])

    for tree in range(trees.n_trees):
        root = int(trees.tree_offsets[tree])
        reached, todo = [], [(0, [])]  # leaves, with the steps that lead to them
        while todo:
            node, steps = todo.pop()
            inner = int(trees.inner[root + node])
            if inner < 0:
                reached.append(steps)
                continue
            weights, bias = router(trees, inner, n_features)
            margins = weights @ x + bias
            above = [j for j in range(trees.arity) if not largest_only and margins[j] >= trees.threshold]
            for j in above or [int(np.argmax(margins))]:
                terms, constant = weights[j] * x, bias[j]
                if largest_only:
                    others = [c for c in range(trees.arity) if c != j]
                    terms = terms - weights[others].mean(axis=0) * x
                    constant -= bias[others].mean()
                child = int(trees.child[root + node]) + j
                todo.append((child, [*steps, (node, child, np.maximum(terms, 0), max(constant, 0.0))]))
        base += value(tree, 0) / trees.n_trees
        for steps in reached:
            for node, child, terms, constant in steps:
                step = (value(tree, child) - value(tree, node)) / (trees.n_trees * len(reached))
                total = terms.sum() + constant
                if total > 0:
                    contributions += step * terms / total
                    base += step * constant / total
                else:
                    base += step
    return base, contributions


def routed_importances(scorer, label):
    """Mean attribution over the leaves of every tree, of rows with the value 1 for all features."""
    trees, n_features = scorer.trees, scorer.n_features
    x = np.ones(n_features) * (trees.feature_weights if len(trees.feature_weights) else 1.0)
    largest_only = trees.router_weights.dtype == np.int8 or np.isinf(trees.threshold)
    importances = np.zeros(n_features)

    def value(tree, node):
        return np.mean([leaf_value(trees, leaf, label) for leaf in routed_leaves_below(trees, tree, node)])

    for tree in range(trees.n_trees):
        root = int(trees.tree_offsets[tree])
        n_leaves = len(routed_leaves_below(trees, tree, 0))
        for node in range(int(trees.tree_offsets[tree + 1]) - root):
            inner = int(trees.inner[root + node])
            if inner < 0:
                continue
            weights, bias = router(trees, inner, n_features)
            for j in range(trees.arity):
                terms, constant = weights[j] * x, bias[j]
                if largest_only:
                    others = [c for c in range(trees.arity) if c != j]
                    terms = terms - weights[others].mean(axis=0) * x
                    constant -= bias[others].mean()
                terms, constant = np.maximum(terms, 0), max(constant, 0.0)
                child = int(trees.child[root + node]) + j
                share = len(routed_leaves_below(trees, tree, child)) / n_leaves
                total = terms.sum() + constant
                if total > 0:
                    importances += share * (value(tree, child) - value(tree, node)) * terms / total
    return importances


def unit_row(evidence, x):
    weights = evidence.centroids.feature_weights
    x = x.astype(np.float64) * (weights if len(weights) else 1.0)
    return x / (np.linalg.norm(x) or 1.0)


def cosine_terms(evidence, x, label):
    centroid = evidence.centroids.centroids.unpacked()[label].toarray()[0].astype(np.float64)
    length = np.sqrt(evidence.centroids.squared_norms[label])
    return unit_row(evidence, x) * centroid / (length or 1.0)


def margin_terms(evidence, x, label):
    return unit_row(evidence, x) * evidence.models.weights.unpacked()[label].toarray()[0]


def vote_terms(evidence, x, label, n_neighbours, n_features):
    """Terms of Σ cosine³ over the nearest training rows that carry the label, and these rows."""
    x = unit_row(evidence, x).astype(np.float32)
    kept = np.argsort(-np.abs(x), kind="stable")[:n_features]
    short = np.zeros_like(x)
    short[kept] = x[kept]
    rows = evidence.neighbours.postings.unpacked().T.toarray()
    labels = sp.csr_matrix(
        (
            np.ones(len(evidence.neighbours.labels.indices)),
            evidence.neighbours.labels.indices,
            evidence.neighbours.labels.indptr,
        ),
        shape=(len(rows), evidence.neighbours.labels.width),
    )
    cosines = rows @ short
    nearest = [row for row in np.argsort(-cosines, kind="stable")[:n_neighbours] if cosines[row] > 0]
    carriers = [row for row in nearest if labels[row, label]]
    terms = np.zeros(len(x))
    for row in carriers:
        terms += float(cosines[row]) ** 2 * rows[row].astype(np.float64) * short
    return terms, carriers
