"""The trained model: stages, prediction and file format."""

from sparseleaf.model.axis import AxisScorer
from sparseleaf.model.blend import BlendScorer, blend_models
from sparseleaf.model.file import load_model, save_model
from sparseleaf.model.model import Model, in_order
from sparseleaf.model.routed import RoutedScorer, RoutedTrees
from sparseleaf.model.source import ModelFileError
from sparseleaf.model.stage import Role, Rows
from sparseleaf.model.trees import (
    Trees,
    join_trees,
    with_float_values,
    with_scaled_values,
    with_short_values,
)

__all__ = [
    "AxisScorer",
    "BlendScorer",
    "Model",
    "ModelFileError",
    "Role",
    "RoutedScorer",
    "RoutedTrees",
    "Rows",
    "Trees",
    "blend_models",
    "in_order",
    "join_trees",
    "load_model",
    "save_model",
    "with_float_values",
    "with_scaled_values",
    "with_short_values",
]
