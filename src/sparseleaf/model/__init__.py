"""The frozen model: arrays, file, prediction."""

from sparseleaf.model.file import ModelFileError, load_model, save_model
from sparseleaf.model.model import Model, Trees, concatenate_trees, join_trees, with_float_values

__all__ = [
    "Model",
    "ModelFileError",
    "Trees",
    "concatenate_trees",
    "join_trees",
    "load_model",
    "save_model",
    "with_float_values",
]
