"""Slow, obvious twins of LdSM's kernels: the paper's formulas, with probabilities where the kernels keep sums."""

from __future__ import annotations

import itertools

import numpy as np

UNIT = 2.0**20


def mix64(key):
    mask = (1 << 64) - 1
    key = (key + 0x9E3779B97F4A7C15) & mask
    key = ((key ^ (key >> 30)) * 0xBF58476D1CE4E5B9) & mask
    key = ((key ^ (key >> 27)) * 0x94D049BB133111EB) & mask
    return key ^ (key >> 31)


def pairs(values):
    return sum(abs(a - b) for a, b in itertools.combinations(values, 2))


def objective(P, P_of_label, pi, lambda_1, lambda_2):
    """Equation 1."""
    integrity = sum(weight * pairs(row) for weight, row in zip(pi, P_of_label, strict=True))
    return pairs(P) - lambda_1 * integrity + lambda_2 * abs(sum(P) - 1)


def subset_objectives(R, Q, labels, n, lambda_1, lambda_2, weights=None):
    """n · J of every non-empty subset, by its bits; labels of other rows are left out: they do not change."""
    weights = np.ones(len(labels)) if weights is None else weights
    arity, r = len(R), weights.sum()
    found = {}
    for subset in range(1, 1 << arity):
        sent = np.array([subset >> j & 1 for j in range(arity)], float)
        balance = pairs(R + r * sent)
        integrity = sum(pairs(Q[k] + weight * sent) for k, weight in zip(labels, weights, strict=True))
        found[subset] = balance + lambda_2 * abs((R + r * sent).sum() - n) - lambda_1 * integrity
    return found


def best_subset(R, Q, labels, n, lambda_1, lambda_2, draw, weights=None):
    values = subset_objectives(R, Q, labels, n, lambda_1, lambda_2, weights)
    least = min(values.values())
    ties = [subset for subset, value in values.items() if value == least]
    every = (1 << len(R)) - 1
    others = [subset for subset in ties if subset != every]
    return min(others, key=lambda subset: mix64(draw ^ subset)) if others else every


class Node:
    """A node's training, row by row, as sections 1.1 to 1.3 of the algorithm have it."""

    def __init__(self, X, Y, arity, lambda_1, lambda_2, learning_rate, key, weights=None):
        self.weights = np.ones(Y.shape) if weights is None else np.rint(weights * UNIT) / UNIT
        self.X, self.Y = X.astype(np.float32), Y
        self.arity, self.lambda_1, self.lambda_2 = arity, lambda_1, lambda_2
        self.learning_rate, self.key = learning_rate, key
        d, n_labels = X.shape[1], Y.shape[1]
        f32 = np.float32
        self.w, self.G = np.zeros((d, arity), f32), np.zeros((d, arity), f32)
        self.b, self.Gb = np.zeros(arity, f32), np.zeros(arity, f32)
        self.s = np.zeros(d, f32)
        self.norm, self.step, self.n = 0.0, 0, 0
        self.P, self.c = np.zeros(arity), np.zeros(n_labels)
        self.P_of_label = np.zeros((n_labels, arity))
        self.objectives = []

    def margins(self, x):
        z = self.b.copy()
        for i in np.flatnonzero(x):
            z += self.w[i] * x[i]
        return z

    def see(self, row):
        x, labels = self.X[row], np.flatnonzero(self.Y[row])
        if len(labels) == 0:
            return
        for i in np.flatnonzero(x):
            size = np.abs(x[i])
            if size > self.s[i]:
                self.w[i] *= self.s[i] / size
                self.s[i] = size
            share = x[i] / self.s[i]
            self.norm += float(share * share)
        self.norm += 1.0
        self.step += 1
        weights = self.weights[row, labels]
        r = weights.sum()
        R, Q = self.P * self.n, self.P_of_label * self.c[:, None]
        R, Q = np.rint(R * UNIT) / UNIT, np.rint(Q * UNIT) / UNIT  # what was lost by dividing
        draw = mix64(self.key ^ self.step)
        subset = best_subset(R, Q, labels, self.n + r, self.lambda_1, self.lambda_2, draw, weights)
        target = np.array([subset >> j & 1 for j in range(self.arity)], np.float32)
        z = self.margins(x)
        g = (1 / (1 + np.exp(-z)) - target).astype(np.float32) * np.float32(weights.mean())
        rate = np.float32(np.float32(self.learning_rate) * np.sqrt(self.step / self.norm))
        self.Gb += g * g
        self.b -= rate * g / np.sqrt(self.Gb)
        for i in np.flatnonzero(x):
            gx = g * x[i]
            self.G[i] += gx * gx
            self.w[i] -= rate * gx / (self.s[i] * np.sqrt(self.G[i]))
        q = np.rint(np.clip(self.margins(x), 0, 1).astype(float) * UNIT) / UNIT
        weighted = np.rint(weights[:, None] * q * UNIT) / UNIT
        self.P = (self.P * self.n + weighted.sum(axis=0)) / (self.n + r)
        self.n += r
        for k, weight, its in zip(labels, weights, weighted, strict=True):
            self.c[k] += weight
            self.P_of_label[k] = (self.P_of_label[k] * (self.c[k] - weight) + its) / self.c[k]

    def train(self, epochs):
        for _ in range(epochs):
            for row in range(len(self.X)):
                self.see(row)
            pi = self.c / max(1, self.n)
            self.objectives.append(objective(self.P, self.P_of_label, pi, self.lambda_1, self.lambda_2))
        return self

    def routes(self):
        """Where the rows go; biases are moved to the median margins where one label would keep all rows together."""
        sent = [children(self.margins(x)) for x in self.X]
        sizes = [sum(j in to for to in sent) for j in range(self.arity)]
        refused = min(sizes) == 0 or max(sizes) == len(self.X)
        if refused and 2 * self.Y.sum(axis=0).max() > len(self.X):
            z = np.array([self.margins(x) for x in self.X])
            median = np.sort(z, axis=0)[len(z) // 2]
            self.b -= median + max(0, (z - median).max())
            sent = [children(self.margins(x)) for x in self.X]
        return sent


def children(z, threshold=0.5):
    """Where margins send a row."""
    sent = np.flatnonzero(z >= threshold)
    return sent.tolist() if len(sent) else [int(np.argmax(z))]


def routed_scores(trees, x, n_labels):
    """Scores of one dense row: mean over trees of the mean share in the leaves reached."""
    total = np.zeros(n_labels)
    for tree in range(trees.n_trees):
        first = trees.tree_offsets[tree]
        reached, waiting = [], [0]
        while waiting:
            node = waiting.pop()
            inner, child = trees.inner[first + node], trees.child[first + node]
            if inner < 0:
                reached.append(child)
                continue
            entries = slice(trees.router_indptr[inner], trees.router_indptr[inner + 1])
            z = x[trees.router_features[entries]] @ trees.whole_weights[entries] + trees.router_bias[inner]
            if trees.router_weights.dtype == np.int8:  # relative to the first child
                waiting.append(child + int(np.argmax([0, *z])))
            else:
                waiting += [child + j for j in children(z, trees.threshold)]
        for leaf in reached:
            entries = slice(trees.leaf_indptr[leaf], trees.leaf_indptr[leaf + 1])
            total[trees.leaf_labels[entries]] += trees.leaf_values[entries] / len(reached) / trees.n_trees
    return total
