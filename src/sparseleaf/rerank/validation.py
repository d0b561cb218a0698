"""Validation rows: what re-rankers are tuned on, and which of several is the best."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sparseleaf.model.candidates import PLACES, true_candidates
from sparseleaf.progress import phase
from sparseleaf.rerank.weighing import HIT_WORTH

if TYPE_CHECKING:
    import scipy.sparse as sp

    from sparseleaf._arrays import Array, Features
    from sparseleaf.model import Model
    from sparseleaf.rerank.evidence import Candidates, Evidence
    from sparseleaf.rerank.stage import Reranker, Untuned

MOST_PLACES = 300
"""Candidates that the trees are asked for at once: as many as the greediest re-ranker looks at."""

N_FOLDS = 5
"""Boosted trees are compared with other stages by cross-validation: fitted to four fifths of the rows, measured on the
last."""


class Validation:
    """Rows that neither the trees nor the stages have seen.

    Their candidates are computed once, however many stages are tuned and compared on them.

    Parameters
    ----------
    X, Y
    trees : Model
    seed, n_jobs : int
    """

    def __init__(self, X: Features, Y: sp.csr_matrix, trees: Model, seed: int, n_jobs: int) -> None:
        self.X, self.Y, self.trees, self.seed, self.n_jobs = X, Y, trees, seed, n_jobs
        self._found: tuple[Array, Array] | None = None
        self._examples: tuple[Evidence, Candidates, Array] | None = None

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def rows(self, chosen: Array) -> Validation:
        """Those that a mask chooses."""
        part = Validation(self.X[chosen], self.Y[chosen], self.trees, self.seed, self.n_jobs)
        labels, scores = self.found(MOST_PLACES)
        part._found = labels[chosen], scores[chosen]
        if self._examples is not None:
            evidence, candidates, truth = self._examples
            kept = np.repeat(chosen, np.diff(candidates.starts))
            part._examples = evidence, candidates.rows(chosen), truth[kept]
        return part

    def found(self, places: int) -> tuple[Array, Array]:
        """The trees' best candidates, so many, best first: labels and scores."""
        if self._found is None or self._found[0].shape[1] < places:
            self._found = self.trees.candidates(self.X, max(places, MOST_PLACES), None, self.n_jobs)
        labels, scores = self._found
        return labels[:, :places], scores[:, :places]

    def examples(self, evidence: Evidence) -> tuple[Candidates, Array]:
        """Candidates of the learned stages, and which of them are true."""
        if self._examples is None or self._examples[0] is not evidence:
            candidates = evidence.candidates(self.X, *self.found(PLACES), self.n_jobs)
            truth = true_candidates(candidates.starts, candidates.labels, self.Y)
            self._examples = evidence, candidates, truth
        return self._examples[1:]

    def are_true(self, labels: Array) -> Array:
        """Whether rows have these labels, (n_rows, n); -1 is none."""
        starts = np.arange(len(self) + 1, dtype=np.int64) * labels.shape[1]
        truth: Array = true_candidates(starts, labels.ravel(), self.Y).reshape(labels.shape) & (labels >= 0)
        return truth

    def precision(self, stage: Reranker | None) -> Array:
        """P@1 + P@3 + P@5 of every row; None is the trees alone."""
        hits = self.are_true(self.found(5)[0]) if stage is None else stage.hits(self)
        precision: Array = hits @ HIT_WORTH / 15
        return precision

    def best_of(self, stages: list[Untuned]) -> Reranker | None:
        """The first stage, or another, or the trees alone (None), where that is better by a standard error or more.

        A few hundred rows cannot tell apart stages that are about as good: a plain maximum would follow chance.
        """
        tuned, found = [], []
        with phase("selection", len(stages)) as advance:
            for done, stage in enumerate(stages, 1):
                tuned.append(stage.tuned(self, None))
                found.append(self._unbiased(stage, tuned[-1]))
                advance(done, "")
        better = [(0.0, 0)]
        for number, other in enumerate([*found[1:], self.precision(None)], 1):
            lead = other - found[0]
            error = lead.std() / np.sqrt(len(lead))
            if lead.mean() > error:
                better.append((float(lead.mean()), number))
        return [*tuned, None][max(better)[1]]

    def _unbiased(self, stage: Untuned, tuned: Reranker) -> Array:
        """Precision on rows that a stage was not tuned on, where that matters."""
        if not stage.cross_validated:
            return self.precision(tuned)
        fold = np.arange(len(self)) % N_FOLDS
        precision = np.empty(len(self))
        for one in range(N_FOLDS):
            fitted = stage.tuned(self.rows(fold != one), None)
            precision[fold == one] = self.rows(fold == one).precision(fitted)
        return precision
