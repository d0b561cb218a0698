"""Slow, obvious twins of the library's fast code, for the tests to compare with.

Every section stands alone: dense arrays and Python loops, written from the definitions.
"""

from __future__ import annotations

import math

import numpy as np

# --- metrics ------------------------------------------------------------------------------------------------
# Y: dense 0/1 (n, L). ranking: a list of label ids per row, best first, -1 = none.


def metrics_ranking(scores, k):
    """The k best labels of each row of a dense score matrix; NaN is "not a candidate"."""
    ranking = []
    for row in scores:
        candidates = [label for label in range(len(row)) if not math.isnan(row[label])]
        candidates.sort(key=lambda label: (-row[label], label))
        ranking.append((candidates + [-1] * k)[:k])
    return ranking


def metrics_gain(truth, labels, worth, discounted):
    """Sum over ranks of what the hits are worth."""
    total = 0.0
    for rank, label in enumerate(labels, start=1):
        if label >= 0 and truth[label]:
            total += worth[label] / (math.log2(rank + 1) if discounted else 1)
    return total


def metrics_ideal(truth, k):
    """The discounted sum of a ranking that starts with all true labels."""
    return sum(1 / math.log2(rank + 1) for rank in range(1, min(k, int(truth.sum())) + 1))


def precision_at_k(Y, ranking, k):
    one = np.ones(Y.shape[1])
    gains = [metrics_gain(y, r[:k], one, False) / k for y, r in zip(Y, ranking, strict=True)]
    return sum(gains) / len(gains)


def recall_at_k(Y, ranking, k):
    one = np.ones(Y.shape[1])
    gains = [metrics_gain(y, r[:k], one, False) / max(1, y.sum()) for y, r in zip(Y, ranking, strict=True)]
    return sum(gains) / len(gains)


def ndcg_at_k(Y, ranking, k):
    one = np.ones(Y.shape[1])
    total = 0.0
    for y, r in zip(Y, ranking, strict=True):
        if y.any():
            total += metrics_gain(y, r[:k], one, True) / metrics_ideal(y, k)
    return total / len(Y)


def propensities(Y, A, B):
    n = len(Y)
    C = max(0.0, math.log(n) - 1) * (B + 1) ** A
    return np.array([1 / (1 + C * (Y[:, label].sum() + B) ** -A) for label in range(Y.shape[1])])


def psp_at_k(Y, ranking, propensity, k):
    worth = 1 / propensity
    got = best = 0.0
    for y, r in zip(Y, ranking, strict=True):
        perfect = sorted(np.flatnonzero(y), key=lambda label: -worth[label])
        got += metrics_gain(y, r[:k], worth, False) / k / len(Y)
        best += metrics_gain(y, perfect[:k], worth, False) / k / len(Y)
    return got / best if best else 0.0


def psndcg_at_k(Y, ranking, propensity, k):
    worth = 1 / propensity
    got = best = 0.0
    for y, r in zip(Y, ranking, strict=True):
        if y.any():
            perfect = sorted(np.flatnonzero(y), key=lambda label: -worth[label])
            got += metrics_gain(y, r[:k], worth, True) / metrics_ideal(y, k) / len(Y)
            best += metrics_gain(y, perfect[:k], worth, True) / metrics_ideal(y, k) / len(Y)
    return got / best if best else 0.0
