"""MultiGBDTRegressor: multi-output regression with vector-valued leaves (GBDT-MO)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import check_consistent_length, column_or_1d

from sparseleaf.estimators.declarations import AUTO_REGRESSION, REGRESSOR
from sparseleaf.estimators.multi import MultiGBDT
from sparseleaf.estimators.naming import named
from sparseleaf.estimators.parameters import Table, documented
from sparseleaf.links import LINKS
from sparseleaf.model import Model
from sparseleaf.model.explain import MEMORY_MB
from sparseleaf.objectives import dense_objective
from sparseleaf.training.dense_targets import KnownTargets, as_numbers, encode_numbers, in_order

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.objectives.dense import DenseObjective
    from sparseleaf.objectives.targets import DenseTargets


@documented
@named
class MultiGBDTRegressor(RegressorMixin, MultiGBDT):  # type: ignore[misc]
    """Gradient boosted trees with vector-valued leaves for multi-output regression (GBDT-MO).

    Every tree predicts all outputs, so outputs share the tree structure.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    model_ : Model
        The trained model.
    output_names_ : ndarray of str or None
        Column names of y if it was a DataFrame.
    history_ : dict of str to list of float
        ``eval_metric`` after every tree for each validation set: ``"valid rmse"`` for a single set, ``"valid_0 rmse"``,
        ``"valid_1 rmse"``, … for several.
    best_iteration_ : int
        Number of trees in the model; with ``tree_per_output``, number of rounds.
    interrupted_ : bool
        Whether ``fit`` was stopped early by Ctrl-C; the model has the trees grown until then.
    vectorizer_ : TextVectorizer or None
        Fitted vectorizer; None if X was features.
    n_features_in_ : int
        Number of features seen in ``fit``.
    n_outputs_ : int
        Number of outputs.

    Examples
    --------
    >>> import numpy as np
    >>> from sparseleaf import MultiGBDTRegressor
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> Y = np.column_stack((X[:, 0], np.sin(6 * X[:, 0])))
    >>> model = MultiGBDTRegressor(n_trees=50).fit(X, Y)
    >>> model.predict(X).shape
    (200, 2)
    >>> model.score(X, Y) > 0.9
    True
    """

    method: ClassVar[str] = "gbdt-mo"
    parameter_table: ClassVar[Table] = REGRESSOR

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        table = self.parameter_table["loss"]
        loss = (
            self._dense_loss("regression") if self.loss in table.values else dense_objective(AUTO_REGRESSION)
        )
        tags.target_tags.positive_only = loss.target_range.low >= 0
        # few small steps leave much of the variance unexplained, and a quantile is not a mean
        n_rounds = 100 if isinstance(self.n_trees, str) else self.n_trees
        unexplained = (1 - self.learning_rate) ** (2 * n_rounds)
        tags.regressor_tags.poor_score = unexplained > 0.05 or loss.quantile is not None
        return tags

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

    def _dense_loss(self, kind: str) -> DenseObjective:
        return dense_objective(AUTO_REGRESSION if self.loss == "auto" else self.loss)

    def _encode(self, y: Any, n_rows: int, known: KnownTargets | None) -> tuple[KnownTargets, DenseTargets]:
        return encode_numbers(y, n_rows, known)


def _columns(values: Array) -> Array:
    """Transposed: one row per output."""
    return np.atleast_2d(values.T)
