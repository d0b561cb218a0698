"""Thresholds of highest geometric mean of micro- and macro-averaged F1: one per frequency group, or per label.

Micro-F1 is decided by frequent labels and macro-F1 by rare ones, whose probabilities are lower: a common threshold that
is good for one is bad for the other. A product, unlike a sum, weighs relative changes, so that neither average is given
up for the other where their sizes differ.

A label with few true validation rows has an F1 of 0 or 1 by chance. Its outcomes are therefore weighted means of the
labels of these rows and of its probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sparseleaf import _kernels
from sparseleaf.model.candidates import descending

if TYPE_CHECKING:
    import scipy.sparse as sp

    from sparseleaf._arrays import Array

PRIOR_STRENGTH = 10.0
"""True labels at which the labels of validation rows count as much as the probabilities, for a threshold per label."""

STEPS = 200
"""Number of thresholds that are compared for every group."""

ROUNDS = 50
"""Maximum number of rounds in which the threshold of every group is chosen in turn."""


@dataclass(frozen=True)
class Outcomes:
    """What is expected of the scored labels of validation rows.

    Attributes
    ----------
    scores : csr_matrix, shape (n_rows, n_labels)
    hits : float64 array
        Expected truth of every entry.
    n_true : float64 array, shape (n_labels,)
        Expected number of rows with the label.
    share : float64 array, shape (n_labels,)
        Weight of the labels of the rows, as opposed to probabilities.
    """

    scores: sp.csr_matrix
    hits: Array
    n_true: Array
    share: Array

    @classmethod
    def of(cls, scores: sp.csr_matrix, truth: Array, Y: sp.csr_matrix, on_probabilities: bool) -> Outcomes:
        """From the truth of every entry, and from the scores if they are probabilities."""
        n_labels, labels = scores.shape[1], scores.indices
        n_true = np.bincount(Y.indices, minlength=n_labels)[:n_labels].astype(np.float64)
        if not on_probabilities:
            return cls(scores, truth.astype(np.float64), n_true, np.ones(n_labels))
        share = n_true / (n_true + PRIOR_STRENGTH)
        hits = share[labels] * truth + (1 - share[labels]) * scores.data
        missed = n_true - np.bincount(labels, truth, n_labels)
        return cls(scores, hits, missed + np.bincount(labels, hits, n_labels), share)


@dataclass(frozen=True)
class GroupSums:
    """Sums over the labels of each group, for every threshold: arrays of shape (n_thresholds, n_groups).

    Attributes
    ----------
    thresholds : float32 array, decreasing
    correct, predicted
        Numbers of labels.
    f1
        Sum of the F1 of the labels.
    n_true : float
        Of all groups.
    n_labels : int
    """

    thresholds: Array
    correct: Array
    predicted: Array
    f1: Array
    n_true: float
    n_labels: int

    @classmethod
    def of(cls, outcomes: Outcomes, group: Array, n_jobs: int = 1) -> GroupSums:
        """For thresholds that are dense where few labels are predicted."""
        scores, n_groups = outcomes.scores, int(group.max()) + 1
        order = descending(scores.data, n_jobs)
        ranked, labels, hits = scores.data[order], scores.indices[order], outcomes.hits[order]
        ends = (
            np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True)) + 1
        )  # equal scores are on the same side
        ends = ends[np.unique(np.geomspace(1, len(ends), STEPS).astype(np.int64)) - 1]
        sums = np.empty((3, len(ends), n_groups))
        _kernels.group_sums(
            np.ascontiguousarray(labels, np.int32),
            hits,
            ends,
            np.ascontiguousarray(group, np.int64),
            outcomes.n_true,
            sums,
        )
        sums = np.cumsum(sums, axis=1)
        n_true = float(outcomes.n_true.sum())
        return cls(ranked[ends - 1], sums[0], sums[1], sums[2], n_true, scores.shape[1])

    def best(self) -> Array:
        """Index of the threshold of every group: the best common one, then each in turn until none changes."""
        n_groups = self.correct.shape[1]
        groups = np.arange(n_groups)
        common = self._mean(self.correct.sum(axis=1), self.predicted.sum(axis=1), self.f1.sum(axis=1))
        chosen = np.full(n_groups, np.argmax(common))
        for _ in range(ROUNDS):
            before = chosen.copy()
            for one in groups:
                others = groups != one
                sums = (
                    array[chosen, groups][others].sum() + array[:, one]
                    for array in (self.correct, self.predicted, self.f1)
                )
                means = self._mean(*sums)
                if means.max() > means[chosen[one]] + 1e-12:
                    chosen[one] = np.argmax(means)
            if (chosen == before).all():
                break
        return chosen

    def averages(self, chosen: Array) -> tuple[float, float]:
        """Micro- and macro-averaged F1."""
        groups = np.arange(self.correct.shape[1])
        correct, predicted, f1 = (
            float(array[chosen, groups].sum()) for array in (self.correct, self.predicted, self.f1)
        )
        return 2 * correct / (predicted + self.n_true), f1 / self.n_labels

    def _mean(self, correct: Array, predicted: Array, f1: Array) -> Array:
        """Square of the geometric mean, up to a factor."""
        mean: Array = correct / (predicted + self.n_true) * f1
        return mean


def balanced_thresholds(outcomes: Outcomes, group: Array, *, per_label: bool, n_jobs: int) -> Array:
    """Thresholds of every label, float32; some entry must be expected to be true.

    Parameters
    ----------
    outcomes : Outcomes
    group : int array, shape (n_labels,)
        Group of every label.
    per_label : bool
        Whether labels of a group differ.
    n_jobs : int
    """
    sums = GroupSums.of(outcomes, group, n_jobs)
    chosen = sums.best()
    values = sums.thresholds[chosen][group]
    return _of_labels(outcomes, values, *sums.averages(chosen)) if per_label else values


def _of_labels(outcomes: Outcomes, common: Array, micro: float, macro: float) -> Array:
    """Geometric means of the threshold of each label and that of its group, weighted by its true rows.

    A label's threshold maximises its part of the relative change of both averages.
    """
    scores, n_labels = outcomes.scores, outcomes.scores.shape[1]
    total = 2 * outcomes.hits[scores.data >= common[scores.indices]].sum() / micro
    order = np.lexsort((-scores.data, scores.indices))
    ranked, hits = scores.data[order], outcomes.hits[order]
    starts = np.searchsorted(scores.indices[order], np.arange(n_labels + 1))
    values = common.copy()
    for label in np.flatnonzero(np.diff(starts)).tolist():
        part = slice(starts[label], starts[label + 1])
        correct, predicted = np.cumsum(hits[part]), np.arange(1, starts[label + 1] - starts[label] + 1)
        gain = 2 * correct / (predicted + outcomes.n_true[label]) / (n_labels * macro)
        gain += (2 * correct - micro * predicted) / (total * micro)
        ends = np.append(ranked[part][1:] != ranked[part][:-1], True)
        best, share = float(ranked[part][np.argmax(np.where(ends, gain, -np.inf))]), outcomes.share[label]
        if min(best, common[label]) > 0:
            values[label] = np.exp(share * np.log(best) + (1 - share) * np.log(common[label]))
    return values
