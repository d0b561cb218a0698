"""Re-ranking by boosted trees over what is known of candidates: LambdaMART, whose queries are the rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from scipy.special import expit

from sparseleaf.model.axis import AxisScorer
from sparseleaf.model.registry import register
from sparseleaf.model.source import prefixed
from sparseleaf.model.stage import Rows
from sparseleaf.rerank.evidence import COLUMNS, Evidence, EvidenceReranker
from sparseleaf.rerank.linear import LinearReranker, equal_shares
from sparseleaf.rerank.weighing import choose_shares

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.model.source import StageSource
    from sparseleaf.rerank.evidence import Candidates
    from sparseleaf.rerank.rows import TrainingRows
    from sparseleaf.rerank.stage import Reranker
    from sparseleaf.rerank.validation import Validation

BOOSTER: dict[str, Any] = {
    "learning_rate": 0.1,
    "max_leaves": 8,
    "min_samples_leaf": 50,
    "advanced": {"places": 10},
}
"""Parameters of the boosted trees."""

BOOSTER_TREES = (50, 100)
"""Fewest and most trees of the booster."""

ROWS_PER_TREE = 40
"""Between these, the booster has a tree for so many rows: more overfit, which is why it lost on few rows."""

BOOSTER_CANDIDATES = 50
"""Candidates per row that the booster is trained on, those of highest mean score component. The others teach it nothing
about the top of the list, and would take two thirds of the time."""

FEW = 1000
"""Candidates that one thread scores."""


@dataclass(frozen=True)
class UntunedBoosted:
    """The evidence, before there are trees over it."""

    evidence: Evidence

    cross_validated: ClassVar[bool] = True

    def tuned(self, validation: Validation, weight: float | None) -> Reranker:
        """With trees fitted to these rows; a linear mix, where the rows have nothing to learn from."""
        if not len(validation):
            return LinearReranker(self.evidence, equal_shares(weight))
        candidates, truth = validation.examples(self.evidence)
        if truth.any() and not truth.all():
            booster = fit_booster(candidates, truth, validation.seed, validation.n_jobs)
            return BoostedReranker(self.evidence, booster)
        shares = choose_shares(
            candidates.components(), candidates.starts, truth, weight, n_jobs=validation.n_jobs
        )
        return LinearReranker(self.evidence, shares)


@register("boosted")
@dataclass(frozen=True)
class BoostedReranker(EvidenceReranker):
    """The stage.

    Attributes
    ----------
    evidence : Evidence
    booster : AxisScorer
        Trees over the ``COLUMNS``, with one output.
    """

    evidence: Evidence
    booster: AxisScorer

    kind: ClassVar[str] = "boosted"
    weight: ClassVar[None] = None
    takes_weight: ClassVar[bool] = False

    @classmethod
    def untuned(cls, kind: str, rows: TrainingRows) -> UntunedBoosted:
        """See :class:`~sparseleaf.rerank.stage.Reranker`."""
        return UntunedBoosted(rows.evidence)

    def refit(self, rows: TrainingRows) -> BoostedReranker:
        """See :class:`~sparseleaf.rerank.stage.Reranker`."""
        return replace(self, evidence=rows.evidence)

    def weigh(self, candidates: Candidates, n_jobs: int) -> Array:
        """See :class:`~sparseleaf.rerank.evidence.EvidenceReranker`."""
        threads = n_jobs if len(candidates.labels) > FEW else 1  # waking others costs more than it saves
        margins = self.booster.apply(Rows(candidates.table, None, threads)).dense()[:, 0]
        # never quite 0, which is the score of all other labels
        scores: Array = np.maximum(expit(margins), 1e-30)
        return scores

    # --- tensors of the model file

    def tensors(self, compact: bool) -> dict[str, Array]:
        """See :class:`~sparseleaf.rerank.stage.Reranker`."""
        return prefixed("booster", self.booster.tensors(compact)) | self.evidence.tensors(compact)

    @classmethod
    def from_tensors(cls, source: StageSource) -> Self:
        """From tensors; ValueError where they are not sound."""
        booster = AxisScorer.from_tensors(source.part("booster", n_labels=1, n_columns=len(COLUMNS)))
        return cls(Evidence.from_tensors(source), booster)


def fit_booster(candidates: Candidates, truth: Array, seed: int, n_jobs: int) -> AxisScorer:
    """Boosted trees over the columns of candidates."""
    from sparseleaf.estimators.ranker import GBDTRanker  # it is above this: estimators end with the stage

    n_rows = len(candidates.starts) - 1
    best = highest(candidates.components().mean(axis=1), candidates.starts, BOOSTER_CANDIDATES)
    row = np.repeat(np.arange(n_rows), np.diff(candidates.starts))[best]
    sizes = np.bincount(row, minlength=n_rows)
    n_trees = int(np.clip(n_rows // ROWS_PER_TREE, *BOOSTER_TREES))
    ranker = GBDTRanker(n_trees=n_trees, **BOOSTER, random_state=seed, n_jobs=n_jobs)
    ranker.fit(candidates.table[best], truth[best].astype(np.int64), group=sizes[sizes > 0])
    booster: AxisScorer = ranker.model_.scorer
    return booster


def highest(scores: Array, starts: Array, most: int) -> Array:
    """Which candidates are among the ``most`` best of their row, the first in a tie."""
    sizes = np.diff(starts)
    order = np.lexsort((-scores, np.repeat(np.arange(len(sizes)), sizes)))
    place = np.empty(len(scores), np.int64)
    place[order] = np.arange(len(scores)) - np.repeat(starts[:-1], sizes)
    kept: Array = place < most
    return kept
