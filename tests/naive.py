"""Slow, obvious twins of the library's fast code, for the tests to compare with.

Every section stands alone: dense arrays and Python loops, written from the definitions.
"""

from __future__ import annotations

import itertools
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


# --- thresholds and bins ------------------------------------------------------------------------------------
# A feature's values: a list of float32, NaN = missing. Bin b holds (thresholds[b-1], thresholds[b]]; missing is one
# past.


def thresholds_of(values, max_bins):
    """A threshold between all neighbouring values if these are few, else bins of about equal size."""
    values = [np.float32(0) if v == 0 else np.float32(v) for v in values if not np.isnan(v)]
    distinct = sorted(set(values))
    count = [values.count(v) for v in distinct]
    if len(distinct) <= max_bins:
        return [half_way(a, b) for a, b in itertools.pairwise(distinct)]
    fill = len(values) / max_bins
    heavy = [c >= fill for c in count]
    light_rows = sum(c for c, is_heavy in zip(count, heavy, strict=True) if not is_heavy)
    target = light_rows / max(1, max_bins - sum(heavy))
    thresholds, held = [], 0
    for i in range(len(distinct) - 1):
        held += count[i]
        if len(thresholds) + 1 < max_bins and (heavy[i] or heavy[i + 1] or held >= target):
            thresholds.append(half_way(distinct[i], distinct[i + 1]))
            held = 0
    return thresholds


def half_way(low, high):
    middle = np.float32((float(low) + float(high)) / 2)
    return middle if middle < high else low


def bin_of(value, thresholds):
    if np.isnan(value):
        return len(thresholds) + 1
    return sum(1 for threshold in thresholds if value > threshold)


# --- residuals and their sketches -------------------------------------------------------------------------
# truth: bool (n, L); scores: float32 (n, L).


def residuals(truth, scores, loss):
    truth, scores = np.asarray(truth, bool), np.asarray(scores, np.float32)
    one, zero = np.float32(1), np.float32(0)
    if loss == "squared":
        return np.where(truth, one, zero) - scores
    return np.where(truth, np.maximum(one - scores, zero), np.minimum(-scores, zero))


def fixed_point(values):
    """Residuals in units of 2^-24, as Python integers."""
    return np.rint(np.clip(values, -127, 127).astype(np.float64) * 2**24).astype(np.int64)


def column_norms(values):
    """Sum of squares of every column, in units of 2^-16."""
    clipped = np.clip(values, -127, 127).astype(np.float64)
    return np.rint(clipped**2 * 2**16).astype(np.int64).sum(axis=0)


def select_columns(values, column_of, weights):
    out = np.zeros((len(values), len(weights)), np.float32)
    for label, column in enumerate(column_of):
        if column >= 0:
            out[:, column] += np.float32(weights[column]) * values[:, label]
    return out


def quantise(columns, scale):
    return np.clip(np.rint(columns.astype(np.float64) * scale), -32767, 32767).astype(np.int64)


# --- histograms and splits of a node ------------------------------------------------------------------------
# bins: integers (n, features); sketched: integers (n, columns).


def histogram(bins, sketched, rows, feature, n_bins):
    """Rows and sums of sketched residuals of every bin of a feature."""
    counts = [0] * n_bins
    sums = [[0] * sketched.shape[1] for _ in range(n_bins)]
    for row in rows:
        b = int(bins[row, feature])
        counts[b] += 1
        for column in range(sketched.shape[1]):
            sums[b][column] += int(sketched[row, column])
    return counts, sums


def gain_of(left, right, n_left, n_right, l2):
    """Of a split of the sums, without its parent's share: Σ left²/(n + l2) + Σ right²/(n + l2)."""
    sq_left, sq_right = sum(v * v for v in left), sum(v * v for v in right)
    return float(sq_left) / (n_left + l2) + float(sq_right) / (n_right + l2)


