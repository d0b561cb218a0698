"""Validation rows: tuning and selection of re-rankers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from sparseleaf.model.candidates import true_candidates
from sparseleaf.progress import phase
from sparseleaf.rerank.mixing import HIT_GAINS

if TYPE_CHECKING:
    import scipy.sparse as sp

    from sparseleaf._arrays import Array, Features
    from sparseleaf.model import Model
    from sparseleaf.rerank.evidence import Candidates, Evidence
    from sparseleaf.rerank.stage import Reranker, Untuned

MAX_PLACES = 300
"""Number of candidates computed at once: the maximum over all re-rankers."""

N_FOLDS = 5
"""Folds of the cross-validation by which boosted re-rankers are compared with others."""


class Validation:
    """Rows that neither the trees nor the re-rankers were trained on.

    Their candidates are computed once for all re-rankers.

    Parameters
    ----------
    X, Y
    trees : Model
    seed, n_jobs : int
    weights : float32 array, shape (n_rows,), or None
        Weights of the rows in mean precisions; None if all are 1.
    """

    def __init__(
        self,
        X: Features,
        Y: sp.csr_matrix,
        trees: Model,
        seed: int,
        n_jobs: int,
        weights: Array | None = None,
    ) -> None:
        self.X, self.Y, self.trees, self.seed, self.n_jobs = X, Y, trees, seed, n_jobs
        self.weights = weights
        self._found: tuple[Array, Array] | None = None
        self._examples: tuple[Evidence, Candidates, Array] | None = None

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def rows(self, chosen: Array) -> Validation:
        """The rows selected by a mask."""
        weights = None if self.weights is None else self.weights[chosen]
        part = Validation(self.X[chosen], self.Y[chosen], self.trees, self.seed, self.n_jobs, weights)
        labels, scores = self.found(MAX_PLACES)
        part._found = labels[chosen], scores[chosen]
        if self._examples is not None:
            evidence, candidates, truth = self._examples
            kept = np.repeat(chosen, np.diff(candidates.starts))
            part._examples = evidence, candidates.rows(chosen), truth[kept]
        return part

    def found(self, places: int) -> tuple[Array, Array]:
        """The trees' best ``places`` candidates, best first: labels and scores."""
        if self._found is None or self._found[0].shape[1] < places:
            self._found = self.trees.candidates(self.X, max(places, MAX_PLACES), None, self.n_jobs)
        labels, scores = self._found
        return labels[:, :places], scores[:, :places]

    def examples(self, evidence: Evidence) -> tuple[Candidates, Array]:
        """Candidates of the evidence re-rankers, and which of them are relevant."""
        if self._examples is None or self._examples[0] is not evidence:
            candidates = evidence.candidates(self.X, *self.found(evidence.places), self.n_jobs)
            truth = true_candidates(candidates.starts, candidates.labels, self.Y, self.n_jobs)
            self._examples = evidence, candidates, truth
        return self._examples[1:]

    def are_true(self, labels: Array) -> Array:
        """Whether rows have these labels, (n_rows, n); -1 for none."""
        starts = np.arange(len(self) + 1, dtype=np.int64) * labels.shape[1]
        truth: Array = true_candidates(starts, labels.ravel(), self.Y, self.n_jobs).reshape(labels.shape)
        return truth

    def precision(self, stage: Reranker | None) -> Array:
        """P@1 + P@3 + P@5 of every row; None for the trees only."""
        hits = self.are_true(self.found(5)[0]) if stage is None else stage.hits(self)
        precision: Array = hits @ HIT_GAINS / 15
        return precision

    def total_precision(self, stage: Reranker | None) -> float:
        """Σ over rows of weight · (P@1 + P@3 + P@5)."""
        precision = self.precision(stage)
        return float((precision if self.weights is None else precision * self.weights).sum())

    def best_of(self, stages: list[Untuned]) -> Reranker | None:
        """The first re-ranker, unless another, or the trees alone (None), is better by at least one standard error.

        A few hundred rows cannot distinguish re-rankers of similar precision: a plain maximum would follow noise.
        """
        first, *others = stages
        with phase("selection", len(stages)) as advance:
            rivals: list[Reranker | None] = [None]
            for done, stage in enumerate(others, 1):
                rivals.append(stage.tuned(self, None))
                advance(done, "")
            best = self._better_than(first, rivals, [self.precision(rival) for rival in rivals])
            return first.tuned(self, None) if best is None else rivals[best]

    def _better_than(
        self, first: Untuned, rivals: list[Reranker | None], precisions: list[Array]
    ) -> int | None:
        """The best of the rivals that are significantly better than the first; None if there is none.

        A first stage that can overfit is cross-validated, until it is ahead of all others: a fold decides most cases.
        """
        tested = np.empty(0, np.int64)
        baseline = np.empty(0)
        for rows, precision in self._unbiased(first):
            tested, baseline = np.concatenate((tested, rows)), np.concatenate((baseline, precision))
            leads = [other[tested] - baseline for other in precisions]
            if self.weights is not None:
                relative = self.weights[tested] / self.weights[tested].mean(dtype=np.float64)
                leads = [lead * relative for lead in leads]
            if all(lead.mean() < 0 for lead in leads):
                return None
        better = [
            (float(lead.mean()), number)
            for number, lead in enumerate(leads)
            if lead.mean() > lead.std() / np.sqrt(len(lead))
        ]
        return max(better)[1] if better else None

    def _unbiased(self, stage: Untuned) -> Iterator[tuple[Array, Array]]:
        """Rows, and their precision with a stage that is tuned on others if it can overfit."""
        everything = np.arange(len(self))
        if not stage.cross_validated:
            yield everything, self.precision(stage.tuned(self, None))
            return
        fold = everything % N_FOLDS
        for one in range(N_FOLDS):
            fitted = stage.tuned(self.rows(fold != one), None)
            yield everything[fold == one], self.rows(fold == one).precision(fitted)
