"""Scores of validation rows by a re-ranker that was not fitted to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeGuard

import numpy as np
import scipy.sparse as sp

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.rerank.stage import Reranker
    from sparseleaf.rerank.validation import Validation

N_HALVES = 2
"""Folds: together they take as long as one fit."""


@dataclass(frozen=True)
class CrossFit:
    """A re-ranker tuned on each half of the validation rows, for the rows of the other half.

    The scores of a re-ranker that can overfit the validation rows are too good on these rows to choose a threshold or
    to calibrate them. One with too few settings for that is the same in both halves.

    Attributes
    ----------
    halves : list of (array, Validation, Reranker)
        Indices of the rows, the rows, and the re-ranker that was tuned on the other ones.
    """

    halves: list[tuple[Array, Validation, Reranker]]

    @staticmethod
    def is_needed(stage: Reranker | None, n_rows: int) -> TypeGuard[Reranker]:
        """Whether scores of validation rows by this re-ranker are too good."""
        return stage is not None and stage.overfits and n_rows >= N_HALVES

    @classmethod
    def of(cls, stage: Reranker, validation: Validation) -> CrossFit:
        """Tune the re-ranker of all rows on both halves; there must be two rows."""
        fold = np.arange(len(validation)) % N_HALVES
        halves = []
        for one in range(N_HALVES):
            fitted = stage.retuned(validation.rows(fold != one))
            # with nothing to learn from in so few rows, it is of another kind, whose scores have another scale
            fitted = fitted if fitted.kind == stage.kind else stage
            halves.append((np.flatnonzero(fold == one), validation.rows(fold == one), fitted))
        return cls(halves)

    def topk(self, k: int) -> tuple[Array, Array]:
        """The k best labels of all rows, and their scores."""
        n_rows = sum(len(rows) for rows, _, _ in self.halves)
        labels, scores = np.empty((n_rows, k), np.int32), np.empty((n_rows, k), np.float32)
        for rows, part, stage in self.halves:
            best = part.found(stage.places)
            labels[rows], scores[rows] = stage.topk(part.X, *best, k, part.n_jobs)
        return labels, scores

    def scores(self) -> sp.csr_matrix:
        """Scores of all candidates."""
        parts = [
            stage.scores(part.X, *part.found(stage.places), part.n_jobs) for _, part, stage in self.halves
        ]
        return sp.vstack(parts, "csr")[np.argsort(np.concatenate([rows for rows, _, _ in self.halves]))]
