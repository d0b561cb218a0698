"""Fitting a re-ranking stage: tuned on validation rows, then fitted again to all training rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sparseleaf._arrays import hash_rows, smallest_hashes
from sparseleaf._warnings import warn
from sparseleaf.model.registry import stage_class
from sparseleaf.model.threshold import best_threshold
from sparseleaf.progress import phase
from sparseleaf.rerank.rows import TrainingRows
from sparseleaf.rerank.validation import N_FOLDS, Validation

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.model import Model
    from sparseleaf.rerank.stage import Reranker, Untuned

HELD_SHARE = 0.1
MOST_HELD = 4000
FEWEST_ROWS = 50

AUTO = "auto"

AUTO_KINDS = ("boosted", "linear", "bayes")
"""Stages that "auto" chooses from, beside none at all: the first, where they are about as good. Centroids are part of
the first two."""


def held_out_rows(n_rows: int, seed: int) -> Array:
    """Rows to choose the weight on: a tenth, at most 4,000; none of a set too small to spare them."""
    if n_rows < FEWEST_ROWS:
        return np.empty(0, np.int64)
    return smallest_hashes(hash_rows(n_rows, seed, 7), min(MOST_HELD, int(HELD_SHARE * n_rows)))


def rows_to_hold_out(params: Any, n_rows: int, seed: int, *, has_validation: bool) -> Array:
    """Rows that the trees must not see, since the settings of the stage are chosen on them."""
    refuse_fixed_weight(params.rerank, params.rerank_weight, "rerank_weight")
    if params.rerank is None or params.rerank_weight != AUTO or has_validation:
        return np.empty(0, np.int64)
    return held_out_rows(n_rows, seed)


def all_but(n_rows: int, held: Array) -> Array:
    """The other rows."""
    return np.setdiff1d(np.arange(n_rows), held, assume_unique=True)


def fit_stage(kind: str, rows: TrainingRows, validation: Validation, weight: float | None) -> Reranker | None:
    """A stage of that kind, or the best of all for "auto", fitted to these rows and tuned on the validation rows."""
    if kind == AUTO and len(validation) < N_FOLDS:
        kind = "cosine"
    if kind == AUTO:
        return validation.best_of([stage_class(one).untuned(one, rows) for one in AUTO_KINDS])
    stage: Untuned = stage_class(kind).untuned(kind, rows)
    with phase("tuning"):
        return stage.tuned(validation, weight)


def refuse_fixed_weight(kind: str | None, weight: Any, name: str) -> None:
    """Raise ValueError where the trees have no share that could be told."""
    if kind is None or weight is None or weight == AUTO:
        return
    if kind == AUTO or not stage_class(kind).takes_weight:
        raise ValueError(f"{name}: found {weight!r}; rerank={kind!r} learns how to weigh, wanted none.")


@dataclass
class Reranking:
    """The stage of a classifier that is being fitted: which rows the trees see, and what is fitted after them.

    Attributes
    ----------
    kind : str or None
        A kind of re-ranker, or "auto"; None is no stage at all.
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
    interrupted : bool
        Whether Ctrl-C ended any of it early.
    """

    kind: str | None
    weight: float | None
    scale: float | None
    X: Features
    Y: sp.csr_matrix
    held: Array
    validation: tuple[Features, sp.csr_matrix] | None
    seed: int
    interrupted: bool = field(default=False, init=False)

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
        held = rows_to_hold_out(params, X.shape[0], seed, has_validation=validation is not None)
        weight = None if params.rerank_weight == AUTO else float(params.rerank_weight)
        return cls(params.rerank, weight, params.rerank_scale, X, Y, held, validation, seed)

    def tree_rows(self) -> tuple[Features, sp.csr_matrix]:
        """What the trees are to be trained on."""
        if not len(self.held):
            return self.X, self.Y
        seen = all_but(self.X.shape[0], self.held)
        return self.X[seen], self.Y[seen]

    def choose(self, trees: Model, n_jobs: int) -> Reranker | None:
        """The stage whose settings are best on the validation rows, which these trees have not seen.

        None after Ctrl-C: the trees are kept without it.
        """
        if self.kind is None:
            return None
        validation = Validation(*self._validation_rows(), trees, self.seed, n_jobs)
        try:
            with phase("re-ranking"):
                return fit_stage(
                    self.kind, self._rows(*self.tree_rows(), trees, n_jobs), validation, self.weight
                )
        except KeyboardInterrupt:
            self.interrupted = True
            warn("interrupted: the model has all trees, but no re-ranking stage; fit_rerank adds one")
            return None

    def threshold(self, model: Model, n_jobs: int) -> float | None:
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
            self.interrupted = True
            warn("interrupted: predict has the default threshold")
            return None

    def _validation_rows(self) -> tuple[Features, sp.csr_matrix]:
        return self.validation or (self.X[self.held], self.Y[self.held])

    def refit(self, stage: Reranker | None, trees: Model, n_jobs: int) -> Reranker | None:
        """The chosen stage with all training rows.

        ``trees`` are those that will predict. Where they have taken in the held-out rows since, it matters: a linear
        model learns from the rows that its label is proposed for in error, and trees that have never seen a label
        propose it for none. Ctrl-C leaves the stage as it is.
        """
        if stage is None or not len(self.held):
            return stage
        try:
            with phase("re-ranking on all rows"):
                return stage.refit(self._rows(self.X, self.Y, trees, n_jobs))
        except KeyboardInterrupt:
            self.interrupted = True
            warn("interrupted: the re-ranking stage is fitted without its validation rows")
            return stage

    def _rows(self, X: Features, Y: sp.csr_matrix, trees: Model, n_jobs: int) -> TrainingRows:
        return TrainingRows(X, Y, trees, self.scale, self.seed, n_jobs)
