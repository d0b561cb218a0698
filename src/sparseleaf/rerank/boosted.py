"""Re-ranking by LambdaMART over the evidence for every candidate; a query is a row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from scipy.special import expit

from sparseleaf.model.attribution import Attribution, Pairs, Terms, added, secant_components
from sparseleaf.model.axis import AxisScorer
from sparseleaf.model.registry import register
from sparseleaf.model.source import prefixed
from sparseleaf.model.stage import Rows
from sparseleaf.rerank.evidence import Evidence, EvidenceReranker
from sparseleaf.rerank.linear import LinearReranker, equal_weights
from sparseleaf.rerank.mixing import choose_weights
from sparseleaf.rerank.unseen import with_unseen

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.model.source import StageSource
    from sparseleaf.rerank.evidence import Candidates
    from sparseleaf.rerank.rows import TrainingRows
    from sparseleaf.rerank.stage import Reranker
    from sparseleaf.rerank.validation import Validation

BOOSTER: dict[str, Any] = {
    "learning_rate": 0.15,
    "max_leaves": 8,
    "min_samples_leaf": 50,
    "advanced": {"places": 10},
}
"""Parameters of the boosted trees."""

FEWEST_TREES, MOST_TREES, MOST_TREES_SIDE = 30, 60, 130
"""Minimum and maximum number of trees, and the maximum with side information of labels, which has more columns."""

ROWS_PER_TREE = 60
"""Validation rows per tree, between these limits: more trees overfit on few rows."""

BOOSTER_CANDIDATES = 50
"""Candidates per row to train on, the most promising: the others do not affect the top of the list
and would take two thirds of the time."""

FEW = 1000
"""Number of candidates up to which one thread scores them."""


@dataclass(frozen=True)
class UntunedBoosted:
    """The fitted evidence, before boosting."""

    evidence: Evidence

    cross_validated: ClassVar[bool] = True

    def tuned(self, validation: Validation, weight: float | None) -> Reranker:
        """Fit the booster to validation rows; a linear mix if there is nothing to learn from."""
        if not len(validation):
            return LinearReranker(self.evidence.without_side(), equal_weights(weight))
        candidates, truth = validation.examples(self.evidence)
        if truth.any() and not truth.all():
            candidates, truth, weights = with_unseen(
                self.evidence, candidates, truth, validation.weights, validation.seed
            )
            promise = self.evidence.promise(candidates)
            most_trees = MOST_TREES if self.evidence.side is None else MOST_TREES_SIDE
            booster = fit_booster(
                candidates, truth, promise, validation.seed, validation.n_jobs, weights, most_trees
            )
            return BoostedReranker(self.evidence, booster)
        weights = choose_weights(
            candidates.components(),
            candidates.starts,
            truth,
            weight,
            n_jobs=validation.n_jobs,
            of_rows=validation.weights,
        )
        return LinearReranker(self.evidence.without_side(), weights)


@register("boosted")
@dataclass(frozen=True)
class BoostedReranker(EvidenceReranker):
    """LambdaMART re-ranker.

    Attributes
    ----------
    evidence : Evidence
    booster : AxisScorer
        Trees over the columns of evidence, with one output.
    """

    evidence: Evidence
    booster: AxisScorer

    kind: ClassVar[str] = "boosted"
    weight: ClassVar[None] = None
    takes_weight: ClassVar[bool] = False
    overfits: ClassVar[bool] = True

    @classmethod
    def untuned(cls, kind: str, rows: TrainingRows) -> UntunedBoosted:
        """See :class:`~sparseleaf.rerank.stage.Reranker`."""
        return UntunedBoosted(rows.evidence)

    def retuned(self, validation: Validation) -> Reranker:
        """See :class:`~sparseleaf.rerank.stage.Reranker`."""
        return UntunedBoosted(self.evidence).tuned(validation, None)

    def refit(self, rows: TrainingRows) -> BoostedReranker:
        """See :class:`~sparseleaf.rerank.stage.Reranker`."""
        return replace(self, evidence=rows.evidence)

    def score(self, candidates: Candidates, n_jobs: int) -> Array:
        """See :class:`~sparseleaf.rerank.evidence.EvidenceReranker`."""
        threads = n_jobs if len(candidates.labels) > FEW else 1  # waking threads costs more than it saves
        margins = self.booster.apply(Rows(candidates.table, None, threads)).dense()[:, 0]
        # above 0, the score of all other labels
        scores: Array = np.maximum(expit(margins), 1e-30)
        return scores

    def component_weights(self) -> dict[str, float]:
        """See :class:`~sparseleaf.rerank.evidence.EvidenceReranker`; fractions of the booster's gain."""
        _, gains = self.booster.importances()
        weights = dict.fromkeys(self.evidence.sources, 0.0)
        for source, gain in zip(self.evidence.sources, gains.tolist(), strict=True):
            weights[source] += gain
        return weights

    def explain_scores(
        self, parts: dict[str, Attribution], candidates: Candidates, highest: Array, n_jobs: int
    ) -> Attribution:
        """See :class:`~sparseleaf.rerank.evidence.EvidenceReranker`.

        Shapley values of the evidence, summed by source, are divided among the features of the row: those that speak
        for the label divide what is positive, those that speak against it what is negative. What is due to no feature,
        such as a lack of neighbours, belongs to the base.
        """
        n_pairs = len(candidates.labels)
        rows = Rows(candidates.table, None, n_jobs)
        pairs = Pairs(np.arange(n_pairs), np.zeros(n_pairs, np.int32))
        shapley = self.booster.apply(rows).explain(pairs)
        columns = shapley.terms.matrix.toarray()
        sources = self.evidence.sources
        by_source = {
            source: columns[:, [one == source for one in sources]].sum(axis=1)
            for source in dict.fromkeys(sources)
        }
        total, divided = shapley.base, []
        for source, values in by_source.items():
            if source not in parts:
                total = total + values
                continue
            terms, left = _divided(parts[source].terms, values)
            total = total + left
            divided.append(Attribution(np.zeros(n_pairs), terms, {}, parts[source].similar))
        margins = replace(added(divided), base=total)
        scores = self.score(candidates, n_jobs).astype(np.float64)
        components = secant_components(expit(shapley.base), by_source, scores)
        return margins.through(expit(total), scores).named(components)

    # --- tensors of the model file

    def tensors(self, compact: bool) -> dict[str, Array]:
        """See :class:`~sparseleaf.rerank.stage.Reranker`."""
        return prefixed("booster", self.booster.tensors(compact)) | self.evidence.tensors(compact)

    @classmethod
    def from_tensors(cls, source: StageSource) -> Self:
        """See :class:`~sparseleaf.model.stage.Stage`."""
        evidence = Evidence.from_tensors(source)
        part = source.part("booster", n_labels=1, n_columns=len(evidence.columns))
        return cls(evidence, AxisScorer.from_tensors(part))


