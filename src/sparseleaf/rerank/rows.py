"""Rows that a re-ranker is fitted to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from sparseleaf.rerank.evidence import Evidence

if TYPE_CHECKING:
    import scipy.sparse as sp

    from sparseleaf._arrays import Features
    from sparseleaf.model import Model


@dataclass(frozen=True)
class TrainingRows:
    """Training rows, and what several re-rankers need of them, computed once.

    Attributes
    ----------
    X, Y
    trees : Model
        Which labels it proposes in error is all that is taken from it: it may have seen the rows.
    scale : float or None
        How sharply closeness falls, where the user says.
    seed, n_jobs : int
    """

    X: Features
    Y: sp.csr_matrix
    trees: Model
    scale: float | None
    seed: int
    n_jobs: int

    @cached_property
    def evidence(self) -> Evidence:
        """See :class:`~sparseleaf.rerank.evidence.Evidence`."""
        return Evidence.fit(self.X, self.Y, self.trees, self.seed, self.n_jobs)