def best_split(bins, sketched, rows, features, missing_bin, l2, min_samples):
    """The best of all splits: (gain, feature, bin, missing_left, left_count), or None.

    Tried in the order that decides ties: lower feature, lower bin, missing right before missing left.
    """
    sketched = np.asarray(sketched, object)
    total = sketched[rows].sum(axis=0).tolist()
    parent = 0.0
    for v in total:  # output by output, as the kernel adds, so that gains agree to the last bit
        parent += float(v * v) / (len(rows) + l2) if len(rows) else 0.0
    best = None
    for feature in features:
        missing = [row for row in rows if bins[row, feature] == missing_bin[feature]]
        # a split at a bin without rows is the split before it again
        for bin_ in sorted({int(bins[row, feature]) for row in rows} - {missing_bin[feature]}):
            for missing_left in (False, True) if missing else (False,):
                left = [r for r in rows if bins[r, feature] <= bin_ or (missing_left and r in missing)]
                n_left, n_right = len(left), len(rows) - len(left)
                if min(n_left, n_right) < max(1, min_samples):
                    continue
                sums = sketched[left].sum(axis=0).tolist()
                rest = [t - s for t, s in zip(total, sums, strict=True)]
                gain = gain_of(sums, rest, n_left, n_right, l2) - parent
                if best is None or gain > best[0]:
                    best = (gain, feature, bin_, missing_left, n_left)
    return best


def top_squares(sums, k):
    """The sum of the k largest squares; all of them for k = None."""
    squares = sorted((int(v) ** 2 for v in sums), reverse=True)
    return float(sum(squares[:k]))


def exact_split(bins, fixed, rows, features, missing_bin, k, step, l2, min_samples):
    """Algorithm 1 of the paper: (gain, feature, bin, left_count), or None; gain in units of residual²."""
    fixed = np.asarray(fixed, object)
    n = len(rows)
    every = max(1, math.ceil(step * n) if step < 1 else int(step))
    total = fixed[rows].sum(axis=0)
    parent = top_squares(total, k) / (n + l2)
    best = None
    for feature in features:
        order = sorted(rows, key=lambda row: bins[row, feature])
        since = 0
        for i in range(n - 1):
            bin_here, bin_next = bins[order[i], feature], bins[order[i + 1], feature]
            if bin_here == missing_bin[feature]:
                break  # rows without a value are always on the right
            since += 1
            if (since < every and bin_next != missing_bin[feature]) or bin_here == bin_next:
                continue
            since = 0
            n_left, n_right = i + 1, n - i - 1
            if min(n_left, n_right) < min_samples:
                continue
            left = fixed[order[: i + 1]].sum(axis=0)
            gain = (
                top_squares(left, k) / (n_left + l2) + top_squares(total - left, k) / (n_right + l2) - parent
            )
            if best is None or gain > best[0]:
                best = (gain, feature, int(bin_here), n_left)
    return None if best is None else (best[0] / 2.0**48, *best[1:])


def partition(bins, rows, feature, split_bin, missing_bin, missing_left):
    """Rows that go left and rows that go right, each in the order they had."""

    def goes_left(row):
        b = bins[row, feature]
        return missing_left if b == missing_bin else b <= split_bin

    return [r for r in rows if goes_left(r)], [r for r in rows if not goes_left(r)]


# --- leaves, scores, prediction -----------------------------------------------------------------------------


def leaf_vector(fixed, rows, k, l2, min_gain, rate, rank=None):
    """{label: value} of the k labels of largest |sum|, ties to the lower label; k = None keeps all.

    ``rank`` gives the labels another order for ties.
    """
    rank = range(fixed.shape[1]) if rank is None else rank
    sums = {label: sum(int(fixed[row, label]) for row in rows) for label in range(fixed.shape[1])}
    n = len(rows) + l2
    worth = {q: p for q, p in sums.items() if p != 0 and (p / 2**24) ** 2 / n >= min_gain}
    kept = sorted(worth, key=lambda q: (-abs(worth[q]), rank[q]))[:k]
    return {q: np.float32(rate * (worth[q] / 2**24) / n) for q in sorted(kept)}


