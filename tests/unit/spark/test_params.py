"""Params of Spark estimators are the declared parameters."""

import inspect

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("pyspark")

from sparseleaf import spark
from sparseleaf.data import make_xc
from sparseleaf.spark.params import WITHOUT

ESTIMATORS = [getattr(spark, name) for name in spark.__all__ if not name.endswith(("Model", "Evaluator"))]


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_every_parameter_is_a_param(kind):
    made = kind()
    table = kind.local.parameter_table
    for name in set(table) - {*WITHOUT}:
        assert made.getOrDefault(name) == table[name].default
        assert made.getParam(name).doc == table[name].description
    assert {one.name for one in made.params} == set(inspect.signature(kind).parameters)
    assert vars(made.to_local()._settings()) == vars(kind.local()._settings())
    again = made.copy({made.n_trees: 7})
    assert (again.to_local().n_trees, made.to_local().n_trees) == (7, kind.local().n_trees)


def test_values_are_checked():
    made = spark.MultiGBDTRegressor(n_trees=np.int64(3), max_depth=None, loss="quantile:0.9")
    assert made.to_local().n_trees == 3
    assert made.setParams(sketch_dim=8).to_local().advanced == {"sketch_dim": 8}
    assert made.setNumWorkers(4).getNumWorkers() == 4
    assert made.getWeightCol() is None
    with pytest.raises(ValueError, match="The 'learning_rate' parameter of MultiGBDTRegressor must be"):
        made.setParams(learning_rate=2.0)
    with pytest.raises(ValueError, match="must be a name on Spark"):
        made.setParams(loss=lambda targets, scores: None)
    with pytest.raises(ValueError, match="has no parameter 'n_tree'; did you mean 'n_trees'"):
        spark.MultiGBDTRegressor(n_tree=3)
    with pytest.raises(ValueError, match="The 'layout' parameter must be one of"):
        made.setLayout("row")
    for value in (0, 1.5, "2", True):
        with pytest.raises(ValueError, match=r"The 'numWorkers' parameter must be an int >= 1\. Got"):
            made.setNumWorkers(value)
    with pytest.raises(TypeError, match=r"must be a DataFrame of Spark\. Got pandas\.DataFrame instead"):
        made.fit(pd.DataFrame({"features": []}))
    with pytest.raises(ValueError, match="The 'metricName' parameter must be"):
        spark.TopKEvaluator(metricName="recall@5")


def test_models_of_other_estimators_are_refused():
    X, Y = make_xc(50, 20, 5, labels_per_row=2, nnz_per_row=5)
    fitted = spark.SparseGBDTClassifier.local(n_trees=1).fit(X, Y)
    assert spark.SparseGBDTClassifierModel(fitted).estimator is fitted
    with pytest.raises(TypeError, match=r"must be a DataFrame of Spark\. Got numpy\.ndarray instead"):
        spark.SparseGBDTClassifierModel(fitted).transform(np.zeros((2, 20)))
    with pytest.raises(ValueError, match=r"must be a fitted LdSMClassifier\. Got SparseGBDTClassifier"):
        spark.LdSMClassifierModel(fitted)
