"""Comparison of systems over datasets and splits.

On a dataset: the corrected resampled t-test (Nadeau and Bengio, 2003), which accounts for the overlap of the training
sets. Over datasets: average ranks with Nemenyi's critical difference, and Wilcoxon's signed-rank test with Holm's
correction (Demšar, 2006).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

LEVEL = 0.05

Errors = Mapping[str, Mapping[str, Any]]
"""By dataset and system: the errors of the splits, an array."""


def paired_p_value(ours: Any, theirs: Any, test_share: float) -> float:
    """Two-sided p-value of equal errors; ``test_share`` is the number of test rows over that of training rows."""
    from scipy.stats import t

    difference = np.asarray(ours, np.float64) - np.asarray(theirs, np.float64)
    n, mean, variance = len(difference), difference.mean(), difference.var(ddof=1)
    if variance == 0:
        return 1.0 if mean == 0 else 0.0
    statistic = mean / np.sqrt((1 / n + test_share) * variance)
    return float(2 * t.sf(abs(statistic), n - 1))


def outcome(ours: Any, theirs: Any, test_share: float) -> str:
    """ "win", "tie" or "loss" of ours by the paired test."""
    if paired_p_value(ours, theirs, test_share) >= LEVEL:
        return "tie"
    return "win" if np.mean(ours) < np.mean(theirs) else "loss"


@dataclass(frozen=True)
class Ranks:
    """Average ranks over the datasets that all systems have results for; ``critical``: Nemenyi's difference."""

    average: dict[str, float]
    critical: float
    p_value: float
    n_sets: int


def rank_systems(errors: Errors, systems: list[str]) -> Ranks:
    """Ranks of the mean errors; ties share their mean rank. ``p_value`` is Friedman's."""
    from scipy.stats import friedmanchisquare, rankdata, studentized_range

    complete = [by_system for by_system in errors.values() if all(system in by_system for system in systems)]
    means = np.array([[np.mean(by_system[system]) for system in systems] for by_system in complete])
    ranks = rankdata(means, axis=1)
    k, n = len(systems), len(complete)
    quantile = studentized_range.ppf(1 - LEVEL, k, np.inf) / np.sqrt(2)
    return Ranks(
        dict(zip(systems, ranks.mean(axis=0).tolist(), strict=True)),
        float(quantile * np.sqrt(k * (k + 1) / (6 * n))),
        float(friedmanchisquare(*means.T).pvalue),
        n,
    )


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Adjusted p-values by Holm's step-down correction."""
    adjusted, largest = {}, 0.0
    for place, (name, p) in enumerate(sorted(p_values.items(), key=lambda item: item[1])):
        largest = max(largest, min(1.0, (len(p_values) - place) * p))
        adjusted[name] = largest
    return adjusted


def signed_rank_p_values(errors: Errors, ours: str, peers: list[str]) -> dict[str, float]:
    """Wilcoxon's test of ours against every peer on relative differences of the mean errors, Holm-adjusted."""
    from scipy.stats import wilcoxon

    p_values = {}
    for peer in peers:
        pairs = [(np.mean(e[ours]), np.mean(e[peer])) for e in errors.values() if ours in e and peer in e]
        if not pairs:
            continue
        relative = [2 * (a - b) / (a + b) if a + b else 0.0 for a, b in pairs]
        p_values[peer] = float(wilcoxon(relative).pvalue) if np.any(relative) else 1.0
    return holm(p_values)
