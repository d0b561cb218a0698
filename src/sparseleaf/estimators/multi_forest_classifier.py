"""MultiForestClassifier: random forests and extremely randomised trees with vector-valued leaves for classification."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sparseleaf._arrays import effective_n_jobs
from sparseleaf._warnings import warn
from sparseleaf.estimators.declarations import FOREST_CLASSIFIER
from sparseleaf.estimators.evaluation import known_ranking
from sparseleaf.estimators.multi_forest import MultiForest
from sparseleaf.estimators.multi_forest_regressor import NOT_OUT_OF_BAG
from sparseleaf.estimators.naming import named
from sparseleaf.estimators.output_classifier import OutputClassifier
from sparseleaf.estimators.parameters import Table, documented
from sparseleaf.features import TextVectorizer
from sparseleaf.links import normalised
from sparseleaf.training.calibrating import check_calibrate
from sparseleaf.training.dense_targets import KnownTargets, encode_labels

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.objectives.dense import DenseObjective
    from sparseleaf.objectives.targets import DenseTargets
    from sparseleaf.training.out_of_bag import OutOfBag


@documented
@named
class MultiForestClassifier(OutputClassifier, MultiForest):
    """Random forest or extremely randomised trees with vector-valued leaves for classes and labels.

    Every tree predicts all classes or labels: splits minimise the Gini index, summed over labels, and a leaf has the
    frequencies of its rows' classes or labels, of which it stores those above 0. The model averages the trees. With
    ``splitter="random"`` the threshold of every candidate split is drawn at random (extra-trees).

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    model_ : Model
        The trained model.
    classes_ : ndarray of shape (n_classes,)
        Classes or label names, or 0, 1, … if labels have no names.
    history_ : dict of str to list of float
        ``eval_metric`` after every tree for each validation set: ``"valid accuracy"`` for a single set,
        ``"valid_0 accuracy"``, ``"valid_1 accuracy"``, … for several.
    oob_score_ : float
        Accuracy of the out-of-bag predictions, or precision at 1 for multi-label targets; with ``oob_score=True`` only.
    oob_decision_function_ : ndarray of float32, shape (n_rows, n_classes)
        Out-of-bag probabilities of every training row, with ``oob_score=True`` only; NaN if all trees were grown with
        the row.
    best_iteration_ : int
        Number of trees in the model.
    threshold_ : float
        Minimum score of the labels that :meth:`predict` returns.
    interrupted_ : bool
        Whether ``fit`` was stopped early by Ctrl-C; the model has the trees grown until then.
    vectorizer_ : TextVectorizer or None
        Fitted vectorizer; None if X was features.
    n_features_in_ : int
        Number of features seen in ``fit``.
    n_outputs_ : int
        Number of classes or labels.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sparseleaf import MultiForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = MultiForestClassifier(oob_score=True).fit(X, y)
    >>> clf.predict_proba(X).shape
    (150, 3)
    >>> clf.oob_score_ > 0.9
    True
    """

    method: ClassVar[str] = "multi-forest"
    parameter_table: ClassVar[Table] = FOREST_CLASSIFIER
    dense_scores: ClassVar[bool] = False
    default_threshold: ClassVar[float] = 0.5

    def __init__(
        self,
        n_trees: int = 100,
        *,
        max_features: Any = "sqrt",
        min_samples_leaf: int = 1,
        max_depth: int | None = None,
        max_leaves: int | None = None,
        splitter: str = "best",
        bootstrap: bool | str = "auto",
        subsample: float = 1.0,
        oob_score: bool = False,
        max_bins: int = 255,
        categorical_features: Any = "auto",
        class_weight: Any = None,
        eval_metric: Any = "accuracy",
        vectorizer: TextVectorizer | None = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: int = 0,
        advanced: Mapping[str, Any] | None = None,
        **former: Any,
    ) -> None:
        self.class_weight = class_weight
        super().__init__(
            n_trees=n_trees,
            max_features=max_features,
            min_samples_leaf=min_samples_leaf,
            max_depth=max_depth,
            max_leaves=max_leaves,
            splitter=splitter,
            bootstrap=bootstrap,
            subsample=subsample,
            oob_score=oob_score,
            max_bins=max_bins,
            categorical_features=categorical_features,
            eval_metric=eval_metric,
            vectorizer=vectorizer,
            n_jobs=n_jobs,
            random_state=random_state,
            verbose=verbose,
            advanced=advanced,
            **former,
        )

    def decision_function(self, X: Any) -> Array:
        """Scores relative to those that :meth:`predict` requires.

        Parameters
        ----------
        X : {array-like, DataFrame, sparse matrix} of shape (n_rows, n_features), or texts
            Features.

        Returns
        -------
        scores : ndarray of float32, shape (n_rows, n_classes) or (n_rows,)
            Class frequencies, for two classes their difference; for several labels per row, frequencies minus 0.5.
        """
        return self._margins(self._scores(X))

    # --- inside

    def _margins(self, scores: Array) -> Array:
        return super()._margins(scores) if self._one_class else scores - np.float32(0.5)

    def _probabilities(self, scores: Array) -> Array:
        frequencies = np.clip(scores, 0, 1)
        return normalised(frequencies) if self._one_class else frequencies

    def _topk_ids(self, X: Any, k: int, n_trees: int | None) -> tuple[Array, Array]:
        if n_trees is None:
            return super()._topk_ids(X, k, None)
        features = self._features(X)
        return self._first_trees(n_trees).topk(features, k, n_trees, effective_n_jobs(self.n_jobs))

    def _dense_loss(self, kind: str) -> DenseObjective:
        check_calibrate(self._settings().calibrate, kind)
        return super()._dense_loss(kind)

    def _encode(self, y: Any, n_rows: int, known: KnownTargets | None) -> tuple[KnownTargets, DenseTargets]:
        return encode_labels(y, n_rows, known, by_class=True)

    def _adopt_out_of_bag(self, out_of_bag: OutOfBag) -> None:
        scores, targets = out_of_bag.scores, out_of_bag.targets
        self.oob_decision_function_ = self._probabilities(scores)
        seen = ~np.asarray(np.isnan(scores).any(axis=1))
        if not seen.all():
            warn(NOT_OUT_OF_BAG)
        if len(targets.classes):
            seen &= targets.classes >= 0
            right = scores[seen].argmax(axis=1) == targets.classes[seen]
            self.oob_score_ = float(right.mean()) if len(right) else float("nan")
            return
        unseen = np.where(seen[:, None], targets.values, np.nan).astype(np.float32)
        if np.isnan(unseen).all():
            self.oob_score_ = float("nan")
            return
        known = type(targets)(unseen, targets.classes, targets.weights, targets.n_outputs)
        self.oob_score_ = known_ranking("precision@1", known, np.nan_to_num(scores))
