"""scikit-learn estimators."""

from sparseleaf.estimators.base import ModelEstimator
from sparseleaf.estimators.blend import BlendClassifier
from sparseleaf.estimators.forest import SketchForestClassifier
from sparseleaf.estimators.ldsm import LdSMClassifier
from sparseleaf.estimators.multi_classifier import MultiGBDTClassifier
from sparseleaf.estimators.multi_forest_classifier import MultiForestClassifier
from sparseleaf.estimators.multi_forest_regressor import MultiForestRegressor
from sparseleaf.estimators.multi_regressor import MultiGBDTRegressor
from sparseleaf.estimators.ranker import GBDTRanker
from sparseleaf.estimators.sparse import SparseGBDTClassifier

ESTIMATORS: dict[str, dict[str, type[ModelEstimator]]] = {
    "gbdt-sparse": {"classification": SparseGBDTClassifier},
    "gbdt-mo": {"classification": MultiGBDTClassifier, "regression": MultiGBDTRegressor},
    "multi-forest": {"classification": MultiForestClassifier, "regression": MultiForestRegressor},
    "forest": {"classification": SketchForestClassifier},
    "ldsm": {"classification": LdSMClassifier},
    "rank": {"regression": GBDTRanker},
    "blend": {"classification": BlendClassifier},
}
"""Estimators by method (the name used by the CLI and in model files) and by task."""


def task_of(target_kind: str) -> str:
    """Task of a model with targets of this kind."""
    return "regression" if target_kind.startswith("regression") else "classification"


__all__ = [
    "ESTIMATORS",
    "BlendClassifier",
    "GBDTRanker",
    "LdSMClassifier",
    "MultiForestClassifier",
    "MultiForestRegressor",
    "MultiGBDTClassifier",
    "MultiGBDTRegressor",
    "SketchForestClassifier",
    "SparseGBDTClassifier",
    "task_of",
]
