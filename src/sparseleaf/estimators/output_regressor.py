"""What regressors with dense outputs share: prediction, R² with missing targets, and explanation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import check_consistent_length, column_or_1d

from sparseleaf._arrays import effective_n_jobs
from sparseleaf.estimators.dense import DenseGBDT
from sparseleaf.links import LINKS
from sparseleaf.model import Model
from sparseleaf.model.explain import MEMORY_MB
from sparseleaf.training.dense_targets import KnownTargets, as_numbers, encode_numbers, in_order

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.objectives.targets import DenseTargets


class OutputRegressor(RegressorMixin, DenseGBDT):  # type: ignore[misc]
    """Base of the regressors with one or several outputs; not public."""

    def predict(self, X: Any) -> Array:
        """Predict the outputs.

        Parameters
        ----------
        X : {array-like, DataFrame, sparse matrix} of shape (n_rows, n_features), or texts
            Features.

        Returns
        -------
        y : ndarray of float32, shape (n_rows,) or (n_rows, n_outputs)
            One-dimensional if y was one-dimensional in ``fit``.
        """
        return self._shaped(self._scores(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Mean R² over the outputs.

        Missing targets (NaN) are ignored, as in training: R² of an output is computed on the rows in which it is known,
        and outputs known in fewer than two rows are skipped.

        Parameters
        ----------
        X : {array-like, DataFrame, sparse matrix} of shape (n_rows, n_features), or texts
            Features.
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
            True values. Columns of a DataFrame are matched by name.
        sample_weight : array-like of shape (n_rows,), optional
            Row weights.

        Returns
        -------
        score : float
            Mean R².
        """
        predicted = self.predict(X)
        truth = as_numbers(in_order(y, self.model_.label_names))
        known = ~np.isnan(truth)
        if known.all():
            return float(r2_score(truth, predicted, sample_weight=sample_weight))
        check_consistent_length(truth, predicted, sample_weight)
        weights = np.ones(len(truth)) if sample_weight is None else column_or_1d(sample_weight)
        scores = [
            r2_score(target[rows], prediction[rows], sample_weight=weights[rows])
            for target, prediction, rows in zip(*map(_columns, (truth, predicted, known)), strict=True)
            if rows.sum() >= 2
        ]
        if not scores:
            raise ValueError("y must have an output with at least two values that are not NaN.")
        return float(np.mean(scores))

    def staged_predict(self, X: Any, *, every: int = 1) -> Iterator[Array]:
        """Return :meth:`predict` after ``every``, 2 · ``every``, … trees.

        Parameters
        ----------
        X : {array-like, DataFrame, sparse matrix} of shape (n_rows, n_features), or texts
            Features.
        every : int, default=1
            Number of trees between two predictions.

        Yields
        ------
        y : ndarray of float32, shape (n_rows,) or (n_rows, n_outputs)
        """
        for scores in self._stages(X, every):
            yield self._shaped(scores)

    def shap_values(
        self, X: Any, *, outputs: Sequence[Any] | Array | None = None, memory_mb: int = MEMORY_MB
    ) -> tuple[Array, Array]:
        """Explain predictions by exact Shapley values (path-dependent TreeSHAP).

        For losses with a log link (``"poisson"``, ``"tweedie"``, ``"gamma"``) the values explain the logarithm of the
        prediction.

        Parameters
        ----------
        X : {array-like, DataFrame, sparse matrix} of shape (n_rows, n_features), or texts
            Features.
        outputs : sequence, optional
            Outputs to explain: column names if y was a DataFrame, else numbers. By default all outputs.
        memory_mb : int, default=4096
            Maximum size of the result in MiB.

        Returns
        -------
        values : ndarray of float64, shape (n_rows, n_features, n_outputs)
            Contribution of each feature to each output.
        expected : ndarray of float64, shape (n_outputs,)
            Expected outputs: ``values.sum(axis=1) + expected`` equals the predictions of the rows, before the link.
        """
        return self._explain(X, outputs, memory_mb, "outputs")

    def _shaped(self, scores: Array) -> Array:
        values = LINKS[self.model_.link].apply(scores)
        return values[:, 0] if self.model_.target_kind == "regression-column" else values

    def _adopt(self, model: Model) -> None:
        super()._adopt(model)
        self.output_names_ = model.label_names

    def _encode(self, y: Any, n_rows: int, known: KnownTargets | None) -> tuple[KnownTargets, DenseTargets]:
        return encode_numbers(y, n_rows, known, effective_n_jobs(self.n_jobs))


def _columns(values: Array) -> Array:
    """Transposed: one row per output."""
    return np.atleast_2d(values.T)
