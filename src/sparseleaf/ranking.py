"""How good a ranking is, per query and overall: NDCG@k, average precision, reciprocal rank, pairwise accuracy.

Documents of a query are ranked by score; ties keep the order of rows. A query that cannot be ranked well or badly (no
relevant document, or for pairwise accuracy no two different grades) has NaN and is left out of the mean.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from sparseleaf.boosting.ranking_losses import Queries

if TYPE_CHECKING:
    from sparseleaf._arrays import Array

__all__ = ["average_precision", "evaluate", "make_queries", "ndcg", "pairwise_accuracy", "reciprocal_rank"]


def ndcg(y: Any, scores: Any, qid: Any = None, *, group: Any = None, k: int | None = None) -> Array:
    """NDCG of every query, over its first ``k`` places: gain 2^grade - 1, discount 1/log2(1 + rank)."""
    if k is not None and k < 1:
        raise ValueError(f"k: found {k!r}; wanted an int of at least 1, or None.")

    def one(grades: Array) -> float:
        gains = np.exp2(grades) - 1
        discounts = 1 / np.log2(np.arange(len(grades))[:k] + 2)
        best = float(np.sort(gains)[::-1][:k] @ discounts)
        return float(gains[:k] @ discounts) / best if best > 0 else np.nan

    return _each(one, y, scores, qid, group)


def average_precision(y: Any, scores: Any, qid: Any = None, *, group: Any = None) -> Array:
    """Average precision of every query; a grade above 0 is relevant."""

    def one(grades: Array) -> float:
        relevant = grades > 0
        if not relevant.any():
            return np.nan
        precision = np.cumsum(relevant) / np.arange(1, len(grades) + 1)
        return float(precision[relevant].mean())

    return _each(one, y, scores, qid, group)


def reciprocal_rank(y: Any, scores: Any, qid: Any = None, *, group: Any = None) -> Array:
    """1 / rank of the first relevant document of every query."""

    def one(grades: Array) -> float:
        found = np.flatnonzero(grades > 0)
        return 1.0 / float(found[0] + 1) if len(found) else np.nan

    return _each(one, y, scores, qid, group)


def pairwise_accuracy(y: Any, scores: Any, qid: Any = None, *, group: Any = None) -> Array:
    """Share of the pairs of different grades that are in the right order; equal scores count half."""
    grades, values, queries = _checked(y, scores, qid, group)
    found = np.full(queries.n_queries, np.nan)
    for q in range(queries.n_queries):
        rows = queries.order[queries.indptr[q] : queries.indptr[q + 1]]
        better = grades[rows][:, None] > grades[rows][None, :]
        if better.any():
            apart = values[rows][:, None] - values[rows][None, :]
            found[q] = ((apart > 0) + 0.5 * (apart == 0))[better].mean()
    return found


def evaluate(
    y: Any, scores: Any, qid: Any = None, *, group: Any = None, k: tuple[int, ...] = (1, 3, 5, 10)
) -> dict[str, float]:
    """Means over queries: ``ndcg@k`` for each k, ``map``, ``mrr`` and ``pairwise``; NaN where no query counts."""
    found = {f"ndcg@{depth}": ndcg(y, scores, qid, group=group, k=depth) for depth in k}
    found["map"] = average_precision(y, scores, qid, group=group)
    found["mrr"] = reciprocal_rank(y, scores, qid, group=group)
    found["pairwise"] = pairwise_accuracy(y, scores, qid, group=group)
    return {name: mean_of(values) for name, values in found.items()}


def mean_of(values: Array) -> float:
    """The mean of the queries that count."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def make_queries(n_rows: int, qid: Any = None, group: Any = None, weights: Any = None) -> Queries:
    """Which rows belong together.

    Parameters
    ----------
    n_rows : int
    qid : array-like, shape (n_rows,), optional
        The query of every row, in any order.
    group : array-like of int, optional
        Instead: rows of every query, one query after the other.
    weights : array-like, shape (n_queries,) or (n_rows,), optional
        One a query (in order of first appearance), or the same in every row of a query.
    """
    if (qid is None) == (group is None):
        raise ValueError(
            "qid, group: wanted one of them: the query of every row, or the rows of every query."
        )
    if group is not None:
        sizes = np.asarray(group)
        if sizes.ndim != 1 or sizes.dtype.kind not in "iu" or (sizes < 0).any() or sizes.sum() != n_rows:
            raise ValueError(
                f"group: wanted whole numbers that add up to {n_rows} rows; found {group!r:.60}."
            )
        sizes = sizes[sizes > 0]
        ids = np.arange(len(sizes))
        order = np.arange(n_rows, dtype=np.int32)
    else:
        names = np.asarray(qid)
        if names.shape != (n_rows,):
            raise ValueError(f"qid: found shape {names.shape}; wanted ({n_rows},), one for each row.")
        if names.dtype.kind == "f" and not np.isfinite(names).all():
            raise ValueError("qid: found NaN or infinity; wanted the query of every row.")
        found, first, inverse = np.unique(names, return_index=True, return_inverse=True)
        place = np.argsort(np.argsort(first))  # queries in order of first appearance
        numbers = place[inverse]
        order = np.argsort(numbers, kind="stable").astype(np.int32)
        sizes = np.bincount(numbers, minlength=len(found))
        ids = found[np.argsort(first)]
    indptr = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    return Queries(order, indptr, ids, _query_weights(weights, order, indptr))


