"""Shapley values by their definition: every subset of the features, one at a time."""

from __future__ import annotations

from itertools import combinations
from math import factorial

import numpy as np


def goes_left(trees, node, value):
    feature = trees.feature[node]
    if len(trees.categorical) and trees.categorical[feature]:
        if not 0 <= value < 256:  # NaN too
            return bool(trees.missing_left[node])
        left = np.unpackbits(trees.sets[int(trees.threshold[node])], bitorder="little")
        return bool(left[int(value)])
    return bool(trees.missing_left[node]) if np.isnan(value) else bool(value <= trees.threshold[node])


def leaf_rows(trees, n_labels):
    """Every leaf's vector, dense."""
    rows = np.zeros((len(trees.leaf_indptr) - 1, n_labels))
    tree_of_leaf = np.repeat(np.arange(trees.n_trees), np.diff(trees.tree_offsets))[trees.feature < 0]
    for leaf in range(len(rows)):
        own = slice(trees.leaf_indptr[leaf], trees.leaf_indptr[leaf + 1])
        scale = trees.value_scale[tree_of_leaf[leaf]] if len(trees.value_scale) else 1.0
        dense = len(trees.leaf_values) and not len(trees.leaf_labels)
        labels = slice(None) if dense else trees.leaf_labels[own]
        rows[leaf, labels] = trees.leaf_values[own] * np.float64(scale)
    return rows


def game(trees, tree, leaves, x, known):
    """The tree's vector where only the features in ``known`` are, others averaged by cover."""
    root = trees.tree_offsets[tree]

    def value(v):
        node = root + v
        if trees.feature[node] < 0:
            return leaves[trees.child[node]]
        left = trees.child[node]
        if trees.feature[node] in known:
            return value(left if goes_left(trees, node, x[trees.feature[node]]) else left + 1)
        a, b = (float(trees.cover[root + child]) for child in (left, left + 1))
        return (a * value(left) + b * value(left + 1)) / (a + b)

    return value(0)


def shap_values(trees, n_labels, x, base=0.0):
    """(values (n_features, n_labels), expected (n_labels,)) of one row."""
    n_features = len(trees.feature_gain)
    leaves = leaf_rows(trees, n_labels)
    values, expected = np.zeros((n_features, n_labels)), np.zeros(n_labels) + base
    for tree in range(trees.n_trees):
        nodes = slice(trees.tree_offsets[tree], trees.tree_offsets[tree + 1])
        used = sorted(set(trees.feature[nodes][trees.feature[nodes] >= 0].tolist()))
        n = len(used)
        worth = {
            known: game(trees, tree, leaves, x, known)
            for size in range(n + 1)
            for known in map(frozenset, combinations(used, size))
        }
        expected += worth[frozenset()]
        for feature in used:
            for known, without in worth.items():
                if feature not in known:
                    share = factorial(len(known)) * factorial(n - len(known) - 1) / factorial(n)
                    values[feature] += share * (worth[known | {feature}] - without)
    return values, expected
