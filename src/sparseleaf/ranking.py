"""Learning-to-rank metrics per query and their means: NDCG@k, average precision, reciprocal rank, pairwise accuracy.

Documents of a query are ranked by score; of documents with equal scores, the least relevant comes first, so that
metrics do not depend on the order of the rows. Queries for which a metric is undefined (no relevant document, or for
pairwise accuracy no two different grades) are NaN and excluded from the mean.
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
    """NDCG@k of each query, with gain 2^grade - 1 and discount 1/log2(1 + rank).

    Parameters
    ----------
    y : array-like of shape (n_rows,)
        Relevance grades >= 0.
    scores : array-like of shape (n_rows,)
        Predicted scores; a higher score is a better rank.
    qid : array-like of shape (n_rows,), optional
        Query of each row. Pass either ``qid`` or ``group``.
    group : array-like of shape (n_queries,), optional
        Number of rows of each query, for rows sorted by query.
    k : int or None, default=None
        Truncation level; None for all documents.

    Returns
    -------
    values : ndarray of shape (n_queries,)
        Metric of each query; NaN if it is undefined.

    Examples
    --------
    >>> from sparseleaf.ranking import ndcg
    >>> ndcg([2, 0, 1, 0], [3.0, 1.0, 2.0, 0.5], qid=[1, 1, 2, 2]).tolist()
    [1.0, 1.0]
    """
    if k is not None and (not isinstance(k, int | np.integer) or k < 1):
        raise ValueError(f"The 'k' parameter must be an int >= 1 or None. Got {k!r} instead.")

    def one(grades: Array) -> float:
        gains = np.exp2(grades) - 1
        discounts = 1 / np.log2(np.arange(len(grades))[:k] + 2)
        best = float(np.sort(gains)[::-1][:k] @ discounts)
        return float(gains[:k] @ discounts) / best if best > 0 else np.nan

    return _each(one, y, scores, qid, group)


def average_precision(y: Any, scores: Any, qid: Any = None, *, group: Any = None) -> Array:
    """Average precision of each query; documents with a grade above 0 are relevant.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
        Relevance grades >= 0.
    scores : array-like of shape (n_rows,)
        Predicted scores; a higher score is a better rank.
    qid : array-like of shape (n_rows,), optional
        Query of each row. Pass either ``qid`` or ``group``.
    group : array-like of shape (n_queries,), optional
        Number of rows of each query, for rows sorted by query.

    Returns
    -------
    values : ndarray of shape (n_queries,)
        Metric of each query; NaN if it is undefined.

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
    """Reciprocal rank of the first relevant document (grade above 0) of each query.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
        Relevance grades >= 0.
    scores : array-like of shape (n_rows,)
        Predicted scores; a higher score is a better rank.
    qid : array-like of shape (n_rows,), optional
        Query of each row. Pass either ``qid`` or ``group``.
    group : array-like of shape (n_queries,), optional
        Number of rows of each query, for rows sorted by query.

    Returns
    -------
    values : ndarray of shape (n_queries,)
        Metric of each query; NaN if it is undefined.

    Examples
    --------
    >>> from sparseleaf.ranking import reciprocal_rank
    >>> reciprocal_rank([0, 1, 0], [3.0, 2.0, 1.0], group=[3]).tolist()
    [0.5]
    """

    def one(grades: Array) -> float:
        relevant = np.flatnonzero(grades > 0)
        return 1.0 / float(relevant[0] + 1) if len(relevant) else np.nan

    return _each(one, y, scores, qid, group)


