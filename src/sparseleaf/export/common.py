"""Common to the exports of boosted trees: which models can be exported, and their leaves."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from sparseleaf._warnings import warn
from sparseleaf.model import Model
from sparseleaf.model.leaves import leaf_vectors

if TYPE_CHECKING:
    from sparseleaf._arrays import Array

MOST_VALUES = 2**26
"""Maximum number of leaf values: an ONNX file must be smaller than 2 GiB, at up to 20 bytes per value."""

MANY_OUTPUTS = 4096
"""Number of outputs above which there is a warning: other runtimes return dense scores."""


def imported(name: str, function: str) -> Any:
    """An optional package; ImportError that names the extra if it is not installed."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(
            f"{function} requires {name.partition('.')[0]}. Install it with: pip install 'sparseleaf[export]'"
        ) from error


def model_of(estimator: Any) -> Model:
    """The model of a fitted estimator; TypeError for other objects."""
    from sparseleaf.estimators.base import ModelEstimator

    if not isinstance(estimator, ModelEstimator):
        raise TypeError(
            "The 'estimator' parameter must be a fitted estimator of sparseleaf. Got"
            f" {type(estimator).__name__} instead."
        )
    return estimator._model()


def exportable(estimator: Any) -> Model:
    """The model of an estimator with axis-aligned trees alone; ValueError if it has more."""
    from sparseleaf.estimators import ESTIMATORS

    model = model_of(estimator)
    if model.method not in ESTIMATORS or model.scorer.axis_trees is None:
        raise ValueError(
            f"Models of {model.method!r} cannot be exported to ONNX and treelite; only axis-aligned trees (gbdt-sparse,"
            " gbdt-mo, multi-forest, rank) can. to_c exports all models."
        )
    if model.rescored:
        raise ValueError(
            "Models with re-ranking cannot be exported to ONNX and treelite. Train with rerank=None, or use to_c."
        )
    if model.projection is not None:
        raise ValueError(
            "Models with a projection of the features cannot be exported to ONNX and treelite. Train with"
            " projection=None, or use to_c."
        )
    if model.n_trees == 0:
        raise ValueError("Exported models must have at least one tree.")
    return model


def require_values(n_values: int, advice: str = "") -> None:
    """ValueError if there are too many leaf values."""
    if n_values > MOST_VALUES:
        raise ValueError(
            f"Exported models must have at most {MOST_VALUES:,} leaf values. Got {n_values:,} instead; train with"
            f" fewer trees, leaves or labels per leaf{advice}."
        )


def warn_of_outputs(model: Model) -> None:
    """Warn that runtimes return dense scores, if there are many outputs."""
    if model.n_labels > MANY_OUTPUTS:
        warn(
            f"The exported model has {model.n_labels:,} outputs. Runtimes return the scores of all of them:"
            f" {4 * model.n_labels / 1000:,.0f} kB per row; predict in small batches. to_c exports a predictor of the"
            " best labels."
        )


def is_regression(model: Model) -> bool:
    """Whether the outputs are numbers."""
    return model.target_kind.startswith("regression")


def names_of(model: Model) -> dict[str, Any]:
    """Names of outputs, features and categories, for the metadata of a file."""
    return {
        "method": model.method,
        "outputs": None if model.label_names is None else model.label_names.tolist(),
        "features": model.names_of(np.arange(model.n_features)),
        "categories": {str(feature): names for feature, names in model.categories.items()},
    }


def labelled_leaves(model: Model) -> tuple[Array, Array, Array]:
    """Leaf vectors as ``(indptr, labels, values)``, with a label for every value."""
    indptr, labels, values = leaf_vectors(model)
    if not len(labels):
        labels = np.tile(np.arange(model.n_labels), len(values) // max(model.n_labels, 1))
    return indptr, labels, values


def is_categorical(model: Model) -> Array:
    """Whether each node is a categorical split."""
    trees = model.trees
    if not len(trees.categorical):
        return np.zeros(len(trees.feature), bool)
    unordered: Array = (trees.feature >= 0) & (trees.categorical[trees.feature] > 0)
    return unordered
