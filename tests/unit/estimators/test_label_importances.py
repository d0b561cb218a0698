"""Importances of features for single labels."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import naive_explain
from sparseleaf import (
    BlendClassifier,
    LdSMClassifier,
    MultiGBDTClassifier,
    MultiGBDTRegressor,
    SketchForestClassifier,
    SparseGBDTClassifier,
)

ESTIMATORS = {
    "sparse": SparseGBDTClassifier(n_trees=10, projection=None, rerank=None),
    "random projection": SparseGBDTClassifier(n_trees=10, projection="random", projection_dim=6, rerank=None),
    "keep raw": SparseGBDTClassifier(
        n_trees=5, projection="pca", projection_dim=3, rerank=None, advanced={"keep_raw": True}
    ),
    "ldsm": LdSMClassifier(n_trees=3, max_nodes=30, epochs=3),
    "forest": SketchForestClassifier(n_trees=3, rerank=None),
    "multi": MultiGBDTClassifier(n_trees=5),
    **{
        rerank: SketchForestClassifier(n_trees=3, rerank=rerank)
        for rerank in ("centroid", "cosine", "log", "linear", "boosted", "bayes")
    },
    "blend": BlendClassifier(
        [SparseGBDTClassifier(n_trees=5), SketchForestClassifier(n_trees=3, rerank="linear")],
        weights=[0.4, 0.6],
    ),
}


@pytest.fixture(scope="module")
def rows():
    """Label i belongs to rows with feature i; the other features are noise."""
    rng = np.random.default_rng(0)
    X = (rng.random((300, 20)) < 0.2).astype(np.float32)
    Y = X[:, :5].astype(int)
    X[rng.random(X.shape) < 0.02] = 1
    return sp.csr_matrix(X), sp.csr_matrix(Y)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_feature_of_a_label_is_first(rows, name):
    model = ESTIMATORS[name].fit(*rows)
    importances = model.label_importances([4, 1])
    assert importances.shape == (2, 20)
    assert np.all(np.abs(importances).sum(axis=1) <= 1 + 1e-9)
    dense = importances.toarray()
    if name != "random projection":
        assert dense.argmax(axis=1).tolist() == [4, 1]
    everything = model.label_importances()
    np.testing.assert_allclose(everything[[4, 1]].toarray(), dense, atol=1e-12)
    few = model.label_importances([4], max_features=2)
    assert few.nnz == 2
    model.n_jobs = 2
    assert model.label_importances().data.tobytes() == everything.data.tobytes()


def test_regressor_has_the_direction():
    X = np.random.default_rng(0).random((200, 3))
    model = MultiGBDTRegressor(n_trees=20).fit(X, np.column_stack((X[:, 0], -X[:, 1])))
    importances = model.label_importances().toarray()
    assert importances[0, 0] > 0.9
    assert importances[1, 1] < -0.9
    sizes = model.output_importances_.T
    np.testing.assert_allclose(np.abs(importances), sizes, atol=1e-12)


@pytest.mark.parametrize("kind", ["ldsm", "forest"])
def test_routed_trees_agree_with_the_definition(rows, kind):
    scorer = ESTIMATORS[kind].fit(*rows).model_.scorer
    importances = scorer.label_importances(np.array([2]), None, 1).toarray()[0]
    wanted = naive_explain.routed_importances(scorer, 2)
    np.testing.assert_allclose(importances, wanted / np.abs(wanted).sum(), atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"labels": [5]}, "must have indices below 5. Got 5"),
        ({"labels": "a"}, "must be a list"),
        ({"max_features": 0}, r"The 'max_features' parameter must be an int >= 1. Got 0 instead."),
    ],
)
def test_wrong_arguments_are_refused(rows, arguments, message):
    model = ESTIMATORS["forest"].fit(*rows)
    with pytest.raises(ValueError, match=message):
        model.label_importances(**arguments)
