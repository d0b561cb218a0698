"""Parameters of GBDT-MO: what they may be, from Python and from the command line."""

import numpy as np
import pytest

from sparseleaf import MultiGBDTClassifier, MultiGBDTRegressor
from sparseleaf.estimators.parameters import parse_settings

ESTIMATORS = [MultiGBDTRegressor, MultiGBDTClassifier]
WRONG = {
    "n_trees": [0, 1.5, None, True, "all"],
    "learning_rate": [0, 1.1, float("nan")],
    "loss": ["squared", None, 3, "poisson:2", "huber:", "huber:-1", "huber:inf", "quantile:0"],
    "leaf_labels": [0, 1.5],
    "leaf_min_gain": [-1],
    "max_depth": [0],
    "max_leaves": [1],
    "growth": ["level"],
    "min_samples_leaf": [0],
    "min_hessian_leaf": [-1, None],
    "l2": [-1],
    "min_gain": [-1],
    "max_bins": [1, 256],
    "hessian": ["none", None],
    "split": ["exact", "best"],
    "sketch": ["none", "pca"],
    "sketch_dim": [0, "many"],
    "standardise": [1, "yes"],
    "n_models": [0, 1.5, 65, "many"],
    "tree_per_output": [2, 1, "yes", None],
    "categorical_features": ["all", 3],
    "vectorizer": ["words", 3],
    "monotone_constraints": ["up", 1],
    "subsample": [0, 1.5],
    "colsample_bytree": [0],
    "colsample_bynode": [2],
    "early_stopping_rounds": [0],
    "eval_metric": ["auc", None, 1],
    "warm_start": ["no", 0],
    "histogram_mb": [0],
    "device": ["gpu", None],
    "n_jobs": [1.5],
    "random_state": ["seed"],
    "verbose": [-1],
}


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in WRONG.items() for value in values]
)
def test_a_wrong_value_is_refused_by_name(estimator, name, value):
    with pytest.raises(ValueError, match=name) as error:
        estimator.from_settings({name: value}).fit(np.zeros((4, 2)), [0, 1, 0, 1])
    assert "Got" in str(error.value) or "wanted" in str(error.value)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_every_parameter_has_a_wrong_value_above(estimator):
    of_classifiers = {"calibrate", "class_weight", "decode"}  # in test_probabilities.py
    assert set(estimator.parameter_table) - of_classifiers == set(WRONG)


@pytest.mark.parametrize(("setting", "name", "value"), [
    ("loss=huber:2", "loss", "huber:2"),
    ("loss=auto", "loss", "auto"),
    ("tree_per_output=true", "tree_per_output", True),
    ("warm_start=False", "warm_start", False),
    ("categorical_features=auto", "categorical_features", "auto"),
    ("categorical_features=age,town", "categorical_features", ["age", "town"]),
    ("categorical_features=0, 3", "categorical_features", [0, 3]),
    ("categorical_features=none", "categorical_features", None),
    ("monotone_constraints=1,0,-1", "monotone_constraints", [1, 0, -1]),
    ("monotone_constraints=age:1,price:-1", "monotone_constraints", {"age": 1, "price": -1}),
    ("leaf_labels=none", "leaf_labels", None),
    ("max_leaves=15", "max_leaves", 15),
])  # fmt: skip
def test_settings(setting, name, value):
    assert parse_settings([setting], MultiGBDTRegressor.parameter_table) == {name: value}


@pytest.mark.parametrize("setting", ["loss=softmax", "loss=quantile:2", "tree_per_output=2", "split=exact"])
def test_settings_that_are_refused(setting):
    with pytest.raises(ValueError, match=f"--set '{setting}': the .* parameter must be .* Got"):
        parse_settings([setting], MultiGBDTRegressor.parameter_table)
