"""What classifiers with dense outputs share: prediction of classes or labels, probabilities and explanation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score

from sparseleaf.data.targets import ONE_CLASS_PER_ROW, decode, encode_known
from sparseleaf.estimators.dense import DenseGBDT
from sparseleaf.estimators.evaluation import known_ranking
from sparseleaf.estimators.probabilities import CalibrationMixin, as_matrix, check_k, refuse_decode
from sparseleaf.estimators.reranking import RerankMixin
from sparseleaf.links import LINKS, normalised
from sparseleaf.metrics import precision_at_k
from sparseleaf.model import Model
from sparseleaf.model.calibrator import all_entries
from sparseleaf.model.explain import MEMORY_MB
from sparseleaf.progress import phase
from sparseleaf.training.dense_targets import partly_known
from sparseleaf.training.validation import EvalSet, eval_sets

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.model.calibrator import Calibrator


class OutputClassifier(RerankMixin, CalibrationMixin, ClassifierMixin, DenseGBDT):  # type: ignore[misc]
    """Base of the classifiers with dense outputs; not public."""

    predicts_labels: ClassVar[bool] = True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def predict_proba(self, X: Any, k: int | None = None) -> Any:
        """Predict the probability of each class or label.

        Probabilities of labels are calibrated if the model has a calibrator: see :meth:`fit_calibration`.

        Parameters
        ----------
        X : {array-like, DataFrame, sparse matrix} of shape (n_rows, n_features), or texts
            Features.
        k : int, optional
            Number of labels per row, for multi-label targets. By default all.

        Returns
        -------
        probabilities : ndarray of float32, shape (n_rows, n_classes)
            For one class per row, rows sum to 1. With ``k``: a csr_matrix with the k best labels of each row.
        """
        model = self._model()
        check_k(k)
        if model.calibrator is not None:
            calibrated = self._probabilities_of(self._features(X), k)
            return calibrated if k is not None else calibrated.toarray()
        probabilities = self._probabilities(self._scores(X))
        if k is None or self._one_class:
            return probabilities
        best = np.argsort(-probabilities, axis=1, kind="stable")[:, :k].astype(np.int32)
        return as_matrix(best, np.take_along_axis(probabilities, best, axis=1), model.n_labels)

    def decision_function(self, X: Any) -> Array:
        """Raw scores, before the link function.

        Parameters
        ----------
        X : {array-like, DataFrame, sparse matrix} of shape (n_rows, n_features), or texts
            Features.

        Returns
        -------
        scores : ndarray of float32, shape (n_rows, n_classes) or (n_rows,)
            One-dimensional for two classes.
        """
        return self._margins(self._scores(X))

    def predict(self, X: Any, *, decode: str | None = None) -> Any:
        """Predict classes or labels, in the format of the targets passed to ``fit``.

        Labels are those with a probability of at least 0.5; after :meth:`fit_rerank`, those with a score of at least
        ``threshold_``, which maximises micro-F1 on its ``eval_set``; after :meth:`set_threshold`, those with its
        thresholds.

        Parameters
        ----------
        X : {array-like, DataFrame, sparse matrix} of shape (n_rows, n_features), or texts
            Features.
        decode : str, optional
            Which labels to return, for multi-label targets: "threshold", "threshold:x", "top:k", "expected_f1",
            "macro_recall@k" or "psp@k", as for :class:`SparseGBDTClassifier`. None: the ``decode`` parameter.

        Returns
        -------
        y : ndarray, csr_matrix or list of lists
            Predicted classes or labels.
        """
        if self._one_class_model():
            refuse_decode(decode)
            return self._predictions(self._scores(X))
        return self._predict_labels(X, decode)

    def predict_topk(self, X: Any, k: int = 5, *, n_trees: int | None = None) -> tuple[Array, Array]:
        """Predict the k classes or labels with the highest scores for each row.

        Parameters
        ----------
        X : {array-like, DataFrame, sparse matrix} of shape (n_rows, n_features), or texts
            Features.
        k : int, default=5
            Number of labels per row.
        n_trees : int, optional
            Use only the first ``n_trees`` trees.

        Returns
        -------
        labels : ndarray of shape (n_rows, k)
            Labels, best first. Names (objects) if the targets had names, else ids (int32). If there are fewer than k
            labels, the rest is None or -1.
        scores : ndarray of float32, shape (n_rows, k)
            Scores of the labels; -inf for missing ones.
        """
        ids, scores = self._topk_ids(X, k, n_trees)
        return decode(ids, self.model_.label_names), scores

    def staged_predict_proba(self, X: Any, *, every: int = 1) -> Iterator[Array]:
        """Return :meth:`predict_proba` after ``every``, 2 · ``every``, … trees.

        Parameters
        ----------
        X : {array-like, DataFrame, sparse matrix} of shape (n_rows, n_features), or texts
            Features.
        every : int, default=1
            Number of trees between two predictions.

        Yields
        ------
        probabilities : ndarray of float32, shape (n_rows, n_classes)
        """
        for scores in self._stages(X, every):
            yield self._probabilities(scores)

    def staged_predict(self, X: Any, *, every: int = 1) -> Iterator[Any]:
        """Return :meth:`predict` after ``every``, 2 · ``every``, … trees.

        Parameters
        ----------
        X : {array-like, DataFrame, sparse matrix} of shape (n_rows, n_features), or texts
            Features.
        every : int, default=1
            Number of trees between two predictions.

        Yields
        ------
        y : ndarray, csr_matrix or list of lists
        """
        for scores in self._stages(X, every):
            yield self._predictions(scores)

    def shap_values(
        self, X: Any, *, labels: Sequence[Any] | Array | None = None, memory_mb: int = MEMORY_MB
    ) -> tuple[Array, Array]:
        """Explain raw scores by exact Shapley values (path-dependent TreeSHAP).

        The values explain the scores before the link function; for two classes there are two scores.

        Parameters
        ----------
        X : {array-like, DataFrame, sparse matrix} of shape (n_rows, n_features), or texts
            Features.
        labels : sequence, optional
            Classes or labels to explain, from ``classes_``. By default all of them.
        memory_mb : int, default=4096
            Maximum size of the result in MiB.

        Returns
        -------
        values : ndarray of float64, shape (n_rows, n_features, n_labels)
            Contribution of each feature to each score.
        expected : ndarray of float64, shape (n_labels,)
            Expected scores: ``values.sum(axis=1) + expected`` equals the scores of the rows.
        """
        return self._explain(X, labels, memory_mb, "labels")

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy; precision at 1 for multi-label targets.

        Missing targets (NaN) are ignored, as in training: only labels with a known target are ranked, and rows without
        any are skipped.

        Parameters
        ----------
        X : {array-like, DataFrame, sparse matrix} of shape (n_rows, n_features), or texts
            Features.
        y : array-like, DataFrame or sparse matrix
            True classes or labels.
        sample_weight : array-like of shape (n_rows,), optional
            Row weights; for one class per row only.

        Returns
        -------
        score : float
            Accuracy or precision at 1.
        """
        model = self._model()
        if model.target_kind in ONE_CLASS_PER_ROW:
            return float(accuracy_score(y, self.predict(X), sample_weight=sample_weight))
        if sample_weight is not None:
            raise ValueError("The 'sample_weight' parameter must be None for multi-label targets.")
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
        self._adopt_threshold(0.5 if model.rescored else self.default_threshold)
        self.classes_ = np.arange(model.n_labels) if model.label_names is None else model.label_names

    def _eval_calibrator(self, eval_set: EvalSet) -> Calibrator | None:
        method, model, sets = self._settings().calibrate, self.model_, eval_sets(eval_set)
        if method is None or self._one_class or not sets:
            return None
        X, y = sets[-1]
        with phase("calibration"):
            return self._calibrator(model, *self._labelled(X, y), method)

    def _one_class_model(self) -> bool:
        return self._model().target_kind in ONE_CLASS_PER_ROW

    @property
    def _has_probabilities(self) -> bool:
        return True  # by the link function, if not calibrated

    def _scored(self, X: Features, on_probabilities: bool) -> sp.csr_matrix:
        if on_probabilities and self.model_.calibrator is not None:
            return super()._scored(X, on_probabilities)
        scores = self._scores(X)
        if on_probabilities:
            scores = self._probabilities(scores)
        return all_entries(scores)

    @property
    def _one_class(self) -> bool:
        return self.model_.target_kind in ONE_CLASS_PER_ROW

    def _probabilities(self, scores: Array) -> Array:
        if self.model_.rescored:
            return normalised(scores) if self._one_class else scores
        return LINKS[self.model_.link].apply(scores)

    def _margins(self, scores: Array) -> Array:
        if self._one_class and scores.shape[1] == 2:
            return scores[:, 1] - scores[:, 0]
        return scores

    def _predictions(self, scores: Array) -> Any:
        kind, names = self.model_.target_kind, self.model_.label_names
        if self._one_class:
            return self.classes_[scores.argmax(axis=1)]
        chosen = scores >= self.threshold_
        if kind == "label-lists":
            assert names is not None
            return [
                names[np.flatnonzero(mask)[np.argsort(-row[mask], kind="stable")]].tolist()
                for row, mask in zip(scores, chosen, strict=True)
            ]
        indicator = chosen.astype(np.int64)
        return indicator if kind == "multilabel-indicator" else sp.csr_matrix(indicator)