def pairwise_accuracy(y: Any, scores: Any, qid: Any = None, *, group: Any = None) -> Array:
    """Pairwise accuracy: fraction of document pairs with different grades in the right order; ties count half.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
        Relevance grades >= 0.
    scores : array-like of shape (n_rows,)
        Predicted scores; a higher score is a better rank.
    qid : array-like of shape (n_rows,), optional
        Query of each row. Pass either ``qid`` or ``group``.
    group : array-like of shape (n_queries,), optional
        Number of rows of each query, for rows sorted by query.

    Returns
    -------
    values : ndarray of shape (n_queries,)
        Metric of each query; NaN if it is undefined.

    Examples
    --------
    >>> from sparseleaf.ranking import pairwise_accuracy
    >>> pairwise_accuracy([2, 1, 0], [3.0, 1.0, 1.0], group=[3]).round(2).tolist()
    [0.83]
    """
    grades, values, queries = _checked(y, scores, qid, group)
    accuracy = np.full(queries.n_queries, np.nan)
    for q in range(queries.n_queries):
        rows = queries.order[queries.indptr[q] : queries.indptr[q + 1]]
        better = grades[rows][:, None] > grades[rows][None, :]
        if better.any():
            difference = values[rows][:, None] - values[rows][None, :]
            accuracy[q] = ((difference > 0) + 0.5 * (difference == 0))[better].mean()
    return accuracy


def evaluate(
    y: Any, scores: Any, qid: Any = None, *, group: Any = None, k: tuple[int, ...] = (1, 3, 5, 10)
) -> dict[str, float]:
    """Compute the mean of all metrics over the queries.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
        Relevance grades >= 0.
    scores : array-like of shape (n_rows,)
        Predicted scores; a higher score is a better rank.
    qid : array-like of shape (n_rows,), optional
        Query of each row. Pass either ``qid`` or ``group``.
    group : array-like of shape (n_queries,), optional
        Number of rows of each query, for rows sorted by query.
    k : tuple of int, default=(1, 3, 5, 10)
        Truncation levels of NDCG.

    Returns
    -------
    scores : dict of str to float
        ``ndcg@k`` for each k, ``map``, ``mrr`` and ``pairwise``; NaN if a metric is undefined for all queries.

    Examples
    --------
    >>> from sparseleaf.ranking import evaluate
    >>> evaluate([2, 0, 1, 0], [3.0, 1.0, 2.0, 0.5], qid=[1, 1, 2, 2], k=(5,))
    {'ndcg@5': 1.0, 'map': 1.0, 'mrr': 1.0, 'pairwise': 1.0}
    """
    metrics = {f"ndcg@{depth}": ndcg(y, scores, qid, group=group, k=depth) for depth in k}
    metrics["map"] = average_precision(y, scores, qid, group=group)
    metrics["mrr"] = reciprocal_rank(y, scores, qid, group=group)
    metrics["pairwise"] = pairwise_accuracy(y, scores, qid, group=group)
    return {name: mean_of(values) for name, values in metrics.items()}


