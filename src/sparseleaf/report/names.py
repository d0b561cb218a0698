"""Names of features, labels and tree columns in a report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.model import Model
    from sparseleaf.model.explanation import Names

COMPONENT_FEATURES = 8
"""Number of features that describe a projected column."""


class FeatureList:
    """The features that a report shows. Each is stored once; tables refer to them by position."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._places: dict[int, int] = {}

    def places(self, features: Array) -> list[int]:
        """Positions of features in :meth:`names`."""
        return [self._places.setdefault(feature, len(self._places)) for feature in features.tolist()]

    def names(self) -> list[str]:
        """Names of all features that were listed so far."""
        return self._names.features(np.fromiter(self._places, np.int64, len(self._places)))

    def of(self, features: Array) -> list[str]:
        """Names of some features."""
        return self._names.features(features)


def label_texts(names: Array | None, n_labels: int, readable: Mapping[Any, str] | None) -> list[str]:
    """What is shown for each label: its name, or its id; with ``readable``, its readable name and the label."""
    labels = list(range(n_labels)) if names is None else names.tolist()
    if readable is None:
        return [str(label) for label in labels]
    # keys of files are strings
    shown = [readable.get(label, readable.get(str(label))) for label in labels]
    return [
        str(label) if text is None else f"{text} ({label})" for label, text in zip(labels, shown, strict=True)
    ]


@dataclass(frozen=True)
class Column:
    """A column of the trees: a feature, or a projection of all features.

    Attributes
    ----------
    name : str
    features : int array
        Features of largest weight of a projected column; empty for a feature.
    weights : float array
        Their weights.
    """

    name: str
    features: Array
    weights: Array


def columns_of(model: Model, numbers: Array, features: FeatureList) -> list[Column]:
    """Columns of the trees by number; projected ones precede the features."""
    n_projected = 0 if model.projection is None else int(model.projection.components.shape[1])
    raw = iter(features.of(numbers[numbers >= n_projected] - n_projected))
    return [
        _projected(model, number)
        if number < n_projected
        else Column(next(raw), np.empty(0, np.int64), np.empty(0))
        for number in numbers.tolist()
    ]


def _projected(model: Model, number: int) -> Column:
    weights = np.asarray(model.projection.components[:, number], np.float64)
    best = np.argsort(-np.abs(weights), kind="stable")[:COMPONENT_FEATURES]
    best = best[weights[best] != 0]
    return Column(f"projection {number}", best, weights[best])