def topk(candidates, k):
    """The k best of {label: score}: labels and scores, padded with -1 and -inf."""
    order = sorted(candidates, key=lambda label: (-candidates[label], label))[:k]
    pad = k - len(order)
    return order + [-1] * pad, [candidates[label] for label in order] + [-np.inf] * pad


def route(x, nodes):
    """The leaf of a row of raw values in a tree of nested nodes."""
    while "feature" in nodes:
        value = x[nodes["feature"]]
        left = nodes["missing_left"] if np.isnan(value) else value <= nodes["threshold"]
        nodes = nodes["left"] if left else nodes["right"]
    return nodes


def predict(x, trees):
    """{label: score} of a row, over the labels that its leaves name: float32, added in order of tree."""
    sums = {}
    for tree in trees:
        for label, value in route(x, tree)["leaf"].items():
            sums[label] = np.float32(sums.get(label, np.float32(0)) + value)
    return sums


def nested(trees, t):
    """Tree ``t`` of a model's flat arrays as nested nodes, the form of the twins."""
    first = int(trees.tree_offsets[t])

    def node(v):
        at = first + v
        child = int(trees.child[at])
        if trees.feature[at] < 0:
            entries = slice(trees.leaf_indptr[child], trees.leaf_indptr[child + 1])
            labels, values = trees.leaf_labels[entries].tolist(), trees.leaf_values[entries]
            if len(trees.value_scale):
                values = values.astype(np.float32) * trees.value_scale[t]
            return {"leaf": dict(zip(labels, values, strict=True))}
        return {
            "feature": int(trees.feature[at]),
            "threshold": trees.threshold[at],
            "missing_left": bool(trees.missing_left[at]),
            "left": node(child),
            "right": node(child + 1),
        }

    return node(0)


# --- the whole booster --------------------------------------------------------------------------------------


