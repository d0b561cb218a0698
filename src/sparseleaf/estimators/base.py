"""What every estimator of the library does with its model: check features, predict, save. Fitting is the subclass's."""

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
from sparseleaf.data.checks import TEXT_HINT, check_sparse, check_values
from sparseleaf.data.rows import RowsInfo, refuse_nan
from sparseleaf.data.targets import ONE_CLASS_A_ROW, decode, encode_known
from sparseleaf.estimators.declared import DeclaredEstimator
from sparseleaf.estimators.parameters import check_parameters
from sparseleaf.metrics import precision_at_k
from sparseleaf.model import Model, save_model
from sparseleaf.model.explain import MEMORY_MB, shap_values
from sparseleaf.progress import phase, reporting
from sparseleaf.training.validation import check_each, eval_sets

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.data.targets import Targets

NOT_IN_MODEL = ("n_jobs", "verbose")
"""Parameters that change how training runs, not what comes out; the model file does not hold them."""

CUSTOM = "custom"
"""What the model file says of a parameter that was a function."""

PLAIN_CSR = [(np.dtype(kind), np.dtype(np.int32), np.dtype(np.float32)) for kind in (np.int32, np.int64)]
"""Types of row pointers, columns and values that need no copy."""


class ModelEstimator(DeclaredEstimator):
    """Base of all: a fitted estimator holds a :class:`~sparseleaf.model.Model` as ``model_``."""

    method: ClassVar[str]
    scorer_kind: ClassVar[str] = "trees"
    """What scores labels in ``model_``: the kind of that stage."""
    composite: ClassVar[bool] = False
    """Whether it is made of other estimators, which are trained first."""
    dense_scores: ClassVar[bool] = False
    """Whether rows have a score for every output, on from a base score."""

    n_jobs: int | None
    random_state: Any
    model_: Model

    @property
    def feature_importances_(self) -> Array:
        """Share of the total gain that each column brought, or, where nodes have routers, of the routers' weights.

        With a projection these are the projected columns, followed by those of X where ``keep_raw`` kept them.
        """
        model = self._model()
        columns, shares = model.scorer.importances()
        importances = np.zeros(model.n_columns)
        importances[columns] = shares
        return importances

    def nonzero_importances(self) -> tuple[Array, Array]:
        """The columns whose importance is not 0, and their importances: there may be very many others."""
        columns, shares = self._model().scorer.importances()
        return columns, shares

    # --- files

    def save(self, path: str | os.PathLike[str], *, compact: bool = True) -> None:
        """Write the model to a file that :func:`sparseleaf.load` reads; complete or not at all.

        The loaded model predicts the very same numbers. Without ``compact`` all of them are written as float32, where
        the model holds some as integers with a scale: see ``docs/file-format.md``.
        """
        with reporting(getattr(self, "verbose", 0)), phase("saving"):
            save_model(self._model(), path, compact=compact)

    @classmethod
    def from_model(cls, model: Model) -> Self:
        """A fitted estimator around a model."""
        if model.scorer.kind != cls.scorer_kind:
            raise ValueError(f"{cls.__name__} wants trees of another kind than these.")
        if (model.base_score is not None) != cls.dense_scores:
            raise ValueError(f"base_score: {cls.__name__} wants {'one' if cls.dense_scores else 'none'}.")
        for name in NOT_IN_MODEL:
            if name in model.parameters:
                raise ValueError(
                    f"parameters: {name!r} is the reader's to choose; wanted a model without it."
                )
        unknown = sorted(name for name in model.parameters if cls._declared(name) is None)
        if unknown:
            raise ValueError(f"parameters: {unknown[0]!r} is unknown to {cls.__name__}; update sparseleaf.")
        estimator = cls.from_settings(model.parameters)
        values = vars(estimator._settings())
        told = {
            name: parameter
            for name, parameter in cls.parameter_table.items()
            if not (parameter.takes_function and values[name] == CUSTOM)
        }
        check_parameters(cls.__name__, values, told)
        history = current_history(model.history, percent=not cls.dense_scores)
        if history != model.history:
            model = replace(model, history=history)
        estimator.n_features_in_ = model.n_features
        if model.feature_names is not None:
            estimator.feature_names_in_ = np.array(model.feature_names, object)
        estimator._adopt(model)
        return estimator

    # --- inside

    def _adopt(self, model: Model) -> None:
        """Set the attributes of a fitted estimator."""
        self.model_ = model
        self.history_ = Measured(model.history, 1.0 if self.dense_scores else 100.0)
        self.best_iteration_ = model.n_trees

    def _model(self) -> Model:
        if "model_" not in vars(self):  # asking scikit-learn costs as much as a row
            check_is_fitted(self, "model_")
        return self.model_

    def _topk_ids(self, X: Any, k: int, n_trees: int | None) -> tuple[Array, Array]:
        model = self._model()
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
            raise ValueError(f"k: found {k!r}; wanted an int of at least 1.")
        return model.topk(self._features(X), int(k), n_trees, effective_n_jobs(self.n_jobs))

    def _features(self, X: Any) -> Features:
        """Checked features of rows to predict: float32, dense or CSR."""
        narrow = _in_float32(X)
        if self._plain(narrow):
            return narrow  # nothing to do: a single row is served without the full check's cost
        checked = self._validate_features(X, reset=False)
        if not self.model_.takes_nan:
            refuse_nan(checked)
        return checked

    def _plain(self, X: Any) -> bool:
        """Whether rows are what kernels take, as they are; if not, the full check says why, or mends them."""
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
        return bool(not np.isinf(X).any() if self.model_.takes_nan else np.isfinite(X).all())

    def _explain(
        self, X: Any, wanted: Sequence[Any] | Array | None, memory_mb: int, argument: str
    ) -> tuple[Array, Array]:
        """Shapley values and expected scores; ``argument`` is what the user calls ``wanted``."""
        model = self._model()
        n_jobs = effective_n_jobs(self.n_jobs)
        return shap_values(model, self._features(X), wanted, n_jobs, memory_mb=memory_mb, argument=argument)

    def _validate_features(self, X: Any, *, reset: bool) -> Features:
        check_values(X, "X")
        if sp.issparse(X):
            X = check_sparse(X, "X")
        try:
            X = validate_data(
                self,
                X,
                reset=reset,
                accept_sparse="csr",
                dtype=np.float32,
                order="C",
                ensure_all_finite="allow-nan",
            )
        except ValueError as error:
            if "could not convert string" not in str(error):
                raise
            raise ValueError(f"X must be numeric, but contains text: {error}. {TEXT_HINT}") from error
        require_countable("X", X.shape[0], "rows in one process")
        require_countable("X", X.shape[1], "features")
        return as_csr32(X) if sp.issparse(X) else X

    def _seed(self) -> int:
        if isinstance(self.random_state, int | np.integer):
            return int(self.random_state) & 0xFFFFFFFF
        return int(check_random_state(self.random_state).randint(2**31))

    def _know_features(self, rows: RowsInfo) -> None:
        """Take the features of rows that may be elsewhere."""
        self.n_features_in_ = rows.n_features
        if rows.names is not None:
            self.feature_names_in_ = np.array(rows.names, object)

    def _feature_names(self) -> list[str] | None:
        """Columns of the DataFrame of training, where it was one."""
        return list(self.feature_names_in_) if hasattr(self, "feature_names_in_") else None

    def _saved_parameters(self, seed: int) -> dict[str, Any]:
        """Parameters as the model file holds them; a function of the user's is only named."""
        settings = vars(self._settings())
        values = {name: settings[name] for name in self.parameter_table if name not in NOT_IN_MODEL}
        values["random_state"] = seed
        return {name: saved(value) for name, value in values.items()}


