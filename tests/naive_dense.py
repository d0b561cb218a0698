"""Slow, obvious twins of what GBDT-MO adds: dense losses, columns with hessians, splits and leaves of all outputs.

Arrays are float64 unless a kernel's float32 is the point; loops over rows, outputs, splits and subsets.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

# --- losses -------------------------------------------------------------------------------------------------
# y: (n, d) numbers, NaN = unknown; or the class of every row, -1 = unknown. z: scores (n, d).


def pair_loss(name, y, z, parameter=0.0):
    """The loss of one (row, output) pair; its derivative is g, and that one's is h (where the loss has one)."""
    r = z - y
    if name == "mse":
        return r * r / 2
    if name == "logistic":
        return math.log1p(math.exp(-abs(z))) + max(z, 0.0) - y * z
    if name == "absolute":
        return abs(r)
    if name == "huber":
        return r * r / 2 if abs(r) <= parameter else parameter * (abs(r) - parameter / 2)
    if name == "quantile":
        return parameter * -r if r < 0 else (1 - parameter) * r
    if name == "poisson":
        return math.exp(z) - y * z + (y * math.log(y) - y if y else 0.0)
    if name == "tweedie":
        a, b = parameter - 1, 2 - parameter
        return y * math.exp(-a * z) / a + math.exp(b * z) / b - y**b / (a * b)
    if name == "gamma":
        return y * math.exp(-z) + z - math.log(y) - 1
    if name == "log-cosh":
        return abs(r) + math.log1p(math.exp(-2 * abs(r))) - math.log(2)
    if name == "focal":
        p = 1 / (1 + math.exp(-z if y else z))
        return -((1 - p) ** parameter) * math.log(p)
    raise AssertionError(name)


def softmax_loss(own, z):
    """Cross-entropy of one row."""
    top = max(z)
    return math.log(sum(math.exp(v - top) for v in z)) + top - z[own]


def softmax(z):
    top = max(z)
    exps = [math.exp(v - top) for v in z]
    return [v / sum(exps) for v in exps]


def gradients(name, y, z, weights=None, parameter=0.0):
    """g and h of all pairs; weights (n, 1), (n, d) or None."""
    z = np.asarray(z, np.float64)
    n, d = z.shape
    g, h = np.zeros((n, d)), np.zeros((n, d))
    for i in range(n):
        if name == "softmax":
            if y[i] < 0:
                continue
            for j, p in enumerate(softmax(z[i].tolist())):
                g[i, j], h[i, j] = p - (j == y[i]), p * (1 - p)
            continue
        for j in range(d):
            if np.isnan(y[i, j]):
                continue
            r = z[i, j] - y[i, j]
            h[i, j] = 1.0
            if name == "mse":
                g[i, j] = r
            elif name == "logistic":
                p = 1 / (1 + math.exp(-z[i, j]))
                g[i, j], h[i, j] = p - y[i, j], p * (1 - p)
            elif name == "absolute":
                g[i, j] = np.sign(r)
            elif name == "huber":
                g[i, j] = min(max(r, -parameter), parameter)
            elif name == "quantile":
                g[i, j] = 1 - parameter if r >= 0 else -parameter
            elif name == "poisson":
                g[i, j], h[i, j] = math.exp(z[i, j]) - y[i, j], math.exp(z[i, j])
            elif name == "tweedie":  # as in XGBoost and LightGBM
                falls, rises = (math.exp((k - parameter) * z[i, j]) for k in (1, 2))
                g[i, j] = -y[i, j] * falls + rises
                h[i, j] = -y[i, j] * (1 - parameter) * falls + (2 - parameter) * rises
            elif name == "focal":  # h: the second derivative without γ q log p
                sign = 1 if y[i, j] else -1
                p, q = 1 / (1 + math.exp(-sign * z[i, j])), 1 / (1 + math.exp(sign * z[i, j]))
                g[i, j] = sign * q**parameter * (parameter * p * math.log(p) - q)
                h[i, j] = q**parameter * p * ((1 + 2 * parameter) * q - parameter**2 * p * math.log(p))
            elif name == "log-cosh":
                g[i, j], h[i, j] = math.tanh(r), math.tanh(r) / r if r else 1.0
            elif name == "gamma":  # as in XGBoost and LightGBM
                g[i, j], h[i, j] = 1 - y[i, j] * math.exp(-z[i, j]), y[i, j] * math.exp(-z[i, j])
    if weights is not None:
        g, h = g * weights, h * weights
    return g, h


