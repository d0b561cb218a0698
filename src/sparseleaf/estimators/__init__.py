"""The scikit-learn faces of the library."""

from sparseleaf.estimators.sparse import SparseGBDTClassifier

ESTIMATORS = {estimator.method: estimator for estimator in (SparseGBDTClassifier,)}
"""Estimators by the name of their method, as the command line and model files have it."""

__all__ = ["ESTIMATORS", "SparseGBDTClassifier"]
