"""The tree browser has the nodes, splits, routers and leaves of the model."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import sparseleaf
from sparseleaf import LdSMClassifier, MultiGBDTClassifier, MultiGBDTRegressor, SketchForestClassifier
from sparseleaf.data import make_xc
from sparseleaf.model.leaves import leaf_vectors
from sparseleaf.report import trees as browser


def leaf_of(tree, columns, row):
    """Walk down a tree of the browser by the texts of its splits."""
    node = 0
    while tree["child"][node] >= 0:
        value = row[int(columns[tree["column"][node]]["name"].removeprefix("feature "))]
        threshold = float(tree["test"][node].removeprefix("≤ ").removesuffix(" or missing"))
        node = tree["child"][node] + (not value <= threshold)
    return node


def test_rows_reach_the_leaves_of_the_model(problem):
    shown = problem.data["trees"]
    model = problem.clf.model_
    assert (len(shown["trees"]), shown["n_trees"]) == (10, 15)
    indptr, labels, values = leaf_vectors(model)
    X = problem.X.toarray().astype(np.float32)
    reached = model.scorer.leaves(model.apply(problem.X, None, 1).rows)
    same = 0
    for number, tree in enumerate(shown["trees"]):
        for row in range(30):
            n_labels, some, shown_values = tree["leaves"][leaf_of(tree, shown["columns"], X[row])]
            leaf = slice(indptr[reached[row, number]], indptr[reached[row, number] + 1])
            best = np.argsort(-np.abs(values[leaf]), kind="stable")[:12]
            same += labels[leaf][best].tolist() == some and n_labels == leaf.stop - leaf.start
            assert len(some) == len(shown_values)
    assert same >= 0.95 * 300  # thresholds are rounded to four digits


def test_rows_of_nodes(problem):
    tree = problem.data["trees"]["trees"][0]
    assert tree["rows"][0] == 400
    for node, child in enumerate(tree["child"]):
        if child >= 0:
            assert tree["rows"][node] == tree["rows"][child] + tree["rows"][child + 1]


@pytest.mark.parametrize("estimator", [SketchForestClassifier, LdSMClassifier])
def test_routers_and_leaves(estimator):
    X, Y = make_xc(400, 50, 20, labels_per_row=3, nnz_per_row=10)
    clf = estimator(n_trees=2, rerank=None).fit(X, Y)
    data = clf.report(X, Y, n_examples=0, n_importances=0, latency=False).data
    trees, shown = clf.model_.trees, data["trees"]["trees"][1]
    offset = trees.tree_offsets[1]
    assert shown["n_nodes"] == len(shown["child"]) == trees.tree_offsets[2] - offset
    weights = trees.whole_weights
    if weights.shape[1] < trees.arity:
        weights = np.hstack([np.zeros((len(weights), 1)), weights])
    first = trees.inner[offset]
    entries = slice(trees.router_indptr[first], trees.router_indptr[first + 1])
    margins = weights[entries] - weights[entries].mean(axis=1, keepdims=True)
    if len(trees.feature_weights):
        margins = margins * trees.feature_weights[trees.router_features[entries]][:, None]
    for child, (ids, values) in enumerate(shown["routers"][0]):
        assert values == pytest.approx(np.sort(margins[:, child])[::-1][: len(values)], rel=0.01)
        best = trees.router_features[entries][np.argmax(margins[:, child])]
        assert data["features"][ids[0]] == f"feature {best}"
    node = next(node for node, child in enumerate(shown["child"]) if child < 0)
    leaf = trees.child[offset + node]
    entries = slice(trees.leaf_indptr[leaf], trees.leaf_indptr[leaf + 1])
    assert shown["leaves"][node][0] == entries.stop - entries.start
    assert shown["leaves"][node][2][0] == pytest.approx(trees.leaf_values[entries].max(), rel=0.01)


def test_large_trees_end_at_the_limit(problem, monkeypatch):
    monkeypatch.setattr(browser, "MAX_NODES", 20)
    data = problem.clf.report(problem.X, problem.Y, n_examples=0, n_importances=0, latency=False).data
    (tree,) = data["trees"]["trees"]
    assert len(tree["child"]) == 20 < tree["n_nodes"]


def test_categories_have_their_names():
    colours = np.array(["red", "green", "blue", "grey"])[np.arange(200) % 4]
    X = pd.DataFrame({"colour": pd.Categorical(colours)})
    model = MultiGBDTRegressor(n_trees=1, min_samples_leaf=5).fit(X, np.isin(colours, ["red", "grey"]) * 1.0)
    shown = model.report(X, np.isin(colours, ["red", "grey"]) * 1.0, latency=False).data["trees"]
    assert shown["columns"][0]["name"] == "colour"
    listed = set(shown["trees"][0]["test"][0].partition("{")[2].partition("}")[0].split(", "))
    assert listed in ({"red", "grey"}, {"blue", "green"})


def test_projected_columns_are_described():
    X, Y = make_xc(400, 50, 20, labels_per_row=3, nnz_per_row=10)
    clf = sparseleaf.SparseGBDTClassifier(n_trees=2, projection="pca", projection_dim=4).fit(X, Y)
    data = clf.report(X, Y, n_examples=0, n_importances=0, latency=False).data
    column = data["trees"]["columns"][0]
    number = int(column["name"].removeprefix("projection "))
    weights = clf.model_.projection.components[:, number].astype(float)
    assert column["weights"][0] == pytest.approx(weights[np.argmax(np.abs(weights))], rel=0.01)
    assert data["features"][column["features"][0]] == f"feature {np.argmax(np.abs(weights))}"


def test_blends_have_the_trees_of_all_members():
    X, Y = make_xc(400, 50, 20, labels_per_row=3, nnz_per_row=10)
    members = [
        sparseleaf.SparseGBDTClassifier(n_trees=2, projection=None).fit(X, Y),
        SketchForestClassifier(n_trees=2, rerank=None).fit(X, Y),
    ]
    blend = sparseleaf.BlendClassifier(members, weights=[1, 1]).fit(X, Y)
    data = blend.report(X, Y, n_examples=2, n_importances=2, latency=False).data
    assert [tree["name"] for tree in data["trees"]["trees"]] == [
        f"{name}, tree {number}" for name in ("gbdt-sparse", "forest") for number in (1, 2)
    ]
    assert data["importances"] == []


def test_leaves_with_all_classes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    clf = MultiGBDTClassifier(n_trees=2).fit(X, (X[:, 0] > 0).astype(int) + (X[:, 1] > 0))
    tree = clf.report(X, clf.predict(X), latency=False).data["trees"]["trees"][0]
    assert {leaf[0] for leaf in tree["leaves"] if leaf is not None} == {3}
