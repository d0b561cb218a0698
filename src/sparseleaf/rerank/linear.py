"""Re-ranking by a weighted mean of four score components: trees, centroids, linear models and neighbours."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from scipy.special import expit

from sparseleaf import _kernels
from sparseleaf._arrays import row_blocks, sparse_parts
from sparseleaf._warnings import warn
from sparseleaf.model.attribution import Attribution, added
from sparseleaf.model.candidates import mixed
from sparseleaf.model.registry import register
from sparseleaf.rerank.evidence import COMPONENTS, NO_LISTS, STEEPNESS, Evidence, EvidenceReranker
from sparseleaf.rerank.mixing import choose_weights
from sparseleaf.rerank.neighbours import NEIGHBOURS

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.model.source import StageSource
    from sparseleaf.rerank.evidence import Candidates
    from sparseleaf.rerank.rows import TrainingRows
    from sparseleaf.rerank.validation import Validation


@register("linear")
@dataclass(frozen=True)
class LinearReranker(EvidenceReranker):
    """Linear mix of score components.

    Attributes
    ----------
    evidence : Evidence
    weights : float32 array, shape (4,)
        Mixing weights of the ``COMPONENTS``, each from 0 to 1.
    """

    evidence: Evidence
    weights: Array

    kind: ClassVar[str] = "linear"
    cross_validated: ClassVar[bool] = False

    def __getstate__(self) -> dict[str, Any]:
        # without the compiled part, which is rebuilt on demand
        return {name: value for name, value in vars(self).items() if name != "ranker"}

    @property
    def weight(self) -> float:
        """Weight of the trees."""
        return float(self.weights[0])

    @property
    def shares(self) -> Array:
        """The former name of ``weights``."""
        warn("The 'shares' attribute is deprecated; use 'weights'.", FutureWarning)
        return self.weights

    # --- fitting

    @classmethod
    def untuned(cls, kind: str, rows: TrainingRows) -> Self:
        """See :class:`~sparseleaf.rerank.stage.Reranker`."""
        return cls(rows.evidence.without_side(), equal_weights(None))

    def tuned(self, validation: Validation, weight: float | None) -> LinearReranker:
        """The stage with the weights of highest precision."""
        if not len(validation):
            return replace(self, weights=equal_weights(weight))
        candidates, truth = validation.examples(self.evidence)
        weights = choose_weights(
            candidates.components(),
            candidates.starts,
            truth,
            weight,
            n_jobs=validation.n_jobs,
            of_rows=validation.weights,
        )
        return replace(self, weights=weights)

    def refit(self, rows: TrainingRows) -> LinearReranker:
        """See :class:`~sparseleaf.rerank.stage.Reranker`."""
        return replace(self, evidence=rows.evidence.without_side())

    # --- prediction

    @cached_property
    def ranker(self) -> _kernels.LinearRanker:
        """The compiled stage: :meth:`score` without a table of candidates."""
        evidence = self.evidence
        assert evidence.models is not None
        index, lists = evidence.neighbours, NO_LISTS
        if index is not None:
            lists = index.labels
        return _kernels.LinearRanker(
            evidence.centroids.kernel,
            evidence.models.kernel,
            evidence.models.bias,
            None if index is None else index.kernel,
            lists.kernel,
            evidence.centroids.feature_weights,
            self.weights,
            NEIGHBOURS,
            0 if index is None else index.query_features,
            STEEPNESS,
        )

    def score(self, candidates: Candidates, n_jobs: int) -> Array:
        """See :class:`~sparseleaf.rerank.evidence.EvidenceReranker`."""
        return mixed(candidates.components(), self.weights)

    def topk(self, X: Features, labels: Array, scores: Array, k: int, n_jobs: int) -> tuple[Array, Array]:
        """See :class:`~sparseleaf.rerank.stage.Reranker`; compiled."""
        best, ranked = np.empty((labels.shape[0], k), np.int32), np.empty((labels.shape[0], k), np.float32)
        labels, scores = np.ascontiguousarray(labels, np.int32), np.ascontiguousarray(scores, np.float32)
        for block, rows in row_blocks(X):
            self.ranker.topk(
                *sparse_parts(rows), labels[block], scores[block], best[block], ranked[block], n_jobs
            )
        return best, ranked

    def component_weights(self) -> dict[str, float]:
        """See :class:`~sparseleaf.rerank.evidence.EvidenceReranker`."""
        return dict(zip(COMPONENTS, self.weights.tolist(), strict=True))

    def explain_scores(
        self, parts: dict[str, Attribution], candidates: Candidates, highest: Array, n_jobs: int
    ) -> Attribution:
        """See :class:`~sparseleaf.rerank.evidence.EvidenceReranker`; a component is a link function of its number."""
        trees, margin = parts["trees"].base, parts["margin"].base
        bases = (
            np.divide(trees, highest, out=np.zeros(len(trees)), where=highest > 0).clip(0, 1),
            parts["cosine"].base,
            expit(STEEPNESS * margin),
            parts["votes"].base,
        )
        finals = candidates.components().astype(np.float64)
        return added(
            [
                parts[name].through(base, final).scaled(float(weight)).named(name)
                for name, base, final, weight in zip(COMPONENTS, bases, finals.T, self.weights, strict=True)
            ]
        )

    # --- tensors of the model file

    def tensors(self, compact: bool) -> dict[str, Array]:
        """See :class:`~sparseleaf.rerank.stage.Reranker`."""
        return {"shares": self.weights, **self.evidence.tensors(compact)}

    @classmethod
    def from_tensors(cls, source: StageSource) -> Self:
        """See :class:`~sparseleaf.model.stage.Stage`."""
        weights = source.take("shares", ("F32",), 1)
        if len(weights) != len(COMPONENTS) or not ((weights >= 0) & (weights <= 1)).all():
            raise ValueError(f"shares must be {len(COMPONENTS)} numbers in [0, 1]")
        return cls(Evidence.from_tensors(source), weights)


def equal_weights(trees: float | None) -> Array:
    """Weights without validation rows to choose them on: equal, or ``trees`` for the first."""
    first = 1 / len(COMPONENTS) if trees is None else trees
    return np.array([first] + [(1 - first) / (len(COMPONENTS) - 1)] * (len(COMPONENTS) - 1), np.float32)
