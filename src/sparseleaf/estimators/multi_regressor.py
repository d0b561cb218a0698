"""MultiGBDTRegressor: several numbers at once, one tree for all of them."""

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
    """Gradient boosted trees for several numbers at once: one tree, whose leaves hold a value for every output.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    model_ : Model
    output_names_ : array of str or None
        Columns of the DataFrame that y was.
    history_ : dict of str to list of float
        ``eval_metric`` after every tree, where there was a validation set: ``"valid rmse"``, or ``"valid_0 rmse"``,
        ``"valid_1 rmse"``, … where there were several.
    best_iteration_ : int
        Trees in the model (rounds with ``tree_per_output``).
    interrupted_ : bool
        Whether Ctrl-C ended ``fit`` early, which keeps the trees grown so far.
    n_features_in_, n_outputs_ : int

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
        # of the variance, few small steps leave much unexplained; and a quantile is no mean
        unexplained = (1 - self.learning_rate) ** (2 * self.n_trees)
        tags.regressor_tags.poor_score = unexplained > 0.05 or loss.quantile is not None
        return tags

    def predict(self, X: Any) -> Array:
        """Numbers of every row: (n_rows,) where y was one column, else (n_rows, n_outputs)."""
        return self._shaped(self._scores(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Mean R² of the outputs; columns of a DataFrame are matched by name.

        Missing targets (NaN) are ignored, as in training: R² of an output is that of the rows in which it is known, and
        outputs that fewer than two rows have are left out of the mean.
        """
        predicted = self.predict(X)
        truth = as_numbers(in_order(y, self.model_.label_names))
        known = ~np.isnan(truth)
        if known.all():
            return float(r2_score(truth, predicted, sample_weight=sample_weight))
        check_consistent_length(truth, predicted, sample_weight)
        weights = np.ones(len(truth)) if sample_weight is None else column_or_1d(sample_weight)
        found = [
            r2_score(output[rows], own[rows], sample_weight=weights[rows])
            for output, own, rows in zip(*map(_columns, (truth, predicted, known)), strict=True)
            if rows.sum() >= 2
        ]
        if not found:
            raise ValueError("y must have an output with at least two values that are not NaN.")
        return float(np.mean(found))

    def staged_predict(self, X: Any, *, every: int = 1) -> Iterator[Array]:
        """:meth:`predict` after ``every``, 2 · ``every``, … trees."""
        for scores in self._stages(X, every):
            yield self._shaped(scores)

    def shap_values(
        self, X: Any, *, outputs: Sequence[Any] | Array | None = None, memory_mb: int = MEMORY_MB
    ) -> tuple[Array, Array]:
        """What every feature adds to every output of a row: exact Shapley values (path-dependent TreeSHAP).

        With a log link (``"poisson"``, ``"tweedie"``, ``"gamma"``) these explain the logarithm of what :meth:`predict`
        returns.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix, shape (n_rows, n_features)
        outputs : sequence, optional
            Only these outputs: names where y was a DataFrame, else numbers.
        memory_mb : int, default=4096
            The answer may take so many MiB; more is refused.

        Returns
        -------
        values : float64 array, shape (n_rows, n_features, n_outputs)
        expected : float64 array, shape (n_outputs,)
            Outputs of a row of which nothing is known: ``values.sum(axis=1) + expected`` are those of the row.
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
    """One row an output."""
    return np.atleast_2d(values.T)
