"""What classifiers with routed trees share: they route on the raw features, which must be numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sparseleaf.estimators.base import ModelClassifier, refuse_nan
from sparseleaf.estimators.reranking import RerankMixin
from sparseleaf.model import Model, RoutedModel

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features


class RoutedClassifier(RerankMixin, ModelClassifier):
    """Base of classifiers whose ``model_`` is a :class:`~sparseleaf.model.RoutedModel`."""

    model_kind: ClassVar[type[Model]] = RoutedModel
    model_: RoutedModel

    @property
    def score_threshold(self) -> float:  # type: ignore[override]
        """Scores are shares: what half the rows of a leaf have is half of one label's share of the row's labels."""
        model = self.model_
        per_row = model.label_counts.sum() / max(1, model.n_train_rows)
        return float(0.5 / max(1.0, per_row))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = False
        return tags

    @property
    def feature_importances_(self) -> Array:
        """Share of the routers' weights, in size, that each feature has."""
        self._model()
        trees = self.model_.trees
        size = np.abs(trees.router_weights).sum(axis=1, dtype=np.float64)
        sums = np.bincount(trees.router_features, size, minlength=self.model_.n_features)
        total = sums.sum()
        importances: Array = sums / total if total > 0 else sums
        return importances

    def _validate_features(self, X: Any, *, reset: bool) -> Features:
        checked = super()._validate_features(X, reset=reset)
        refuse_nan(checked)
        return checked
