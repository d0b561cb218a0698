"""Fitting a re-ranking stage: tuned on validation rows, then fitted again to all training rows."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sparseleaf._arrays import hash_rows, smallest_hashes
from sparseleaf.model.threshold import best_threshold
from sparseleaf.progress import phase
from sparseleaf.rerank import BAYES, LEARNED, BayesRerank, CentroidRerank, LearnedRerank
from sparseleaf.rerank.bayes import fit_telling
from sparseleaf.rerank.centroids import fit_centroids
from sparseleaf.rerank.learned import Evidence
from sparseleaf.rerank.linear import fit_linear
from sparseleaf.rerank.listed import BLOCK_ROWS, PLACES
from sparseleaf.rerank.neighbours import fit_neighbours
from sparseleaf.rerank.validation import DEFAULT_WEIGHT, N_FOLDS, Validation, equal_shares

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.model import Model as AnyModel
    from sparseleaf.rerank import Rerank
    from sparseleaf.rerank.validation import Untuned

HELD_SHARE = 0.1
MOST_HELD = 4000
FEWEST_ROWS = 50

AUTO = "auto"

AUTO_KINDS = ("boosted", "linear", BAYES)
"""Stages that "auto" chooses from, beside none at all: the first, where they are about as good. Centroids are part of
the first two."""


def held_out_rows(n_rows: int, seed: int) -> Array:
    """Rows to choose the weight on: a tenth, at most 4,000; none of a set too small to spare them."""
    if n_rows < FEWEST_ROWS:
        return np.empty(0, np.int64)
    return smallest_hashes(hash_rows(n_rows, seed, 7), min(MOST_HELD, int(HELD_SHARE * n_rows)))


def all_but(n_rows: int, held: Array) -> Array:
    """The other rows."""
    return np.setdiff1d(np.arange(n_rows), held, assume_unique=True)


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
    with phase("candidates", X.shape[0]) as advance:
        for begin in range(0, X.shape[0], BLOCK_ROWS):
            block = slice(begin, begin + BLOCK_ROWS)
            found = trees.candidates(X[block], PLACES, None, n_jobs)
            own = np.arange(begin, min(begin + BLOCK_ROWS, X.shape[0]))
            candidates = blind.candidates(X[block], *found, n_jobs, own)
            starts.append(candidates.starts[1:] + starts[-1][-1])
            labels.append(candidates.labels)
            advance(begin + len(own), "")
    return replace(
        blind, linear=fit_linear(rows, Y, np.concatenate(starts), np.concatenate(labels), seed, n_jobs)
    )


def untuned(
    kind: str, X: Features, Y: sp.csr_matrix, scale: float | None, evidence: Evidence | None, n_jobs: int
) -> Untuned:
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
    validation: Validation,
    weight: float | None,
    scale: float | None,
) -> Rerank | None:
    """A stage of that kind, or the best of all for "auto", fitted to these rows and tuned on the validation rows."""
    evidence = None
    n_jobs = validation.n_jobs
    if kind == AUTO and len(validation) < N_FOLDS:
        kind = "cosine"
    if kind in (*LEARNED, AUTO):
        evidence = fit_evidence(X, Y, validation.trees, validation.seed, n_jobs)
    if kind == AUTO:
        return validation.best_of([untuned(one, X, Y, scale, evidence, n_jobs) for one in AUTO_KINDS])
    stage = untuned(kind, X, Y, scale, evidence, n_jobs)
    with phase("tuning"):
        return validation.tuned(stage, weight)


def refuse_fixed_weight(kind: str | None, weight: Any, name: str) -> None:
    """Raise ValueError where the trees have no share that could be told."""
    if kind in ("boosted", AUTO) and weight is not None and weight != AUTO:
        raise ValueError(f"{name}: found {weight!r}; rerank={kind!r} learns how to weigh, wanted none.")


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
    validation : (X, Y) or None
        Other rows to choose the weight on.
    seed : int
    """

    kind: str | None
    weight: float | None
    scale: float | None
    X: Features
    Y: sp.csr_matrix
    held: Array
    validation: tuple[Features, sp.csr_matrix] | None
    seed: int

    @classmethod
    def plan(
        cls,
        params: Any,
        X: Features,
        Y: sp.csr_matrix,
        seed: int,
        validation: tuple[Features, sp.csr_matrix] | None = None,
    ) -> Reranking:
        """By the settings ``rerank``, ``rerank_weight`` and ``rerank_scale``."""
        refuse_fixed_weight(params.rerank, params.rerank_weight, "rerank_weight")
        weight = None if params.rerank_weight == AUTO else float(params.rerank_weight)
        needed = params.rerank is not None and weight is None and validation is None
        held = held_out_rows(X.shape[0], seed) if needed else np.empty(0, np.int64)
        return cls(params.rerank, weight, params.rerank_scale, X, Y, held, validation, seed)

    def tree_rows(self) -> tuple[Features, sp.csr_matrix]:
        """What the trees are to be trained on."""
        if not len(self.held):
            return self.X, self.Y
        seen = all_but(self.X.shape[0], self.held)
        return self.X[seen], self.Y[seen]

    def choose(self, trees: AnyModel, n_jobs: int) -> Rerank | None:
        """The stage whose settings are best on the validation rows, which these trees have not seen.

        None after Ctrl-C: the trees are kept without it.
        """
        if self.kind is None:
            return None
        validation = Validation(*self._validation_rows(), trees, self.seed, n_jobs)
        try:
            with phase("re-ranking"):
                return fit_stage(self.kind, *self.tree_rows(), validation, self.weight, self.scale)
        except KeyboardInterrupt:
            warnings.warn(
                "interrupted: the model has all trees, but no re-ranking stage; fit_rerank adds one",
                stacklevel=4,
            )
            return None

    def threshold(self, model: AnyModel, n_jobs: int) -> float | None:
        """Score from which labels are returned, chosen on the validation rows; None where there are none.

        ``model`` ends with the stage that was chosen, and its trees have not seen these rows. None after Ctrl-C.
        """
        X, Y = self._validation_rows()
        if self.kind is None or not X.shape[0]:
            return None
        try:
            with phase("choosing the threshold"):
                return best_threshold(model.scores(X, None, n_jobs), Y)
        except KeyboardInterrupt:
            warnings.warn("interrupted: predict has the default threshold", stacklevel=4)
            return None

    def _validation_rows(self) -> tuple[Features, sp.csr_matrix]:
        return self.validation or (self.X[self.held], self.Y[self.held])

    def refit(self, stage: Rerank | None, trees: AnyModel, n_jobs: int) -> Rerank | None:
        """The chosen stage with all training rows.

        ``trees`` are those that will predict. Where they have taken in the held-out rows since, it matters: a linear
        model learns from the rows that its label is proposed for in error, and trees that have never seen a label
        propose it for none. Ctrl-C leaves the stage as it is.
        """
        if stage is None or not len(self.held):
            return stage
        try:
            with phase("re-ranking on all rows"):
                return self._refitted(stage, trees, n_jobs)
        except KeyboardInterrupt:
            warnings.warn(
                "interrupted: the re-ranking stage is fitted without its validation rows", stacklevel=4
            )
            return stage

    def _refitted(self, stage: Rerank, trees: AnyModel, n_jobs: int) -> Rerank:
        if isinstance(stage, CentroidRerank):
            return fit_centroids(self.X, self.Y, stage.mix, stage.weight, self.scale)
        if isinstance(stage, BayesRerank):
            again = fit_telling(self.X, self.Y, n_jobs, stage.most)
            return replace(again.stage(stage.most, stage.power, stage.weight), sureness=stage.sureness)
        return replace(stage, evidence=fit_evidence(self.X, self.Y, trees, self.seed, n_jobs))
