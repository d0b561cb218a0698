"""MultiForestRegressor: random forests and extremely randomised trees with vector-valued leaves for regression."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
from sklearn.metrics import r2_score

from sparseleaf._warnings import warn
from sparseleaf.estimators.declarations import FOREST_REGRESSOR
from sparseleaf.estimators.multi_forest import MultiForest
from sparseleaf.estimators.naming import named
from sparseleaf.estimators.output_regressor import OutputRegressor
from sparseleaf.estimators.parameters import Table, documented

if TYPE_CHECKING:
    from sparseleaf.training.out_of_bag import OutOfBag

NOT_OUT_OF_BAG = (
    "Some rows are in the samples of all trees and have no out-of-bag prediction. Use more n_trees for a reliable"
    " out-of-bag score."
)


@documented
@named
class MultiForestRegressor(OutputRegressor, MultiForest):
    """Random forest or extremely randomised trees with vector-valued leaves for multi-output regression.

    Every tree predicts all outputs: splits minimise the squared error of all outputs, and a leaf has the mean of its
    rows. The model averages the trees. With ``splitter="random"`` the threshold of every candidate split is drawn at
    random (extra-trees).

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
    oob_score_ : float
        Mean R² of the out-of-bag predictions, with ``oob_score=True`` only.
    oob_prediction_ : ndarray of float32, shape (n_rows,) or (n_rows, n_outputs)
        Out-of-bag prediction of every training row, with ``oob_score=True`` only; NaN if all trees were grown with the
        row.
    best_iteration_ : int
        Number of trees in the model.
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
    >>> from sparseleaf import MultiForestRegressor
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> Y = np.column_stack((X[:, 0], np.sin(6 * X[:, 0])))
    >>> model = MultiForestRegressor(n_trees=50, oob_score=True).fit(X, Y)
    >>> model.predict(X).shape
    (200, 2)
    >>> model.oob_score_ > 0.9
    True
    """

    method: ClassVar[str] = "multi-forest"
    parameter_table: ClassVar[Table] = FOREST_REGRESSOR

    def _adopt_out_of_bag(self, out_of_bag: OutOfBag) -> None:
        self.oob_prediction_ = self._shaped(out_of_bag.scores)
        known = ~np.isnan(out_of_bag.scores)
        if not known.all():
            warn(NOT_OUT_OF_BAG)
        known &= ~np.isnan(out_of_bag.targets.values)
        columns = zip(out_of_bag.targets.values.T, out_of_bag.scores.T, known.T, strict=True)
        scores = [r2_score(y[rows], z[rows]) for y, z, rows in columns if rows.sum() >= 2]
        self.oob_score_ = float(np.mean(scores)) if scores else float("nan")
