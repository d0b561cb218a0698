"""Trees as the tree browser of a report shows them: splits or routers of inner nodes, best labels of leaves.

Whole trees are included as long as the number of their nodes permits. Nodes are in level order, so that the first
nodes of a tree that is too large are its upper levels.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from sparseleaf.model.trees import with_float_values
from sparseleaf.report.names import FeatureList, columns_of

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.model import Model
    from sparseleaf.model.routed import RoutedTrees
    from sparseleaf.model.trees import Trees

MAX_NODES = 25_000
"""Nodes of all trees in a report."""

LEAF_LABELS = 12
"""Labels per leaf, those of largest value."""

ROUTER_FEATURES = 6
"""Features per child of a router, those of largest weight."""

SHOWN_CATEGORIES = 12
"""Categories in the text of a split."""


def browser(model: Model, n_trees: int, features: FeatureList) -> dict[str, Any]:
    """The first trees of a model, or of every model of a blend."""
    shown: list[dict[str, Any]] = []
    columns: list[dict[str, Any]] = []
    nodes_left = MAX_NODES
    members = list(_members(model))
    for name, member in members:
        axis = member.scorer.axis_trees
        floats = None if axis is None else with_float_values(axis)
        for number in range(min(n_trees, member.trees.n_trees)):
            begin, end = member.trees.tree_offsets[number : number + 2].tolist()
            if shown and end - begin > nodes_left:
                break
            nodes = slice(begin, min(end, begin + nodes_left))
            nodes_left -= nodes.stop - begin
            tree = (
                _routed_tree(member.trees, nodes, features)
                if floats is None
                else _axis_tree(member, floats, nodes, columns, features)
            )
            shown.append({"name": f"{name}tree {number + 1}", "n_nodes": end - begin, **tree})
    return {
        "trees": shown,
        "columns": columns,
        "n_trees": sum(member.trees.n_trees for _, member in members),
        "outputs": model.target_kind.startswith("regression"),
    }


def _members(model: Model) -> Iterator[tuple[str, Model]]:
    """Models with trees, and what precedes the names of their trees."""
    members = getattr(model.scorer, "members", None)
    if members is None:
        yield "", model
        return
    for name, member in zip(model.scorer.member_names(), members, strict=True):
        yield f"{name}, ", member


# --- trees that split on one feature


def _axis_tree(
    model: Model, trees: Trees, nodes: slice, columns: list[dict[str, Any]], features: FeatureList
) -> dict[str, Any]:
    feature, child = trees.feature[nodes], trees.child[nodes]
    inner = feature >= 0
    distinct, place = np.unique(feature[inner], return_inverse=True)
    column = np.full(len(feature), -1, np.int64)
    column[inner] = place + len(columns)
    columns += [
        {
            "name": one.name,
            "features": features.places(one.features),
            "weights": [_short(weight) for weight in one.weights.tolist()],
        }
        for one in columns_of(model, distinct, features)
    ]
    return {
        "kind": "axis",
        "arity": 2,
        "child": np.where(inner, child, -1).tolist(),
        "rows": trees.cover[nodes].tolist() if len(trees.cover) else None,
        "column": column.tolist(),
        "test": [
            _split_text(model, trees, node) if splits else ""
            for node, splits in zip(range(nodes.start, nodes.stop), inner.tolist(), strict=True)
        ],
        "leaves": [
            None if splits else _axis_leaf(trees, model.n_labels, leaf)
            for leaf, splits in zip(child.tolist(), inner.tolist(), strict=True)
        ],
        "value": "adds to the score",
    }


def _split_text(model: Model, trees: Trees, node: int) -> str:
    """The condition of the left child."""
    missing = " or missing" if trees.missing_left[node] else ""
    feature = int(trees.feature[node])
    if not len(trees.categorical) or not trees.categorical[feature]:
        return f"≤ {trees.threshold[node]:.4g}{missing}"
    bits = np.unpackbits(trees.sets[int(trees.threshold[node])], bitorder="little")
    names = model.categories.get(feature)
    members = np.flatnonzero(bits).tolist()
    texts = [str(names[one]) if names is not None and one < len(names) else str(one) for one in members]
    more = f", … ({len(texts)})" if len(texts) > SHOWN_CATEGORIES else ""
    return f"in {{{', '.join(texts[:SHOWN_CATEGORIES])}{more}}}{missing}"


def _axis_leaf(trees: Trees, n_labels: int, leaf: int) -> list[Any]:
    entries = slice(int(trees.leaf_indptr[leaf]), int(trees.leaf_indptr[leaf + 1]))
    values = trees.leaf_values[entries].astype(np.float64)
    labels = trees.leaf_labels[entries] if len(trees.leaf_labels) else np.arange(n_labels)
    return _largest(labels, values)


# --- trees with linear routers


def _routed_tree(trees: RoutedTrees, nodes: slice, features: FeatureList) -> dict[str, Any]:
    numbers, child = trees.inner[nodes], trees.child[nodes]
    inner = numbers >= 0
    rows = None
    if trees.counts_rows and len(trees.leaf_totals):
        rows = [
            None if splits else int(trees.leaf_totals[leaf])
            for leaf, splits in zip(child, inner, strict=True)
        ]
    routers = _routers(trees, numbers[inner], features)
    return {
        "kind": "routed",
        "arity": trees.arity,
        "child": np.where(inner, child, -1).tolist(),
        "rows": rows,
        "routers": [next(routers) if splits else None for splits in inner.tolist()],
        "leaves": [
            None if splits else _routed_leaf(trees, leaf)
            for leaf, splits in zip(child.tolist(), inner.tolist(), strict=True)
        ],
        "value": "frequency",
    }


def _routers(trees: RoutedTrees, numbers: Array, features: FeatureList) -> Iterator[list[list[Any]]]:
    """For each child of the routers, the features of largest weight; weights are relative to the children's mean."""
    indptr, all_features, weights = trees.router_indptr, trees.router_features, trees.whole_weights
    for number in numbers.tolist():
        entries = slice(int(indptr[number]), int(indptr[number + 1]))
        names, matrix = all_features[entries], weights[entries].astype(np.float64)
        if matrix.shape[1] < trees.arity:  # the first child of 8-bit routers has margin 0
            matrix = np.hstack([np.zeros((len(matrix), 1)), matrix])
        if len(trees.feature_weights):
            matrix *= trees.feature_weights[names][:, None]
        matrix -= matrix.mean(axis=1, keepdims=True)
        children = []
        for margins in matrix.T:
            best = np.argsort(-margins, kind="stable")[:ROUTER_FEATURES]
            best = best[margins[best] > 0]
            children.append(
                [features.places(names[best]), [_short(value) for value in margins[best].tolist()]]
            )
        yield children


def _routed_leaf(trees: RoutedTrees, leaf: int) -> list[Any]:
    entries = slice(int(trees.leaf_indptr[leaf]), int(trees.leaf_indptr[leaf + 1]))
    return _largest(trees.leaf_labels[entries], trees.leaf_values[entries].astype(np.float64))


def _largest(labels: Array, values: Array) -> list[Any]:
    """Number of labels, and the labels and values of largest absolute value."""
    best = np.argsort(-np.abs(values), kind="stable")[:LEAF_LABELS]
    return [len(values), labels[best].tolist(), [_short(value) for value in values[best].tolist()]]


def _short(value: float) -> float:
    return float(f"{value:.3g}")
