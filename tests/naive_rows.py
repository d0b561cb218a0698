"""The readable twin of ``cpp/tree/row_finder.cpp``: splits of a forest's trees, one row and one feature at a time.

Gains, the order of categories and keys are those of :mod:`naive_growing`.
"""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from naive_growing import Node, child_keys, sort_categories, worth, worth_of_sides
from sparseleaf._arrays import mix64

WORD = 2**64 - 1
THRESHOLD, SUBSET = 0x74687265, 0x73756273


def mix(key):
    return int(mix64(np.array([key & WORD], np.uint64))[0])


def draw_of(key, feature, purpose):
    return mix(key ^ mix((purpose << 32 | feature) & WORD))


def shuffled(features, key):
    """The features in the order in which they are sampled."""
    features = list(features)
    for i in range(len(features)):
        j = i + mix(key + i) % (len(features) - i)
        features[i], features[j] = features[j], features[i]
        yield features[i]


def same_value(rules, a, b):
    if (a == b).all():
        return True
    if rules.kind == "count":
        return False
    for j in range(rules.d):
        h = rules.d + (0 if rules.kind == "shared" else j)
        a_g, a_h, b_g, b_h = int(a[j]), int(a[h]), int(b[j]), int(b[h])
        if abs(a_g * b_h - b_g * a_h) > abs(a_g) + abs(a_h) + abs(b_g) + abs(b_h):
            return False
    return True


def random_sides(node, f, positions, present, categorical):
    """Bins on the left, and the split's bin: one random candidate."""
    draw = draw_of(node.key, f, THRESHOLD)
    if categorical:
        key = draw_of(node.key, f, SUBSET)
        order = sorted(present, key=lambda b: mix(key ^ b))
        return set(order[: 1 if len(order) == 1 else 1 + draw % (len(order) - 1)]), 0
    if len(present) == 1:
        return set(present), len(positions) - 1
    low, high = present[0], present[-1]
    at = positions[low] + (draw >> 11) * 2.0**-53 * (positions[high] - positions[low])
    last = bisect_right(positions, at, low + 1, high) - 1
    return {b for b in present if b <= last}, last


def all_sides(rules, positions, f, present, hist, counts, total, n):
    """Every candidate: bins on the left, the split's bin, and whether it needs missing values on the right."""
    order = present
    if rules.categorical[f]:
        places = sort_categories(rules, [hist[b] for b in present], [counts[b] for b in present], total, n)
        order = [present[i] for i in places]
    for i in range(len(order)):
        last = 0
        if not rules.categorical[f]:
            last = len(positions) - 1
            if i + 1 < len(order):
                low, high = order[i], order[i + 1]
                middle = positions[low] + 0.5 * (positions[high] - positions[low])
                last = bisect_right(positions, middle, low + 1, high) - 1
        yield set(order[: i + 1]), last, i


def candidates(rules, node, positions, bins, columns, f, random, total):
    rows, n = node.rows, len(node.rows)
    missing = rules.missing_bin[f]
    hist = {b: columns[rows[bins[rows, f] == b]].sum(axis=0).tolist() for b in set(bins[rows, f].tolist())}
    counts = {b: int((bins[rows, f] == b).sum()) for b in hist}
    present = sorted(b for b in hist if b != missing)
    n_missing = counts.get(missing, 0)
    if len(hist) < 2:
        return
    at = positions[f]
    sides = (
        [(*random_sides(node, f, at, present, rules.categorical[f]), 0)]
        if random
        else list(all_sides(rules, at, f, present, hist, counts, total, n))
    )
    for left_bins, last, place in sides:
        for missing_left in (False, True) if n_missing else (False,):
            if not random and place + 1 == len(present) and (missing_left or not n_missing):
                continue
            chosen = left_bins | ({missing} if missing_left else set())
            left = [sum(hist[b][c] for b in chosen) for c in range(len(total))]
            n_left = sum(counts[b] for b in chosen)
            if min(n_left, n - n_left) < rules.min_samples:
                continue
            right = [t - v for t, v in zip(total, left, strict=True)]
            gain = worth_of_sides(rules, node, f, left, right, n_left, n - n_left)
            goes = missing_left if n_missing else 2 * n_left > n
            yield (
                (gain, f, place, missing_left),
                {
                    "bin": last,
                    "missing_left": goes,
                    "n_left": n_left,
                    "set": sorted(left_bins),
                },
            )


def find_split(rules, node, positions, bins, columns, features, count, random):
    rows = node.rows
    if all(same_value(rules, columns[rows[0]], columns[row]) for row in rows[1:]):
        return None
    total = [int(v) for v in columns[rows].sum(axis=0)]
    parent, best, possible = worth(rules, node, total, len(rows)), None, False
    for number, f in enumerate(shuffled(features, node.key)):
        if number >= count and possible:
            break
        for (score, *place), split in candidates(rules, node, positions, bins, columns, f, random, total):
            possible = True
            rank = (-(score - parent), *place)
            if best is None or rank < best[0]:
                best = (rank, split)
    if best is None:
        return None
    (loss, f, *_), split = best
    return {"gain": max(-loss, 0.0), "feature": f, **split}


def grow(rules, positions, bins, columns, rows, features, count, key, random):
    """The root of a grown tree; rows may be repeated."""
    bins = np.asarray(bins).astype(np.int64)
    root = Node(np.asarray(rows), 0, key)
    level = [root]
    while level:
        below = []
        for node in level:
            shallow = rules.max_depth is None or node.depth < rules.max_depth
            if len(node.rows) < 2 * rules.min_samples or not shallow:
                continue
            node.split = find_split(rules, node, positions, bins, columns, features, count, random)
            if node.split is None:
                continue
            f = node.split["feature"]
            values = bins[node.rows, f]
            left = np.isin(values, node.split["set"]) if rules.categorical[f] else values <= node.split["bin"]
            left = np.where(values == rules.missing_bin[f], node.split["missing_left"], left).astype(bool)
            assert left.sum() == node.split["n_left"]
            keys = child_keys(node.key)
            node.children = tuple(
                Node(node.rows[side], node.depth + 1, its_key)
                for side, its_key in zip((left, ~left), keys, strict=True)
            )
            below += node.children
        level = below
    return root
