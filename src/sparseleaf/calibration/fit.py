"""Fitting a calibrator: curves per frequency group and rank, on the ranked labels of validation rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from scipy.special import expit
from sklearn.isotonic import IsotonicRegression

from sparseleaf import _kernels
from sparseleaf._threads import in_threads
from sparseleaf.model.calibrator import N_RANK_BINS, rank_bins
from sparseleaf.model.candidates import PLACES, true_candidates
from sparseleaf.model.curves import IsotonicCurves, PlattCurves, platt_input
from sparseleaf.model.registry import stage_class

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.model import Model
    from sparseleaf.model.calibrator import Calibrator
    from sparseleaf.model.curves import Curves

AUTO = "auto"

GROUP_POSITIVES = 100
"""Minimum number of true labels among the candidates of a group; smaller groups are merged."""

ISOTONIC_POSITIVES = 3_000
"""Minimum number of true labels among all candidates from which "auto" is "isotonic", which overfits fewer."""

NEWTON_STEPS = 100
RIDGE = 1e-9
"""Added to the diagonal of the hessian: almost all scores of a group may be equal."""


@dataclass(frozen=True)
class RankedLabels:
    """The best labels of validation rows, scored by a model that was not trained on these rows.

    Attributes
    ----------
    labels : int32 array, shape (n_rows, n)
        Best first, -1 for none.
    scores : float32 array, shape (n_rows, n)
    truth : bool array, shape (n_rows, n)
        Whether they are true labels.
    """

    labels: Array
    scores: Array
    truth: Array

    @classmethod
    def of(cls, labels: Array, scores: Array, Y: sp.csr_matrix, n_jobs: int = 1) -> RankedLabels:
        """From rankings and the true labels."""
        starts = np.arange(len(labels) + 1, dtype=np.int64) * labels.shape[1]
        truth = true_candidates(starts, labels.ravel(), Y, n_jobs).reshape(labels.shape)
        return cls(labels, scores, truth)

    def probabilities(self, calibrator: Calibrator, n_jobs: int) -> sp.csr_matrix:
        """Calibrated probabilities of the labels."""
        listed = self.labels >= 0
        starts = np.concatenate(([0], np.cumsum(listed.sum(axis=1)))).astype(np.int64)
        labels = np.ascontiguousarray(self.labels[listed], np.int32)
        values = calibrator.probabilities(starts, labels, self.scores[listed], n_jobs)
        _kernels.sort_lists(starts, labels, values, n_jobs)
        return sp.csr_matrix((values, labels, starts), shape=(len(self.labels), len(calibrator.group)))

    @classmethod
    def from_model(cls, model: Model, X: Features, Y: sp.csr_matrix, n_jobs: int) -> RankedLabels:
        """From rows that no stage of the model was trained on."""
        return cls.of(*model.topk(X, PLACES, None, n_jobs), Y, n_jobs)


def fit_calibrator(
    method: str,
    ranked: RankedLabels,
    seen_counts: Array,
    label_counts: Array,
    *,
    log_odds: bool = True,
    prior_scale: float = 1.0,
    n_jobs: int = 1,
) -> Calibrator | None:
    """Fit a calibrator; None if no label is scored.

    Parameters
    ----------
    method : {"isotonic", "platt", "auto"}
        "auto" is "isotonic", or "platt" if there are too few true labels for it.
    ranked : RankedLabels
    seen_counts : int array, shape (n_labels,)
        Number of rows with each label among those that the scores were trained on.
    label_counts : int array, shape (n_labels,)
        The same for the final model.
    log_odds : bool
        Whether scores are in [0, 1], as opposed to margins.
    prior_scale : float
        See :class:`~sparseleaf.model.calibrator.Calibrator`.
    n_jobs : int
    """
    listed = ranked.labels >= 0
    if not listed.any():
        return None
    labels, scores, truth = ranked.labels[listed], ranked.scores[listed], ranked.truth[listed]
    if method == AUTO:
        method = "isotonic" if truth.sum() >= ISOTONIC_POSITIVES else "platt"
    bins = frequency_bins(seen_counts)
    groups = merged_bins(bins[labels[truth]])
    of_labels = groups[bins][labels]
    by_frequency = fit_curves(method, of_labels, scores, truth, log_odds=log_odds, n_jobs=n_jobs)
    values = by_frequency.mapped_by(of_labels, scores, n_jobs)
    ranks = rank_bins(np.concatenate(([0], np.cumsum(listed.sum(axis=1)))))
    rank_groups = merged_bins(ranks[truth])[:N_RANK_BINS]
    # two numbers per curve: isotonic regression of the same rows a second time overfits them
    by_rank = fit_platt_curves(rank_groups[ranks], values, truth, log_odds=True, n_jobs=n_jobs)
    calibrator: Calibrator = stage_class(method)(
        groups[frequency_bins(label_counts)],
        rank_groups,
        prior_scale,
        by_frequency,
        by_rank,
    )
    return calibrator


def fit_curves(
    method: str, group: Array, scores: Array, truth: Array, *, log_odds: bool, n_jobs: int
) -> Curves:
    """One curve per group."""
    if method == "isotonic":
        return fit_isotonic_curves(group, scores, truth, n_jobs)
    return fit_platt_curves(group, scores, truth, log_odds=log_odds, n_jobs=n_jobs)


def fit_isotonic_curves(group: Array, scores: Array, truth: Array, n_jobs: int) -> IsotonicCurves:
    """Isotonic regression per group."""
    points = in_threads(lambda one: fit_isotonic(*one), per_group(group, scores, truth), n_jobs)
    sizes = [len(x) for x, _ in points]
    x, y = (np.concatenate(part).astype(np.float32) for part in zip(*points, strict=True))
    return IsotonicCurves(np.cumsum([0, *sizes]), x, y)


def fit_platt_curves(
    group: Array, scores: Array, truth: Array, *, log_odds: bool, n_jobs: int
) -> PlattCurves:
    """Logistic regression per group."""

    def fit(one: tuple[Array, Array]) -> tuple[float, float]:
        return fit_platt(platt_input(one[0], log_odds), one[1])

    lines = np.array(in_threads(fit, per_group(group, scores, truth), n_jobs), np.float32)
    return PlattCurves(lines[:, 0].copy(), lines[:, 1].copy(), log_odds)


def per_group(group: Array, scores: Array, truth: Array) -> list[tuple[Array, Array]]:
    """Scores and truth of every group; numbers of 8 bits are sorted in linear time."""
    order = np.argsort(group, kind="stable")
    ends = np.cumsum(np.bincount(group))[:-1]
    return list(zip(np.split(scores[order], ends), np.split(truth[order], ends), strict=True))


N_BINS = 32


def frequency_bins(counts: Array) -> Array:
    """Bin of every label by its number of training rows: 0 or 1, 2 to 3, 4 to 7, …."""
    bins: Array = np.minimum(np.log2(np.maximum(counts, 1)).astype(np.int64), N_BINS - 1)
    return bins


def merged_bins(bins_of_positives: Array) -> Array:
    """Group of every bin, of frequencies or ranks: adjacent bins are merged until each has enough true labels.

    Groups are numbered from the first bin, that of the rarest labels. Few validation rows make a single group.
    """
    positives = np.bincount(bins_of_positives, minlength=N_BINS)
    begins = np.zeros(N_BINS, np.int64)  # 1 where a group begins
    open_count = 0
    remaining = int(positives.sum())
    for number in range(N_BINS):
        if open_count >= GROUP_POSITIVES and remaining >= GROUP_POSITIVES:
            begins[number] = 1
            open_count = 0
        open_count += int(positives[number])
        remaining -= int(positives[number])
    groups: Array = np.cumsum(begins).astype(np.uint8)
    return groups


def fit_isotonic(scores: Array, truth: Array) -> tuple[Array, Array]:
    """Points of the isotonic regression of truth on scores.

    One true label at the lowest score and one false label at the highest are added, so that no probability is 0 or 1.
    """
    if not len(scores):
        return np.zeros(1), np.full(1, 0.5)
    x = np.concatenate(([scores.min()], scores, [scores.max()]))
    y = np.concatenate(([1.0], truth, [0.0]))
    regression = IsotonicRegression().fit(x, y)
    return regression.X_thresholds_, regression.y_thresholds_


def fit_platt(inputs: Array, truth: Array) -> tuple[float, float]:
    """Slope and intercept of the logistic regression with Platt's targets, by Newton's method.

    Sums are not taken by BLAS, whose results depend on the number of threads. A negative slope is replaced by 0.
    """
    positives = float(truth.sum())
    negatives = len(truth) - positives
    targets = np.where(truth, (positives + 1) / (positives + 2), 1 / (negatives + 2))
    prior = np.log((positives + 1) / (negatives + 1))
    if not len(inputs) or inputs.min() == inputs.max():
        return 0.0, float(prior)
    centre, width = float(inputs.mean()), float(inputs.std())
    z = (inputs - centre) / width
    slope, intercept = 0.0, float(prior)
    for _ in range(NEWTON_STEPS):
        p = expit(slope * z + intercept)
        error, weight = p - targets, p * (1 - p)
        a, b, c = (weight * z * z).sum() + RIDGE, (weight * z).sum(), weight.sum() + RIDGE
        by_slope, by_intercept = (error * z).sum(), error.sum()
        determinant = a * c - b * b
        step = (
            (c * by_slope - b * by_intercept) / determinant,
            (a * by_intercept - b * by_slope) / determinant,
        )
        if not np.isfinite(step).all():
            break
        length = min(1.0, 5.0 / max(abs(step[0]), abs(step[1]), 1e-300))  # saturated sigmoids have no hessian
        slope, intercept = slope - length * step[0], intercept - length * step[1]
        if max(map(abs, step)) < 1e-10:
            break
    if slope <= 0 or not np.isfinite(slope + intercept):
        return 0.0, float(prior)
    return slope / width, intercept - slope * centre / width