def softmax_hessian(own, z, weight=1.0):
    """The lower triangle, row by row, of diag(p) − p pᵀ."""
    d = len(z)
    if own < 0:
        return [0.0] * (d * (d + 1) // 2)
    p = softmax(z)
    return [weight * (p[a] * (a == b) - p[a] * p[b]) for a in range(d) for b in range(a + 1)]


def weighted_quantile(values, weights, share):
    """The least value at which the weights so far reach ``share`` of all; 0 where nothing weighs."""
    pairs = sorted((v, w) for v, w in zip(values, weights, strict=True) if w > 0 and not np.isnan(v))
    total, so_far = sum(w for _, w in pairs), 0.0
    for value, weight in pairs:
        so_far += weight
        if so_far >= share * total:
            return value
    return pairs[-1][0] if pairs else 0.0


def quantise_columns(values, scale):
    """16-bit integers (float32 products, half to even), and Σ |integer| of every column."""
    scaled = (values.astype(np.float32) * np.asarray(scale, np.float32)).clip(-32767, 32767)
    rounded = np.rint(scaled).astype(np.int64)
    return rounded, np.abs(rounded).sum(axis=0)


def round_at_random(values, scale, key, first_row):
    """A magnitude is rounded up where 24 bits of a hash of key, column and row are below its fraction."""
    word = 2**64 - 1

    def mix64(number):
        number = (number + 0x9E3779B97F4A7C15) & word
        number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & word
        number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & word
        return number ^ (number >> 31)

    rounded = np.zeros(values.shape, np.int64)
    for i, j in np.ndindex(values.shape):
        size = abs(float(values[i, j])) * scale
        draw = mix64((mix64((key + j) & word) + first_row + i) & word) >> 40
        rounded[i, j] = math.copysign(
            math.floor(size) + (draw < (size - math.floor(size)) * 2**24), values[i, j]
        )
    return rounded


# --- splits ---------------------------------------------------------------------------------------------------
# columns: integers (n, d + …), gradients first and hessians behind them.


class Scoring:
    """How the integer sums of a side become its worth."""

    def __init__(self, d, kind, *, weight=None, lambda_=None, step=None, l2=0.0, top=0, shared=False):
        self.d, self.kind, self.l2, self.top, self.shared = d, kind, l2, top, shared
        self.weight = np.ones(d) if weight is None else np.asarray(weight, np.float64)
        self.lambda_ = np.full(d, 1.0) if lambda_ is None else np.asarray(lambda_, np.float64)
        self.step = np.ones(d) if step is None else np.asarray(step, np.float64)

    def below(self, sums, n):
        """H + λ of every output."""
        if self.kind == "count":
            return np.full(self.d, n + self.l2)
        if self.kind == "shared":
            return np.full(self.d, sums[self.d] + self.lambda_[0])
        return sums[self.d : 2 * self.d] + self.lambda_

    def scores(self, sums, n):
        return self.weight * sums[: self.d].astype(np.float64) ** 2 / self.below(sums, n)

    def quadratic(self, sums):
        """w · Gᵀ (H + λ)⁻¹ G (eq. 14)."""
        d = self.d
        matrix = np.zeros((d, d))
        for place, (a, b) in enumerate(zip(*np.tril_indices(d), strict=True)):
            matrix[a, b] = matrix[b, a] = sums[d + place]
        g = sums[:d].astype(np.float64)
        return self.weight[0] * float(g @ np.linalg.solve(matrix + np.diag(self.lambda_), g))

    def worth(self, sides):
        """Of some sides together, each (sums, rows): two children, or the node alone."""
        if self.kind == "matrix":
            return sum(self.quadratic(sums) for sums, _ in sides)
        scores = [self.scores(sums, n) for sums, n in sides]
        k = self.top or self.d
        if self.shared:
            return float(np.sort(sum(scores))[::-1][:k].sum())
        return float(sum(np.sort(own)[::-1][:k].sum() for own in scores))

    def values(self, sums, n, low, high):
        """Leaf values within bounds."""
        return np.clip(-self.step * sums[: self.d] / self.below(sums, n), low, high)

    def bounded_worth(self, sides, low, high):
        """−(2Gv + (H + λ)v²) with every v within the bounds, in the units of the scores."""
        total = 0.0
        for sums, n in sides:
            v = self.values(sums, n, low, high) / self.step
            total += float(np.sum(self.weight * (-2 * sums[: self.d] * v - self.below(sums, n) * v**2)))
        return total


def sums_of(columns, rows):
    return columns[rows].sum(axis=0).astype(np.int64) if len(rows) else np.zeros(columns.shape[1], np.int64)


def gain_of_side(columns, rows, left, scoring, direction=None, low=None, high=None):
    """Gain of the split that sends ``left`` left; None where a constraint forbids it."""
    left = sorted(left)
    right = sorted(set(rows) - set(left))
    sides = [(sums_of(columns, left), len(left)), (sums_of(columns, right), len(right))]
    whole = [(sums_of(columns, rows), len(rows))]
    if direction is None:
        return scoring.worth(sides) - scoring.worth(whole)
    vl, vr = (scoring.values(*side, low, high) for side in sides)
    if (direction * (vr - vl) < 0).any():
        return None
    return scoring.bounded_worth(sides, low, high) - scoring.bounded_worth(whole, low, high)


def all_splits(bins, columns, rows, feature, missing_bin, min_samples, scoring, **constraint):
    """Every split of an ordered feature: {(bin, missing_left): (gain, rows left)}."""
    missing = [row for row in rows if bins[row, feature] == missing_bin]
    splits = {}
    for bin_ in sorted({int(bins[row, feature]) for row in rows} - {missing_bin}):
        for missing_left in (False, True) if missing else (False,):
            left = [r for r in rows if bins[r, feature] <= bin_ and bins[r, feature] != missing_bin]
            left += missing if missing_left else []
            if min(len(left), len(rows) - len(left)) < max(1, min_samples):
                continue
            gain = gain_of_side(columns, rows, left, scoring, **constraint)
            if gain is not None:
                splits[bin_, missing_left] = (gain, len(left))
    return splits


def all_subsets(bins, columns, rows, feature, missing_bin, min_samples, scoring):
    """The best gain over ALL sets of categories (and both ways of the missing rows)."""
    present = sorted({int(bins[row, feature]) for row in rows} - {missing_bin})
    missing = [row for row in rows if bins[row, feature] == missing_bin]
    best = None
    for size in range(len(present) + 1):
        for chosen in itertools.combinations(present, size):
            for missing_left in (False, True) if missing else (False,):
                left = [r for r in rows if int(bins[r, feature]) in chosen] + (
                    missing if missing_left else []
                )
                if min(len(left), len(rows) - len(left)) < max(1, min_samples):
                    continue
                gain = gain_of_side(columns, rows, left, scoring)
                best = gain if best is None else max(best, gain)
    return best


def in_set(bits, category):
    return bool(bits[category // 8] >> (category % 8) & 1)


# --- leaves -------------------------------------------------------------------------------------------------


def newton_values(g, h, l2):
    """−G/(H + l2) of one leaf; 0 where H + l2 is 0."""
    return np.array([-a / (b + l2) if b + l2 > 0 else 0.0 for a, b in zip(g, h, strict=True)])


def keep_top(scores, k):
    """Which of the scores are among the k largest, ties to the lower output."""
    order = sorted(range(len(scores)), key=lambda j: (-scores[j], j))[:k]
    return [j in order for j in range(len(scores))]


# --- trees of a model ---------------------------------------------------------------------------------------


def nested(trees, t, n_labels):
    """Tree ``t`` as nested nodes; a split of categories has ``set``, a leaf a dense vector and its number."""
    first = int(trees.tree_offsets[t])

    def node(v):
        at = first + v
        child = int(trees.child[at])
        if trees.feature[at] < 0:
            entries = slice(int(trees.leaf_indptr[child]), int(trees.leaf_indptr[child + 1]))
            values = trees.leaf_values[entries].astype(np.float32)
            if len(trees.value_scale):
                values = values * trees.value_scale[t]
            vector = np.zeros(n_labels, np.float32)
            vector[trees.leaf_labels[entries] if len(trees.leaf_labels) else slice(None)] = values
            return {"leaf": vector, "number": child, "at": at}
        feature = int(trees.feature[at])
        found = {
            "at": at,
            "feature": feature,
            "missing_left": bool(trees.missing_left[at]),
            "left": node(child),
            "right": node(child + 1),
        }
        if len(trees.categorical) and trees.categorical[feature]:
            bits = trees.sets[int(trees.threshold[at])]
            return found | {"set": {c for c in range(256) if in_set(bits, c)}}
        return found | {"threshold": trees.threshold[at]}

    return node(0)


def route(x, node):
    """The leaf of a row of raw values; what is no category goes the way of missing values."""
    while "leaf" not in node:
        value = float(x[node["feature"]])
        if math.isnan(value):
            left = node["missing_left"]
        elif "set" in node:
            left = int(value) in node["set"] if 0 <= value < 256 else node["missing_left"]
        else:
            left = value <= node["threshold"]
        node = node["left"] if left else node["right"]
    return node


def predict(X, trees, n_labels, base):
    """Scores (float32, added in order of tree) and leaf numbers of all rows."""
    grown = [nested(trees, t, n_labels) for t in range(trees.n_trees)]
    scores = np.empty((len(X), n_labels), np.float32)
    leaves = np.empty((len(X), len(grown)), np.int64)
    for i, x in enumerate(X):
        own = np.array(base, np.float32)
        for t, tree in enumerate(grown):
            leaf = route(x, tree)
            own = own + leaf["leaf"]
            leaves[i, t] = leaf["number"]
        scores[i] = own
    return scores, leaves


def leaves_of(node):
    if "leaf" in node:
        return [node]
    return leaves_of(node["left"]) + leaves_of(node["right"])


# --- auditing a trained model: every split and every leaf from scratch ------------------------------------------


def hessian_matrices(y, z, weights):
    n, d = z.shape
    found = np.zeros((n, d, d))
    for i in range(n):
        if y[i] >= 0:
            p = np.array(softmax(z[i].tolist()))
            found[i] = (np.diag(p) - np.outer(p, p)) * (1.0 if weights is None else weights[i, 0])
    return found


class Audit:
    """Replays a model's trees on its training rows: what gradients said, which splits there were, what leaves got.

    Parameters
    ----------
    trees, base
        Of the model; leaf values in float32.
    X : float array
        Rows as the trees see them (categories as numbers).
    y, loss, parameter, weights
        See :func:`gradients`.
    l2, rate, min_samples, top, shared, exact, alone
        As the estimator's parameters.
    """

    def __init__(self, trees, base, X, y, loss, *, parameter=0.0, weights=None, l2, rate, min_samples, top=0,
                 shared=False, exact=False, alone=False):  # fmt: skip
        self.__dict__.update({name: value for name, value in locals().items() if name != "self"})
        self.d = len(base)
        self.X = np.asarray(X, np.float32)

    def replay(self):
        """Yields (tree, rows by node, g, h of the tree's outputs) before each tree, then adds its leaves."""
        scores = np.repeat(np.asarray(self.base, np.float32)[None, :], len(self.X), axis=0)
        g = h = None
        for t in range(self.trees.n_trees):
            if not self.alone or t % self.d == 0:
                g, h = gradients(self.loss, self.y, scores, self.weights, self.parameter)
                if self.exact:
                    h = hessian_matrices(self.y, scores.astype(np.float64), self.weights)
            own = slice(t % self.d, t % self.d + 1) if self.alone else slice(None)
            tree = nested(self.trees, t, self.d)
            rows = {}
            self._part(tree, np.arange(len(self.X)), rows)
            yield t, tree, rows, g[:, own], h if self.exact else h[:, own], own, scores
            for leaf in leaves_of(tree):
                scores[rows[leaf["at"]]] += leaf["leaf"]

    def _part(self, node, own, rows):
        rows[node["at"]] = own
        if "leaf" in node:
            return
        left = self.goes_left(node, own)
        self._part(node["left"], own[left], rows)
        self._part(node["right"], own[~left], rows)

    def goes_left(self, node, own):
        x = self.X[own, node["feature"]]
        missing = np.isnan(x)
        inside = np.isin(x, sorted(node["set"])) if "set" in node else x <= node["threshold"]
        return np.where(missing, node["missing_left"], inside)

    def score(self, g, h, own):
        """Of every output; the quadratic form as one number for the exact matrix."""
        G = g[own].sum(axis=0)
        if self.exact:
            H = h[own].sum(axis=0) + self.l2 * np.eye(self.d)
            return np.array([G @ np.linalg.solve(H, G)])
        below = h[own].sum(axis=0) + self.l2
        return np.where(below > 0, G**2 / np.where(below > 0, below, 1), 0)

    def gain(self, g, h, own, left):
        sides = self.score(g, h, own[left]), self.score(g, h, own[~left])
        whole = self.score(g, h, own)
        k = self.top or len(whole)

        def best(scores):
            return np.sort(scores)[::-1][:k].sum()

        both = best(sides[0] + sides[1]) if self.shared else best(sides[0]) + best(sides[1])
        return both - best(whole)

    def best_gain(self, g, h, own, all_thresholds):
        """Over all splits of ordered features, missing rows on both sides."""
        found = -np.inf
        for f, thresholds in enumerate(all_thresholds):
            x = self.X[own, f]
            missing = np.isnan(x)
            for threshold in [*thresholds, np.inf]:
                inside = np.where(missing, False, x <= threshold)
                for left in {tuple(inside), tuple(inside | missing)}:
                    left = np.array(left)
                    if min(left.sum(), (~left).sum()) >= self.min_samples:
                        found = max(found, self.gain(g, h, own, left))
        return found
