"""Probabilities and decisions of a fitted classifier: calibration, thresholds and decoding."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp

from sparseleaf._arrays import effective_n_jobs
from sparseleaf.calibration.fit import RankedLabels, fit_calibrator
from sparseleaf.calibration.thresholds import choose_thresholds, parse_target
from sparseleaf.data.targets import ONE_CLASS_PER_ROW, encode_known
from sparseleaf.estimators.declarations import CALIBRATE
from sparseleaf.estimators.naming import available_with
from sparseleaf.estimators.uris import LabelURIsMixin
from sparseleaf.links import normalised
from sparseleaf.metrics import propensities_from_counts
from sparseleaf.model.decoding import Labels, make_decoder, select
from sparseleaf.model.stage import Role
from sparseleaf.progress import phase, reporting

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.model import Model
    from sparseleaf.model.calibrator import Calibrator

NO_CALIBRATOR = (
    "The model has no calibrator, which probabilities require. Call fit_calibration(X, y) with rows not used in"
    " training (on the command line: sparseleaf calibrate), or fit with an eval_set or with calibrate='isotonic'."
)


class CalibrationMixin(LabelURIsMixin):
    """A classifier whose scores can be calibrated."""

    def fit_calibration(self, X: Any, y: Any, *, method: str = "auto") -> Self:
        """Fit a calibrator for the fitted classifier, replacing any previous one. The ranking does not change.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features)
            Features of validation rows, not used in training.
        y : sparse or dense 0/1 matrix, or lists of label names
            Targets of these rows.
        method : {"isotonic", "platt", "auto"}, default="auto"
            Map from scores to probabilities; see the ``calibrate`` parameter.

        Returns
        -------
        self : object
            The classifier with the calibrator.
        """
        model = self._model()
        if method is None or method not in CALIBRATE.values:
            raise ValueError(
                f"The 'method' parameter must be {CALIBRATE.values.text.removesuffix(' or None')}. Got {method!r}"
                " instead."
            )
        rows = self._labelled(X, y)
        with reporting(getattr(self, "verbose", 0)), phase("calibration"):
            calibrator = self._calibrator(model, *rows, method)
        if calibrator is None:
            raise ValueError("X must have rows for which the model scores at least one label.")
        decision = model.stage(Role.DECISION)
        if decision is not None and decision.on_probabilities:  # of the previous calibrator
            model = model.with_stage(Role.DECISION, None)
        self._adopt(model.with_stage(Role.CALIBRATOR, calibrator))
        return self

    def set_threshold(self, X: Any, y: Any, *, target: str = "f1", per_label: bool = False) -> Self:
        """Choose the thresholds of :meth:`predict` on validation rows, replacing the previous ones.

        Thresholds are for probabilities if the model has a calibrator, else for scores. They are stored in the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features)
            Features of validation rows, not used in training.
        y : sparse or dense 0/1 matrix, or lists of label names
            Targets of these rows.
        target : {"f1", "macro-f1", "balanced-f1", "precision:x"}, default="f1"
            What is maximised: micro-averaged F1, macro-averaged F1, the geometric mean of both, or the number of labels
            predicted with a precision of at least x. For "balanced-f1", every frequency group of labels has a
            threshold, if the model has a calibrator. With ``per_label``: F1 or precision of every label.
        per_label : bool, default=False
            Whether every label has a threshold. With a calibrator, labels with few true rows rely more on their
            probabilities; without one, labels with fewer than 10 true rows have the threshold of all labels.

        Returns
        -------
        self : object
            The classifier with the thresholds.
        """
        model = self._model()
        parse_target(target)
        features, truth = self._labelled(X, y)
        on_probabilities = model.calibrator is not None
        with reporting(getattr(self, "verbose", 0)), phase("choosing thresholds"):
            scores = self._scored(features, on_probabilities)
            chosen = choose_thresholds(
                scores,
                truth,
                target,
                per_label=bool(per_label),
                on_probabilities=on_probabilities,
                group=None if model.calibrator is None else model.calibrator.group,
            )
        self._adopt(model.with_stage(Role.DECISION, chosen))
        return self

    # --- inside

    def _adopt_threshold(self, default: float) -> None:
        """Set ``threshold_``: a number, or an array with one per label."""
        model, decision = self.model_, self.model_.stage(Role.DECISION)
        self.threshold_: Any = default if model.threshold is None else model.threshold
        if decision is not None:
            values = decision.values
            self.threshold_ = values if len(values) > 1 else float(values[0])

    @property
    def _has_probabilities(self) -> bool:
        return self.model_.calibrator is not None

    def _scored(self, X: Features, on_probabilities: bool) -> sp.csr_matrix:
        """Scores or probabilities of all scored labels."""
        n_jobs = effective_n_jobs(self.n_jobs)
        scores = self.model_.apply(X, None, n_jobs, device=self._device, calibrated=on_probabilities)
        return scores.sparse()

    def _predict_labels(self, X: Any, decode: str | None) -> Any:
        """Label sets in the format of the targets."""
        return self._label_sets(self._decoded(X, decode))

    def _decoded(self, X: Any, decode: str | None) -> sp.csr_matrix:
        """Scores, or probabilities, of the labels that a decoder of that name returns."""
        model = self._model()
        if model.target_kind in ONE_CLASS_PER_ROW:
            refuse_decode(decode)
        decoder = make_decoder(self._settings().decode if decode is None else decode)
        decision = model.stage(Role.DECISION)
        labels = Labels(
            np.atleast_1d(np.asarray(self.threshold_, np.float32)),
            decision is not None and decision.on_probabilities,
            self._has_probabilities,
            model.label_counts,
            model.n_train_rows,
            propensities_from_counts,
        )
        on_probabilities = decoder.on_probabilities(labels)
        if on_probabilities and not self._has_probabilities:
            raise ValueError(NO_CALIBRATOR)
        scores = self._scored(self._features(X), on_probabilities)
        mask = decoder.kept(scores, labels, effective_n_jobs(self.n_jobs))
        return select(scores, mask)

    def _label_sets(self, chosen: sp.csr_matrix) -> Any:
        model = self.model_
        if model.target_kind == "label-lists":
            names = model.label_names
            assert names is not None
            rows = (slice(a, b) for a, b in pairwise(chosen.indptr))
            return [
                names[chosen.indices[row][np.argsort(-chosen.data[row], kind="stable")]].tolist()
                for row in rows
            ]
        indicator = sp.csr_matrix(
            (np.ones(len(chosen.indices), np.int64), chosen.indices, chosen.indptr), shape=chosen.shape
        )
        return indicator.toarray() if model.target_kind == "multilabel-indicator" else indicator

    def _labelled(self, X: Any, y: Any) -> tuple[Features, sp.csr_matrix]:
        """Validate rows with several labels each."""
        model = self._model()
        if model.target_kind in ONE_CLASS_PER_ROW:
            raise ValueError(
                "Calibration and thresholds are for multi-label targets. For one class per row use"
                " sklearn.calibration.CalibratedClassifierCV."
            )
        features = self._features(X)
        return features, encode_known(y, features.shape[0], model.known_labels)

    def _calibrator(self, model: Model, X: Features, Y: sp.csr_matrix, method: str) -> Calibrator | None:
        n_jobs = effective_n_jobs(self.n_jobs)
        ranked = RankedLabels.from_model(model, X, Y, n_jobs)
        return fit_calibrator(
            method,
            ranked,
            model.label_counts,
            model.label_counts,
            log_odds=model.base_score is None or model.rescored,
            prior_scale=self._prior_scale(model),
            n_jobs=n_jobs,
        )

    def _probabilities_of(self, X: Features, k: int | None) -> sp.csr_matrix:
        """Calibrated probabilities of the k best labels, or of all scored labels."""
        model, n_jobs = self.model_, effective_n_jobs(self.n_jobs)
        likely = model.apply(X, None, n_jobs, device=self._device, calibrated=True)
        return likely.sparse() if k is None else as_matrix(*likely.topk(k), model.n_labels)


def _require_probabilities(estimator: Any) -> None:
    """Raise AttributeError if a fitted classifier with sparse scores has no probabilities."""
    model = vars(estimator).get("model_")
    if model is not None and model.calibrator is None and model.target_kind not in ONE_CLASS_PER_ROW:
        raise AttributeError(NO_CALIBRATOR)


class SparseProbabilitiesMixin(CalibrationMixin):
    """``predict`` and ``predict_proba`` of classifiers with sparse scores."""

    if TYPE_CHECKING:

        def _predict_class(self, X: Any) -> Array: ...

    def predict(self, X: Any, *, decode: str | None = None) -> Any:
        """Predict labels, in the format of the targets passed to ``fit``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features)
            Features.
        decode : str, optional
            Which labels to return, for multi-label targets: "threshold", those with a score of at least
            ``threshold_``; "threshold:x", those with a probability of at least x; "top:k", the k best;
            "expected_f1", as many of the best as maximise the expected F1 of the row; "macro_recall@k" and "psp@k", k
            labels that maximise the expected macro-averaged recall or propensity-scored precision. All but
            "threshold" and "top:k" use probabilities. None: the ``decode`` parameter.

        Returns
        -------
        y : csr_matrix, ndarray or list of lists
            For a 0/1 matrix (sparse or dense): the same, with 1 for the labels returned. For lists of label names:
            lists of these labels, best first. For one class per row: the class with the highest score.
        """
        if self._model().target_kind in ONE_CLASS_PER_ROW:
            refuse_decode(decode)
            return self._predict_class(X)
        return self._predict_labels(X, decode)

    @available_with(_require_probabilities)
    def predict_proba(self, X: Any, k: int | None = None) -> Any:
        """Predict the probability of each label.

        Available if the model has a calibrator: see the ``calibrate`` parameter and :meth:`fit_calibration`. The
        ranking by probability is that of :meth:`predict_topk`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features)
            Features.
        k : int, optional
            Number of labels per row. By default all scored labels.

        Returns
        -------
        probabilities : csr_matrix of float32, shape (n_rows, n_labels)
            Calibrated probabilities of the k best labels of each row; labels that are not stored are less likely. If
            the targets had one class per row: an ndarray of shape (n_rows, n_classes) whose rows sum to 1, the
            normalised scores, which are not calibrated.
        """
        model = self._model()
        check_k(k)
        if model.target_kind in ONE_CLASS_PER_ROW:
            return class_probabilities(
                model.scores(self._features(X), None, effective_n_jobs(self.n_jobs)).toarray()
            )
        return self._probabilities_of(self._features(X), k)


def refuse_decode(decode: str | None) -> None:
    """Raise ValueError for a decoder of targets with one class per row."""
    if decode is not None:
        raise ValueError(
            f"The 'decode' parameter must be None for targets with one class per row. Got {decode!r:.60} instead."
        )


def check_k(k: Any) -> None:
    """Raise ValueError unless k is None or a positive integer."""
    if k is not None and (isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1):
        raise ValueError(f"The 'k' parameter must be an int >= 1 or None. Got {k!r} instead.")


def as_matrix(labels: Array, values: Array, n_labels: int) -> sp.csr_matrix:
    """Ranked labels, -1 for none, as a CSR matrix with sorted labels."""
    listed = labels >= 0
    indptr = np.concatenate(([0], np.cumsum(listed.sum(axis=1))))
    matrix = sp.csr_matrix((values[listed], labels[listed], indptr), shape=(len(labels), n_labels))
    matrix.sort_indices()
    return matrix


def class_probabilities(scores: Array) -> Array:
    """Scores of classes, normalised to sum to 1 and in the same order; rows without positive scores by softmax."""
    if scores.shape[1] == 2:  # the order over rows is that of decision_function
        second = np.clip((1 + scores[:, 1] - scores[:, 0]) / 2, 0, 1)
        return np.column_stack([1 - second, second])
    positive = np.clip(scores, 0, None)
    without = ~(positive > 0).any(axis=1)
    positive[without] = np.exp(scores[without] - scores[without].max(axis=1, keepdims=True, initial=0))
    return normalised(positive)
