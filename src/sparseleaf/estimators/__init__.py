"""The scikit-learn faces of the library."""

from typing import Any

from sparseleaf.estimators.ldsm import LdSMClassifier
from sparseleaf.estimators.sparse import SparseGBDTClassifier

ESTIMATORS: dict[str, Any] = {
    estimator.method: estimator for estimator in (SparseGBDTClassifier, LdSMClassifier)
}
"""Estimators by the name of their method, as the command line and model files have it."""

__all__ = ["ESTIMATORS", "LdSMClassifier", "SparseGBDTClassifier"]