def _query_weights(weights: Any, order: Array, indptr: Array) -> Array:
    if weights is None:
        return np.empty(0, np.float32)
    n_queries = len(indptr) - 1
    found = np.asarray(weights, np.float64)
    if found.shape == (len(order),) and found.shape != (n_queries,):
        by_query = found[order]
        first = by_query[indptr[:-1]]
        if not np.array_equal(np.repeat(first, np.diff(indptr)), by_query):
            raise ValueError("sample_weight: found different weights within a query; wanted one a query.")
        found = first
    if found.shape != (n_queries,):
        raise ValueError(f"sample_weight: found shape {found.shape}; wanted ({n_queries},), one a query.")
    if not np.isfinite(found).all() or found.min(initial=0) < 0 or not found.any():
        raise ValueError("sample_weight: wanted finite numbers of 0 or more, not all 0.")
    return found.astype(np.float32)


def check_grades(y: Any, n_rows: int) -> Array:
    """Grades as float64: finite and not negative."""
    grades = np.asarray(y, np.float64)
    if grades.ndim == 2 and grades.shape[1] == 1:
        grades = grades[:, 0]
    if grades.shape != (n_rows,):
        raise ValueError(f"y: found shape {grades.shape}; wanted ({n_rows},), a grade for each row.")
    if not np.isfinite(grades).all():
        raise ValueError("y: found a missing or infinite grade; wanted numbers of 0 or more.")
    if grades.min(initial=0) < 0 or grades.max(initial=0) > LARGEST_GRADE:
        raise ValueError(f"y: found a grade outside 0 to {LARGEST_GRADE}; wanted numbers within.")
    return grades


LARGEST_GRADE = 30
"""The gain of a grade is 2^grade - 1; beyond this it would drown all others."""


def _checked(y: Any, scores: Any, qid: Any, group: Any) -> tuple[Array, Array, Queries]:
    values = np.asarray(scores, np.float64).ravel()
    if not np.isfinite(values).all():
        raise ValueError("scores: found NaN or infinity; wanted a number for each row.")
    return check_grades(y, len(values)), values, make_queries(len(values), qid, group)


def _each(measure: Callable[[Array], float], y: Any, scores: Any, qid: Any, group: Any) -> Array:
    """``measure(grades)`` of every query's grades, best score first."""
    grades, values, queries = _checked(y, scores, qid, group)
    found = np.empty(queries.n_queries)
    for q in range(queries.n_queries):
        rows = queries.order[queries.indptr[q] : queries.indptr[q + 1]]
        found[q] = measure(grades[rows[np.argsort(-values[rows], kind="stable")]])
    return found
