"""Choosing decision thresholds on validation rows.

A target is what a threshold is chosen for: ``"f1"``, ``"macro-f1"``, ``"balanced-f1"`` or ``"precision:0.8"``. A
threshold is one of the scores, so that the labels it selects are those of a prefix of the scores, best first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sparseleaf.calibration.balanced import PRIOR_STRENGTH, Outcomes, balanced_thresholds
from sparseleaf.model.candidates import descending, true_candidates
from sparseleaf.model.decision import Thresholds

if TYPE_CHECKING:
    import scipy.sparse as sp

    from sparseleaf._arrays import Array

TARGETS = '"f1", "macro-f1", "balanced-f1" or "precision:x" with 0 < x < 1'

NEVER = np.finfo(np.float32).max
"""Threshold of a label that is never predicted."""

DEFAULT_PRECISION = 0.8

BALANCED = "balanced-f1"

STEPS = 200
"""Number of global thresholds that are compared for macro-F1."""


def parse_target(target: object) -> tuple[str, float]:
    """Name and number of a target; ValueError if it is not valid."""
    if target in ("f1", "macro-f1", BALANCED):
        return str(target), 0.0
    if target == "precision":
        return target, DEFAULT_PRECISION
    name, _, text = str(target).partition(":")
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if name != "precision" or not isinstance(target, str) or not 0 < number < 1:  # NaN is not
        raise ValueError(f"The 'target' parameter must be {TARGETS}. Got {target!r:.60} instead.")
    return name, number


def choose_thresholds(
    scores: sp.csr_matrix,
    Y: sp.csr_matrix,
    target: str,
    *,
    per_label: bool,
    on_probabilities: bool,
    group: Array | None = None,
    n_jobs: int = 1,
) -> Thresholds:
    """The thresholds that are best for the target.

    Parameters
    ----------
    scores : csr_matrix of float32, shape (n_rows, n_labels)
        Scores of validation rows, or their probabilities.
    Y : csr_matrix, shape (n_rows, >= n_labels)
        True labels.
    target : str
    per_label : bool
        Whether each label has a threshold. Labels with few true rows rely on the probabilities, if these are given, or
        use the threshold of all labels.
    on_probabilities : bool
    group : int array, shape (n_labels,), optional
        Frequency group of every label; for "balanced-f1", every group has a threshold.
    n_jobs : int
    """
    name, number = parse_target(target)
    truth = true_candidates(scores.indptr, scores.indices, Y, n_jobs)
    if name == BALANCED:
        group = np.zeros(scores.shape[1], np.int64) if group is None else group.astype(np.int64)
        balanced = np.full(len(group), NEVER, np.float32)
        if truth.any():
            expected = Outcomes.of(scores, truth, Y, on_probabilities)
            balanced = balanced_thresholds(expected, group, per_label=per_label, n_jobs=n_jobs)
        common_to_all = group.max(initial=0) == 0 and not per_label
        return Thresholds(balanced[:1].copy() if common_to_all else balanced, on_probabilities)
    order = descending(scores.data, n_jobs)
    if name == "precision":
        common = _for_precision(scores.data[order], truth[order].astype(np.float64), number)
    elif name == "macro-f1" or per_label:
        common = _for_macro_f1(scores, truth, order, Y)
    else:
        common = _for_f1(scores.data[order], truth[order].astype(np.float64), Y.nnz)
    values = np.array([common], np.float32)
    if per_label:
        outcomes = scores.data if on_probabilities else None
        values = _of_each(scores, truth, outcomes, Y, common, number if name == "precision" else None)
    return Thresholds(values, on_probabilities)


def _prefix_ends(ranked: Array) -> Array:
    """Whether a prefix may end at a place: equal scores are on the same side."""
    ends: Array = np.append(ranked[1:] != ranked[:-1], True)[: len(ranked)]
    return ends


def _for_f1(ranked: Array, truth: Array, n_true: float) -> float:
    """The threshold of highest F1; NEVER if there is no true label."""
    hits = np.cumsum(truth)
    if not len(hits) or hits[-1] <= 0:
        return float(NEVER)
    f1 = 2 * hits / (np.arange(1, len(hits) + 1) + n_true)
    return float(ranked[np.argmax(np.where(_prefix_ends(ranked), f1, -1))])


def _for_precision(ranked: Array, truth: Array, minimum: float) -> float:
    """The lowest threshold of at least this precision; NEVER if there is none."""
    precision = np.cumsum(truth) / np.arange(1, len(truth) + 1)
    reached = np.flatnonzero(_prefix_ends(ranked) & (precision >= minimum))
    return float(ranked[reached[-1]]) if len(reached) else float(NEVER)


def _for_macro_f1(scores: sp.csr_matrix, truth: Array, order: Array, Y: sp.csr_matrix) -> float:
    """The common threshold of highest macro-F1, of ``STEPS`` ones."""
    n_labels = scores.shape[1]
    n_true = np.bincount(Y.indices, minlength=n_labels)[:n_labels]
    ranked, labels, hits = scores.data[order], scores.indices[order], truth[order]
    ends = np.flatnonzero(_prefix_ends(ranked))
    if not len(ends) or not hits.any():
        return float(NEVER)
    ends = ends[np.unique(np.linspace(0, len(ends) - 1, STEPS).astype(np.int64))]
    predicted, correct, begin = np.zeros(n_labels), np.zeros(n_labels), 0
    best = (-1.0, 0.0)
    for end in ends.tolist():
        part = slice(begin, end + 1)
        predicted += np.bincount(labels[part], minlength=n_labels)
        correct += np.bincount(labels[part][hits[part]], minlength=n_labels)
        begin = end + 1
        f1 = float((2 * correct / np.maximum(predicted + n_true, 1)).sum())
        best = max(best, (f1, float(ranked[end])))
    return best[1]


def _of_each(
    scores: sp.csr_matrix,
    truth: Array,
    probabilities: Array | None,
    Y: sp.csr_matrix,
    common: float,
    precision: float | None,
) -> Array:
    """Thresholds of every label; ``precision`` is the target one, or None for F1."""
    n_labels = scores.shape[1]
    n_true = np.bincount(Y.indices, minlength=n_labels)[:n_labels].astype(np.float64)
    order = np.lexsort((-scores.data, scores.indices))
    labels, ranked = scores.indices[order], scores.data[order]
    share = n_true / (
        n_true + PRIOR_STRENGTH
    )  # of the labels of validation rows, as opposed to probabilities
    outcomes = truth[order].astype(np.float64)
    if probabilities is not None:
        expected = probabilities[order].astype(np.float64)
        outcomes = share[labels] * outcomes + (1 - share[labels]) * expected
        n_true = share * n_true + (1 - share) * np.bincount(labels, expected, minlength=n_labels)
    starts = np.searchsorted(labels, np.arange(n_labels + 1))
    values = np.full(n_labels, common, np.float32)
    for label in np.unique(labels).tolist():
        if probabilities is None and n_true[label] < PRIOR_STRENGTH:
            continue
        part = slice(starts[label], starts[label + 1])
        if precision is None:
            values[label] = _for_f1(ranked[part], outcomes[part], n_true[label])
        else:
            values[label] = _for_precision(ranked[part], outcomes[part], precision)
    return values if probabilities is None or precision is not None else _shrunk(values, share, common)


def _shrunk(values: Array, share: Array, common: float) -> Array:
    """Weighted geometric means of thresholds and the common one.

    The threshold of highest F1 is noisy: that of a label with few true rows is one of a handful of probabilities.
    """
    if not 0 < common < NEVER:
        return values
    usable = (values > 0) & (values < NEVER)
    logs = np.log(np.where(usable, values, 1.0), dtype=np.float64)
    mean = np.exp(share * logs + (1 - share) * np.log(common))
    return np.where(usable, mean, np.float32(common)).astype(np.float32)
