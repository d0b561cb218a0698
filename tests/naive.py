"""Slow, obvious twins of the kernels: what the fast ones must agree with."""

from __future__ import annotations

import re

import numpy as np

# ---------------------------------------------------------------------------------------------- xctext.cpp

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
