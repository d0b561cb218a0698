"""Slow, obvious twins of the sketch forest's kernel."""

from __future__ import annotations

import numpy as np

from sparseleaf._arrays import mix64

STARTS = 8
START_DRAW, FEATURE_DRAW = 1, 2


def mix(number):
    """The hash of one 64-bit number."""
    return int(mix64(np.array([number & 0xFFFFFFFFFFFFFFFF], np.uint64))[0])


def sketch(labels, label_weights, key, width):
    """A row's labels in few columns, at length 1."""
    out = np.zeros(width, np.float32)
    for label in labels:
        drawn = mix(key ^ int(label))
        out[(drawn >> 1) % width] += label_weights[label] if drawn & 1 else -label_weights[label]
    return unit(out)


def unit(vector):
    length = np.sqrt(np.sum(vector * vector, dtype=np.float64))
    return (vector / length).astype(np.float32) if length > 0 else vector


def seen_rows(X, feature_weights, unit_rows):
    """Rows as routers see them."""
    X = np.array(X, np.float64)
    if len(feature_weights):
        X *= feature_weights
    if unit_rows:
        length = np.sqrt((X**2).sum(axis=1, keepdims=True))
        X = np.divide(X, length, out=np.zeros_like(X), where=length > 0)
    return X


def start(sketches, arity, key):
    """Rows that k-means starts from."""
    draw, n, chosen = mix(key ^ START_DRAW), len(sketches), []
    for part in range(arity):
        picks = []
        for _ in range(1 + (STARTS if part else 0)):
            draw = mix(draw)
            picks.append(draw % n)
        if part == 0:
            chosen.append(picks[0])
            continue
        closest = [max(float(sketches[i] @ sketches[c]) for c in chosen) for i in picks[1:]]
        chosen.append(picks[1:][int(np.argmin(closest))])
    return sketches[chosen]


def parts(sketches, arity, rounds, key, weights=None):
    """Balanced k-means: the part of every row; parts of equal weight, with weights."""
    n = len(sketches)
    each = np.ones(n) if weights is None else np.asarray(weights, float)
    centres = start(sketches, arity, key)
    chance = [mix(key ^ i) for i in range(n)]
    found = np.zeros(n, np.int64)
    for again in range(rounds):
        if again:
            weighted = each[:, None].astype(np.float32) * sketches
            centres = np.stack([unit(weighted[found == j].sum(axis=0)) for j in range(arity)])
        close = sketches @ centres.T
        found = np.zeros(n, np.int64)
        if arity == 2:
            order = sorted(range(n), key=lambda i: (close[i, 1] - close[i, 0], chance[i]))
            half = n // 2
            if weights is not None:  # as much weight in the first half as leaves no less in the second
                half = 1
                while half < n - 1 and 2 * each[order[:half]].sum() + each[order[half]] < each.sum():
                    half += 1
            found[order[half:]] = 1
            continue
        best = np.sort(close, axis=1)
        order = sorted(range(n), key=lambda i: (best[i, -2] - best[i, -1], chance[i]))
        room = np.full(arity, -(-n // arity) if weights is None else each.sum() / arity, float)
        for i in order:
            open_parts = [j for j in range(arity) if room[j] > 0]
            found[i] = max(open_parts, key=lambda j: (close[i, j], -j))
            room[found[i]] -= each[i]
    return found


def router(rows, found, arity, most, key, max_features=1.0, weights=None):
    """(features, whole weights, scale, bias) between the parts' mean rows; rows as routers see them."""
    means = np.stack(
        [
            np.average(rows[found == j], axis=0, weights=None if weights is None else weights[found == j])
            if (found == j).any()
            else np.zeros(rows.shape[1])
            for j in range(arity)
        ]
    )
    spread = means.max(axis=0) - means.min(axis=0)
    drawn = np.array([mix(mix(key ^ FEATURE_DRAW) ^ f) / 2**64 < max_features for f in range(rows.shape[1])])
    usable = np.flatnonzero((spread > 0) & (drawn | (max_features >= 1)))
    kept = np.sort(usable[np.lexsort((usable, -spread[usable]))[:most]])
    weights = (means[1:, kept] - means[0, kept]).T
    scale = np.abs(weights).max(initial=0) / 127
    whole = np.rint(weights / scale) if scale > 0 else weights
    bias = -0.5 * scale * (whole * (means[1:, kept] + means[0, kept]).T).sum(axis=0)
    return kept, whole, scale, bias


def children(rows, features, whole, scale, bias):
    """The child that a router sends every row to."""
    margins = (rows[:, features] @ whole) * scale + bias
    return np.argmax(np.concatenate((np.zeros((len(rows), 1)), margins), axis=1), axis=1)
