"""Re-ranking by a weighted mean of four score components: trees, centroids, linear models and neighbours."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from sparseleaf import _kernels
from sparseleaf._arrays import row_blocks, sparse_parts
from sparseleaf.model.registry import register
from sparseleaf.rerank.evidence import COMPONENTS, NO_LISTS, STEEPNESS, Evidence, EvidenceReranker
from sparseleaf.rerank.neighbours import NEIGHBOURS, ROW_FEATURES
from sparseleaf.rerank.weighing import choose_shares, mixed

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.model.source import StageSource
    from sparseleaf.rerank.evidence import Candidates
    from sparseleaf.rerank.rows import TrainingRows
    from sparseleaf.rerank.validation import Validation


@register("linear")
@dataclass(frozen=True)
class LinearReranker(EvidenceReranker):
    """The stage.

    Attributes
    ----------
    evidence : Evidence
    shares : float32 array, shape (4,)
        Of the ``COMPONENTS``, each from 0 to 1.
    """

    evidence: Evidence
    shares: Array

    kind: ClassVar[str] = "linear"
    cross_validated: ClassVar[bool] = False

    def __getstate__(self) -> dict[str, Any]:
        # the compiled part is made again where it is needed
        return {name: value for name, value in vars(self).items() if name != "ranker"}

    @property
    def weight(self) -> float:
        """Share of the trees."""
        return float(self.shares[0])

    # --- fitting

    @classmethod
    def untuned(cls, kind: str, rows: TrainingRows) -> Self:
        """See :class:`~sparseleaf.rerank.stage.Reranker`."""
        return cls(rows.evidence, equal_shares(None))

    def tuned(self, validation: Validation, weight: float | None) -> LinearReranker:
        """With the shares of highest precision."""
        if not len(validation):
            return replace(self, shares=equal_shares(weight))
        candidates, truth = validation.examples(self.evidence)
        shares = choose_shares(
            candidates.components(), candidates.starts, truth, weight, n_jobs=validation.n_jobs
        )
        return replace(self, shares=shares)

    def refit(self, rows: TrainingRows) -> LinearReranker:
        """See :class:`~sparseleaf.rerank.stage.Reranker`."""
        return replace(self, evidence=rows.evidence)

    # --- prediction

    @cached_property
    def ranker(self) -> _kernels.OpinionRanker:
        """The compiled whole: what :meth:`weigh` makes of candidates, without their table."""
        evidence = self.evidence
        assert evidence.models is not None
        index, lists = evidence.neighbours, NO_LISTS
        if index is not None:
            lists = index.labels
        return _kernels.OpinionRanker(
            evidence.centroids.kernel,
            evidence.models.kernel,
            evidence.models.bias,
            None if index is None else index.kernel,
            lists.kernel,
            evidence.centroids.feature_weights,
            self.shares,
            NEIGHBOURS,
            ROW_FEATURES,
            STEEPNESS,
        )

    def weigh(self, candidates: Candidates, n_jobs: int) -> Array:
        """See :class:`~sparseleaf.rerank.evidence.EvidenceReranker`."""
        return mixed(candidates.components(), self.shares)

    def topk(self, X: Features, labels: Array, scores: Array, k: int, n_jobs: int) -> tuple[Array, Array]:
        """See :class:`~sparseleaf.rerank.stage.Reranker`; compiled as a whole."""
        best, ranked = np.empty((labels.shape[0], k), np.int32), np.empty((labels.shape[0], k), np.float32)
        labels, scores = np.ascontiguousarray(labels, np.int32), np.ascontiguousarray(scores, np.float32)
        for block, rows in row_blocks(X):
            self.ranker.topk(
                *sparse_parts(rows), labels[block], scores[block], best[block], ranked[block], n_jobs
            )
        return best, ranked

    # --- tensors of the model file

    def tensors(self, compact: bool) -> dict[str, Array]:
        """See :class:`~sparseleaf.rerank.stage.Reranker`."""
        return {"shares": self.shares, **self.evidence.tensors(compact)}

    @classmethod
    def from_tensors(cls, source: StageSource) -> Self:
        """From tensors; ValueError where they are not sound."""
        shares = source.take("shares", ("F32",), 1)
        if len(shares) != len(COMPONENTS) or not ((shares >= 0) & (shares <= 1)).all():
            raise ValueError(f"shares: wanted {len(COMPONENTS)} numbers from 0 to 1")
        return cls(Evidence.from_tensors(source), shares)


def equal_shares(trees: float | None) -> Array:
    """Shares of the components where there are no rows to choose them on; ``trees`` fixes the first."""
    first = 1 / len(COMPONENTS) if trees is None else trees
    return np.array([first] + [(1 - first) / (len(COMPONENTS) - 1)] * (len(COMPONENTS) - 1), np.float32)
