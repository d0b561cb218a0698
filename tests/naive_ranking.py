"""Slow, obvious twins of the ranking kernels and metrics: one query at a time, plain Python numbers.

A query is its grades and its scores. Gradients are of what is lowered, in order of documents.
"""

from __future__ import annotations

import itertools
import math

import numpy as np


def ranked(scores):
    """Documents from best to worst; ties keep their order."""
    return sorted(range(len(scores)), key=lambda i: (-scores[i], i))


def gain(grade):
    return 2.0**grade - 1


def discount(place):
    """Of a place counted from 1."""
    return 1 / math.log2(1 + place)


# --- metrics, of grades that stand in the order of the ranking


def dcg(grades, k=None):
    return sum(gain(grade) * discount(place) for place, grade in enumerate(grades[:k], start=1))


def ndcg(grades, k=None):
    """None without a relevant document."""
    best = dcg(sorted(grades, reverse=True), k)
    return dcg(grades, k) / best if best > 0 else None


def average_precision(grades):
    hits, total = 0, 0.0
    for place, grade in enumerate(grades, start=1):
        if grade > 0:
            hits += 1
            total += hits / place
    return total / hits if hits else None


def reciprocal_rank(grades):
    return next((1 / place for place, grade in enumerate(grades, start=1) if grade > 0), None)


def pairwise_accuracy(grades, scores):
    """Of documents in any order."""
    right = [
        1.0 if scores[i] > scores[j] else 0.5 if scores[i] == scores[j] else 0.0
        for i, j in itertools.permutations(range(len(grades)), 2)
        if grades[i] > grades[j]
    ]
    return sum(right) / len(right) if right else None


# --- LambdaMART


def exchanged(grades, a, b):
    grades = list(grades)
    grades[a], grades[b] = grades[b], grades[a]
    return grades


def change(metric, grades, a, b, places):
    """What the metric changes if the documents at two places really are exchanged.

    NDCG is over the whole ranking, but divided by the best of the first ``places``, as LightGBM has it.
    """
    if metric == "pairwise":
        return 1.0
    other = exchanged(grades, a, b)
    if metric == "map":
        return abs(average_precision(grades) - average_precision(other))
    return abs(dcg(grades) - dcg(other)) / dcg(sorted(grades, reverse=True), places)


def lambdas(grades, scores, *, metric="ndcg", places=30, normalise=True, sigma=1.0):
    """LambdaMART, written after the description of LightGBM's lambdarank."""
    n = len(grades)
    g, h = [0.0] * n, [0.0] * n
    order = ranked(scores)
    by_place = [grades[i] for i in order]
    if metric == "ndcg" and not any(grade > 0 for grade in grades):
        return g, h
    differ = n > 0 and max(scores) > min(scores)
    total = 0.0
    for a, b in itertools.combinations(range(n), 2):
        if a >= places or by_place[a] == by_place[b]:
            continue
        if metric == "map" and (by_place[a] > 0) == (by_place[b] > 0):
            continue
        high, low = (order[a], order[b]) if by_place[a] > by_place[b] else (order[b], order[a])
        apart = scores[high] - scores[low]
        delta = change(metric, by_place, a, b, places)
        if normalise and differ and metric != "pairwise":
            delta /= 0.01 + abs(apart)
        rho = 1 / (1 + math.exp(min(sigma * apart, 700)))
        g[high] -= sigma * rho * delta
        g[low] += sigma * rho * delta
        h[high] += sigma**2 * rho * (1 - rho) * delta
        h[low] += sigma**2 * rho * (1 - rho) * delta
        total += 2 * sigma * rho * delta
    if normalise and total > 0:
        factor = math.log2(1 + total) / total
        g, h = [factor * v for v in g], [factor * v for v in h]
    return g, h


def ranknet_loss(grades, scores, sigma=1.0):
    """Σ log(1 + exp(-σ (better - worse))): LambdaMART with pairs that all weigh 1."""
    return sum(
        math.log1p(math.exp(-sigma * (scores[i] - scores[j])))
        for i, j in itertools.permutations(range(len(grades)), 2)
        if grades[i] > grades[j]
    )


# --- GBRank


def gbrank_targets(grades, scores, margin):
    """For every document the list of its targets, one for each pair that is not yet far enough apart."""
    targets = [[] for _ in grades]
    for u, v in itertools.permutations(range(len(grades)), 2):
        if grades[u] > grades[v] and scores[u] < scores[v] + margin:
            targets[u].append(scores[v] + margin)
            targets[v].append(scores[u] - margin)
    return targets


# --- SmoothDCG


def smooth_dcg(grades, scores, sigma, order=None):
    """The objective; ``order`` holds who is at which place while scores move."""
    order = ranked(scores) if order is None else order
    total = 0.0
    for place, at in enumerate(order, start=1):
        near = [math.exp(-((score - scores[at]) ** 2) / sigma) for score in scores]
        total += discount(place) * sum(
            gain(grade) * one / sum(near) for grade, one in zip(grades, near, strict=True)
        )
    return total / dcg(sorted(grades, reverse=True))


# --- numbers of a function


def slope(function, scores, step=1e-5):
    """Central differences."""
    found = []
    for i in range(len(scores)):
        up, down = list(scores), list(scores)
        up[i] += step
        down[i] -= step
        found.append((function(up) - function(down)) / (2 * step))
    return np.array(found)
