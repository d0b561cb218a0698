"""Slow, obvious twins of the library's fast code, for the tests to compare with.

Every section stands alone: dense arrays and Python loops, written from the definitions.
"""

from __future__ import annotations

import math
import re

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


# --- XC text ------------------------------------------------------------------------------------------------

_INTEGER = re.compile(rb"[0-9]+")
_VALUE = re.compile(rb"-?(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[nN][aA][nN])")


class BadLine(ValueError):
    """A line of XC text that is not valid; ``line`` counts from 1."""

    def __init__(self, line: int) -> None:
        super().__init__(f"line {line}")
        self.line = line


def parse_xc(text: bytes):
    """N, D, L, label indptr and ids, feature indptr, ids and values of an XC text."""
    lines = text.split(b"\n")
    if lines[-1] == b"" and len(lines) > 1:
        lines.pop()
    header = _tokens(lines[0])
    if len(header) != 3 or not all(_INTEGER.fullmatch(token) for token in header):
        raise BadLine(1)
    n, d, k = map(int, header)
    if n >= 2**63 or d >= 2**31 or k >= 2**31:
        raise BadLine(1)
    labels, features = [], []
    for number, line in enumerate(lines[1:], start=2):
        tokens = _tokens(line)
        if number - 2 >= n:
            if tokens:
                raise BadLine(number)
            continue
        try:
            row_labels, pairs = set(), {}
            if tokens and b":" not in tokens[0]:
                row_labels = {_id(token, k) for token in tokens.pop(0).split(b",")}
            for token in tokens:
                feature, value = token.split(b":")
                feature = _id(feature, d)
                pairs[feature] = pairs.get(feature, 0.0) + float(_value(value))
            with np.errstate(over="ignore"):
                pairs = {feature: np.float32(value) for feature, value in sorted(pairs.items())}
            if any(np.isinf(value) for value in pairs.values()):
                raise ValueError
        except ValueError:
            raise BadLine(number) from None
        labels.append(sorted(row_labels))
        features.append({feature: value for feature, value in pairs.items() if value != 0})
    if len(labels) < n:
        raise BadLine(len(labels) + 2)
    return (
        n,
        d,
        k,
        np.cumsum([0, *map(len, labels)], dtype=np.int64),
        np.array([label for row in labels for label in row], dtype=np.int32),
        np.cumsum([0, *map(len, features)], dtype=np.int64),
        np.array([feature for row in features for feature in row], dtype=np.int32),
        np.array([value for row in features for value in row.values()], dtype=np.float32),
    )


def _tokens(line: bytes) -> list[bytes]:
    return [token for token in re.split(rb"[ \t]+", line.rstrip(b" \t\r")) if token]


def _id(token: bytes, limit: int) -> int:
    if not _INTEGER.fullmatch(token) or int(token) >= limit:
        raise ValueError
    return int(token)


def _value(token: bytes) -> np.float32:
    if not _VALUE.fullmatch(token):
        raise ValueError
    with np.errstate(over="ignore"):
        value = np.float32(float(token))
    if np.isinf(value):
        raise ValueError
    return value
