"""Slow, obvious twins of the kernels of learned re-ranking."""

import numpy as np
from scipy.optimize import minimize


def linear_objective(w, b, X, sides, cost):
    """½‖w‖² + ½b² + C Σ max(0, 1 − y (w·x + b))²: the bias is the weight of a feature that is always 1."""
    hinge = np.maximum(0, 1 - sides * (X @ w + b))
    return 0.5 * (w @ w + b * b) + (cost * hinge**2).sum()


def fit_linear(X, sides, cost):
    """Weights and bias that minimise it, by a general solver; the cost may be one per example."""
    wide = np.c_[X, np.ones(len(X))]

    def value_and_slope(w):
        hinge = np.maximum(0, 1 - sides * (wide @ w))
        return 0.5 * w @ w + (cost * hinge**2).sum(), w - 2 * wide.T @ (cost * sides * hinge)

    found = minimize(value_and_slope, np.zeros(wide.shape[1]), jac=True, method="L-BFGS-B", tol=1e-12)
    return found.x[:-1], found.x[-1]


def continue_linear(X, sides, cost, w0, b0):
    """Weights and bias that minimise ½‖(w, b) − (w0, b0)‖² + C Σ hinge², by a general solver."""
    wide, start = np.c_[X, np.ones(len(X))], np.append(w0, b0)

    def value_and_slope(w):
        hinge = np.maximum(0, 1 - sides * (wide @ w))
        change = w - start
        return 0.5 * change @ change + cost * (hinge**2).sum(), change - 2 * cost * wide.T @ (sides * hinge)

    found = minimize(value_and_slope, start, jac=True, method="L-BFGS-B", tol=1e-12)
    return found.x[:-1], found.x[-1]


def nearest(X, x, k, own=-1):
    """The k rows of largest inner product above 0, ties to the lower row: (rows, products), -1 and -inf for none."""
    products = X @ x
    order = [row for row in np.argsort(-products, kind="stable") if products[row] > 0 and row != own][:k]
    rows = np.full(k, -1)
    rows[: len(order)] = order
    found = np.full(k, -np.inf)
    found[: len(order)] = products[order]
    return rows, found


def join(labels, scores, rows, closeness, label_lists, named=()):
    """{label: (score, relative, log place, votes, sharp, relative sharp, nearest, voters)} of one row."""
    table = {}
    for place, (label, score) in enumerate(zip(labels, scores, strict=True)):
        if label >= 0:
            table[int(label)] = [score, 0, np.log1p(place), 0, 0, 0, 0, 0]
    for row, c in zip(rows, closeness, strict=True):
        for label in label_lists[row] if row >= 0 else []:
            line = table.setdefault(int(label), [0, 0, np.log1p(len(labels)), 0, 0, 0, 0, 0])
            line[3] += c
            line[4] += c**3
            line[6] = max(line[6], c)
            line[7] += 1
    for label in named:
        if label >= 0:
            table.setdefault(int(label), [0, 0, np.log1p(len(labels)), 0, 0, 0, 0, 0])
    best = max((line[0] for line in table.values()), default=0)
    sharpest = max((line[4] for line in table.values()), default=0)
    for line in table.values():
        line[1] = line[0] / best if best > 0 else 0
        line[5] = line[4] / sharpest if sharpest > 0 else 0
    return table


def discriminative(X, Y, most):
    """For every label [(feature, weight, absent)], those that tell most first; X and Y dense, of 0 and 1."""
    found = []
    for label in range(Y.shape[1]):
        mine = X[Y[:, label] > 0]
        worth = []
        for f in range(X.shape[1]):
            c, q = mine[:, f].sum(), X[:, f].mean()
            e = len(mine) * q
            if c > e * (1 + 1e-9):
                p = (c + 2 * q) / (len(mine) + 2)
                absent = np.log((1 - p) / (1 - q))
                worth.append((-(c * np.log(c / e) - (c - e)), f, np.log(p / q) - absent, absent))
        found.append([line[1:] for line in sorted(worth)[:most]])
    return found


def told(x, features, power, log_share):
    """Evidence for a label with these (feature, weight, absent), of a row of 0 and 1."""
    return sum(a + w * x[f] for f, w, a in features) + power * log_share


def examples_of_label(proposed, truth, held_out):
    """(row, side) of every example of a label: those of held-out rows last; none if no row has the label."""
    rows = [row for row in range(len(truth)) if truth[row] or proposed[row]]
    rows.sort(key=lambda row: (bool(held_out[row]), row))
    return [(row, 1 if truth[row] else -1) for row in rows] if any(truth) else []
