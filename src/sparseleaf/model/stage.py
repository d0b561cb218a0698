"""Stages: a model is an ordered list of them.

A stage applies itself to a batch of rows and serialises itself to the tensors of a model file. It is one file, whose
class is registered under its kind; see :mod:`sparseleaf.model.registry`.

Batches are lazy: ``apply`` wraps the result of the previous stage, and scores are computed on demand. A re-ranker thus
computes only the trees' candidates, and single-row prediction costs a few small objects.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from scipy.special import expit

from sparseleaf._arrays import has_nan
from sparseleaf.model.attribution import Attribution, Terms

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.model.attribution import Pairs
    from sparseleaf.model.source import StageSource
    from sparseleaf.model.trees import Trees
    from sparseleaf.model.update import NewRows


ONE_THREAD_ROWS = 64
"""Number of rows up to which one thread is faster."""


class Role(IntEnum):
    """Role of a stage. A model has at most one stage of each role, in this order, and exactly one scorer."""

    VECTORIZER = 0
    """Texts to features."""
    PROJECTION = 1
    """Features to the columns that trees split on; later stages still take the features."""
    SCORER = 2
    """Columns to label scores."""
    RERANKER = 3
    """Rescores the scorer's best labels."""
    CALIBRATOR = 4
    """Scores to probabilities; applied only where probabilities are asked for."""
    EMPTY_ROWS = 5
    """Replaces the scores of rows without known features."""
    DECISION = 6
    """Has the thresholds of ``predict``; scores do not change."""
    URIS = 7
    """Has the URIs of labels; scores do not change."""


class Rows:
    """A batch of rows before the scorer.

    Attributes
    ----------
    X : features of the rows, float32, dense or CSR; before a vectorizer also texts or records
    n_trees : int or None
        Use only the first ``n_trees`` trees.
    n_jobs, n_rows : int
    device : {"cpu", "cuda"}
        Where scorers that support it sum large batches.
    """

    def __init__(self, X: Features, n_trees: int | None = None, n_jobs: int = 1, device: str = "cpu") -> None:
        self.X, self.n_trees, self.n_jobs, self.device = X, n_trees, n_jobs, device
        self.n_rows: int = X.shape[0] if hasattr(X, "shape") else len(X)

    def columns(self) -> Iterator[tuple[slice, Features, bool]]:
        """Yield blocks of rows with the columns that trees take, and whether they may have NaN."""
        yield slice(None), self.X, has_nan(self.X, self.n_jobs)

    def to_features(self, pairs: Pairs, columns: Array, values: Array) -> tuple[Terms, Array]:
        """Contributions of the columns that trees take as contributions of the features.

        Parameters
        ----------
        pairs : Pairs
        columns : int array, shape (n,)
            Increasing.
        values : float64 array, shape (n_pairs, n)
            Contributions of these columns.

        Returns
        -------
        contributions : Terms
        rest : float64 array, shape (n_pairs,)
            What is due to no feature.
        """
        there = values != 0
        indptr = np.concatenate(([0], np.cumsum(there.sum(axis=1), dtype=np.int64)))
        indices = np.broadcast_to(columns, there.shape)[there]
        return Terms(indptr, indices, values[there], self.X.shape[1]), np.zeros(len(pairs))

    def used(self, n_trees: int) -> int:
        """Number of trees to use, of ``n_trees``."""
        if self.n_trees is None:
            return n_trees
        if not 0 <= self.n_trees <= n_trees:
            raise ValueError(
                f"The 'n_trees' parameter must be between 0 and {n_trees}, the trees of the model."
                f" Got {self.n_trees} instead."
            )
        return self.n_trees

    @property
    def threads(self) -> int:
        """Number of threads to use."""
        return 1 if self.n_rows <= ONE_THREAD_ROWS else self.n_jobs


