"""Re-rankers: stages that score the best labels of the trees again.

A kind of re-ranker is a file of this package: a :class:`Reranker` that is registered under its name, which is then a
value of every classifier's ``rerank`` parameter. Fitting has two steps: :meth:`Reranker.untuned` looks at training
rows, and :meth:`Untuned.tuned` chooses settings on validation rows, which neither the trees nor the first step have
seen. After that, :meth:`Reranker.refit` takes in the validation rows.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
import scipy.sparse as sp

from sparseleaf._arrays import row_blocks
from sparseleaf.model import candidates
from sparseleaf.model.candidates import PLACES, topk_of
from sparseleaf.model.stage import Role, Scores, Stage

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.rerank.rows import TrainingRows
    from sparseleaf.rerank.validation import Validation

DEFAULT_WEIGHT = 0.5
"""Share of the trees where there are no rows to choose it on."""


class Untuned(Protocol):
    """A re-ranker before its settings are chosen."""

    cross_validated: ClassVar[bool]
    """Whether it has so many settings that its precision must be measured on rows it was not tuned on."""

    def tuned(self, validation: Validation, weight: float | None) -> Reranker:
        """The stage with the settings that are best on these rows; ``weight`` fixes that of the trees."""


class Reranker(Stage):
    """Base of re-rankers."""

    role: ClassVar[Role] = Role.RERANKER
    takes_nan: ClassVar[bool] = False
    places: ClassVar[int] = PLACES
    """Labels of the trees that it looks at, however many are asked for."""
    takes_weight: ClassVar[bool] = True
    """Whether a user may fix the share of the trees."""

    if TYPE_CHECKING:

        @property
        def n_labels(self) -> int:
            """Labels that there are."""

        @property
        def weight(self) -> float | None:
            """Share of the trees, where there is such a number."""

    # --- fitting

    @classmethod
    @abstractmethod
    def untuned(cls, kind: str, rows: TrainingRows) -> Untuned:
        """The stage of that kind for these rows."""

    @abstractmethod
    def refit(self, rows: TrainingRows) -> Reranker:
        """The same settings for other rows."""

    def hits(self, validation: Validation) -> Array:
        """Whether the five best labels of validation rows are true: (n_rows, 5)."""
        found = validation.found(self.places)
        labels, _ = self.topk(validation.X, *found, 5, validation.n_jobs)
        return validation.are_true(labels)

    # --- prediction

    def apply(self, before: Scores) -> RerankedScores:
        """New scores for the best labels."""
        return RerankedScores(before, self)

    @abstractmethod
    def topk(self, X: Features, labels: Array, scores: Array, k: int, n_jobs: int) -> tuple[Array, Array]:
        """The k best labels by their new scores; (labels, scores) are the trees' best, (n_rows, places); -1 is none."""

    @abstractmethod
    def scores(self, X: Features, labels: Array, scores: Array, n_jobs: int) -> sp.csr_matrix:
        """Scores of all candidates as a CSR matrix."""

    def describe(self) -> dict[str, Any]:
        """Its kind and main setting."""
        return {"rerank": {"mix": self.kind, "weight": self.weight, "scale": None}}


class ListedReranker(Reranker):
    """Base of re-rankers that list candidates for every row, the trees' and their own, and rank these."""

    @abstractmethod
    def ranked_candidates(
        self, X: Features, labels: Array, scores: Array, n_jobs: int
    ) -> tuple[Array, Array, Array]:
        """Candidates, and numbers by which they are ranked.

        Parameters
        ----------
        X : rows
        labels, scores : arrays, shape (n_rows, places)
            The trees' best; -1 is none.
        n_jobs : int

        Returns
        -------
        starts : int64 array, shape (n_rows + 1,)
        candidates : int32 array
            Rising within a row.
        margins : float32 array
        """

    def scores_of(self, margins: Array) -> Array:
        """Scores from 0 to 1, which rise with the margins."""
        return margins

    def topk(self, X: Features, labels: Array, scores: Array, k: int, n_jobs: int) -> tuple[Array, Array]:
        """See :class:`Reranker`."""
        best = np.empty((labels.shape[0], k), np.int32)
        margins = np.empty((labels.shape[0], k), np.float32)
        for block, starts, joined, found in self._blocks(X, labels, scores, n_jobs):
            best[block], margins[block] = topk_of(starts, joined, found, k)
        return best, np.where(best < 0, np.float32(-np.inf), self.scores_of(margins))

    def scores(self, X: Features, labels: Array, scores: Array, n_jobs: int) -> sp.csr_matrix:
        """See :class:`Reranker`."""
        parts = [sp.csr_matrix((0, self.n_labels), dtype=np.float32)]
        for _, starts, joined, margins in self._blocks(X, labels, scores, n_jobs):
            shape = (len(starts) - 1, self.n_labels)
            parts.append(sp.csr_matrix((self.scores_of(margins), joined, starts), shape=shape))
        return sp.vstack(parts, "csr")

    def _blocks(
        self, X: Features, labels: Array, scores: Array, n_jobs: int
    ) -> Iterator[tuple[slice, Array, Array, Array]]:
        for block, rows in row_blocks(X, candidates.BLOCK_ROWS):
            yield block, *self.ranked_candidates(rows, labels[block], scores[block], n_jobs)


class RerankedScores(Scores):
    """Scores of the trees' best labels, and of others that the re-ranker adds."""

    def __init__(self, before: Scores, stage: Reranker) -> None:
        self.rows, self._before, self._stage = before.rows, before, stage

    def topk(self, k: int) -> tuple[Array, Array]:
        """See :class:`~sparseleaf.model.stage.Scores`.

        Candidates are always the same, so that the order of labels does not depend on how many are asked for.
        """
        found = self._before.candidates(self._stage.places)
        return self._stage.topk(self.rows.X, *found, k, self.rows.n_jobs)

    def sparse(self) -> sp.csr_matrix:
        """See :class:`~sparseleaf.model.stage.Scores`."""
        found = self._before.candidates(self._stage.places)
        return self._stage.scores(self.rows.X, *found, self.rows.n_jobs)
