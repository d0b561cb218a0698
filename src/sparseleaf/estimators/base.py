"""Base classes of the estimators: input validation, prediction and saving. Subclasses implement ``fit``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from sparseleaf import _kernels
from sparseleaf._arrays import LARGEST_COUNT, as_csr32, effective_n_jobs, require_countable
from sparseleaf._spelling import Measured, current_history
from sparseleaf._warnings import warn
from sparseleaf.data.checks import TEXT_HINT, check_infinity, check_sparse, check_values
from sparseleaf.data.rows import RowsInfo, refuse_nan
from sparseleaf.data.targets import ONE_CLASS_PER_ROW, decode, encode_known
from sparseleaf.estimators.declarations import DEVICE
from sparseleaf.estimators.explaining import check_titles, explain_rows, make_names
from sparseleaf.estimators.parameters import check_parameters
from sparseleaf.estimators.reporting import ReportMixin
from sparseleaf.estimators.similar import LabelledRows
from sparseleaf.estimators.texts import TextInput
from sparseleaf.features import TextVectorizer
from sparseleaf.metrics import precision_at_k
from sparseleaf.model import Model, save_model
from sparseleaf.model.explain import MEMORY_MB, output_numbers, shap_values
from sparseleaf.progress import phase, reporting
from sparseleaf.training.validation import check_each, eval_sets

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.data.targets import Targets
    from sparseleaf.model.explanation import Explanation

NOT_IN_MODEL = ("n_jobs", "device", "verbose", "vectorizer")
"""Parameters that do not affect the model, or are a stage of it; they are not stored with the others."""

CUSTOM = "custom"
"""Stored in the model file in place of a callable parameter."""

PLAIN_CSR = [(np.dtype(kind), np.dtype(np.int32), np.dtype(np.float32)) for kind in (np.int32, np.int64)]
"""dtypes of indptr, indices and data that the kernels accept without a copy."""


class ModelEstimator(ReportMixin, TextInput):
    """Base of all estimators: a fitted one has a :class:`~sparseleaf.model.Model` in ``model_``."""

    method: ClassVar[str]
    scorer_kind: ClassVar[str] = "trees"
    """Kind of the scoring stage of ``model_``."""
    composite: ClassVar[bool] = False
    """Whether the estimator combines other estimators."""
    dense_scores: ClassVar[bool] = False
    """Whether scores are dense (one per output) and start from a base score."""

    n_jobs: int | None
    random_state: Any
    model_: Model

    @property
    def feature_importances_(self) -> Array:
        """Importance of each feature: fraction of the total gain, or of the router weights for routed trees.

        With a projection, the projected features come first, followed by the raw features if ``keep_raw`` is in use.
        """
        model = self._model()
        columns, values = model.scorer.importances()
        importances = np.zeros(model.n_columns)
        importances[columns] = values
        return importances

    def nonzero_importances(self) -> tuple[Array, Array]:
        """Nonzero entries of ``feature_importances_``, for models with many features.

        Returns
        -------
        columns : ndarray of int
            Numbers of the features.
        importances : ndarray of float
            Their importances.
        """
        columns, importances = self._model().scorer.importances()
        return columns, importances

    # --- explanation

    def explain(
        self,
        X: Any,
        labels: Sequence[Any] | Array | None = None,
        k: int = 5,
        *,
        feature_names: Sequence[str] | Array | None = None,
        titles: Sequence[str] | Array | None = None,
        n_neighbours: int = 3,
        training: tuple[Any, Any] | None = None,
    ) -> Explanation:
        """Explain the scores of labels by the features of each row, and by similar training rows.

        Contributions of the features and a base add up to the score that :meth:`predict_topk` returns, through all
        stages of the model: projection, trees, re-ranker and blend.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features)
            Features.
        labels : sequence, optional
            Labels to explain, the same for every row. By default the k labels (or outputs) with the highest scores.
        k : int, default=5
            Number of labels per row, if ``labels`` is None.
        feature_names : sequence of str, optional
            Names of the features. By default those seen in ``fit``, if there were any.
        titles : sequence of str, optional
            Titles of the training rows, in their order in ``fit`` or ``training``, for the similar ones among them.
        n_neighbours : int, default=3
            Maximum number of similar training rows per label. Without ``training``, only re-rankers with neighbours
            have any: "linear" and "boosted".
        training : tuple (X, y), optional
            Rows with labels, in the form of ``fit``, among which similar ones are found, for classifiers. By default
            the neighbours that the model has.

        Returns
        -------
        explanation : Explanation
            ``explanation[i][j]`` explains the j-th label of row i.
        """
        model = self._model()
        among = None if training is None else LabelledRows.of(self, training)
        names = make_names(model, feature_names, titles, among)
        features = self._features(X)
        with reporting(getattr(self, "verbose", 0)):
            return explain_rows(model, features, labels, k, names, n_neighbours, self.n_jobs, among)

    def label_importances(
        self, labels: Sequence[Any] | Array | None = None, *, max_features: int = 100
    ) -> sp.csr_matrix:
        """Importances of the features for single labels: what drives a label in general.

        They combine what the stages of the model have: gains of splits or router weights, label centroids, linear
        models and naive Bayes, by the weights of the re-ranker or the blend.

        Parameters
        ----------
        labels : sequence, optional
            Labels or outputs. By default all of them, which takes long for many labels.
        max_features : int, default=100
            Number of features per label, those of largest importance.

        Returns
        -------
        importances : csr_matrix of float64, shape (n_labels, n_features)
            In the order of ``labels``. The absolute values of a row sum to 1, or less if features were left out.
            Negative ones speak against the label.
        """
        model = self._model()
        if (
            isinstance(max_features, bool)
            or not isinstance(max_features, int | np.integer)
            or max_features < 1
        ):
            raise ValueError(
                f"The 'max_features' parameter must be an int >= 1. Got {max_features!r} instead."
            )
        numbers = np.arange(model.n_labels) if labels is None else output_numbers(model, labels, "labels")
        return model.label_importances(numbers, int(max_features), effective_n_jobs(self.n_jobs))

    def add_titles(self, titles: Sequence[str] | Array | None) -> Self:
        """Store titles of the training rows in the model, for the similar rows of :meth:`explain`.

        Parameters
        ----------
        titles : sequence of str, or None
            One per training row, in their order in ``fit``; None removes them.

        Returns
        -------
        self : object
            The estimator with the titles.
        """
        model = self._model()
        if titles is not None:
            if model.indexed_rows is None:
                raise ValueError(
                    "The model has no neighbours to which titles would belong. Train it with rerank='linear' or"
                    " 'boosted'."
                )
            titles = [str(title) for title in check_titles(titles, model)]
        self.model_ = model.with_titles(titles)
        return self

    # --- files

    def save(self, path: str | os.PathLike[str], *, compact: bool = True) -> None:
        """Save the model to a file for :func:`sparseleaf.load`. The write is atomic.

        The loaded model returns identical predictions.

        Parameters
        ----------
        path : path-like
            File to write: a local path or an fsspec URL.
        compact : bool, default=True
            Whether to store leaf values and similar arrays as scaled integers where the model has them in this form.
            False stores float32 throughout.
        """
        with reporting(getattr(self, "verbose", 0)), phase("saving"):
            save_model(self._model(), path, compact=compact)

    @classmethod
    def from_model(cls, model: Model) -> Self:
        """Create a fitted estimator from a model."""
        if model.scorer.kind != cls.scorer_kind:
            raise ValueError(
                f"{cls.__name__} requires a model with a {cls.scorer_kind!r} stage. Got {model.scorer.kind!r} instead."
            )
        if (model.base_score is not None) != cls.dense_scores:
            raise ValueError(
                f"{cls.__name__} requires a model {'with' if cls.dense_scores else 'without'} a base_score."
            )
        for name in NOT_IN_MODEL:
            if name in model.parameters:
                raise ValueError(
                    f"parameters: {name!r} is set when a model is loaded and must not be stored in it."
                )
        unknown = sorted(name for name in model.parameters if cls._declared(name) is None)
        if unknown:
            raise ValueError(f"parameters: {unknown[0]!r} is unknown to {cls.__name__}; update sparseleaf.")
        estimator = cls.from_settings(model.parameters)
        values = vars(estimator._settings())
        storable = {
            name: parameter
            for name, parameter in cls.parameter_table.items()
            if not (parameter.takes_function and values[name] == CUSTOM)
        }
        check_parameters(cls.__name__, values, storable)
        history = current_history(model.history, percent=not cls.dense_scores)
        if history != model.history:
            model = replace(model, history=history)
        estimator.n_features_in_ = model.n_features
        if model.feature_names is not None:
            estimator.feature_names_in_ = np.array(model.feature_names, object)
        estimator._adopt(model)
        estimator.vectorizer = estimator.vectorizer_
        return estimator

    # --- inside

    def _adopt(self, model: Model) -> None:
        """Set the attributes of a fitted estimator."""
        self.model_ = model
        stage = model.vectorizer
        self.vectorizer_ = None if stage is None else TextVectorizer.from_stage(stage)
        self.history_ = Measured(model.history, 1.0 if self.dense_scores else 100.0)
        self.best_iteration_ = model.n_trees

    def _model(self) -> Model:
        if "model_" not in vars(self):  # scikit-learn's check takes as long as predicting a row
            check_is_fitted(self, "model_")
        return self.model_

    @property
    def _device(self) -> str:
        """Where large batches are predicted, if the scores are dense."""
        device: str = (self.advanced or {}).get(DEVICE.name, DEVICE.default)
        if device != DEVICE.default:
            DEVICE.require(type(self).__name__, device)
        return device

    def _prior_scale(self, model: Model) -> float:
        """Factor from the scores of rows without known features to probabilities."""
        return 1.0

    def _topk_ids(self, X: Any, k: int, n_trees: int | None) -> tuple[Array, Array]:
        model = self._model()
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
            raise ValueError(f"The 'k' parameter must be an int >= 1. Got {k!r} instead.")
        n_jobs = effective_n_jobs(self.n_jobs)
        return model.topk(self._features(X), int(k), n_trees, n_jobs, self._device)

    def _features(self, X: Any) -> Features:
        """Validate features for prediction, or convert texts: float32, dense or CSR."""
        X = self._as_features(X)
        narrow = _in_float32(X)
        if self._plain(narrow):
            return narrow  # avoids the full check, which would dominate single-row prediction
        checked = self._validate_features(X, reset=False)
        if not self.model_.takes_nan:
            refuse_nan(checked)
        return checked

    def _plain(self, X: Any) -> bool:
        """Whether the kernels accept X as it is; otherwise the full check converts it or raises."""
        n_features = self.model_.n_features
        shape: tuple[int, ...] = getattr(X, "shape", ())
        if len(shape) != 2 or shape[1] != n_features or hasattr(self, "feature_names_in_"):
            return False
        if not 0 < shape[0] <= LARGEST_COUNT:
            return False
        if type(X) is sp.csr_matrix:
            parts = X.indptr, X.indices, X.data
            if tuple(part.dtype for part in parts) not in PLAIN_CSR or len(X.indptr) != shape[0] + 1:
                return False
            whole = all(part.ndim == 1 and part.flags.c_contiguous for part in parts)
            return whole and _kernels.plain_rows(*parts, n_features)
        if type(X) is not np.ndarray or X.dtype != np.float32 or not X.flags.c_contiguous:
            return False
        return _kernels.plain_dense(X, self.model_.takes_nan, effective_n_jobs(self.n_jobs))

    def _explain(
        self, X: Any, outputs: Sequence[Any] | Array | None, memory_mb: int, argument: str
    ) -> tuple[Array, Array]:
        """Shapley values and expected scores; ``argument`` is the public name of ``outputs``."""
        model = self._model()
        n_jobs = effective_n_jobs(self.n_jobs)
        return shap_values(model, self._features(X), outputs, n_jobs, memory_mb=memory_mb, argument=argument)

    def _validate_features(self, X: Any, *, reset: bool) -> Features:
        X = X if reset else self._as_features(X)
        check_values(X, "X")
        n_jobs = effective_n_jobs(self.n_jobs)
        if sp.issparse(X):
            X = check_sparse(X, "X", n_jobs)
        try:
            X = validate_data(
                self,
                X,
                reset=reset,
                accept_sparse="csr",
                dtype=np.float32,
                order="C",
                ensure_all_finite=False,
            )
            check_infinity(X, "X", n_jobs, type(self).__name__)
        except ValueError as error:
            if "could not convert string" not in str(error):
                raise
            raise ValueError(f"X must be numeric, but contains text: {error}. {TEXT_HINT}") from error
        require_countable("X", X.shape[0], "rows in one process")
        require_countable("X", X.shape[1], "features")
        return as_csr32(X, n_jobs) if sp.issparse(X) else X

    def _seed(self) -> int:
        if isinstance(self.random_state, int | np.integer):
            return int(self.random_state) & 0xFFFFFFFF
        return int(check_random_state(self.random_state).randint(2**31))

    def _know_features(self, rows: RowsInfo) -> None:
        """Set the feature attributes from rows that may be on other workers."""
        self.n_features_in_ = rows.n_features
        if rows.names is not None:
            self.feature_names_in_ = np.array(rows.names, object)

    def _feature_names(self) -> list[str] | None:
        """Column names if X was a DataFrame in ``fit``."""
        return list(self.feature_names_in_) if hasattr(self, "feature_names_in_") else None

    def _saved_parameters(self, seed: int) -> dict[str, Any]:
        """Parameters as stored in the model file."""
        settings = vars(self._settings())
        values = {name: settings[name] for name in self.parameter_table if name not in NOT_IN_MODEL}
        values["random_state"] = seed
        return {name: saved(value) for name, value in values.items()}


def _in_float32(X: Any) -> Any:
    """Cast float64 ndarrays and CSR matrices to float32; return other input unchanged."""
    if type(X) not in (np.ndarray, sp.csr_matrix) or X.dtype != np.float64:
        return X
    with np.errstate(over="ignore"):  # the check that follows rejects infinite values
        if type(X) is np.ndarray:
            return np.ascontiguousarray(X, np.float32) if X.ndim == 2 else X
        narrow = sp.csr_matrix(X.shape, dtype=np.float32)  # the arrays are validated later, with the matrix
        narrow.indptr, narrow.indices, narrow.data = X.indptr, X.indices, X.data.astype(np.float32)
        return narrow


def saved(value: Any) -> Any:
    """A parameter value as stored in the model file; a callable is replaced by ``CUSTOM``."""
    if callable(value):
        return CUSTOM
    if isinstance(value, Mapping):
        return {key: saved(entry) for key, entry in value.items()}
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else value


class ModelClassifier(ClassifierMixin, ModelEstimator):  # type: ignore[misc]
    """Base of the classifiers with sparse scores."""

    @property
    def score_threshold(self) -> Any:
        """Deprecated: former name of ``threshold_``."""
        warn(
            "'score_threshold' was renamed to 'threshold_' and will be removed in the release after next.",
            FutureWarning,
        )
        return self.threshold_

    def _adopt_threshold(self, default: float) -> None:
        raise NotImplementedError

    @property
    def _default_threshold(self) -> float:
        """``threshold_`` without a validation set: scores are label frequencies."""
        return 0.5

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.classifier_tags.multi_label = True
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags

    # --- prediction

    def predict_topk(self, X: Any, k: int = 5, *, n_trees: int | None = None) -> tuple[Array, Array]:
        """Predict the k labels with the highest scores for each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features), or texts
            Features.
        k : int, default=5
            Number of labels per row.
        n_trees : int, optional
            Use only the first ``n_trees`` trees.

        Returns
        -------
        labels : ndarray of shape (n_rows, k)
            Labels, best first. Names (objects) if the targets had names, else ids (int32). If a row has fewer than k
            scored labels, the rest is None or -1.
        scores : ndarray of float32, shape (n_rows, k)
            Scores of the labels; -inf for missing ones.
        """
        ids, scores = self._topk_ids(X, k, n_trees)
        return decode(ids, self.model_.label_names), scores

    def decision_function(self, X: Any) -> Any:
        """Scores of all labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features), or texts
            Features.

        Returns
        -------
        scores : csr_matrix of float32, shape (n_rows, n_labels)
            Labels that are not stored have score 0. If the targets had one class per row: an ndarray of shape
            (n_rows, n_classes), or (n_rows,) for two classes, as in scikit-learn.
        """
        scores = self._model().scores(self._features(X), None, effective_n_jobs(self.n_jobs))
        if self.model_.target_kind not in ONE_CLASS_PER_ROW:
            return scores
        dense = scores.toarray()
        return dense[:, 1] - dense[:, 0] if dense.shape[1] == 2 else dense

    def staged_predict_topk(self, X: Any, k: int = 5, *, every: int = 1) -> Iterator[tuple[Array, Array]]:
        """Return :meth:`predict_topk` after ``every``, 2 · ``every``, … trees.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features), or texts
            Features.
        k : int, default=5
            Number of labels per row.
        every : int, default=1
            Number of trees between two predictions.

        Yields
        ------
        labels, scores : ndarrays of shape (n_rows, k)
            As returned by :meth:`predict_topk`.
        """
        n_trees = self._model().n_trees
        if every < 1:
            raise ValueError(f"The 'every' parameter must be an int >= 1. Got {every!r} instead.")
        for used in sorted({*range(every, n_trees + 1, every), n_trees}):
            yield self.predict_topk(X, k, n_trees=used)

    def shap_values(
        self, X: Any, *, labels: Sequence[Any] | Array | None = None, memory_mb: int = MEMORY_MB
    ) -> tuple[Array, Array]:
        """Explain scores by exact Shapley values (path-dependent TreeSHAP).

        With a projection, the values are those of the projected features, followed by the raw features if ``keep_raw``
        is in use, as in ``feature_importances_``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features), or texts
            Features.
        labels : sequence, optional
            Labels to explain, from ``classes_``. By default all labels.
        memory_mb : int, default=4096
            Maximum size of the result in MiB.

        Returns
        -------
        values : ndarray of float64, shape (n_rows, n_columns, n_labels)
            Contribution of each feature to each score.
        expected : ndarray of float64, shape (n_labels,)
            Expected scores: ``values.sum(axis=1) + expected`` equals the scores of the rows.
        """
        return self._explain(X, labels, memory_mb, "labels")

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Precision at 1; accuracy for targets with one class per row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features), or texts
            Features.
        y : sparse or dense 0/1 matrix, lists of label names, or one class per row
            True labels.
        sample_weight : array-like of shape (n_rows,), optional
            Row weights; for one class per row only.

        Returns
        -------
        score : float
            Precision at 1 or accuracy.
        """
        model = self._model()
        if model.target_kind in ONE_CLASS_PER_ROW:
            return float(accuracy_score(y, self.predict(X), sample_weight=sample_weight))
        if sample_weight is not None:
            raise ValueError("The 'sample_weight' parameter must be None for multi-label targets.")
        ids, _ = self._topk_ids(X, 1, None)
        return precision_at_k(encode_known(y, len(ids), model.known_labels), ids, 1)

    # --- inside

    def _adopt(self, model: Model) -> None:
        super()._adopt(model)
        parameter = model.parameters.get("projection")
        self.projection_kind_ = (
            None if model.projection is None else "leml" if parameter == "auto" else parameter
        )
        self.rerank_weight_ = None if model.rerank is None else model.rerank.weight
        self._adopt_threshold(self._default_threshold)
        names = model.label_names
        self.classes_ = np.arange(model.n_labels) if names is None else names

    def _predict_class(self, X: Any) -> Array:
        model = self.model_
        features = self._features(X)
        n_jobs = effective_n_jobs(self.n_jobs)
        ids, scores = model.topk(features, 1, None, n_jobs)
        best = ids[:, 0].astype(np.int64)
        # classes that no leaf stores have score 0, which is higher than a negative score
        for row in np.flatnonzero(~(scores[:, 0] > 0)):
            best[row] = int(model.scores(features[row : row + 1], None, 1).toarray()[0].argmax())
        return self.classes_[best]

    def _eval_rows(
        self, eval_set: Any, targets: Targets, *, without_nan: bool = False
    ) -> list[tuple[Features, sp.csr_matrix]]:
        def check(X: Any, y: Any) -> tuple[Features, sp.csr_matrix]:
            features = self._validate_features(X, reset=False)
            if without_nan:
                refuse_nan(features)
            return features, encode_known(y, features.shape[0], targets)

        return check_each(eval_sets(eval_set), check)
