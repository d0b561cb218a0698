"""The backend: a classifier trained on the texts of a corpus, whose labels are the URIs of the subjects."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from annif.backend.backend import AnnifLearningBackend
from annif.exception import (
    ConfigurationException,
    NotInitializedException,
    NotSupportedException,
    OperationFailedException,
)
from annif.suggestion import SuggestionBatch
from scipy.sparse import csr_array

import sparseleaf
from sparseleaf.estimators import ESTIMATORS
from sparseleaf.estimators.parameters import parse_settings
from sparseleaf.model.stage import Role

PROJECT_KEYS = frozenset(
    ("access", "allow_learn", "analyzer", "backend", "language", "limit", "name", "transform", "vocab")
)
"""Keys of a project's configuration that are Annif's."""

LEAST_SCORE = np.float32(1e-6)
"""Annif drops suggestions with a score of 0."""


class SparseleafBackend(AnnifLearningBackend):  # type: ignore[misc]
    """Annif backend for the classifiers of sparseleaf.

    A project may set ``method`` ("forest" by default, "gbdt-sparse" or "ldsm") and every parameter of that estimator,
    such as ``n_trees``, and of its vectorizer, such as ``vectorizer__ngram_range``. With an ``analyzer``, the texts are
    the words that it returns; without one, the vectorizer tokenises. The model file is a plain one: without an
    ``analyzer``, ``sparseleaf serve`` and ``sparseleaf predict`` use it as well.
    """

    name = "sparseleaf"

    DEFAULT_PARAMETERS: ClassVar[dict[str, Any]] = {"method": "forest", "forget": 0.0}

    MODEL_FILE = "sparseleaf.safetensors"

    _model: Any = None
    _subject_ids: np.ndarray[Any, Any] | None = None

    # --- Annif's interface

    def initialize(self, parallel: bool = False) -> None:
        """Load the model."""
        if self._model is not None:
            return
        if not self._path.is_file():
            raise NotInitializedException(f"model {self._path} not found", backend_id=self.backend_id)
        try:
            self._use(sparseleaf.load(self._path, n_jobs=1 if parallel else None))
        except ValueError as error:
            raise OperationFailedException(str(error), backend_id=self.backend_id) from None

    def _train(self, corpus: Any, params: dict[str, Any], jobs: int = 0) -> None:
        if corpus == "cached":
            raise NotSupportedException(
                "Training on cached data is not supported", backend_id=self.backend_id
            )
        estimator = self._estimator(params, jobs)
        texts, subjects = self._rows(corpus)
        if not texts:
            raise NotSupportedException(
                "Cannot train without documents that have subjects", backend_id=self.backend_id
            )
        self.info(f"training {type(estimator).__name__} on {len(texts):,} documents")
        try:
            estimator.fit(texts, subjects)
        except ValueError as error:
            raise OperationFailedException(str(error), backend_id=self.backend_id) from None
        self._save(estimator)

    def _learn(self, corpus: Any, params: dict[str, Any]) -> None:
        self.initialize()
        texts, subjects = self._rows(corpus)
        if not texts:
            return
        self.info(f"updating the model with {len(texts):,} documents")
        try:
            self._model.update(texts, subjects, forget=float(params["forget"]))
        except ValueError as error:
            raise OperationFailedException(str(error), backend_id=self.backend_id) from None
        self._save(self._model)

    def _suggest_batch(self, documents: list[Any], params: dict[str, Any]) -> Any:
        texts = [self._text(document) for document in documents]
        scores = self._scores(texts, int(params["limit"])).tocoo()
        assert self._subject_ids is not None
        columns = self._subject_ids[scores.col]
        kept = columns >= 0  # not deprecated since training
        data = np.clip(scores.data[kept], LEAST_SCORE, 1)
        shape = (len(documents), len(self.project.subjects))
        return SuggestionBatch(csr_array((data, (scores.row[kept], columns[kept])), shape, dtype=np.float32))

    # --- inside

    @property
    def _path(self) -> Path:
        return Path(self.datadir) / self.MODEL_FILE

    def _scores(self, texts: list[str], k: int) -> Any:
        """Probabilities, or scores if the model has none, of the k best subjects as a CSR matrix."""
        model, shape = self._model, (len(texts), self._model.model_.n_labels)
        if not texts or k < 1:
            return csr_array(shape, dtype=np.float32)
        if model.model_.stage(Role.CALIBRATOR) is not None:
            return model.predict_proba(texts, k)
        labels, scores = model._topk_ids(texts, k, None)
        rows, places = np.nonzero((labels >= 0) & (scores > 0))
        return csr_array((scores[rows, places], (rows, labels[rows, places])), shape)

    def _estimator(self, params: dict[str, Any], jobs: int) -> Any:
        """The estimator of a configuration."""
        method = str(params["method"])
        kind: Any = ESTIMATORS.get(method, {}).get("classification")
        if kind is None or kind.composite:
            raise ConfigurationException(
                f"method must be one of {{'forest', 'gbdt-sparse', 'ldsm', 'gbdt-mo'}}. Got {method!r} instead.",
                project_id=self.project.project_id,
            )
        table = kind.parameter_table
        settings = []
        for key, value in params.items():
            if key in PROJECT_KEYS or key in self.DEFAULT_PARAMETERS:
                continue
            if key.partition("__")[0] in table:
                settings.append(f"{key}={value}")
            else:
                self.warning(f"ignoring the unknown parameter {key!r}")
        try:
            values = {"verbose": 0, "n_jobs": jobs or None} | parse_settings(settings, table)
            return kind.from_settings(values)
        except ValueError as error:
            raise ConfigurationException(
                str(error).removeprefix("--set "), project_id=self.project.project_id
            ) from None

    def _rows(self, corpus: Any) -> tuple[list[str], list[list[str]]]:
        """Texts and the URIs of their subjects; documents without subjects are left out."""
        texts, subjects = [], []
        for document in corpus.documents:
            uris = list(self._uris(document))
            if uris:
                texts.append(self._text(document))
                subjects.append(uris)
        return texts, subjects

    def _uris(self, document: Any) -> Iterator[str]:
        # sorted: Annif's sets have no order
        for subject_id in sorted(document.subject_set):
            yield self.project.subjects[subject_id].uri

    def _text(self, document: Any) -> str:
        if not self.project.analyzer_spec:
            text: str = document.text
            return text
        return " ".join(self.project.analyzer.tokenize_words(document.text))

    def _save(self, estimator: Any) -> None:
        estimator.save(self._path)
        self._use(estimator)

    def _use(self, estimator: Any) -> None:
        """Use a classifier: its labels as numbers of subjects, -1 for those that are not in the vocabulary."""
        subjects = self.project.subjects
        numbers = (subjects.by_uri(str(uri), warnings=False) for uri in estimator.classes_)
        self._subject_ids = np.array([-1 if one is None else one for one in numbers], np.int64)
        self._model = estimator
