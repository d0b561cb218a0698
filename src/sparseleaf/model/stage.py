"""Stages: what a model is made of, in the order in which rows pass through them.

A stage fits itself where it can (trees are made by training), applies itself to a batch of rows, and turns itself into
the tensors of a model file and back. It lives in one file and registers its class under its kind; see
:mod:`sparseleaf.model.registry`.

Batches are lazy: ``apply`` only wraps what the stage before returned, and numbers are computed when the end of the
chain is asked for them. A re-ranker asks the trees for its candidates only, and a single row costs a few small objects.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar, Self

import scipy.sparse as sp
from scipy.special import expit

from sparseleaf._arrays import has_nan

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.model.source import StageSource
    from sparseleaf.model.trees import Trees


ONE_THREAD_ROWS = 64
"""Rows below which waking other threads costs more than it saves."""


class Role(IntEnum):
    """What a stage does. A model has at most one stage of each role, in this order, and exactly one scorer."""

    VECTORIZER = 0
    """Texts to features."""
    PROJECTION = 1
    """Features to the columns that trees split on; later stages still see the features."""
    SCORER = 2
    """Columns to scores of labels."""
    RERANKER = 3
    """Scores the scorer's best labels again."""
    CALIBRATOR = 4
    """Scores to probabilities."""
    EMPTY_ROWS = 5
    """What rows without a known feature get."""


class Rows:
    """A batch of rows on their way to a scorer.

    Attributes
    ----------
    X : features of the rows, float32, dense or CSR
    n_trees : int or None
        Use only the first trees.
    n_jobs, n_rows : int
    """

    def __init__(self, X: Features, n_trees: int | None = None, n_jobs: int = 1) -> None:
        self.X, self.n_trees, self.n_jobs = X, n_trees, n_jobs
        self.n_rows: int = X.shape[0]

    def columns(self) -> Iterator[tuple[slice, Features, bool]]:
        """What trees see, block by block of rows, and whether it may hold NaN."""
        yield slice(None), self.X, has_nan(self.X)

    def used(self, n_trees: int) -> int:
        """Trees that are asked for, of so many."""
        if self.n_trees is None:
            return n_trees
        if not 0 <= self.n_trees <= n_trees:
            raise ValueError(f"n_trees: {self.n_trees} were asked for; the model has {n_trees}.")
        return self.n_trees

    @property
    def threads(self) -> int:
        """Threads that are worth waking."""
        return 1 if self.n_rows <= ONE_THREAD_ROWS else self.n_jobs


class Scores(ABC):
    """Scores of a batch of rows.

    Attributes
    ----------
    rows : Rows
    base : float32 array, shape (n_labels,), or None
        Where scores start, if every label has one; None where a label that is not named has the score 0.
    """

    rows: Rows
    base: Array | None = None

    @abstractmethod
    def topk(self, k: int) -> tuple[Array, Array]:
        """The k best labels of every row, best first: ids int32 and scores float32, both (n_rows, k).

        Where a row has fewer candidates the id is -1 and the score -inf.
        """

    @abstractmethod
    def sparse(self) -> sp.csr_matrix:
        """Scores as a CSR matrix (n_rows, n_labels), in the order of :meth:`topk`; the others are 0."""

    def dense(self) -> Array:
        """Scores as a float32 array (n_rows, n_labels)."""
        scores: Array = self.sparse().toarray()
        return scores

    def candidates(self, k: int) -> tuple[Array, Array]:
        """:meth:`topk` for a stage that scores labels again, with scores above 0 for what is likely."""
        labels, scores = self.topk(k)
        return labels, scores if self.base is None else expit(scores)


class Stage(ABC):
    """One step of a model; frozen, so that any number of threads may apply it at once."""

    role: ClassVar[Role]

    if TYPE_CHECKING:  # attributes of the subclasses, which may be constants, fields or properties

        @property
        def kind(self) -> str:
            """The name under which its class is registered; names of its tensors begin with it."""

        @property
        def takes_nan(self) -> bool:
            """Whether NaN is a missing value to it; else rows must hold numbers."""

    @abstractmethod
    def apply(self, before: Any) -> Any:
        """The batch after this stage: :class:`Rows` before the scorer, :class:`Scores` from there on."""

    @abstractmethod
    def tensors(self, compact: bool) -> dict[str, Array]:
        """Tensors by name; without ``compact`` numbers are float32 where the stage has them as integers."""

    def settings(self) -> dict[str, Any]:
        """What the file's header says of the stage besides its kind, as JSON values."""
        return {}

    @classmethod
    @abstractmethod
    def from_tensors(cls, source: StageSource) -> Self:
        """The stage from its part of a file; ValueError where that is not sound. Nothing in it may be trusted."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Facts for ``sparseleaf inspect``, as JSON values."""


class Scorer(Stage):
    """Trees, or several models."""

    role: ClassVar[Role] = Role.SCORER

    if TYPE_CHECKING:

        @property
        def n_trees(self) -> int:
            """Number of trees."""

        @property
        def base_score(self) -> Array | None:
            """Where scores start, if every label has one."""

        @property
        def axis_trees(self) -> Trees | None:
            """The trees, if nodes split on one column and scores are sums: for Shapley values, importances, export."""

    @abstractmethod
    def apply(self, before: Rows) -> Scores:
        """Scores of rows."""

    @abstractmethod
    def importances(self) -> tuple[Array, Array]:
        """Columns that are used, and their shares in what the splits achieve, which add up to 1."""
