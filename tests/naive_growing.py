"""The readable growing loop: one node at a time, every split of every feature, in Python's numbers.

The compiled builder must agree to the bit, so gains are added up in its order: sums of outputs over eight lanes, and
one division where it has one. Nothing else is taken over: no histogram is kept, subtracted or shared out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from sparseleaf._arrays import mix64

LANES = 8
SMOOTHING = 10.0
ROUNDS = 10


@dataclass
class Rules:
    """What makes a split good and how far a tree grows; arrays by feature or by output."""

    kind: str  # "count", "shared", "diagonal" or "matrix"
    weight: list
    lambda_: list
    step: list
    n_bins: list  # with that of missing values
    has_missing: list
    missing_bin: list
    categorical: list
    directions: list | None = None
    l2: float = 1.0
    top: int = 0
    shared: bool = False
    min_samples: int = 1
    min_hessian: float = 0.0
    min_gain: float = 0.0
    max_depth: int | None = None
    max_leaves: int | None = None
    best_first: bool = False

    @property
    def d(self):
        return len(self.weight)


@dataclass(eq=False)
class Node:
    rows: np.ndarray
    depth: int
    key: int
    low: list = field(default_factory=list)
    high: list = field(default_factory=list)
    split: dict | None = None
    children: tuple = ()


# --- gains --------------------------------------------------------------------------------------------------


def sum_lanes(terms):
    """Σ of a list, eight lanes at a time."""
    lanes = [0.0] * LANES
    for j, term in enumerate(terms):
        lanes[j % LANES] += term
    a, b, c, d, e, f, g, h = lanes
    return ((a + b) + (c + d)) + ((e + f) + (g + h))


def below(rules, sums, n, j):
    """H + λ of output j."""
    if rules.kind == "count":
        return n + rules.l2
    if rules.kind == "shared":
        return sums[rules.d] + rules.lambda_[0]
    return sums[rules.d + j] + rules.lambda_[j]


def scores(rules, sums, n):
    return [rules.weight[j] * (float(sums[j]) * sums[j]) / below(rules, sums, n, j) for j in range(rules.d)]


def top_sum(values, k):
    """Σ of the k largest, in order of index."""
    if k == 0 or k >= len(values):
        return sequential(values)
    least = sorted(values, reverse=True)[k - 1]
    above = [v for v in values if v > least]
    return sequential(above) + float(k - len(above)) * least


def sequential(values):
    total = 0.0
    for value in values:
        total += value
    return total


def quadratic(rules, sums):
    """w · Gᵀ (H + λ)⁻¹ G by Cholesky, with at least one unit on the diagonal."""
    d, at = rules.d, rules.d
    factor, x, form = [[0.0] * d for _ in range(d)], [0.0] * d, 0.0
    for i in range(d):
        for j in range(i + 1):
            value = sums[at] + (rules.lambda_[i] if i == j else 0.0)
            at += 1
            for c in range(j):
                value -= factor[i][c] * factor[j][c]
            factor[i][j] = math.sqrt(max(value, 1.0)) if i == j else value / factor[j][j]
        value = float(sums[i])
        for c in range(i):
            value -= factor[i][c] * x[c]
        x[i] = value / factor[i][i]
        form += x[i] * x[i]
    return rules.weight[0] * form


def bounded(rules, node, sums, n, j):
    """The value of output j within the node's bounds, and its score."""
    under = below(rules, sums, n, j)
    value = min(max(-rules.step[j] * sums[j] / under, node.low[j]), node.high[j])
    v = value / rules.step[j]
    return value, rules.weight[j] * (-2.0 * sums[j] * v - under * v * v)


def worth(rules, node, total, n):
    """Score of a node as it is."""
    if rules.kind == "matrix":
        return quadratic(rules, total)
    if rules.directions is not None:
        return sequential([bounded(rules, node, total, n, j)[1] for j in range(rules.d)])
    return top_sum(scores(rules, total, n), rules.top)


