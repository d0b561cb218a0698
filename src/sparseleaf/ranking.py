"""How good a ranking is, per query and overall: NDCG@k, average precision, reciprocal rank, pairwise accuracy.

Documents of a query are ranked by score; ties keep the order of rows. A query that cannot be ranked well or badly (no
relevant document, or for pairwise accuracy no two different grades) has NaN and is left out of the mean.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from sparseleaf._arrays import require_countable
from sparseleaf.data.checks import check_values
from sparseleaf.objectives.queries import Queries

if TYPE_CHECKING:
    from sparseleaf._arrays import Array

__all__ = ["average_precision", "evaluate", "make_queries", "ndcg", "pairwise_accuracy", "reciprocal_rank"]


def ndcg(y: Any, scores: Any, qid: Any = None, *, group: Any = None, k: int | None = None) -> Array:
    """NDCG of every query, over its first ``k`` places: gain 2^grade - 1, discount 1/log2(1 + rank).

    Parameters
    ----------
    y : array-like, shape (n_rows,)
        Grades, 0 or more.
    scores : array-like, shape (n_rows,)
        Predicted scores; rows of a query are ranked by falling score.
    qid : array-like, shape (n_rows,), optional
        Query of each row.
    group : array-like, shape (n_queries,), optional
        In place of ``qid``: sizes of queries whose rows are adjacent.
    k : int or None, default=None
        Places that count; None for all.

    Returns
    -------
    array, shape (n_queries,)
        NaN for a query that does not count.

    Examples
    --------
    >>> from sparseleaf.ranking import ndcg
    >>> ndcg([2, 0, 1, 0], [3.0, 1.0, 2.0, 0.5], qid=[1, 1, 2, 2]).tolist()
    [1.0, 1.0]
    """
    if k is not None and (not isinstance(k, int | np.integer) or k < 1):
        raise ValueError(f"k: found {k!r}; wanted an int of at least 1, or None.")

    def one(grades: Array) -> float:
        gains = np.exp2(grades) - 1
        discounts = 1 / np.log2(np.arange(len(grades))[:k] + 2)
        best = float(np.sort(gains)[::-1][:k] @ discounts)
        return float(gains[:k] @ discounts) / best if best > 0 else np.nan

    return _each(one, y, scores, qid, group)


def average_precision(y: Any, scores: Any, qid: Any = None, *, group: Any = None) -> Array:
    """Average precision of every query; a grade above 0 is relevant.

    Parameters
    ----------
    y : array-like, shape (n_rows,)
        Grades, 0 or more.
    scores : array-like, shape (n_rows,)
        Predicted scores; rows of a query are ranked by falling score.
    qid : array-like, shape (n_rows,), optional
        Query of each row.
    group : array-like, shape (n_queries,), optional
        In place of ``qid``: sizes of queries whose rows are adjacent.

    Returns
    -------
    array, shape (n_queries,)
        NaN for a query that does not count.

    Examples
    --------
    >>> from sparseleaf.ranking import average_precision
    >>> average_precision([0, 1, 0], [3.0, 2.0, 1.0], group=[3]).tolist()
    [0.5]
    """

    def one(grades: Array) -> float:
        relevant = grades > 0
        if not relevant.any():
            return np.nan
        precision = np.cumsum(relevant) / np.arange(1, len(grades) + 1)
        return float(precision[relevant].mean())

    return _each(one, y, scores, qid, group)


def reciprocal_rank(y: Any, scores: Any, qid: Any = None, *, group: Any = None) -> Array:
    """1 / rank of the first relevant document of every query.

    Parameters
    ----------
    y : array-like, shape (n_rows,)
        Grades, 0 or more.
    scores : array-like, shape (n_rows,)
        Predicted scores; rows of a query are ranked by falling score.
    qid : array-like, shape (n_rows,), optional
        Query of each row.
    group : array-like, shape (n_queries,), optional
        In place of ``qid``: sizes of queries whose rows are adjacent.

    Returns
    -------
    array, shape (n_queries,)
        NaN for a query that does not count.

    Examples
    --------
    >>> from sparseleaf.ranking import reciprocal_rank
    >>> reciprocal_rank([0, 1, 0], [3.0, 2.0, 1.0], group=[3]).tolist()
    [0.5]
    """

    def one(grades: Array) -> float:
        found = np.flatnonzero(grades > 0)
        return 1.0 / float(found[0] + 1) if len(found) else np.nan

    return _each(one, y, scores, qid, group)


def pairwise_accuracy(y: Any, scores: Any, qid: Any = None, *, group: Any = None) -> Array:
    """Share of the pairs of different grades that are in the right order; equal scores count half.

    Parameters
    ----------
    y : array-like, shape (n_rows,)
        Grades, 0 or more.
    scores : array-like, shape (n_rows,)
        Predicted scores; rows of a query are ranked by falling score.
    qid : array-like, shape (n_rows,), optional
        Query of each row.
    group : array-like, shape (n_queries,), optional
        In place of ``qid``: sizes of queries whose rows are adjacent.

    Returns
    -------
    array, shape (n_queries,)
        NaN for a query that does not count.

    Examples
    --------
    >>> from sparseleaf.ranking import pairwise_accuracy
    >>> pairwise_accuracy([2, 1, 0], [3.0, 1.0, 1.0], group=[3]).round(2).tolist()
    [0.83]
    """
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
    """Means over queries: ``ndcg@k`` for each k, ``map``, ``mrr`` and ``pairwise``; NaN where no query counts.

    Parameters
    ----------
    y : array-like, shape (n_rows,)
        Grades, 0 or more.
    scores : array-like, shape (n_rows,)
        Predicted scores; rows of a query are ranked by falling score.
    qid : array-like, shape (n_rows,), optional
        Query of each row.
    group : array-like, shape (n_queries,), optional
        In place of ``qid``: sizes of queries whose rows are adjacent.
    k : tuple of int, default=(1, 3, 5, 10)
        Places of NDCG.

    Returns
    -------
    dict of str to float

    Examples
    --------
    >>> from sparseleaf.ranking import evaluate
    >>> evaluate([2, 0, 1, 0], [3.0, 1.0, 2.0, 0.5], qid=[1, 1, 2, 2], k=(5,))
    {'ndcg@5': 1.0, 'map': 1.0, 'mrr': 1.0, 'pairwise': 1.0}
    """
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
        One a query (in order of first appearance, or of ``group``), or the same in every row of a query.

    Examples
    --------
    >>> from sparseleaf.ranking import make_queries
    >>> make_queries(4, qid=["a", "b", "a", "b"]).n_queries
    2
    """
    require_countable("X", n_rows, "rows")
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
        ids = np.arange(len(sizes))
        order = np.arange(n_rows, dtype=np.int32)
    else:
        names = _query_names(qid, n_rows)
        found, first, inverse = np.unique(names, return_index=True, return_inverse=True)
        place = np.argsort(np.argsort(first))  # queries in order of first appearance
        query_of_row = place[inverse]
        order = np.argsort(query_of_row, kind="stable").astype(np.int32)
        sizes = np.bincount(query_of_row, minlength=len(found))
        ids = found[np.argsort(first)]
    indptr = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    return Queries(order, indptr, ids, _query_weights(weights, order, indptr))


