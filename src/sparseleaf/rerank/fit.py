"""Fitting the stage: rows held out for how opinions are weighed, and what is best on them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from sparseleaf._arrays import hash_rows, smallest_hashes
from sparseleaf.metrics import precision_at_k
from sparseleaf.rerank import BAYES, KINDS, LEARNED, BayesRerank, CentroidRerank, LearnedRerank
from sparseleaf.rerank.bayes import DEFAULTS, TellingFeatures, choose_bayes, fit_telling
from sparseleaf.rerank.centroids import fit_centroids
from sparseleaf.rerank.learned import OPINIONS, Candidates, Evidence
from sparseleaf.rerank.linear import fit_linear
from sparseleaf.rerank.listed import BLOCK_ROWS, PLACES
from sparseleaf.rerank.neighbours import fit_neighbours
from sparseleaf.rerank.weighing import choose_shares, fit_booster, true_candidates

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.model import Model as AnyModel
    from sparseleaf.rerank import Rerank

WEIGHTS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)
DEFAULT_WEIGHT = 0.5
HELD_SHARE = 0.1
MOST_HELD = 4000
FEWEST_ROWS = 50

AUTO = "auto"

Unweighed: TypeAlias = CentroidRerank | LearnedRerank | TellingFeatures
"""What a stage knows, before it is settled how it is used."""


def held_out_rows(n_rows: int, seed: int) -> Array:
    """Rows to choose the weight on: a tenth, at most 4,000; none of a set too small to spare them."""
    if n_rows < FEWEST_ROWS:
        return np.empty(0, np.int64)
    return smallest_hashes(hash_rows(n_rows, seed, 7), min(MOST_HELD, int(HELD_SHARE * n_rows)))


def all_but(n_rows: int, held: Array) -> Array:
    """The other rows."""
    return np.setdiff1d(np.arange(n_rows), held, assume_unique=True)


def choose_weight(
    rerank: CentroidRerank, X: Features, Y: sp.csr_matrix, trees: AnyModel, n_jobs: int
) -> float:
    """β of highest mean P@1, P@3 and P@5 on rows that neither trees nor centroids have seen."""
    if X.shape[0] == 0:
        return DEFAULT_WEIGHT
    labels, scores = trees.candidates(X, rerank.places, None, n_jobs)
    found = []
    for weight in WEIGHTS:
        ranked, _ = rerank.with_weight(weight).topk(X, labels, scores, 5, n_jobs)
        found.append(_worth(Y, ranked))
    # the trees' say is the larger, where it makes no difference
    return max(zip(found, WEIGHTS, strict=True))[1]


def fit_evidence(X: Features, Y: sp.csr_matrix, trees: AnyModel, seed: int, n_jobs: int) -> Evidence:
    """Centroids, neighbours and linear models of these rows; the latter see what the stage will propose.

    The trees may have seen the rows: which labels they propose in error is all that is taken from them.
    """
    centroids = fit_centroids(X, Y, "cosine", 0.0, None)
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    blind = Evidence(centroids, None, None, counts)
    rows = blind.unit_rows(X)
    blind = replace(blind, neighbours=fit_neighbours(rows, Y))
    starts, labels = [np.zeros(1, np.int64)], []
    for begin in range(0, X.shape[0], BLOCK_ROWS):
        block = slice(begin, begin + BLOCK_ROWS)
        found = trees.candidates(X[block], PLACES, None, n_jobs)
        own = np.arange(begin, min(begin + BLOCK_ROWS, X.shape[0]))
        candidates = blind.candidates(X[block], *found, n_jobs, own)
        starts.append(candidates.starts[1:] + starts[-1][-1])
        labels.append(candidates.labels)
    return replace(
        blind, linear=fit_linear(rows, Y, np.concatenate(starts), np.concatenate(labels), seed, n_jobs)
    )


@dataclass(frozen=True)
class Judges:
    """Rows that neither trees nor evidence have seen.

    Attributes
    ----------
    X, Y
    trees : Model
    seed, n_jobs : int
    """

    X: Features
    Y: sp.csr_matrix
    trees: AnyModel
    seed: int
    n_jobs: int

    def rows(self, some: Array) -> Judges:
        """Some of them."""
        return replace(self, X=self.X[some], Y=self.Y[some])

    def weighed(self, stage: Unweighed, weight: float | None) -> Rerank:
        """The stage with what is best on these rows; ``weight`` fixes the trees' share."""
        if isinstance(stage, TellingFeatures):
            if self.X.shape[0] == 0:
                return stage.stage(*DEFAULTS, DEFAULT_WEIGHT if weight is None else weight)
            found = self.trees.candidates(self.X, PLACES, None, self.n_jobs)
            return choose_bayes(stage, self.X, self.Y, found, weight, self.n_jobs)
        if isinstance(stage, CentroidRerank):
            if weight is None:
                weight = choose_weight(stage, self.X, self.Y, self.trees, self.n_jobs)
            return stage.with_weight(weight)
        if self.X.shape[0] == 0:
            return replace(stage, mix="linear", shares=equal_shares(weight))
        candidates = self._candidates(stage.evidence)
        truth = true_candidates(candidates.starts, candidates.labels, self.Y)
        if stage.mix == "boosted" and truth.any() and not truth.all():
            return replace(stage, booster=fit_booster(candidates, truth, self.seed, self.n_jobs))
        shares = choose_shares(candidates.opinions(), candidates.starts, truth, weight)
        return replace(stage, mix="linear", shares=shares)

    def worth(self, stage: Rerank | None) -> float:
        """P@1 + P@3 + P@5 on these rows."""
        model = replace(self.trees, rerank=stage)
        return _worth(self.Y, model.topk(self.X, 5, None, self.n_jobs)[0])

    def best_of(self, stages: list[Unweighed]) -> Rerank | None:
        """The stage, weighed, that is best where it was not weighed itself; None where the trees alone are."""
        halves = [np.arange(self.X.shape[0]) % 2 == side for side in (0, 1)]
        found = [self.worth(None)]
        for stage in stages:
            found.append(
                sum(
                    self.rows(~half).worth(self.rows(half).weighed(stage, None)) * (~half).mean()
                    for half in halves
                )
            )
        best = int(np.argmax(found))
        return None if best == 0 else self.weighed(stages[best - 1], None)

    def _candidates(self, evidence: Evidence) -> Candidates:
        found = self.trees.candidates(self.X, PLACES, None, self.n_jobs)
        return evidence.candidates(self.X, *found, self.n_jobs)


