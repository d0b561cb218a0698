"""MultiGBDTClassifier: classes or labels, one tree for all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score

from sparseleaf.data.targets import ONE_CLASS_A_ROW, decode, encode_known
from sparseleaf.estimators.declarations import CLASSIFIER
from sparseleaf.estimators.evaluation import known_ranking
from sparseleaf.estimators.multi import MultiGBDT
from sparseleaf.estimators.naming import named
from sparseleaf.estimators.parameters import Table, documented
from sparseleaf.estimators.reranking import RerankMixin
from sparseleaf.links import LINKS, LOGISTIC, ONE_VS_REST, normalised
from sparseleaf.metrics import precision_at_k
from sparseleaf.model import Model
from sparseleaf.model.explain import MEMORY_MB
from sparseleaf.objectives import dense_objective
from sparseleaf.training.dense_targets import KnownTargets, encode_labels, partly_known

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.links import Link
    from sparseleaf.objectives.dense import DenseObjective
    from sparseleaf.objectives.targets import DenseTargets


@documented
@named
class MultiGBDTClassifier(RerankMixin, ClassifierMixin, MultiGBDT):  # type: ignore[misc]
    """Gradient boosted trees for classes or labels: one tree, whose leaves hold a value for every one of them.

    One class a row is fitted with the softmax cross-entropy, several labels a row with the logistic loss of each.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    model_ : Model
    classes_ : array, shape (n_classes,)
        Classes, label names, or 0, 1, ….
    history_ : dict of str to list of float
        ``eval_metric`` after every tree, where there was a validation set: ``"valid loss"``, or ``"valid_0 loss"``,
        ``"valid_1 loss"``, … where there were several.
    best_iteration_ : int
        Trees in the model (rounds with ``tree_per_output``).
    threshold_ : float
        Score from which :meth:`predict` returns a label.
    interrupted_ : bool
        Whether Ctrl-C ended ``fit`` early, which keeps the trees grown so far.
    n_features_in_, n_outputs_ : int

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
    predicts_labels: ClassVar[bool] = True
    parameter_table: ClassVar[Table] = CLASSIFIER

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def predict_proba(self, X: Any) -> Array:
        """Probability of every class or label, float32 (n_rows, n_classes)."""
        return self._probabilities(self._scores(X))

    def decision_function(self, X: Any) -> Array:
        """Scores: (n_rows, n_classes), or (n_rows,) for two classes."""
        return self._margins(self._scores(X))

    def predict(self, X: Any) -> Any:
        """Class of every row, or its labels in the form of the targets.

        Labels are those of probability at least one half; after :meth:`fit_rerank`, those whose score is at least
        ``threshold_``, which is chosen on its ``eval_set`` for the highest micro-F1.

        Returns
        -------
        array, CSR matrix or list of lists
        """
        return self._answers(self._scores(X))

    def predict_topk(self, X: Any, k: int = 5, *, n_trees: int | None = None) -> tuple[Array, Array]:
        """The k best classes or labels of every row, best first, and their scores.

        Returns
        -------
        labels : array, shape (n_rows, k)
            Names where the targets had names (objects, None for no label); else ids (int32, -1 for no label).
        scores : float32 array, shape (n_rows, k)
            -inf where there is no label.
        """
        ids, scores = self._topk_ids(X, k, n_trees)
        return decode(ids, self.model_.label_names), scores

    def staged_predict_proba(self, X: Any, *, every: int = 1) -> Iterator[Array]:
        """:meth:`predict_proba` after ``every``, 2 · ``every``, … trees."""
        for scores in self._stages(X, every):
            yield self._probabilities(scores)

    def staged_predict(self, X: Any, *, every: int = 1) -> Iterator[Any]:
        """:meth:`predict` after ``every``, 2 · ``every``, … trees."""
        for scores in self._stages(X, every):
            yield self._answers(scores)

    def shap_values(
        self, X: Any, *, labels: Sequence[Any] | Array | None = None, memory_mb: int = MEMORY_MB
    ) -> tuple[Array, Array]:
        """What every feature adds to every score of a row: exact Shapley values (path-dependent TreeSHAP).

        Scores are what probabilities are made of; two classes have two of them.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix, shape (n_rows, n_features)
        labels : sequence, optional
            Only these classes or labels, of ``classes_``.
        memory_mb : int, default=4096
            The answer may take so many MiB; more is refused.

        Returns
        -------
        values : float64 array, shape (n_rows, n_features, n_labels)
        expected : float64 array, shape (n_labels,)
            Scores of a row of which nothing is known: ``values.sum(axis=1) + expected`` are those of the row.
        """
        return self._explain(X, labels, memory_mb, "labels")

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy, or precision at 1 where rows have several labels.

        Missing targets (NaN) are ignored, as in training: the best label is that of highest score among those that are
        known for the row, and rows without any are left out.
        """
        model = self._model()
        if model.target_kind in ONE_CLASS_A_ROW:
            return float(accuracy_score(y, self.predict(X), sample_weight=sample_weight))
        if sample_weight is not None:
            raise ValueError("sample_weight: not supported for multi-label targets; wanted None.")
        scores = self._scores(X)
        partly = partly_known(y, len(scores), model.label_names)
        if partly is not None:
            if partly[0].n_outputs != model.n_labels:
                raise ValueError(
                    f"y has {partly[0].n_outputs} labels, but {model.n_labels} were seen in fit."
                )
            return known_ranking("precision@1", partly[1], scores)
        best = scores.argmax(axis=1)[:, None].astype(np.int32)
        return precision_at_k(encode_known(y, len(best), model.known_labels), best, 1)

    # --- inside

    def _adopt(self, model: Model) -> None:
        super()._adopt(model)
        default = 0.5 if model.rescored else 0.0
        self.threshold_ = default if model.threshold is None else model.threshold
        self.classes_ = np.arange(model.n_labels) if model.label_names is None else model.label_names

    @property
    def _one_class(self) -> bool:
        return self.model_.target_kind in ONE_CLASS_A_ROW

    def _probabilities(self, scores: Array) -> Array:
        if self.model_.rescored:
            return normalised(scores) if self._one_class else scores
        return LINKS[self.model_.link].apply(scores)

    def _margins(self, scores: Array) -> Array:
        if self._one_class and scores.shape[1] == 2:
            return scores[:, 1] - scores[:, 0]
        return scores

    def _answers(self, scores: Array) -> Any:
        kind, names = self.model_.target_kind, self.model_.label_names
        if self._one_class:
            return self.classes_[scores.argmax(axis=1)]
        chosen = scores >= self.threshold_
        if kind == "label-lists":
            assert names is not None
            return [
                names[np.flatnonzero(own)[np.argsort(-row[own], kind="stable")]].tolist()
                for row, own in zip(scores, chosen, strict=True)
            ]
        indicator = chosen.astype(np.int64)
        return indicator if kind == "multilabel-indicator" else sp.csr_matrix(indicator)

    def _dense_loss(self, kind: str) -> DenseObjective:
        one_class = kind in ONE_CLASS_A_ROW
        auto = self.loss == "auto"
        loss = _usual_objective(one_class) if auto else dense_objective(self.loss)
        if loss.needs_classes and not one_class:
            raise ValueError(
                f"loss={self.loss!r} requires one class per row. Got several labels per row instead; use"
                " loss='logistic'."
            )
        return loss

    def _link(self, loss: DenseObjective, kind: str) -> Link:
        one_class = kind in ONE_CLASS_A_ROW
        link = _usual_objective(one_class).link if callable(self.loss) else loss.link
        return ONE_VS_REST if one_class and link is LOGISTIC else link

    def _encode(self, y: Any, n_rows: int, known: KnownTargets | None) -> tuple[KnownTargets, DenseTargets]:
        auto = self.loss == "auto"
        by_class = auto or dense_objective(self.loss).takes_classes
        return encode_labels(y, n_rows, known, by_class=by_class)


def _usual_objective(one_class: bool) -> DenseObjective:
    """The loss of one class per row, or of several labels, unless the user chooses another."""
    return dense_objective("softmax" if one_class else "logistic")