def mean_of(values: Array) -> float:
    """Mean over queries, ignoring NaN."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def make_queries(n_rows: int, qid: Any = None, group: Any = None, weights: Any = None) -> Queries:
    """Group rows by query.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    qid : array-like of shape (n_rows,), optional
        Query of each row, in any order. Pass either ``qid`` or ``group``.
    group : array-like of int, optional
        Number of rows of each query, for rows sorted by query.
    weights : array-like of shape (n_queries,) or (n_rows,), optional
        Weights of the queries, in order of first appearance (or of ``group``); or one weight per row, constant within a
        query.

    Returns
    -------
    queries : Queries
        Rows by query.

    Examples
    --------
    >>> from sparseleaf.ranking import make_queries
    >>> make_queries(4, qid=["a", "b", "a", "b"]).n_queries
    2
    """
    require_countable("X", n_rows, "rows")
    if (qid is None) == (group is None):
        raise ValueError(
            "Either 'qid' or 'group' must be given: the query of each row, or the number of rows of each query."
        )
    if group is not None:
        sizes = np.asarray(group)
        if sizes.ndim != 1 or sizes.dtype.kind not in "iu" or (sizes < 0).any() or sizes.sum() != n_rows:
            raise ValueError(
                f"The 'group' parameter must be integers >= 0 that sum to {n_rows}, the number of rows. Got"
                f" {group!r:.60} instead."
            )
        ids = np.arange(len(sizes))
        order = np.arange(n_rows, dtype=np.int32)
    else:
        names = _query_names(qid, n_rows)
        unique, first, inverse = np.unique(names, return_index=True, return_inverse=True)
        place = np.argsort(np.argsort(first))  # queries in order of first appearance
        query_of_row = place[inverse]
        order = np.argsort(query_of_row, kind="stable").astype(np.int32)
        sizes = np.bincount(query_of_row, minlength=len(unique))
        ids = unique[np.argsort(first)]
    indptr = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    return Queries(order, indptr, ids, _query_weights(weights, order, indptr))


def _query_names(qid: Any, n_rows: int) -> Array:
    names = np.asarray(qid)
    if names.shape != (n_rows,):
        raise ValueError(f"The 'qid' parameter must have shape ({n_rows},). Got {names.shape} instead.")
    if names.dtype.kind == "O":  # a text column, or mixed types
        listed = names.tolist()
        for kind in (str, numbers.Integral):
            if all(isinstance(name, kind) for name in listed):
                return names
        odd = next((name for name in listed if not isinstance(name, str)), None)
        raise ValueError(f"The 'qid' parameter must be all str or all integers. Got {odd!r:.60} instead.")
    if (names.dtype.kind in "fc" and not np.isfinite(names).all()) or (
        names.dtype.kind in "mM" and np.isnat(names).any()
    ):
        raise ValueError("The 'qid' parameter must not have missing or infinite values.")
    return names


def _query_weights(weights: Any, order: Array, indptr: Array) -> Array:
    if weights is None:
        return np.empty(0, np.float32)
    n_queries = len(indptr) - 1
    values = _numbers("sample_weight", weights)
    if values.shape == (len(order),) and values.shape != (n_queries,):
        by_query = values[order]
        first = np.where(np.diff(indptr) > 0, by_query[np.minimum(indptr[:-1], len(order) - 1)], 0.0)
        if not np.array_equal(np.repeat(first, np.diff(indptr)), by_query):
            raise ValueError("The 'sample_weight' parameter must be constant within each query.")
        values = first
    if values.shape != (n_queries,):
        raise ValueError(
            f"The 'sample_weight' parameter must have shape ({n_queries},), one weight per query. Got {values.shape}"
            " instead."
        )
    if not (values <= np.finfo(np.float32).max).all() or values.min(initial=0) < 0 or not values.any():
        raise ValueError("The 'sample_weight' parameter must be >= 0, finite in float32, and not all zero.")
    return values.astype(np.float32)


def check_grades(y: Any, n_rows: int) -> Array:
    """Validate grades and convert them to float64."""
    grades = _numbers("y", y)
    if grades.ndim == 2 and grades.shape[1] == 1:
        grades = grades[:, 0]
    if grades.shape != (n_rows,):
        raise ValueError(f"y must have shape ({n_rows},), one grade per row. Got {grades.shape} instead.")
    if not np.isfinite(grades).all():
        raise ValueError("y must not have missing or infinite grades.")
    if grades.min(initial=0) < 0 or grades.max(initial=0) > LARGEST_GRADE:
        raise ValueError(f"y must have grades in the range [0, {LARGEST_GRADE}].")
    return grades


def _numbers(argument: str, values: Any) -> Array:
    if values is None:
        raise ValueError(f"{argument} must be an array of numbers. Got None instead.")
    check_values(values, argument)
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{argument} must be an array of numbers: {error}.") from None


LARGEST_GRADE = 30
"""Maximum grade: the gain is 2^grade - 1."""


def _checked(y: Any, scores: Any, qid: Any, group: Any) -> tuple[Array, Array, Queries]:
    values = _numbers("scores", scores).ravel()
    if not np.isfinite(values).all():
        raise ValueError("scores must not contain NaN or infinity.")
    return check_grades(y, len(values)), values, make_queries(len(values), qid, group)


def _each(measure: Callable[[Array], float], y: Any, scores: Any, qid: Any, group: Any) -> Array:
    """``measure(grades)`` of each query, with grades sorted by decreasing score, and ties by increasing grade."""
    grades, values, queries = _checked(y, scores, qid, group)
    result = np.empty(queries.n_queries)
    for q in range(queries.n_queries):
        rows = queries.order[queries.indptr[q] : queries.indptr[q + 1]]
        result[q] = measure(grades[rows[np.lexsort((grades[rows], -values[rows]))]])
    return result