def equal_shares(trees: float | None) -> Array:
    """Shares of the opinions where there are no rows to choose them on."""
    first = 1 / len(OPINIONS) if trees is None else trees
    return np.array([first] + [(1 - first) / (len(OPINIONS) - 1)] * (len(OPINIONS) - 1), np.float32)


def unweighed(
    kind: str, X: Features, Y: sp.csr_matrix, scale: float | None, evidence: Evidence | None, n_jobs: int
) -> Unweighed:
    """A stage of that kind for these rows."""
    if kind == BAYES:
        return fit_telling(X, Y, n_jobs)
    if kind in LEARNED:
        assert evidence is not None
        return LearnedRerank(kind, evidence, equal_shares(None), None)
    return fit_centroids(X, Y, kind, DEFAULT_WEIGHT, scale)


def fit_stage(
    kind: str,
    X: Features,
    Y: sp.csr_matrix,
    judges: Judges,
    weight: float | None,
    scale: float | None,
) -> Rerank | None:
    """A stage of that kind, or the best of all for "auto", of these rows and weighed on the judges."""
    evidence = None
    if kind == AUTO and judges.X.shape[0] < 2:
        kind = "cosine"
    if kind in (*LEARNED, AUTO):
        evidence = fit_evidence(X, Y, judges.trees, judges.seed, judges.n_jobs)
    if kind == AUTO:
        return judges.best_of([unweighed(one, X, Y, scale, evidence, judges.n_jobs) for one in KINDS])
    return judges.weighed(unweighed(kind, X, Y, scale, evidence, judges.n_jobs), weight)


def refuse_fixed_weight(kind: str | None, weight: Any, name: str) -> None:
    """Raise ValueError where the trees have no share that could be told."""
    if kind in ("boosted", AUTO) and weight is not None and weight != AUTO:
        raise ValueError(f"{name}: found {weight!r}; rerank={kind!r} learns how to weigh, wanted none.")


def _worth(Y: sp.csr_matrix, ranked: Array) -> float:
    return float(sum(precision_at_k(Y, ranked, k) for k in (1, 3, 5)))


@dataclass(frozen=True)
class Reranking:
    """The stage of a classifier that is being fitted: which rows the trees see, and what is fitted after them.

    Attributes
    ----------
    kind : str or None
        One of ``KINDS``, or "auto"; None is no stage at all.
    weight : float or None
        Share of the trees; None is chosen.
    scale : float or None
    X, Y
        All training rows.
    held : int array
        Rows that the trees must not see, since the weight is chosen on them.
    judges : (X, Y) or None
        Other rows to choose the weight on.
    seed : int
    """

    kind: str | None
    weight: float | None
    scale: float | None
    X: Features
    Y: sp.csr_matrix
    held: Array
    judges: tuple[Features, sp.csr_matrix] | None
    seed: int

    @classmethod
    def plan(
        cls,
        estimator: Any,
        X: Features,
        Y: sp.csr_matrix,
        seed: int,
        judges: tuple[Features, sp.csr_matrix] | None = None,
    ) -> Reranking:
        """By the estimator's ``rerank``, ``rerank_weight`` and ``rerank_scale``."""
        refuse_fixed_weight(estimator.rerank, estimator.rerank_weight, "rerank_weight")
        weight = None if estimator.rerank_weight == AUTO else float(estimator.rerank_weight)
        needed = estimator.rerank is not None and weight is None and judges is None
        held = held_out_rows(X.shape[0], seed) if needed else np.empty(0, np.int64)
        return cls(estimator.rerank, weight, estimator.rerank_scale, X, Y, held, judges, seed)

    def tree_rows(self) -> tuple[Features, sp.csr_matrix]:
        """What the trees are to be trained on."""
        if not len(self.held):
            return self.X, self.Y
        seen = all_but(self.X.shape[0], self.held)
        return self.X[seen], self.Y[seen]

    def finish(self, trees: AnyModel, n_jobs: int) -> Rerank | None:
        """The stage for these trees: weighed on rows not seen, then its evidence is of all rows."""
        if self.kind is None:
            return None
        judges = Judges(*(self.judges or (self.X[self.held], self.Y[self.held])), trees, self.seed, n_jobs)
        stage = fit_stage(self.kind, *self.tree_rows(), judges, self.weight, self.scale)
        if stage is None or not len(self.held):
            return stage
        if isinstance(stage, CentroidRerank):
            return fit_centroids(self.X, self.Y, stage.mix, stage.weight, self.scale)
        if isinstance(stage, BayesRerank):
            again = fit_telling(self.X, self.Y, n_jobs, stage.most)
            return replace(again.stage(stage.most, stage.power, stage.weight), sureness=stage.sureness)
        return replace(stage, evidence=fit_evidence(self.X, self.Y, trees, self.seed, n_jobs))
