"""Fitting a re-ranker: tuned on validation rows, then refitted to all training rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sparseleaf._arrays import hash_rows, smallest_hashes
from sparseleaf._threads import started
from sparseleaf._warnings import warn
from sparseleaf.data.weights import TrainingWeights
from sparseleaf.model.drift import validation_record
from sparseleaf.model.registry import stage_class
from sparseleaf.model.stage import Role
from sparseleaf.model.threshold import best_threshold
from sparseleaf.progress import phase
from sparseleaf.rerank.crossfit import N_HALVES, CrossFit
from sparseleaf.rerank.rows import TrainingRows
from sparseleaf.rerank.validation import N_FOLDS, Validation

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.model import Model
    from sparseleaf.rerank.side import SideEvidence
    from sparseleaf.rerank.stage import Reranker, Untuned

HELD_SHARE, MAX_HELD_SHARE = 0.1, 0.2
"""Fraction of the training rows that are held out, and the largest one, for estimators that prefer a number of rows."""

MAX_HELD_OUT, MAX_HELD_OUT_SIDE = 4_000, 8_000
"""Maximum number of held-out rows, and with side information of labels, from which there is more to learn."""

ENOUGH = 750
"""Number of held-out rows that is worth a larger fraction of them: with fewer, the training rows matter more."""

FEWEST_ROWS = 50

AUTO = "auto"

AUTO_KINDS = ("boosted", "linear", "bayes")
"""Kinds that "auto" chooses from, besides no re-ranker: the first, unless another is significantly better. Centroids
are part of the first two."""


SIDE_KIND = "boosted"
"""The kind that learns from side information of labels."""


def check_side_kind(kind: str | None) -> None:
    """Raise ValueError if re-rankers of that kind cannot use side information of labels."""
    if kind not in (SIDE_KIND, AUTO):
        raise ValueError(
            f"The 'rerank' parameter must be {SIDE_KIND!r} or {AUTO!r} with label_info. Got {kind!r} instead."
        )


def held_out_rows(n_rows: int, seed: int, preferred: int = 0, most: int = MAX_HELD_OUT) -> Array:
    """A validation sample of the training rows: 10 %, up to ``most``; empty for very small sets.

    If 20 % are at least ``ENOUGH`` rows, so many are held out up to ``preferred`` rows.
    """
    if n_rows < FEWEST_ROWS:
        return np.empty(0, np.int64)
    n_held_out = min(most, int(HELD_SHARE * n_rows))
    more = min(preferred, int(MAX_HELD_SHARE * n_rows))
    return smallest_hashes(hash_rows(n_rows, seed, 7), max(n_held_out, more if more >= ENOUGH else 0))


def rows_to_hold_out(
    params: Any, n_rows: int, seed: int, *, has_validation: bool, side: bool, preferred: int = 0
) -> Array:
    """Rows held out from the trees to tune the re-ranker and to calibrate scores on."""
    refuse_fixed_weight(params.rerank, params.rerank_weight, "rerank_weight")
    tuned = params.rerank is not None and params.rerank_weight == AUTO
    calibrated = params.calibrate not in (None, AUTO)
    if has_validation or not (tuned or calibrated):
        return np.empty(0, np.int64)
    return held_out_rows(n_rows, seed, preferred, MAX_HELD_OUT_SIDE if side else MAX_HELD_OUT)


def all_but(n_rows: int, held_out: Array) -> Array:
    """All rows but the held-out ones."""
    kept = np.ones(n_rows, bool)
    kept[held_out] = False
    return np.flatnonzero(kept)


def fit_stage(kind: str, rows: TrainingRows, validation: Validation, weight: float | None) -> Reranker | None:
    """Fit a re-ranker of that kind, or the best for "auto", and tune it on the validation rows."""
    if kind == AUTO and len(validation) < N_FOLDS:
        kind = "cosine"
    if kind == AUTO:
        return validation.best_of([stage_class(one).untuned(one, rows) for one in AUTO_KINDS])
    stage: Untuned = stage_class(kind).untuned(kind, rows)
    with phase("tuning"):
        return stage.tuned(validation, weight)


def refuse_fixed_weight(kind: str | None, weight: Any, name: str) -> None:
    """Raise ValueError if a weight is given for a kind without one."""
    if kind is None or weight is None or weight == AUTO:
        return
    if kind == AUTO or not stage_class(kind).takes_weight:
        raise ValueError(f"{name} is not supported for rerank={kind!r}, which learns it. Got {weight!r}.")


def adds_candidates(kind: str | None) -> bool:
    """Whether re-rankers of that kind, or all that "auto" chooses from, add candidates to those of the trees."""
    kinds = AUTO_KINDS if kind == AUTO else () if kind is None else (kind,)
    return bool(kinds) and all(stage_class(one).adds_candidates for one in kinds)


@dataclass
class Reranking:
    """Re-ranking during ``fit``: which rows the trees are trained on, and what is fitted after them.

    Attributes
    ----------
    kind : str or None
        A kind of re-ranker, or "auto"; None for no re-ranker.
    weight : float or None
        Weight of the trees; None to tune it.
    scale : float or None
    X, Y, weights
        All training rows.
    held_out : int array
        Rows held out from the trees for tuning.
    validation : (X, Y) or None
        A separate validation set, if given.
    seed : int
    side : SideEvidence or None
        Names and hierarchy of the labels.
    calibrated : bool
        Whether scores are calibrated, if there are validation rows.
    interrupted : bool
        Whether Ctrl-C interrupted a step.
    precision : dict or None
        Precision on the validation rows, for the model's ``validation``.
    """

    kind: str | None
    weight: float | None
    scale: float | None
    X: Features
    Y: sp.csr_matrix
    weights: TrainingWeights
    held_out: Array
    validation: tuple[Features, sp.csr_matrix] | None
    seed: int
    calibrated: bool = False
    side: SideEvidence | None = None
    interrupted: bool = field(default=False, init=False)
    precision: dict[str, Any] | None = field(default=None, init=False)
    _tuning: Validation | None = field(default=None, init=False, repr=False)
    _cross_fit: CrossFit | None = field(default=None, init=False, repr=False)
    _all_rows: TrainingRows = field(init=False)

    @classmethod
    def plan(
        cls,
        params: Any,
        X: Features,
        Y: sp.csr_matrix,
        weights: TrainingWeights,
        seed: int,
        validation: tuple[Features, sp.csr_matrix] | None = None,
        side: SideEvidence | None = None,
        preferred: int = 0,
    ) -> Reranking:
        """From the parameters ``rerank``, ``rerank_weight`` and ``rerank_scale``; see :func:`held_out_rows`."""
        validated = validation is not None
        held_out = rows_to_hold_out(
            params,
            X.shape[0],
            seed,
            has_validation=validated,
            side=side is not None,
            preferred=preferred,
        )
        weight = None if params.rerank_weight == AUTO else float(params.rerank_weight)
        calibrated = params.calibrate is not None
        scale = params.rerank_scale
        kind = params.rerank if side is None else SIDE_KIND
        return cls(kind, weight, scale, X, Y, weights, held_out, validation, seed, calibrated, side)

    def choose(self, trees: Model, final: Callable[[], Model], n_jobs: int) -> Reranker | None:
        """Fit and tune the re-ranker on validation rows, which ``trees`` were not trained on.

        ``final`` returns the same forest, or one whose leaves have the held-out rows, too. This matters: a linear model
        is trained on false candidates, and trees never propose a label they have not seen. None after Ctrl-C: the
        model is kept without a re-ranker.
        """
        if self.kind is None or not self.Y.nnz:  # nothing to learn from
            return None
        validation = self._validation_of(trees, n_jobs)
        rows = TrainingRows(self.X, self.Y, final, self.scale, self.seed, n_jobs, self.weights, self.side)
        seen, self._all_rows = rows.split(self.held_out, trees)
        try:
            with phase("re-ranking"):
                return fit_stage(self.kind, seen, validation, self.weight)
        except KeyboardInterrupt:
            self.interrupted = True
            warn(
                "Re-ranking was interrupted; the model has all trees but no re-ranker. Use fit_rerank to add one."
            )
            return None

    @property
    def has_validation(self) -> bool:
        """Whether there are validation rows."""
        return bool(self._validation_rows()[0].shape[0])

    def threshold(self, model: Model, n_jobs: int) -> float | None:
        """Decision threshold of ``predict``, chosen on the validation rows; None without such rows or after Ctrl-C.

        ``model`` has the tuned re-ranker, and its trees were not trained on these rows. A re-ranker that can overfit
        them is cross-fitted.
        """
        X, Y, weights = self._validation_rows()
        if (self.kind is None and not self.calibrated) or not X.shape[0]:
            return None
        try:
            with phase("choosing the threshold"):
                scores = self._scores(model, n_jobs)
                self.precision = validation_record(scores, Y, n_jobs)
                return best_threshold(scores, Y, weights, n_jobs)
        except KeyboardInterrupt:
            self.interrupted = True
            warn("Choosing the threshold was interrupted; predict uses the default threshold.")
            return None

    def ranked(self, model: Model, places: int, n_jobs: int) -> tuple[Array, Array, sp.csr_matrix]:
        """The best labels of the validation rows, their scores, and the true labels, for calibration.

        ``model`` has the tuned re-ranker. One that can overfit the validation rows is cross-fitted.
        """
        X, Y, _ = self._validation_rows()
        stage: Reranker | None = model.rerank
        if stage is None or X.shape[0] < N_HALVES:
            return *model.topk(X, places, None, n_jobs), Y
        if CrossFit.is_needed(stage, X.shape[0]):
            return *self._crossed(model, n_jobs).topk(places), Y
        labels, scores = self._found(model, stage, n_jobs)
        return *stage.topk(X, labels, scores, places, n_jobs), Y

    def _scores(self, model: Model, n_jobs: int) -> sp.csr_matrix:
        """Scores of the candidates of the validation rows, cross-fitted if the re-ranker can overfit these."""
        X, _, _ = self._validation_rows()
        stage: Reranker | None = model.rerank
        if CrossFit.is_needed(stage, X.shape[0]):
            return self._crossed(model, n_jobs).scores()
        if stage is None or model.empty is not None:  # which replaces the scores of some rows
            return model.scores(X, None, n_jobs)
        return stage.scores(X, *self._found(model, stage, n_jobs), n_jobs)

    def _found(self, model: Model, stage: Reranker, n_jobs: int) -> tuple[Array, Array]:
        """The trees' candidates for the re-ranker, those that it was tuned on."""
        trees = model.with_stage(Role.RERANKER, None)
        return self._validation_of(trees, n_jobs).found(stage.places)

    def _crossed(self, model: Model, n_jobs: int) -> CrossFit:
        if self._cross_fit is None:
            stage: Reranker | None = model.rerank
            assert stage is not None
            validation = self._validation_of(model.with_stage(Role.RERANKER, None), n_jobs)
            self._cross_fit = CrossFit.of(stage, validation)
        return self._cross_fit

    def _validation_of(self, trees: Model, n_jobs: int) -> Validation:
        if self._tuning is None:
            X, Y, weights = self._validation_rows()
            self._tuning = Validation(X, Y, trees, self.seed, n_jobs, weights)
        return self._tuning

    def _validation_rows(self) -> tuple[Features, sp.csr_matrix, Array | None]:
        if self.validation is not None:
            X, Y = self.validation
            rows = (
                self.weights.rows if Y is self.Y else None
            )  # without a re-ranker, these are the held-out rows
            return X, Y, TrainingWeights(rows, self.weights.labels).of_rows(Y)
        Y = self.Y[self.held_out]
        return self.X[self.held_out], Y, self.weights.take(self.held_out).of_rows(Y)

    def refit(self, stage: Reranker | None, n_jobs: int) -> Callable[[], Reranker | None]:
        """Start to refit the tuned re-ranker to all training rows; the returned function waits for the result.

        After Ctrl-C the re-ranker stays as it is.
        """
        if stage is None or not len(self.held_out):
            return lambda: stage

        def work() -> Reranker:
            with phase("re-ranking on all rows"):
                return stage.refit(self._all_rows)

        refitted = started(work, n_jobs)

        def wait() -> Reranker:
            try:
                return refitted()
            except KeyboardInterrupt:
                self.interrupted = True
                warn("Refitting was interrupted; the re-ranker is fitted without the validation rows.")
                return stage

        return wait