def worth_of_sides(rules, node, feature, left, right, n_left, n_right):
    """Score of both sides; None where a constraint forbids the split."""
    sides = ((left, n_left), (right, n_right))
    if rules.kind == "matrix":
        return quadratic(rules, left) + quadratic(rules, right)
    if rules.directions is not None:
        total = 0.0
        for j in range(rules.d):
            values = []
            for sums, n in sides:
                value, score = bounded(rules, node, sums, n, j)
                values.append(value)
                total += score
            if rules.directions[feature][j] * (values[1] - values[0]) < 0:
                return None
        return total
    if rules.top and rules.d > 1:
        both = [scores(rules, sums, n) for sums, n in sides]
        if rules.shared:
            return top_sum([a + b for a, b in zip(*both, strict=True)], rules.top)
        return top_sum(both[0], rules.top) + top_sum(both[1], rules.top)
    if rules.kind == "diagonal":
        terms = []
        for j in range(rules.d):
            gl, gr = float(left[j]), float(right[j])
            hl, hr = below(rules, left, n_left, j), below(rules, right, n_right, j)
            terms.append(rules.weight[j] * (((gl * gl) * hr + (gr * gr) * hl) / (hl * hr)))
        return sum_lanes(terms)
    a, b = (
        sum_lanes([rules.weight[j] * (float(sums[j]) * sums[j]) for j in range(rules.d)])
        / below(rules, sums, n, 0)
        for sums, n in sides
    )
    return a + b


