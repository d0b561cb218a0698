"""MultiGBDTClassifier: multi-class and multi-label classification with vector-valued leaves (GBDT-MO)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from sparseleaf.data.targets import ONE_CLASS_PER_ROW
from sparseleaf.estimators.declarations import CLASSIFIER
from sparseleaf.estimators.multi import MultiGBDT
from sparseleaf.estimators.naming import named
from sparseleaf.estimators.output_classifier import OutputClassifier
from sparseleaf.estimators.parameters import Table, documented
from sparseleaf.features import TextVectorizer
from sparseleaf.links import LOGISTIC, ONE_VS_REST
from sparseleaf.objectives import DenseObjective, dense_objective
from sparseleaf.training.calibrating import check_calibrate
from sparseleaf.training.dense_targets import KnownTargets, encode_labels

if TYPE_CHECKING:
    from sparseleaf.links import Link
    from sparseleaf.objectives.targets import DenseTargets


@documented
@named
class MultiGBDTClassifier(OutputClassifier, MultiGBDT):
    """Gradient boosted trees with vector-valued leaves for multi-class and multi-label classification (GBDT-MO).

    Every tree predicts all classes. By default the loss is the softmax cross-entropy for one class per row and the
    logistic loss of each label for several labels per row.

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
        ``eval_metric`` after every tree for each validation set: ``"valid loss"`` for a single set, ``"valid_0 loss"``,
        ``"valid_1 loss"``, … for several.
    best_iteration_ : int
        Number of rounds in the model: trees, unless there are bagged models or ``tree_per_output``.
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
    >>> from sparseleaf import MultiGBDTClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = MultiGBDTClassifier(n_trees=20).fit(X, y)
    >>> clf.predict_proba(X).shape
    (150, 3)
    >>> clf.score(X, y) > 0.9
    True
    """

    method: ClassVar[str] = "gbdt-mo"
    parameter_table: ClassVar[Table] = CLASSIFIER

    def __init__(
        self,
        n_trees: int | str = "auto",
        learning_rate: float | str = "auto",
        loss: Any = "auto",
        *,
        leaf_labels: int | None = None,
        max_depth: int | None = None,
        max_leaves: int | str | None = "auto",
        min_samples_leaf: int | str = "auto",
        l2: float = 1.0,
        max_bins: int = 255,
        subsample: float | str = "auto",
        colsample_bytree: float = 1.0,
        n_models: int | str = "auto",
        categorical_features: Any = "auto",
        monotone_constraints: Any = None,
        class_weight: Any = None,
        early_stopping_rounds: int | None = None,
        eval_metric: Any = DenseObjective.default_metric,
        warm_start: bool = False,
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
            learning_rate=learning_rate,
            loss=loss,
            leaf_labels=leaf_labels,
            max_depth=max_depth,
            max_leaves=max_leaves,
            min_samples_leaf=min_samples_leaf,
            l2=l2,
            max_bins=max_bins,
            subsample=subsample,
            colsample_bytree=colsample_bytree,
            n_models=n_models,
            categorical_features=categorical_features,
            monotone_constraints=monotone_constraints,
            early_stopping_rounds=early_stopping_rounds,
            eval_metric=eval_metric,
            warm_start=warm_start,
            vectorizer=vectorizer,
            n_jobs=n_jobs,
            random_state=random_state,
            verbose=verbose,
            advanced=advanced,
            **former,
        )

    def _dense_loss(self, kind: str) -> DenseObjective:
        check_calibrate(self._settings().calibrate, kind)
        one_class = kind in ONE_CLASS_PER_ROW
        auto = self.loss == "auto"
        loss = _default_objective(one_class) if auto else dense_objective(self.loss)
        if loss.needs_classes and not one_class:
            raise ValueError(
                f"loss={self.loss!r} requires one class per row. Got several labels per row instead; use"
                " loss='logistic'."
            )
        return loss

    def _link(self, loss: DenseObjective, kind: str) -> Link:
        one_class = kind in ONE_CLASS_PER_ROW
        link = _default_objective(one_class).link if callable(self.loss) else loss.link
        return ONE_VS_REST if one_class and link is LOGISTIC else link

    def _encode(self, y: Any, n_rows: int, known: KnownTargets | None) -> tuple[KnownTargets, DenseTargets]:
        auto = self.loss == "auto"
        by_class = auto or dense_objective(self.loss).takes_classes
        return encode_labels(y, n_rows, known, by_class=by_class)


def _default_objective(one_class: bool) -> DenseObjective:
    """The default loss: softmax for one class per row, logistic for several labels."""
    return dense_objective("softmax" if one_class else "logistic")
