"""Validation rows: how a re-ranking stage is tuned on them, and which of several stages is the best."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from sparseleaf.progress import phase
from sparseleaf.rerank.bayes import DEFAULTS, TellingFeatures, choose_bayes
from sparseleaf.rerank.centroids import PLACES as MOST_PLACES
from sparseleaf.rerank.centroids import CentroidRerank
from sparseleaf.rerank.learned import OPINIONS, LearnedRerank
from sparseleaf.rerank.listed import PLACES
from sparseleaf.rerank.weighing import HIT_WORTH, Ranked, choose_shares, fit_booster, true_candidates

if TYPE_CHECKING:
    import scipy.sparse as sp

    from sparseleaf._arrays import Array, Features
    from sparseleaf.model import Model as AnyModel
    from sparseleaf.rerank import Rerank
    from sparseleaf.rerank.learned import Candidates, Evidence

WEIGHTS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)
DEFAULT_WEIGHT = 0.5

N_FOLDS = 5
"""Boosted trees are compared with other stages by cross-validation: fitted to four fifths of the rows, measured on the
last."""

Untuned: TypeAlias = CentroidRerank | LearnedRerank | TellingFeatures
"""A stage before its settings are chosen."""


class Validation:
    """Rows that neither the trees nor the stages have seen.

    Their candidates are computed once, however many stages are tuned and compared on them.

    Parameters
    ----------
    X, Y
    trees : Model
    seed, n_jobs : int
    """

    def __init__(self, X: Features, Y: sp.csr_matrix, trees: AnyModel, seed: int, n_jobs: int) -> None:
        self.X, self.Y, self.trees, self.seed, self.n_jobs = X, Y, trees, seed, n_jobs
        self._examples: tuple[Evidence, Candidates, Array] | None = None

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def rows(self, chosen: Array) -> Validation:
        """Those that a mask chooses."""
        part = Validation(self.X[chosen], self.Y[chosen], self.trees, self.seed, self.n_jobs)
        labels, scores = self._found
        part._found = labels[chosen], scores[chosen]
        if self._examples is not None:
            evidence, candidates, truth = self._examples
            kept = np.repeat(chosen, np.diff(candidates.starts))
            part._examples = evidence, candidates.rows(chosen), truth[kept]
        return part

    @cached_property
    def _found(self) -> tuple[Array, Array]:
        """The trees' candidates, best first: labels and scores, as many as the greediest stage looks at."""
        return self.trees.candidates(self.X, MOST_PLACES, None, self.n_jobs)

    def found(self, places: int) -> tuple[Array, Array]:
        """The trees' best candidates, so many."""
        labels, scores = self._found
        return labels[:, :places], scores[:, :places]

    def examples(self, evidence: Evidence) -> tuple[Candidates, Array]:
        """Candidates of the learned stages, and which of them are true."""
        if self._examples is None or self._examples[0] is not evidence:
            candidates = evidence.candidates(self.X, *self.found(PLACES), self.n_jobs)
            truth = true_candidates(candidates.starts, candidates.labels, self.Y)
            self._examples = evidence, candidates, truth
        return self._examples[1:]

    def tuned(self, stage: Untuned, weight: float | None) -> Rerank:
        """The stage with the settings that are best on these rows; ``weight`` fixes that of the trees."""
        if isinstance(stage, TellingFeatures):
            if not len(self):
                return stage.stage(*DEFAULTS, DEFAULT_WEIGHT if weight is None else weight)
            return choose_bayes(stage, self.X, self.Y, self.found(PLACES), weight, self.n_jobs)
        if isinstance(stage, CentroidRerank):
            return stage.with_weight(self._weight(stage) if weight is None else weight)
        if not len(self):
            return replace(stage, mix="linear", shares=equal_shares(weight))
        candidates, truth = self.examples(stage.evidence)
        if stage.mix == "boosted" and truth.any() and not truth.all():
            return replace(stage, booster=fit_booster(candidates, truth, self.seed, self.n_jobs))
        shares = choose_shares(candidates.opinions(), candidates.starts, truth, weight, n_jobs=self.n_jobs)
        return replace(stage, mix="linear", shares=shares)

    def precision(self, stage: Rerank | None) -> Array:
        """P@1 + P@3 + P@5 of every row."""
        if isinstance(stage, LearnedRerank):
            candidates, truth = self.examples(stage.evidence)
            ranked = Ranked(candidates.starts, truth, self.n_jobs)
            hits = ranked.hits(stage.weigh(candidates, self.n_jobs))
        else:
            found = self.found(5 if stage is None else stage.places)
            labels, _ = found if stage is None else stage.topk(self.X, *found, 5, self.n_jobs)
            starts = np.arange(len(self) + 1, dtype=np.int64) * 5
            hits = true_candidates(starts, labels.ravel(), self.Y).reshape(-1, 5) & (labels >= 0)
        precision: Array = hits @ HIT_WORTH / 15
        return precision

    def best_of(self, stages: list[Untuned]) -> Rerank | None:
        """The first stage, or another, or the trees alone (None), where that is better by a standard error or more.

        A few hundred rows cannot tell apart stages that are about as good: a plain maximum would follow chance.
        """
        tuned, found = [], []
        with phase("selection", len(stages)) as advance:
            for done, stage in enumerate(stages, 1):
                tuned.append(self.tuned(stage, None))
                found.append(self._unbiased(stage, tuned[-1]))
                advance(done, "")
        better = [(0.0, 0)]
        for number, other in enumerate([*found[1:], self.precision(None)], 1):
            lead = other - found[0]
            error = lead.std() / np.sqrt(len(lead))
            if lead.mean() > error:
                better.append((float(lead.mean()), number))
        return [*tuned, None][max(better)[1]]

    def _unbiased(self, stage: Untuned, tuned: Rerank) -> Array:
        """Precision on rows that a stage was not tuned on; that matters to boosted trees, not to a few weights."""
        if not isinstance(stage, LearnedRerank) or stage.mix != "boosted":
            return self.precision(tuned)
        fold = np.arange(len(self)) % N_FOLDS
        precision = np.empty(len(self))
        for one in range(N_FOLDS):
            precision[fold == one] = self.rows(fold == one).precision(
                self.rows(fold != one).tuned(stage, None)
            )
        return precision

    def _weight(self, stage: CentroidRerank) -> float:
        """β of highest precision; the largest, where several are alike."""
        if not len(self):
            return DEFAULT_WEIGHT
        found = [float(self.precision(stage.with_weight(weight)).sum()) for weight in WEIGHTS]
        return max(zip(found, WEIGHTS, strict=True))[1]


def equal_shares(trees: float | None) -> Array:
    """Shares of the opinions where there are no rows to choose them on."""
    first = 1 / len(OPINIONS) if trees is None else trees
    return np.array([first] + [(1 - first) / (len(OPINIONS) - 1)] * (len(OPINIONS) - 1), np.float32)