def hessian(rules, sums):
    """Σ H of all outputs, freed of its scale."""
    places = {"shared": [0], "diagonal": range(rules.d), "matrix": [j * (j + 3) // 2 for j in range(rules.d)]}
    return sequential(
        [
            sums[rules.d + at] * (rules.weight[j] / (rules.step[j] * rules.step[j]))
            for j, at in enumerate(places[rules.kind])
        ]
    )


# --- splits -------------------------------------------------------------------------------------------------


def category_steps(rules, hist, counts, total, n):
    """The mean step of every category around that of all, and which has most of their variance."""
    d, k = rules.d, len(counts)
    diagonal = rules.kind == "diagonal"
    steps = [[0.0] * d for _ in range(k)]
    for b in range(k):
        for j in range(d if counts[b] else 0):
            own = float(hist[b][d + j]) if diagonal else float(counts[b])
            everyone = float(total[d + j]) if diagonal else float(n)
            smooth = SMOOTHING * everyone / n + (1.0 if diagonal else 0.0)
            steps[b][j] = -math.sqrt(rules.weight[j]) * hist[b][j] / (own + smooth)
    rows, mean = 0.0, [0.0] * d
    for b in range(k):
        rows += counts[b]
        for j in range(d):
            mean[j] += counts[b] * steps[b][j]
    mean = [m / max(rows, 1.0) for m in mean]
    farthest, largest = 0, -1.0
    for b in range(k):
        steps[b] = [s - m if counts[b] else 0.0 for s, m in zip(steps[b], mean, strict=True)]
        size = sequential([s * s for s in steps[b]]) * counts[b]
        if size > largest:
            farthest, largest = b, size
    return steps, farthest


def sort_categories(rules, hist, counts, total, n):
    """Categories along the first principal direction of their mean steps, those without rows last."""
    steps, farthest = category_steps(rules, hist, counts, total, n)
    d, k = rules.d, len(counts)
    axis = list(steps[farthest])
    for _ in range(ROUNDS if d > 1 else 0):
        turned = [0.0] * d
        for b in range(k):
            along = sequential([s * a for s, a in zip(steps[b], axis, strict=True)])
            for j in range(d):
                turned[j] += counts[b] * along * steps[b][j]
        size = sequential([t * t for t in turned])
        if size <= 0.0:
            break
        axis = [t / math.sqrt(size) for t in turned]
    keys = [sequential([s * a for s, a in zip(steps[b], axis, strict=True)]) for b in range(k)]
    return sorted(range(k), key=lambda b: (counts[b] == 0, keys[b], b))


def best_split(rules, node, bins, columns, features):
    """The best split of a node: highest gain, then lowest feature, bin, and missing rows on the right."""
    rows = node.rows
    total, n = [int(v) for v in columns[rows].sum(axis=0)], len(rows)
    parent, best = worth(rules, node, total, n), None
    for f in features:
        hist = np.zeros((rules.n_bins[f], columns.shape[1]), np.int64)
        np.add.at(hist, bins[rows, f], columns[rows])
        counts = np.bincount(bins[rows, f], minlength=rules.n_bins[f]).tolist()
        hist = hist.tolist()
        n_values = rules.n_bins[f] - rules.has_missing[f]
        n_missing = counts[n_values] if rules.has_missing[f] else 0
        order = list(range(n_values))
        if rules.categorical[f]:
            order = sort_categories(rules, hist[:n_values], counts[:n_values], total, n)
        for missing_left in (False, True) if n_missing else (False,):
            left = list(hist[n_values]) if missing_left else [0] * len(total)
            n_left = n_missing if missing_left else 0
            for i, b in enumerate(order if n_missing and not missing_left else order[:-1]):
                if counts[b] == 0:
                    continue
                left, n_left = [a + v for a, v in zip(left, hist[b], strict=True)], n_left + counts[b]
                right = [t - v for t, v in zip(total, left, strict=True)]
                if n_left < rules.min_samples or n - n_left < rules.min_samples:
                    continue
                if rules.min_hessian > 0 and rules.kind != "count":
                    own = hessian(rules, left)
                    if own < rules.min_hessian or hessian(rules, total) - own < rules.min_hessian:
                        continue
                value = worth_of_sides(rules, node, f, left, right, n_left, n - n_left)
                if value is None or math.isnan(value - parent):
                    continue
                found = (-(value - parent), f, i, missing_left)
                if best is None or found < best[0]:
                    best = (
                        found,
                        {"left": left, "total": total, "n_left": n_left, "set": sorted(order[: i + 1])},
                    )
    if best is None or -best[0][0] <= rules.min_gain:
        return None
    (gain, f, i, missing_left), more = best
    if not rules.has_missing[f]:
        missing_left = 2 * more["n_left"] > n
    return {"gain": -gain, "feature": f, "bin": i, "missing_left": bool(missing_left), **more}


def goes_left(rules, split, bins):
    f = split["feature"]
    left = np.isin(bins[:, f], split["set"]) if rules.categorical[f] else bins[:, f] <= split["bin"]
    return np.where(bins[:, f] == rules.missing_bin[f], split["missing_left"], left)


def child_bounds(rules, node, left):
    """Constrained outputs may not pass half-way between the two sides."""
    if rules.directions is None:
        return [], []
    low, high, split = list(node.low), list(node.high), node.split
    right_sums = [t - v for t, v in zip(split["total"], split["left"], strict=True)]
    n_right = len(node.rows) - split["n_left"]
    for j in range(rules.d):
        on_left = bounded(rules, node, split["left"], split["n_left"], j)[0]
        on_right = bounded(rules, node, right_sums, n_right, j)[0]
        middle, direction = 0.5 * (on_left + on_right), rules.directions[split["feature"]][j]
        if direction == 0:
            continue
        if (direction > 0) == left:
            high[j] = min(high[j], middle)
        else:
            low[j] = max(low[j], middle)
    return low, high


# --- growing ------------------------------------------------------------------------------------------------


def drawn(features, count, key):
    """The features of smallest hash."""
    hashes = mix64(np.array(features, np.uint64) ^ np.uint64(key))
    return sorted(np.array(features)[np.argsort(hashes)[:count]].tolist())


def child_keys(key):
    return [int(mix64(np.array([k], np.uint64))[0]) for k in (key, key ^ (2**64 - 1))]


def grow(rules, bins, columns, rows, features, n_node_features, key):
    """The root of a grown tree; ``columns`` are integers (n, …), of which the first are gradients."""
    bins = np.asarray(bins).astype(np.int64)
    free = [math.inf] * (rules.d if rules.directions is not None else 0)
    root = Node(np.asarray(rows), 0, key, [-v for v in free], free)

    def look_into(node):
        shallow = rules.max_depth is None or node.depth < rules.max_depth
        if len(node.rows) >= 2 * rules.min_samples and shallow:
            node.split = best_split(rules, node, bins, columns, drawn(features, n_node_features, node.key))

    def divide(node):
        left = goes_left(rules, node.split, bins[node.rows]).astype(bool)
        keys = child_keys(node.key)
        node.children = tuple(
            Node(node.rows[way], node.depth + 1, own, *child_bounds(rules, node, is_left))
            for way, own, is_left in ((left, keys[0], True), (~left, keys[1], False))
        )
        for child in node.children:
            look_into(child)

    look_into(root)
    left = math.inf if rules.max_leaves is None else rules.max_leaves - 1
    waiting = [(0, 0, root)] if root.split else []
    turn = 0
    while waiting and left > 0:
        ranked = sorted(waiting, key=lambda entry: (-entry[2].split["gain"], entry[0], entry[1]))
        batch = ranked[:1] if rules.best_first else ranked[: int(min(left, len(ranked)))]
        batch.sort(key=lambda entry: entry[:2])
        waiting = [entry for entry in waiting if entry not in batch] if rules.best_first else []
        left -= len(batch)
        for *_, node in batch:
            divide(node)
            turn += 1
            waiting += [(turn, side, child) for side, child in enumerate(node.children) if child.split]
    return root


def level_order(root):
    order = [root]
    for node in order:
        order += node.children
    return order