def _divided(terms: Terms, values: Array) -> tuple[Terms, Array]:
    """Divide a value per pair among its terms of the same sign, in proportion; and what is left without any."""
    each = np.repeat(np.sign(values), np.diff(terms.indptr))
    data = np.maximum(each * terms.data, 0)
    total = terms.sums(data)
    factor = np.divide(values, total, out=np.zeros(len(values)), where=total > 0)
    return replace(terms, data=data).times(factor), np.where(total > 0, 0.0, values)


def fit_booster(
    candidates: Candidates,
    truth: Array,
    promise: Array,
    seed: int,
    n_jobs: int,
    weights: Array | None = None,
    most_trees: int = MOST_TREES,
) -> AxisScorer:
    """Fit boosted trees to the evidence of the most promising candidates; ``weights`` are those of the rows."""
    from sparseleaf.estimators.ranker import GBDTRanker  # it is above this: estimators end with the stage

    n_rows = len(candidates.starts) - 1
    best = highest(promise, candidates.starts, BOOSTER_CANDIDATES)
    row = np.repeat(np.arange(n_rows), np.diff(candidates.starts))[best]
    sizes = np.bincount(row, minlength=n_rows)
    n_trees = int(np.clip(n_rows // ROWS_PER_TREE, FEWEST_TREES, most_trees))
    ranker = GBDTRanker(n_trees=n_trees, **BOOSTER, random_state=seed, n_jobs=n_jobs)
    ranker.fit(
        candidates.table[best],
        truth[best].astype(np.int64),
        group=sizes[sizes > 0],
        sample_weight=None if weights is None else weights[sizes > 0],
        callbacks=None,
    )
    booster: AxisScorer = ranker.model_.scorer
    return booster


def highest(scores: Array, starts: Array, most: int) -> Array:
    """Mask of the ``most`` highest-scoring candidates of every row, the first in a tie."""
    sizes = np.diff(starts)
    order = np.lexsort((-scores, np.repeat(np.arange(len(sizes)), sizes)))
    place = np.empty(len(scores), np.int64)
    place[order] = np.arange(len(scores)) - np.repeat(starts[:-1], sizes)
    kept: Array = place < most
    return kept
