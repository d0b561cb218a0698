"""Re-rankers: stages that rescore the trees' candidate labels.

A kind of re-ranker is one file of this package: a :class:`Reranker` registered under a name, which becomes a value of
the classifiers' ``rerank`` parameter. Fitting has three steps: :meth:`Reranker.untuned` fits to training rows,
:meth:`Untuned.tuned` chooses settings on validation rows, which were used neither by the trees nor by the first step,
and :meth:`Reranker.refit` refits to all rows.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
import scipy.sparse as sp

from sparseleaf._arrays import row_blocks
from sparseleaf.model import candidates
from sparseleaf.model.attribution import Attribution
from sparseleaf.model.candidates import topk_of
from sparseleaf.model.stage import Role, Scores, Stage

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.model import Model
    from sparseleaf.model.attribution import Pairs
    from sparseleaf.model.empty import EmptyRows
    from sparseleaf.rerank.rows import TrainingRows
    from sparseleaf.rerank.validation import Validation

DEFAULT_WEIGHT = 0.5
"""Weight of the trees without validation rows."""


class Untuned(Protocol):
    """A re-ranker before tuning."""

    cross_validated: ClassVar[bool]
    """Whether its precision must be estimated by cross-validation, because it can overfit the validation rows."""

    def tuned(self, validation: Validation, weight: float | None) -> Reranker:
        """The stage with the best settings on these rows; ``weight`` fixes the weight of the trees."""


class Reranker(Stage):
    """Base class of re-rankers."""

    role: ClassVar[Role] = Role.RERANKER
    takes_nan: ClassVar[bool] = False
    takes_weight: ClassVar[bool] = True
    """Whether the weight of the trees can be set."""
    adds_candidates: ClassVar[bool] = False
    """Whether it adds candidates to those of the trees, so that few trees suffice for rare labels."""

    overfits: ClassVar[bool] = False
    """Whether tuning can overfit the validation rows; :meth:`retuned` then returns another stage."""

    if TYPE_CHECKING:

        @property
        def n_labels(self) -> int:
            """Number of labels."""

        @property
        def weight(self) -> float | None:
            """Weight of the trees, if there is one."""

        @property
        def places(self) -> int:
            """Number of candidates from the trees, independent of the requested k."""

    @property
    def known_features(self) -> Array | None:
        """Mask of features that it knows without training rows; None for no such."""
        return None

    # --- fitting

    @classmethod
    @abstractmethod
    def untuned(cls, kind: str, rows: TrainingRows) -> Untuned:
        """Fit a re-ranker of that kind to these rows."""

    def retuned(self, validation: Validation) -> Reranker:
        """Tuned on other validation rows; the stage itself unless it ``overfits``."""
        return self

    @abstractmethod
    def refit(self, rows: TrainingRows) -> Reranker:
        """Refit to other rows with the same settings."""

    def hits(self, validation: Validation) -> Array:
        """Whether the five best labels of validation rows are relevant: (n_rows, 5)."""
        best = validation.found(self.places)
        labels, _ = self.topk(validation.X, *best, 5, validation.n_jobs)
        return validation.are_true(labels)

    # --- prediction

    def apply(self, before: Scores) -> RerankedScores:
        """Rescore the candidates."""
        return RerankedScores(before, self)

    @abstractmethod
    def topk(self, X: Features, labels: Array, scores: Array, k: int, n_jobs: int) -> tuple[Array, Array]:
        """The k best labels by new scores; (labels, scores) are the trees' candidates, -1 for none."""

    @abstractmethod
    def scores(self, X: Features, labels: Array, scores: Array, n_jobs: int) -> sp.csr_matrix:
        """Scores of all candidates as a CSR matrix."""

    @abstractmethod
    def explain(self, before: Scores, labels: Array, scores: Array, pairs: Pairs) -> Attribution:
        """Attribute the scores of pairs; (labels, scores) are the trees' candidates, -1 for none.

        Pairs that are no candidates have score 0, to which nothing contributes.
        """

    def describe(self) -> dict[str, Any]:
        """Kind and weight."""
        return {"rerank": {"mix": self.kind, "weight": self.weight, "scale": None}}


class ListedReranker(Reranker):
    """Base class of re-rankers that add candidates to those of the trees."""

    adds_candidates: ClassVar[bool] = True

    @abstractmethod
    def ranked_candidates(
        self, X: Features, labels: Array, scores: Array, n_jobs: int
    ) -> tuple[Array, Array, Array]:
        """Candidates and their margins, by which they are ranked.

        Parameters
        ----------
        X : rows
        labels, scores : arrays, shape (n_rows, places)
            The trees' candidates, -1 for none.
        n_jobs : int

        Returns
        -------
        starts : int64 array, shape (n_rows + 1,)
        candidates : int32 array
            Increasing within a row.
        margins : float32 array
        """

    def scores_of(self, margins: Array) -> Array:
        """Scores from 0 to 1, increasing with the margins."""
        return margins

    def topk(self, X: Features, labels: Array, scores: Array, k: int, n_jobs: int) -> tuple[Array, Array]:
        """See :class:`Reranker`."""
        best = np.empty((labels.shape[0], k), np.int32)
        margins = np.empty((labels.shape[0], k), np.float32)
        for block, starts, joined, ranked in self._blocks(X, labels, scores, n_jobs):
            best[block], margins[block] = topk_of(starts, joined, ranked, k, n_jobs)
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


def with_known_features(model: Model) -> Model:
    """The model, whose rows are not empty if they have a feature that its re-ranker knows without training rows."""
    empty: EmptyRows | None = model.stage(Role.EMPTY_ROWS)
    known = None if model.rerank is None else model.rerank.known_features
    if empty is None or known is None:
        return model
    return model.with_stage(Role.EMPTY_ROWS, replace(empty, known=empty.known | known))


class RerankedScores(Scores):
    """Scores of the trees' candidates and of those that the re-ranker adds."""

    def __init__(self, before: Scores, stage: Reranker) -> None:
        self.rows, self._before, self._stage = before.rows, before, stage

    def topk(self, k: int) -> tuple[Array, Array]:
        """See :class:`~sparseleaf.model.stage.Scores`.

        The candidates do not depend on k, so that the ranking does not either.
        """
        best = self._before.candidates(self._stage.places)
        return self._stage.topk(self.rows.X, *best, k, self.rows.n_jobs)

    def sparse(self) -> sp.csr_matrix:
        """See :class:`~sparseleaf.model.stage.Scores`."""
        best = self._before.candidates(self._stage.places)
        return self._stage.scores(self.rows.X, *best, self.rows.n_jobs)

    def explain(self, pairs: Pairs) -> Attribution:
        """See :class:`~sparseleaf.model.stage.Scores`."""
        best = self._before.candidates(self._stage.places)
        return self._stage.explain(self._before, *best, pairs)
