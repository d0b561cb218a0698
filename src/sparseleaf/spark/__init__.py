"""Estimators for Spark DataFrames with the API of ``pyspark.ml`` (extra ``spark``).

``fit`` trains where the data is, in one barrier task per worker, and ``transform`` predicts in the executors. The
model is byte-identical to the one that a single process trains on the same rows.
"""

try:
    import pyspark  # noqa: F401
except ImportError:
    raise ImportError("sparseleaf.spark requires PySpark: pip install sparseleaf[spark].") from None

from sparseleaf.spark.estimators import (
    GBDTRanker,
    GBDTRankerModel,
    LdSMClassifier,
    LdSMClassifierModel,
    MultiGBDTClassifier,
    MultiGBDTClassifierModel,
    MultiGBDTRegressor,
    MultiGBDTRegressorModel,
    SketchForestClassifier,
    SketchForestClassifierModel,
    SparseGBDTClassifier,
    SparseGBDTClassifierModel,
)
from sparseleaf.spark.evaluation import TopKEvaluator

__all__ = [
    "GBDTRanker",
    "GBDTRankerModel",
    "LdSMClassifier",
    "LdSMClassifierModel",
    "MultiGBDTClassifier",
    "MultiGBDTClassifierModel",
    "MultiGBDTRegressor",
    "MultiGBDTRegressorModel",
    "SketchForestClassifier",
    "SketchForestClassifierModel",
    "SparseGBDTClassifier",
    "SparseGBDTClassifierModel",
    "TopKEvaluator",
]