class Scores(ABC):
    """Scores of a batch of rows.

    Attributes
    ----------
    rows : Rows
    base : float32 array, shape (n_labels,), or None
        Initial scores, if scores are dense; None if scores are sparse, with 0 for all other labels.
    prior_scale : float
        Factor from the scores of rows without known features to these scores.
    """

    rows: Rows
    base: Array | None = None
    prior_scale: float = 1.0

    @abstractmethod
    def topk(self, k: int) -> tuple[Array, Array]:
        """The k best labels of every row, best first: ids int32 and scores float32, both (n_rows, k).

        Rows with fewer candidates are padded with id -1 and score -inf.
        """

    @abstractmethod
    def sparse(self) -> sp.csr_matrix:
        """Scores as a CSR matrix (n_rows, n_labels), consistent with :meth:`topk`; all others are 0."""

    @abstractmethod
    def explain(self, pairs: Pairs) -> Attribution:
        """Attribute the scores of pairs, with all trees, to the features of their rows."""

    def dense(self) -> Array:
        """Scores as a float32 array (n_rows, n_labels)."""
        scores: Array = self.sparse().toarray()
        return scores

    def of_pairs(self, pairs: Pairs) -> Array:
        """Scores of pairs, float32; consistent with :meth:`sparse`."""
        if self.base is not None:
            return self.dense()[pairs.rows, pairs.labels]
        return np.asarray(self.sparse()[pairs.rows, pairs.labels], np.float32).ravel()

    def candidates(self, k: int) -> tuple[Array, Array]:
        """:meth:`topk` for a re-ranker, with positive scores for likely labels."""
        labels, scores = self.topk(k)
        return labels, scores if self.base is None else expit(scores)

    def explain_candidates(self, pairs: Pairs) -> Attribution:
        """:meth:`explain` the scores that :meth:`candidates` returns."""
        raw = self.explain(pairs)
        if self.base is None:
            return raw
        return raw.through(expit(raw.base), expit(raw.scores)).named("trees")


class Stage(ABC):
    """One stage of a model. Immutable, so that any number of threads may apply it concurrently."""

    role: ClassVar[Role]

    @property
    def indexed_rows(self) -> int | None:
        """Number of training rows among which the stage finds similar ones; None if it has none."""
        return None

    def label_importances(self, labels: Array, before: sp.csr_matrix, n_jobs: int) -> sp.csr_matrix:
        """Importances of the features for labels, CSR (n_labels, n_features); ``before`` is what other stages have.

        Rows have absolute values of sum 1; negative ones speak against the label. Scorers come first, with the
        importances of the columns that they take; then the stages before them, the last first; then those after them.
        """
        return before

    def title_of(self, row: int) -> str | None:
        """Title of one of the indexed rows, if known."""
        return None

    def with_titles(self, titles: Sequence[str] | None) -> Stage:
        """The stage with titles of its indexed rows, if it has such rows."""
        return self

    if TYPE_CHECKING:  # attributes of the subclasses, which may be constants, fields or properties

        @property
        def kind(self) -> str:
            """The name under which its class is registered; the prefix of its tensors."""

        @property
        def takes_nan(self) -> bool:
            """Whether NaN is supported as a missing value."""

    @abstractmethod
    def apply(self, before: Any) -> Any:
        """The batch after this stage: :class:`Rows` before the scorer, :class:`Scores` after it."""

    def updated(self, new: NewRows) -> Stage:
        """The stage with the evidence of new rows, which may have new labels; by default unchanged."""
        return self

    @abstractmethod
    def tensors(self, compact: bool) -> dict[str, Array]:
        """Tensors by name; without ``compact``, quantised values are written as float32."""

    def settings(self) -> dict[str, Any]:
        """JSON values for the stage's entry in the file header, besides its kind."""
        return {}

    @classmethod
    @abstractmethod
    def from_tensors(cls, source: StageSource) -> Self:
        """The stage from its part of an untrusted file; ValueError if it is invalid."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """JSON values for ``sparseleaf inspect``."""


def same_stage(a: Stage | None, b: Stage | None) -> bool:
    """Whether two stages are equal: of one kind, with the same settings and tensors."""
    if a is None or b is None or a is b:
        return a is b
    if (a.kind, a.settings()) != (b.kind, b.settings()):
        return False
    ours, others = a.tensors(compact=True), b.tensors(compact=True)
    return ours.keys() == others.keys() and all(np.array_equal(ours[name], others[name]) for name in ours)


class Scorer(Stage):
    """Base class of scorers: trees, or a blend of models."""

    role: ClassVar[Role] = Role.SCORER

    if TYPE_CHECKING:

        @property
        def n_trees(self) -> int:
            """Number of trees."""

        @property
        def base_score(self) -> Array | None:
            """Initial scores, if scores are dense."""

        @property
        def axis_trees(self) -> Trees | None:
            """The trees, if nodes split on one feature and scores are sums; for Shapley values, importances, export."""

    @abstractmethod
    def apply(self, before: Rows) -> Scores:
        """Scores of rows."""

    @abstractmethod
    def importances(self) -> tuple[Array, Array]:
        """Columns that are used, and their importances, of sum 1."""
