"""MultiGBDTRegressor: multi-output regression with vector-valued leaves (GBDT-MO)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from sparseleaf.estimators.declarations import AUTO_REGRESSION, REGRESSOR
from sparseleaf.estimators.multi import MultiGBDT
from sparseleaf.estimators.naming import named
from sparseleaf.estimators.output_regressor import OutputRegressor
from sparseleaf.estimators.parameters import Table, documented
from sparseleaf.objectives import dense_objective
from sparseleaf.training.auto import AUTO_VALUES

if TYPE_CHECKING:
    from sparseleaf.objectives.dense import DenseObjective


@documented
@named
class MultiGBDTRegressor(OutputRegressor, MultiGBDT):
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
        Number of rounds in the model: trees, unless there are bagged models or ``tree_per_output``.
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
        usual = AUTO_VALUES["learning_rate"].fixed
        rate = usual if isinstance(self.learning_rate, str) else self.learning_rate
        unexplained = (1 - rate) ** (2 * n_rounds)
        tags.regressor_tags.poor_score = unexplained > 0.05 or loss.quantile is not None
        return tags

    def _dense_loss(self, kind: str) -> DenseObjective:
        return dense_objective(AUTO_REGRESSION if self.loss == "auto" else self.loss)