class Booster:
    """GBDT-SPARSE on dense arrays: no sketch, no sampling, every gain from scratch.

    ``split`` is "full" (all labels, from bins) or "exact" (Algorithm 1 on every distinct value).
    """

    def __init__(
        self,
        *,
        n_trees,
        split="full",
        loss="squared",
        learning_rate=0.1,
        leaf_labels=None,
        leaf_min_gain=0.0,
        l2=1.0,
        min_gain=0.0,
        min_samples_leaf=1,
        max_depth=None,
        max_leaves=None,
        best_first=False,
        max_bins=64,
        exact_step=1,
    ):
        self.__dict__.update({name: value for name, value in locals().items() if name != "self"})

    def fit(self, X, Y):
        X, truth = np.asarray(X, np.float32), np.asarray(Y, bool)
        n_bins = 10**9 if self.split == "exact" else self.max_bins
        self.thresholds = [thresholds_of(column, n_bins) for column in X.T]
        self.bins = np.array(
            [
                [bin_of(value, thresholds) for value, thresholds in zip(row, self.thresholds, strict=True)]
                for row in X
            ]
        )
        self.missing_bin = [len(thresholds) + 1 for thresholds in self.thresholds]
        self.has_missing = np.isnan(X).any(axis=0)
        # training knows labels by their rank, the most frequent first, and ties go to the lower rank
        frequent = sorted(range(truth.shape[1]), key=lambda label: -truth[:, label].sum())
        self.rank = {label: rank for rank, label in enumerate(frequent)}
        scores = np.zeros(truth.shape, np.float32)
        self.trees = []
        for _ in range(self.n_trees):
            tree, leaves = self._grow(residuals(truth, scores, self.loss))
            for rows, leaf in leaves:
                for label, value in leaf.items():
                    scores[rows, label] += value
            self.trees.append(tree)
        self.scores = scores
        return self

    def _grow(self, values):
        fixed = fixed_point(values)
        largest = float(np.abs(values).max())
        scale = 2.0 ** math.floor(math.log2(32767 / largest)) if largest > 0 else 1.0
        while np.abs(quantise(values, scale)).sum(axis=0).max() > 2**31 - 1:
            scale /= 2
        sketched = quantise(values, scale)

        def found(rows, depth):
            if len(rows) < 2 * self.min_samples_leaf or depth == self.max_depth:
                return None
            features = range(self.bins.shape[1])
            if self.split == "exact":
                best = exact_split(
                    self.bins, fixed, rows, features, self.missing_bin,
                    self.leaf_labels, self.exact_step, self.l2, self.min_samples_leaf,
                )  # fmt: skip
                best = best and (*best[:3], False, best[3])
            else:
                best = best_split(
                    self.bins, sketched, rows, features, self.missing_bin, self.l2, self.min_samples_leaf
                )
                if best is not None and not self.has_missing[best[1]]:
                    best = (*best[:3], 2 * best[4] > len(rows), best[4])
                best = best and (best[0] / scale**2, *best[1:])
            return best if best is not None and best[0] > self.min_gain else None

        root = {"rows": list(range(len(values))), "depth": 0, "id": 0}
        root["split"] = found(root["rows"], 0)
        nodes, waiting = [root], [root] if root["split"] else []
        while waiting and (self.max_leaves is None or (len(nodes) + 1) // 2 < self.max_leaves):
            room = len(nodes) if self.max_leaves is None else self.max_leaves - (len(nodes) + 1) // 2
            ranked = sorted(waiting, key=lambda node: (-node["split"][0], node["id"]))
            batch = ranked[:1] if self.best_first else sorted(ranked[:room], key=lambda node: node["id"])
            waiting = ranked[1:] if self.best_first else []
            for node in batch:
                _, feature, bin_, missing_left, _ = node["split"]
                node["feature"], node["missing_left"] = feature, missing_left
                thresholds = self.thresholds[feature]
                node["threshold"] = thresholds[bin_] if bin_ < len(thresholds) else np.float32(np.inf)
                sides = partition(
                    self.bins, node["rows"], feature, bin_, self.missing_bin[feature], missing_left
                )
                for name, rows in zip(("left", "right"), sides, strict=True):
                    depth = node["depth"] + 1
                    node[name] = {"rows": rows, "depth": depth, "id": len(nodes), "split": found(rows, depth)}
                    nodes.append(node[name])
                    if node[name]["split"]:
                        waiting.append(node[name])
        leaves = []
        for node in nodes:
            if "feature" not in node:
                node["leaf"] = leaf_vector(
                    fixed, node["rows"], self.leaf_labels, self.l2, self.leaf_min_gain, self.learning_rate,
                    self.rank,
                )  # fmt: skip
                leaves.append((node["rows"], node["leaf"]))
        round_leaves([leaf for _, leaf in leaves])
        return root, leaves


def round_leaves(leaves):
    """Values of a tree to multiples of the least power of two of which 16 bits can count to the largest; never to 0."""
    largest = max((abs(float(value)) for leaf in leaves for value in leaf.values()), default=0.0)
    step = 2.0 ** math.ceil(math.log2(largest / 32767)) if largest else 1.0
    for leaf in leaves:
        for label, value in leaf.items():
            leaf[label] = np.float32((round(float(value) / step) or np.sign(value)) * step)


def assert_same_tree(found, wanted, tolerance=1e-6):
    """Same splits, same leaf labels, values within the tolerance."""
    assert ("feature" in found) == ("feature" in wanted)
    if "feature" not in wanted:
        assert list(found["leaf"]) == list(wanted["leaf"])
        assert all(abs(found["leaf"][q] - v) <= tolerance for q, v in wanted["leaf"].items())
        return
    for name in ("feature", "threshold", "missing_left"):
        assert found[name] == wanted[name], name
    assert_same_tree(found["left"], wanted["left"], tolerance)
    assert_same_tree(found["right"], wanted["right"], tolerance)
