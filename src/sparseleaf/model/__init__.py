"""The frozen model: arrays, file, prediction."""

from sparseleaf.model.blend import BlendModel, blend_models
from sparseleaf.model.file import ModelFileError, load_model, save_model
from sparseleaf.model.model import (
    Model,
    Trees,
    concatenate_trees,
    join_trees,
    with_float_values,
    with_short_values,
)
from sparseleaf.model.routed import RoutedModel, RoutedTrees

__all__ = [
    "BlendModel",
    "Model",
    "ModelFileError",
    "RoutedModel",
    "RoutedTrees",
    "Trees",
    "blend_models",
    "concatenate_trees",
    "join_trees",
    "load_model",
    "save_model",
    "with_float_values",
    "with_short_values",
]