def _query_names(qid: Any, n_rows: int) -> Array:
    names = np.asarray(qid)
    if names.shape != (n_rows,):
        raise ValueError(f"qid: found shape {names.shape}; wanted ({n_rows},), one for each row.")
    if names.dtype.kind == "O":  # a table's column of text, or a mixture
        listed = names.tolist()
        for kind in (str, numbers.Integral):
            if all(isinstance(name, kind) for name in listed):
                return names
        odd = next((name for name in listed if not isinstance(name, str)), None)
        raise ValueError(f"qid: found {odd!r:.60}; wanted all names, or all whole numbers, one for each row.")
    if (names.dtype.kind in "fc" and not np.isfinite(names).all()) or (
        names.dtype.kind in "mM" and np.isnat(names).any()
    ):
        raise ValueError("qid: found a missing or infinite one; wanted the query of every row.")
    return names


def _query_weights(weights: Any, order: Array, indptr: Array) -> Array:
    if weights is None:
        return np.empty(0, np.float32)
    n_queries = len(indptr) - 1
    found = _numbers("sample_weight", weights)
    if found.shape == (len(order),) and found.shape != (n_queries,):
        by_query = found[order]
        first = np.where(np.diff(indptr) > 0, by_query[np.minimum(indptr[:-1], len(order) - 1)], 0.0)
        if not np.array_equal(np.repeat(first, np.diff(indptr)), by_query):
            raise ValueError("sample_weight: found different weights within a query; wanted one a query.")
        found = first
    if found.shape != (n_queries,):
        raise ValueError(f"sample_weight: found shape {found.shape}; wanted ({n_queries},), one a query.")
    if not (found <= np.finfo(np.float32).max).all() or found.min(initial=0) < 0 or not found.any():
        raise ValueError("sample_weight: wanted finite numbers in float32, none negative, not all zero.")
    return found.astype(np.float32)


def check_grades(y: Any, n_rows: int) -> Array:
    """Grades as float64: finite and not negative."""
    grades = _numbers("y", y)
    if grades.ndim == 2 and grades.shape[1] == 1:
        grades = grades[:, 0]
    if grades.shape != (n_rows,):
        raise ValueError(f"y: found shape {grades.shape}; wanted ({n_rows},), a grade for each row.")
    if not np.isfinite(grades).all():
        raise ValueError("y: found a missing or infinite grade; wanted numbers of 0 or more.")
    if grades.min(initial=0) < 0 or grades.max(initial=0) > LARGEST_GRADE:
        raise ValueError(f"y: found a grade outside 0 to {LARGEST_GRADE}; wanted numbers within.")
    return grades


def _numbers(argument: str, given: Any) -> Array:
    if given is None:
        raise ValueError(f"{argument}: found None; wanted numbers.")
    check_values(given, argument)
    try:
        return np.asarray(given, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{argument}: found what is no array of numbers ({error}).") from None


LARGEST_GRADE = 30
"""The gain of a grade is 2^grade - 1; beyond this it would drown all others."""


def _checked(y: Any, scores: Any, qid: Any, group: Any) -> tuple[Array, Array, Queries]:
    values = _numbers("scores", scores).ravel()
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
