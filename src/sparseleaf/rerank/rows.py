"""Training rows of a re-ranker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING

import numpy as np

from sparseleaf.data.weights import NO_WEIGHTS
from sparseleaf.rerank.evidence import Evidence

if TYPE_CHECKING:
    import scipy.sparse as sp

    from sparseleaf._arrays import Array, Features
    from sparseleaf.data.weights import TrainingWeights
    from sparseleaf.model import Model
    from sparseleaf.rerank.side import SideEvidence


@dataclass(frozen=True)
class TrainingRows:
    """Training rows, with the evidence that several re-rankers share.

    Attributes
    ----------
    X, Y
    trees : callable
        Returns a model, which may have been trained on the rows: only its false candidates are used.
    scale : float or None
        ``rerank_scale``.
    seed, n_jobs : int
    weights : TrainingWeights
    side : SideEvidence or None
        Names and hierarchy of the labels.
    fitted : callable or None
        Returns evidence that is fitted together with that of other rows.
    """

    X: Features
    Y: sp.csr_matrix
    trees: Callable[[], Model]
    scale: float | None
    seed: int
    n_jobs: int
    weights: TrainingWeights = NO_WEIGHTS
    side: SideEvidence | None = None
    fitted: Callable[[], Evidence] | None = None

    @cached_property
    def evidence(self) -> Evidence:
        """See :class:`~sparseleaf.rerank.evidence.Evidence`."""
        if self.fitted is not None:
            return self.fitted()
        return Evidence.fit(self.X, self.Y, self.trees(), self.seed, self.n_jobs, self.weights, self.side)

    def split(self, held_out: Array, trees: Model) -> tuple[TrainingRows, TrainingRows]:
        """The rows without the held-out ones and all rows; ``trees`` are those that have not seen the former.

        Evidence of both is fitted at once, when the first is asked for.
        """
        if not len(held_out):
            return self, self

        @cache
        def both() -> tuple[Evidence, Evidence]:
            first, second = Evidence.fit_both(
                self.X, self.Y, held_out, self.trees(), self.seed, self.n_jobs, self.weights, self.side
            )
            assert first is not None
            return first, second

        seen = np.ones(self.X.shape[0], bool)
        seen[held_out] = False
        weights = self.weights.take(seen)
        part = replace(
            self,
            X=self.X[seen],
            Y=self.Y[seen],
            weights=weights,
            trees=lambda: trees,
            fitted=lambda: both()[0],
        )
        return part, replace(self, fitted=lambda: both()[1])
