"""Text input of the estimators: recognised, and converted to features before training and prediction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils.validation import check_consistent_length

from sparseleaf._arrays import effective_n_jobs
from sparseleaf.distributed.launch import make_launcher
from sparseleaf.estimators.declared import DeclaredEstimator
from sparseleaf.features import TextStage, TextVectorizer

PARTITIONED = (
    "X must be features with engine='mpi', since every rank has only some of the texts. Fit a TextVectorizer on all"
    " texts, pass it as 'vectorizer', and its features as X. Got texts instead."
)


class TextInput(DeclaredEstimator):
    """An estimator that accepts texts or records in place of features.

    Attributes
    ----------
    vectorizer : TextVectorizer or None
        The parameter: None for the default one.
    vectorizer_ : TextVectorizer or None
        The fitted vectorizer, the first stage of the model; None if the training rows were features.
    """

    n_jobs: int | None
    vectorizer: TextVectorizer | None = None
    vectorizer_: TextVectorizer | None = None

    def _vectorised(self, X: Any, y: Any, engine: Any, stage: TextStage | None = None) -> tuple[Any, Any]:
        """Features to train on, and the engine. Sets ``vectorizer_``.

        Texts are vectorised in this process, by ``stage`` if training continues that of a model.
        """
        if self.vectorizer is not None:
            self._check_parameters()
        self.vectorizer_ = None if stage is None else TextVectorizer.from_stage(stage)
        if not are_texts(X, self.vectorizer_ or self.vectorizer):
            if self.vectorizer is not None and stage is None:
                self.vectorizer_ = _fitted(self.vectorizer, X)
            return X, engine
        if y is None and engine != "local":
            return X, engine  # part files, which workers read
        if y is None:  # scikit-learn's message
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        self._check_parameters()
        launcher = make_launcher(engine)
        if getattr(launcher, "partitioned", False):
            raise ValueError(PARTITIONED)
        if not isinstance(X, str | bytes):
            check_consistent_length(X, y)  # before the work starts
        if self.vectorizer_ is not None:
            return self._as_features(X), launcher
        features, self.vectorizer_ = self._fit_vectorizer(X)
        return features, launcher

    def _fit_vectorizer(self, X: Any) -> tuple[sp.csr_matrix, TextVectorizer]:
        """Features of texts, and the vectorizer fitted to them."""
        vectorizer = TextVectorizer() if self.vectorizer is None else clone(self.vectorizer)
        if vectorizer.n_jobs is None:
            vectorizer.n_jobs = self.n_jobs
        vectorizer.verbose = max(vectorizer.verbose, getattr(self, "verbose", 0))
        return vectorizer.fit_transform(X), vectorizer

    def _as_features(self, X: Any) -> Any:
        """Convert texts with the fitted vectorizer; return features unchanged."""
        if not are_texts(X, self.vectorizer_):
            return X
        if self.vectorizer_ is None:
            raise ValueError(
                "X must be features, as in training. Got texts instead; models that are trained on texts accept them."
            )
        return self.vectorizer_.stage().transform(X, effective_n_jobs(self.n_jobs))

    def _vectorizer_stage(self) -> TextStage | None:
        """The first stage of the model, or None."""
        return None if self.vectorizer_ is None else self.vectorizer_.stage()


def are_texts(X: Any, vectorizer: TextVectorizer | None) -> bool:
    """Whether X is texts or records rather than features.

    A DataFrame is records if the vectorizer names its text columns; otherwise its columns are features.
    """
    if isinstance(X, str | bytes):
        return True  # a single text instead of a list: the vectorizer raises
    if hasattr(X, "columns"):
        return vectorizer is not None and vectorizer.fields is not None
    if hasattr(X, "dtype"):
        listed = getattr(X, "ndim", 0) == 1 and getattr(X.dtype, "kind", "O") in "OUT"
    else:
        listed = isinstance(X, list | tuple)
    return listed and isinstance(_first_known(X), str | Mapping)


def _first_known(values: Iterable[Any]) -> Any:
    """The first value that is not missing."""
    return next((one for one in values if isinstance(one, str | Mapping) or not _is_missing(one)), None)


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and value != value) or type(value).__name__ == "NAType"


def _fitted(vectorizer: TextVectorizer, X: Any) -> TextVectorizer:
    """The fitted vectorizer that features come with; ValueError if it is not fitted or has other columns."""
    if not hasattr(vectorizer, "stage_"):
        raise ValueError(
            "The 'vectorizer' parameter must be None or fitted if X is features rather than texts or records. Got a"
            f" TextVectorizer that is not fitted, and X of type {type(X).__name__}."
        )
    width, columns = vectorizer.stage().width, getattr(X, "shape", ())[1:2]
    if columns and columns[0] != width:
        raise ValueError(
            f"X must have {width} features, as the fitted 'vectorizer', or be texts. Got {columns[0]} features instead."
        )
    return TextVectorizer.from_stage(vectorizer.stage())


__all__ = ["TextInput", "are_texts"]
