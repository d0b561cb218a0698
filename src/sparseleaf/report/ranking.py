"""Ranking in a report: metrics per query, scores by relevance grade."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sparseleaf import ranking as measures
from sparseleaf.report.regression import listed

if TYPE_CHECKING:
    from sparseleaf._arrays import Array

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
BINS = 20


def top_rows(grades: Array, scores: Array, qid: Any, group: Any) -> Array:
    """1 - NDCG@10 of its query for the row with the highest score of every query; -inf for all other rows."""
    queries = measures.make_queries(len(scores), qid, group)
    ndcg = measures.ndcg(grades, scores, qid, group=group, k=10)
    error = np.full(len(scores), -np.inf)
    for query in np.flatnonzero(~np.isnan(ndcg)).tolist():
        rows = queries.order[queries.indptr[query] : queries.indptr[query + 1]]
        error[rows[np.argmax(scores[rows])]] = 1 - ndcg[query]
    return error


def ranking(grades: Array, scores: Array, qid: Any, group: Any) -> dict[str, Any]:
    """Parts of a report for a ranker."""
    queries = measures.make_queries(len(scores), qid, group)
    sizes = np.diff(queries.indptr)
    # bincount, since reduceat does not sum over queries without rows
    query = np.repeat(np.arange(len(sizes)), sizes)
    relevant = np.bincount(query, grades[queries.order] > 0, len(sizes))
    ndcg = {k: measures.ndcg(grades, scores, qid, group=group, k=k) for k in (1, 5, 10)}
    counts, edges = np.histogram(ndcg[10][~np.isnan(ndcg[10])], BINS, (0.0, 1.0))
    return {
        "metrics": {
            name: value if np.isfinite(value) else None
            for name, value in measures.evaluate(grades, scores, qid, group=group).items()
        },
        "queries": {
            "names": [str(name) for name in queries.ids.tolist()],
            "documents": sizes.tolist(),
            "relevant": relevant.astype(np.int64).tolist(),
            **{f"ndcg{k}": listed(values) for k, values in ndcg.items()},
            "ap": listed(measures.average_precision(grades, scores, qid, group=group)),
            "rr": listed(measures.reciprocal_rank(grades, scores, qid, group=group)),
        },
        "ndcg_histogram": {"edges": listed(edges), "counts": counts.tolist()},
        "grades": [
            {
                "grade": float(grade),
                "documents": int((grades == grade).sum()),
                "quantiles": listed(np.quantile(scores[grades == grade], QUANTILES)),
            }
            for grade in np.unique(grades)
        ],
    }