def _in_float32(X: Any) -> Any:
    """Plain rows of float64 as float32; all else as it is."""
    if type(X) not in (np.ndarray, sp.csr_matrix) or X.dtype != np.float64:
        return X
    with np.errstate(over="ignore"):  # what is too large is refused by the check that follows
        if type(X) is np.ndarray:
            return np.ascontiguousarray(X, np.float32) if X.ndim == 2 else X
        narrow = sp.csr_matrix(X.shape, dtype=np.float32)  # parts are checked where the matrix is
        narrow.indptr, narrow.indices, narrow.data = X.indptr, X.indices, X.data.astype(np.float32)
        return narrow


def saved(value: Any) -> Any:
    """A parameter as the model file holds it; a function is only named."""
    if callable(value):
        return CUSTOM
    if isinstance(value, Mapping):
        return {key: saved(one) for key, one in value.items()}
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else value


class ModelClassifier(ClassifierMixin, ModelEstimator):  # type: ignore[misc]
    """Base of the classifiers whose scores are sparse."""

    @property
    def score_threshold(self) -> float:
        """The former name of ``threshold_``."""
        warn(
            "'score_threshold' was renamed to 'threshold_' and will be removed in the release after next.",
            FutureWarning,
        )
        return self.threshold_

    @property
    def _default_threshold(self) -> float:
        """``threshold_`` where there were no validation rows to choose it on: scores are rates."""
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
        """The k best labels of every row.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n_rows, n_features)
        k : int
        n_trees : int, optional
            Use only the first trees.

        Returns
        -------
        labels : array, shape (n_rows, k)
            Best first. Names where the targets had names (objects, None for no label); else ids (int32, -1 for
            no label).
        scores : float32 array, shape (n_rows, k)
            -inf where there is no label: a row's leaves may name fewer than k.
        """
        ids, scores = self._topk_ids(X, k, n_trees)
        return decode(ids, self.model_.label_names), scores

    def decision_function(self, X: Any) -> Any:
        """Scores of all labels.

        Returns
        -------
        CSR matrix, shape (n_rows, n_labels), float32
            What is not stored is 0. For targets with one class a row it is an array, as scikit-learn has it:
            (n_rows, n_classes), or (n_rows,) for two classes.
        """
        scores = self._model().scores(self._features(X), None, effective_n_jobs(self.n_jobs))
        if self.model_.target_kind not in ONE_CLASS_A_ROW:
            return scores
        dense = scores.toarray()
        return dense[:, 1] - dense[:, 0] if dense.shape[1] == 2 else dense

    def predict(self, X: Any) -> Any:
        """Labels of every row, in the form of the targets that the classifier was fitted to.

        Returns
        -------
        CSR matrix, array, or list of lists
            For a sparse or dense 0/1 matrix: the same, with the labels whose score (that of :meth:`decision_function`
            and :meth:`predict_topk`) is at least ``threshold_``. For lists of names: lists, best first. For one
            class a row: the class of highest score.
        """
        model = self._model()
        if model.target_kind in ONE_CLASS_A_ROW:
            return self._predict_class(X)
        scores = model.scores(self._features(X), None, effective_n_jobs(self.n_jobs))
        scores.data = np.where(scores.data >= self.threshold_, scores.data, np.float32(0))
        scores.eliminate_zeros()
        if model.target_kind == "label-lists":
            names = model.label_names
            assert names is not None
            rows = (slice(a, b) for a, b in zip(scores.indptr[:-1], scores.indptr[1:], strict=True))
            return [
                names[scores.indices[row][np.argsort(-scores.data[row], kind="stable")]].tolist()
                for row in rows
            ]
        indicator = sp.csr_matrix(
            (np.ones(len(scores.indices), np.int64), scores.indices, scores.indptr), shape=scores.shape
        )
        return indicator.toarray() if model.target_kind == "multilabel-indicator" else indicator

    def staged_predict_topk(self, X: Any, k: int = 5, *, every: int = 1) -> Iterator[tuple[Array, Array]]:
        """:meth:`predict_topk` after ``every``, 2 · ``every``, … trees."""
        n_trees = self._model().n_trees
        if every < 1:
            raise ValueError(f"every: found {every!r}; wanted an int of at least 1.")
        for used in sorted({*range(every, n_trees + 1, every), n_trees}):
            yield self.predict_topk(X, k, n_trees=used)

    def shap_values(
        self, X: Any, *, labels: Sequence[Any] | Array | None = None, memory_mb: int = MEMORY_MB
    ) -> tuple[Array, Array]:
        """What every column adds to every score of a row: exact Shapley values (path-dependent TreeSHAP).

        Columns are the features; with a projection, which mixes them, the projected columns, followed by the features
        where ``keep_raw`` kept them, as in ``feature_importances_``.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n_rows, n_features)
        labels : sequence, optional
            Only these labels, of ``classes_``. Where there are many, all of them would not fit.
        memory_mb : int, default=4096
            The answer may take so many MiB; more is refused.

        Returns
        -------
        values : float64 array, shape (n_rows, n_columns, n_labels)
        expected : float64 array, shape (n_labels,)
            Scores of a row of which nothing is known: ``values.sum(axis=1) + expected`` are those of the row.
        """
        return self._explain(X, labels, memory_mb, "labels")

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Precision at 1, or accuracy where the targets are one class a row."""
        model = self._model()
        if model.target_kind in ONE_CLASS_A_ROW:
            return float(accuracy_score(y, self.predict(X), sample_weight=sample_weight))
        if sample_weight is not None:
            raise ValueError("sample_weight: not supported for multi-label targets; wanted None.")
        ids, _ = self._topk_ids(X, 1, None)
        return precision_at_k(encode_known(y, len(ids), model.known_labels), ids, 1)

    # --- inside

    def _adopt(self, model: Model) -> None:
        super()._adopt(model)
        asked = model.parameters.get("projection")
        self.projection_kind_ = None if model.projection is None else "leml" if asked == "auto" else asked
        self.rerank_weight_ = None if model.rerank is None else model.rerank.weight
        self.threshold_ = self._default_threshold if model.threshold is None else model.threshold
        names = model.label_names
        self.classes_ = np.arange(model.n_labels) if names is None else names

    def _predict_class(self, X: Any) -> Array:
        model = self.model_
        features = self._features(X)
        n_jobs = effective_n_jobs(self.n_jobs)
        ids, scores = model.topk(features, 1, None, n_jobs)
        best = ids[:, 0].astype(np.int64)
        # a class that no leaf names has score 0, which beats a negative one
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
