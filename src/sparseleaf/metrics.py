"""Ranking metrics of extreme classification, on sparse labels.

In: the true labels as a sparse 0/1 matrix, and a ranking per row (label ids, best first, or scores to take
the best of). Out: one number. Every row counts in a mean, with or without labels. Nothing of size
rows × labels is ever made: true labels are looked up, a block of rows at a time, by binary search.

The propensity-scored metrics are reported as the Extreme Classification Repository does: the mean over rows
divided by the mean that the best possible ranking would reach.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sparseleaf._spelling import FORMER, ByMetric, Measured, warn_of_name

__all__ = [
    "RankingScorer",
    "evaluate",
    "ndcg_at_k",
    "precision_at_k",
    "propensities",
    "propensities_from_counts",
    "psndcg_at_k",
    "psp_at_k",
    "recall_at_k",
    "scorers",
]

# scipy ships no types, so its matrices are Any; the aliases say what is meant.
SparseMatrix: TypeAlias = Any
MatrixLike: TypeAlias = SparseMatrix | ArrayLike

# Entries looked at together: small enough that the sorts run in cache, large enough to hide Python's cost.
_BLOCK = 1 << 18


def precision_at_k(Y_true: MatrixLike, predicted: MatrixLike, k: int = 5) -> float:
    """Share of the k best predictions that are true, averaged over all rows.

    Parameters
    ----------
    Y_true : sparse matrix or array-like of 0 and 1, shape (n, L)
        True labels.
    predicted : integer array (n, >= k), or sparse or float matrix (n, L)
        *Integers*: label ids, best first; -1 is padding and counts as a miss; an id may appear once in a row.
        *Sparse*: scores; the k highest stored entries of a row are its ranking. *Dense floats*: scores of
        all labels. Equal scores go to the lower label id; a row with fewer than k candidates is padded.
    k : int, default=5
        How many predictions count, at least 1.

    Returns
    -------
    float
        In [0, 1]. The divisor is ``k`` also for rows with fewer true labels; rows without labels are 0.

    Examples
    --------
    >>> from sparseleaf.metrics import precision_at_k
    >>> precision_at_k([[1, 0, 1], [0, 1, 0]], [[0, 1], [1, 2]], k=2)
    0.5
    """
    k = _check_k(k)
    return _precision(_rank(Y_true, predicted, k), k)


def recall_at_k(Y_true: MatrixLike, predicted: MatrixLike, k: int = 5) -> float:
    """Share of a row's true labels found among its k best predictions, averaged over all rows.

    Rows without labels have nothing to find; they count as 0 and stay in the mean, as in the other metrics.

    Parameters
    ----------
    Y_true, predicted, k
        As for `precision_at_k`.

    Returns
    -------
    float
        In [0, 1].

    Examples
    --------
    >>> from sparseleaf.metrics import recall_at_k
    >>> recall_at_k([[1, 1, 0], [0, 0, 1]], [[0], [2]], k=1)
    0.75
    """
    k = _check_k(k)
    ranking = _rank(Y_true, predicted, k)
    found = ranking.hits[:, :k].sum(axis=1)
    return float(np.mean(found / np.maximum(ranking.n_true, 1)))


def ndcg_at_k(Y_true: MatrixLike, predicted: MatrixLike, k: int = 5) -> float:
    """Normalised discounted cumulative gain of the k best predictions, averaged over all rows.

    A hit at rank r is worth ``1 / log2(r + 1)``; a row's sum is divided by that of a perfect ranking,
    whose first ``min(k, number of true labels)`` predictions are hits.

    Parameters
    ----------
    Y_true, predicted, k
        As for `precision_at_k`.

    Returns
    -------
    float
        In [0, 1]; rows without labels are 0.

    Examples
    --------
    >>> from sparseleaf.metrics import ndcg_at_k
    >>> ndcg_at_k([[1, 0, 0], [0, 0, 1]], [[0, 1], [2, 0]], k=2)
    1.0
    """
    k = _check_k(k)
    return _ndcg(_rank(Y_true, predicted, k), k)


def psp_at_k(
    Y_true: MatrixLike,
    predicted: MatrixLike,
    propensity: ArrayLike,
    k: int = 5,
) -> float:
    """Propensity-scored precision: a hit on a rare label is worth more.

    A hit on label l is worth ``1 / propensity[l]``. The mean over rows is divided by the mean of the best
    ranking possible (one ratio of two means, not a mean of ratios).

    Parameters
    ----------
    Y_true, predicted, k
        As for `precision_at_k`.
    propensity : array-like of float, shape (L,)
        In (0, 1], from `propensities` on the *training* labels.

    Returns
    -------
    float
        In [0, 1]; 0 if no row has a label.

    Examples
    --------
    >>> from sparseleaf.metrics import propensities, psp_at_k
    >>> Y = [[1, 0, 0], [0, 0, 1]]
    >>> psp_at_k(Y, [[0], [2]], propensities(Y), k=1)
    1.0
    """
    k = _check_k(k)
    ranking = _rank(Y_true, predicted, k)
    return _psp(_weigh(ranking, propensity), k)


def psndcg_at_k(
    Y_true: MatrixLike,
    predicted: MatrixLike,
    propensity: ArrayLike,
    k: int = 5,
) -> float:
    """Propensity-scored nDCG: rare labels are worth more, and so are early hits.

    A hit on label l at rank r is worth ``1 / (propensity[l] * log2(r + 1))``, and a row's sum is divided by
    ``sum(1 / log2(r + 1) for r in 1 .. min(k, number of true labels))``. The mean over rows is divided by
    the mean of the best ranking possible.

    Parameters
    ----------
    Y_true, predicted, propensity, k
        As for `psp_at_k`.

    Returns
    -------
    float
        In [0, 1]; 0 if no row has a label.

    Examples
    --------
    >>> from sparseleaf.metrics import propensities, psndcg_at_k
    >>> Y = [[1, 0, 0], [0, 0, 1]]
    >>> psndcg_at_k(Y, [[0], [2]], propensities(Y), k=1)
    1.0
    """
    k = _check_k(k)
    ranking = _rank(Y_true, predicted, k)
    return _psndcg(ranking, _weigh(ranking, propensity), k)


def propensities(Y_train: MatrixLike, A: float = 0.55, B: float = 1.5) -> NDArray[np.float64]:
    """How likely a true label is to have been recorded, by how often training rows carry it.

    ``p_l = 1 / (1 + C (N_l + B)^-A)`` with ``C = (ln N - 1) (B + 1)^A``, N training rows and N_l of them with
    label l. The usual constants are A=0.5, B=0.4 for WikiLSHTC-325K and Wikipedia-500K, A=0.6, B=2.6 for
    Amazon-670K and Amazon-3M, and the defaults for everything else.

    Parameters
    ----------
    Y_train : sparse matrix or array-like of 0 and 1, shape (N, L)
        Labels of the training rows.
    A : float, default=0.55
        At least 0; how fast the propensity grows with the count.
    B : float, default=1.5
        Above 0, so that labels never seen have a propensity too.

    Returns
    -------
    ndarray of float64, shape (L,)
        In (0, 1]. With one or two training rows the formula's C is negative and would give "probabilities"
        above 1; C is then 0 and every propensity 1.

    Examples
    --------
    >>> from sparseleaf.metrics import propensities
    >>> rare_first = propensities([[0, 1], [0, 1], [1, 1], [0, 1]])
    >>> bool(rare_first[0] < rare_first[1])
    True
    """
    Y = _check_labels(Y_train, "Y_train")
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    return propensities_from_counts(counts, Y.shape[0], A, B)


def propensities_from_counts(
    label_counts: ArrayLike, n_rows: int, A: float = 0.55, B: float = 1.5
) -> NDArray[np.float64]:
    """`propensities`, given how many training rows have each label; a model keeps these counts.

    Parameters
    ----------
    label_counts : array-like of int, shape (L,)
        Training rows of each label, ``model_.label_counts``.
    n_rows : int
        Training rows, ``model_.n_train_rows``.
    A, B : float, default=0.55, 1.5
        As for `propensities`.

    Returns
    -------
    ndarray of float64, shape (L,)

    Examples
    --------
    >>> from sparseleaf.metrics import propensities_from_counts
    >>> propensities_from_counts([1, 10, 100], 1_000).round(2).tolist()
    [0.14, 0.28, 0.56]
    """
    for name, value, wanted, good in (("A", A, "at least 0", A >= 0), ("B", B, "above 0", B > 0)):
        if not (good and np.isfinite(value)):
            raise ValueError(f"{name} must be a finite number {wanted}, got {value!r}")
    count = _as_array(label_counts, "label_counts").astype(np.float64)
    C = max(0.0, np.log(max(n_rows, 1)) - 1.0) * (B + 1.0) ** A
    return np.asarray(1.0 / (1.0 + C * (count + B) ** -A), dtype=np.float64)


def evaluate(
    Y_true: MatrixLike,
    labels: MatrixLike,
    propensity: ArrayLike | None = None,
    ks: Sequence[int] = (1, 3, 5),
) -> dict[str, float]:
    """All metrics at once; true labels are looked up once for all of them.

    Parameters
    ----------
    Y_true : sparse matrix or array-like of 0 and 1, shape (n, L)
        True labels.
    labels : integer array (n, >= max(ks)), or sparse or float matrix (n, L)
        The ranking, as ``predicted`` of `precision_at_k`.
    propensity : array-like of float, shape (L,), optional
        From `propensities`. Without it the psp and psndcg entries are left out.
    ks : sequence of int, default=(1, 3, 5)
        Depths of the ranking to report.

    Returns
    -------
    dict of str to float
        ``precision@1 precision@3 precision@5 ndcg@1 … psp@1 … psndcg@1 …`` in this order, each in [0, 1].

    Examples
    --------
    >>> from sparseleaf.metrics import evaluate
    >>> found = evaluate([[1, 0, 0, 0, 1], [0, 0, 1, 0, 0]], [[0, 2, 4, 1, 3], [1, 2, 0, 3, 4]])
    >>> found["precision@1"], found["precision@5"]
    (0.5, 0.3)
    """
    ks = [_check_k(k, "ks") for k in ks]
    if not ks:
        raise ValueError("ks must name at least one depth, got none")
    ranking = _rank(Y_true, labels, max(ks), "labels")
    result = {f"precision@{k}": _precision(ranking, k) for k in ks}
    result |= {f"ndcg@{k}": _ndcg(ranking, k) for k in ks}
    if propensity is not None:
        worth = _weigh(ranking, propensity)
        result |= {f"psp@{k}": _psp(worth, k) for k in ks}
        result |= {f"psndcg@{k}": _psndcg(ranking, worth, k) for k in ks}
    return Measured(result, scale=100.0)


@dataclass(frozen=True)
class RankingScorer:
    """A metric as scikit-learn's model selection takes it: ``scorer(estimator, X, y)``, the higher the better.

    Use one of `scorers`, as ``scoring=scorers["precision@3"]``, or several by name as a dict.

    Parameters
    ----------
    metric : {"precision", "ndcg", "psp", "psndcg"}
        Propensities are those of the rows that the estimator was trained on.
    k : int
        How many predictions count.

    Examples
    --------
    >>> from sparseleaf import SparseGBDTClassifier
    >>> from sparseleaf.data import make_xc
    >>> from sparseleaf.metrics import scorers
    >>> X, Y = make_xc(200, 60, 10)
    >>> clf = SparseGBDTClassifier(n_trees=2).fit(X, Y)
    >>> 0 <= scorers["ndcg@5"](clf, X, Y) <= 1
    True
    """

    metric: str
    k: int

    def __post_init__(self) -> None:
        """Understand the names of the last release."""
        if self.metric in FORMER:
            warn_of_name(self.metric)
            object.__setattr__(self, "metric", FORMER[self.metric])

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        """The metric of a fitted classifier of this library, or of a pipeline that ends with one.

        ``y`` has any form that the classifier's ``fit`` takes, and its labels are matched with those of training as in
        ``eval_set``.
        """
        from sklearn.pipeline import Pipeline

        from sparseleaf.data.targets import encode_known

        if isinstance(estimator, Pipeline):
            X = estimator[:-1].transform(X) if len(estimator) > 1 else X
            estimator = estimator[-1]
        if not hasattr(estimator, "predict_topk"):
            raise ValueError(
                f"The scorer {self} requires a classifier with predict_topk, or a pipeline that ends with one. Got"
                f" {type(estimator).__name__} instead."
            )
        ids, _ = estimator._topk_ids(X, self.k, None)
        model = estimator.model_
        truth = encode_known(y, len(ids), model.known_labels)
        if self.metric in _PLAIN:
            return _PLAIN[self.metric](truth, ids, self.k)
        counts = np.zeros(truth.shape[1], np.int64)  # labels that training never saw are behind its own
        counts[: model.n_labels] = model.label_counts
        propensity = propensities_from_counts(counts, model.n_train_rows)
        return _BY_PROPENSITY[self.metric](truth, ids, propensity, self.k)

    def __str__(self) -> str:
        return f"{self.metric}@{self.k}"


_PLAIN: dict[str, Callable[[MatrixLike, MatrixLike, int], float]] = {
    "precision": precision_at_k,
    "ndcg": ndcg_at_k,
}
_BY_PROPENSITY: dict[str, Callable[[MatrixLike, MatrixLike, ArrayLike, int], float]] = {
    "psp": psp_at_k,
    "psndcg": psndcg_at_k,
}

scorers: dict[str, RankingScorer] = ByMetric(
    {
        f"{metric}@{k}": RankingScorer(metric, k)
        for metric in (*_PLAIN, *_BY_PROPENSITY)
        for k in (1, 3, 5, 10)
    }
)
"""Scorers by name, such as ``scorers["ndcg@5"]``: ``scoring`` of scikit-learn's searches and cross-validation."""


# --- the metrics, given a ranking whose hits are known ------------------------------------------------------


@dataclass(frozen=True)
class _Ranking:
    """A checked ranking: which of its predictions are true, and what there was to find."""

    Y: SparseMatrix  # CSR (n, L), 0/1, columns sorted
    ids: NDArray[np.int64]  # (n, ranks), -1 = none
    hits: NDArray[np.bool_]  # (n, ranks)
    n_true: NDArray[np.int64]  # (n,)


@dataclass(frozen=True)
class _Worth:
    """What the predictions earned under inverse propensities, and the most that could be earned."""

    got: NDArray[np.float64]  # (n, ranks), 0 for a miss
    best: NDArray[np.float64]  # (n, ranks), 0 past the last true label


def _precision(ranking: _Ranking, k: int) -> float:
    return float(ranking.hits[:, :k].sum() / (len(ranking.hits) * k))


def _ndcg(ranking: _Ranking, k: int) -> float:
    # As in _ratio: rounding must not lift a perfect ranking above 1.
    return min(1.0, float(np.mean(_discounted(ranking.hits, ranking.n_true, k))))


def _psp(worth: _Worth, k: int) -> float:
    # The 1/k and 1/n of the two means cancel.
    return _ratio(worth.got[:, :k].sum(), worth.best[:, :k].sum())


def _psndcg(ranking: _Ranking, worth: _Worth, k: int) -> float:
    return _ratio(
        _discounted(worth.got, ranking.n_true, k).sum(), _discounted(worth.best, ranking.n_true, k).sum()
    )


def _discounted(
    gains: NDArray[np.float64] | NDArray[np.bool_], n_true: NDArray[np.int64], k: int
) -> NDArray[np.float64]:
    """Discounted sum of each row's gains over that of ``min(k, n_true)`` gains of 1; 0 without labels."""
    k = min(k, gains.shape[1])  # a ranking by scores is no longer than there are labels
    discount = 1.0 / np.log2(np.arange(2, k + 2))
    # Rows without labels gained nothing, so any divisor but 0 gives their 0.
    ideal = np.cumsum(discount)[np.clip(n_true, 1, k) - 1]
    return np.asarray(gains[:, :k] @ discount / ideal, dtype=np.float64)


def _ratio(got: float, best: float) -> float:
    # Sums of the same terms in another order may differ in the last bit; a share is at most 1.
    return min(1.0, float(got / best)) if best > 0 else 0.0


def _weigh(ranking: _Ranking, propensity: ArrayLike) -> _Worth:
    n, n_labels = ranking.Y.shape
    width = ranking.ids.shape[1]
    p = _as_array(propensity, "propensity")
    if p.shape != (n_labels,):
        raise ValueError(f"propensity must have shape ({n_labels},), one number per label, got {p.shape}")
    # Above 1 is refused because it is the sign of inverse propensities passed by mistake.
    if p.dtype.kind not in "biuf" or not np.all((p > 0) & (p <= 1)):
        raise ValueError("propensity must hold numbers in (0, 1]; 1/p is taken here, not by the caller")
    p = p.astype(np.float64)
    got = np.where(ranking.hits, 1.0 / p[ranking.ids], 0.0)

    # Labels by falling worth. Sorting integer keys (row, place in this order) is several times faster than
    # sorting pairs, and each row's best labels come first.
    order = np.argsort(p, kind="stable")
    place = np.empty(n_labels, dtype=np.int64)
    place[order] = np.arange(n_labels)
    worth_at = 1.0 / p[order]
    best = np.zeros((n, width))
    for start, stop, rows, cols, first, length in _blocks(ranking.Y, width):
        keys = np.sort(rows * n_labels + place[cols])
        for rank in range(min(width, int(length.max()))):
            has = np.flatnonzero(length > rank)
            best[start:stop][has, rank] = worth_at[keys[first[has] + rank] % n_labels]
    return _Worth(got, best)


# --- from what the caller has to a ranking ------------------------------------------------------------------


def _rank(Y_true: MatrixLike, predicted: MatrixLike, k: int, name: str = "predicted") -> _Ranking:
    Y = _check_labels(Y_true, "Y_true")
    width = min(k, Y.shape[1])  # of a ranking by scores: what is past the last label is a miss anyway
    if sp.issparse(predicted):
        ids = _top_of_sparse(_check_scores(predicted, name, Y.shape), width)
    else:
        array = _as_array(predicted, name)
        if array.ndim != 2:
            raise ValueError(f"{name} must be 2-dimensional (rows, ranks or labels), got shape {array.shape}")
        if array.dtype.kind in "iu":
            ids = _check_ids(array, name, Y.shape, k)
        elif array.dtype.kind == "f":
            ids = _top_of_dense(_check_scores(array, name, Y.shape), width)
        else:
            raise TypeError(
                f"{name} must hold integer label ids or float scores, got dtype {array.dtype}; "
                "label names have to be turned into ids first"
            )
    return _Ranking(Y, ids, _find(Y, ids), np.diff(Y.indptr).astype(np.int64))


def _find(Y: SparseMatrix, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which predictions are true labels, shape of ``ids``."""
    n_labels = Y.shape[1]
    hits = np.zeros(ids.shape, dtype=np.bool_)
    for start, stop, rows, cols, _, _ in _blocks(Y, ids.shape[1]):
        if not len(cols):
            continue
        true_keys = rows * n_labels + cols  # rising, because CSR is row after row with sorted columns
        some = ids[start:stop]
        keys = np.arange(stop - start)[:, None] * n_labels + some
        at = np.minimum(np.searchsorted(true_keys, keys), len(true_keys) - 1)
        # A padded -1 would read as the last label of the row before.
        hits[start:stop] = (true_keys[at] == keys) & (some >= 0)
    return hits


def _top_of_sparse(scores: SparseMatrix, k: int) -> NDArray[np.int64]:
    """Labels of the k highest stored entries of each row, best first, (n, k) padded with -1."""
    ids = np.full((scores.shape[0], k), -1, dtype=np.int64)
    for start, stop, rows, cols, first, length in _blocks(scores, k):
        value = scores.data[scores.indptr[start] : scores.indptr[stop]]
        # lexsort is stable and columns rise within a row, so equal scores stay in order of their label id.
        order = np.lexsort((-value, rows))
        for rank in range(min(k, int(length.max()))):
            has = np.flatnonzero(length > rank)
            ids[start:stop][has, rank] = cols[order[first[has] + rank]]
    return ids


def _top_of_dense(scores: NDArray[np.floating[Any]], k: int) -> NDArray[np.int64]:
    """Like `_top_of_sparse`, every label being a candidate."""
    n, n_labels = scores.shape
    ids = np.full((n, k), -1, dtype=np.int64)
    step = max(1, _BLOCK // n_labels)
    for start in range(0, n, step):
        some = scores[start : start + step]
        # The k-th highest value leaves few candidates to sort; ties with it are settled by _top_of_sparse.
        worst = np.partition(some, n_labels - k, axis=1)[:, n_labels - k, None]
        row, col = np.nonzero(some >= worst)
        indptr = np.searchsorted(row, np.arange(len(some) + 1))
        candidates = sp.csr_array((some[row, col], col, indptr), shape=some.shape)
        ids[start : start + step] = _top_of_sparse(candidates, k)
    return ids


def _blocks(
    M: SparseMatrix, per_row: int
) -> Iterator[tuple[int, int, NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]:
    """Cut CSR rows into blocks of bounded work: stored entries plus ``per_row`` numbers a row.

    Yields ``start, stop`` (rows), ``rows, cols`` of the block's entries (rows counted from ``start``), and
    where each row's entries begin (``first``) and how many there are (``length``).
    """
    n = M.shape[0]
    work = M.indptr.astype(np.int64) + np.arange(n + 1) * per_row
    cuts = np.searchsorted(work, np.arange(_BLOCK, int(work[-1]), _BLOCK))
    edges = np.unique(np.concatenate(([0], cuts, [n]))).tolist()
    for start, stop in pairwise(edges):
        ends = M.indptr[start : stop + 1].astype(np.int64)
        length = np.diff(ends)
        rows = np.repeat(np.arange(stop - start), length)
        cols = M.indices[ends[0] : ends[-1]].astype(np.int64)
        yield start, stop, rows, cols, ends[:-1] - ends[0], length


# --- checks -------------------------------------------------------------------------------------------------


def _check_k(k: int, name: str = "k") -> int:
    try:
        depth = operator.index(k)
    except TypeError:
        depth = 0
    if depth < 1 or isinstance(k, bool):
        raise ValueError(f"{name} must be an integer of at least 1, got {k!r}")
    return depth


def _as_array(value: ArrayLike, name: str) -> NDArray[Any]:
    try:
        return np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name} must be an array with rows of equal length: {error}") from None


def _as_csr(M: SparseMatrix) -> SparseMatrix:
    """CSR with sorted columns and no duplicates; the caller's matrix is never changed."""
    csr = sp.csr_array(M)
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    return csr


def _check_labels(Y: Any, name: str) -> SparseMatrix:
    if not sp.issparse(Y):
        Y = _as_array(Y, name)
    if Y.ndim != 2 or 0 in Y.shape:
        raise ValueError(f"{name} must have shape (rows, labels), at least one of each, got {Y.shape}")
    if Y.dtype.kind not in "biuf":
        raise TypeError(f"{name} must be a matrix of 0 and 1, got dtype {Y.dtype}")
    csr = _as_csr(Y)
    zero = csr.data == 0
    wrong = ~zero & (csr.data != 1)
    if wrong.any():
        raise ValueError(f"{name} must hold only 0 and 1, found {csr.data[np.argmax(wrong)]}")
    if zero.any():
        csr = csr.copy()
        csr.eliminate_zeros()
    return csr


def _check_scores(scores: SparseMatrix, name: str, shape: tuple[int, int]) -> SparseMatrix:
    """Scores as floats, in CSR if sparse."""
    if scores.shape != shape:
        raise ValueError(
            f"{name} has shape {scores.shape}, scores for Y_true need {shape}"
            + ("" if sp.issparse(scores) else "; label ids have to be of an integer type")
        )
    if scores.dtype.kind not in "biuf":
        raise TypeError(f"{name} must hold real scores, got dtype {scores.dtype}")
    if sp.issparse(scores):
        scores = _as_csr(scores)
    if scores.dtype.kind != "f":
        scores = scores.astype(np.float64)
    if np.isnan(scores.data if sp.issparse(scores) else scores).any():
        raise ValueError(f"{name} must not contain NaN")
    return scores


def _check_ids(ids: NDArray[Any], name: str, shape: tuple[int, int], k: int) -> NDArray[np.int64]:
    n, n_labels = shape
    if len(ids) != n:
        raise ValueError(f"{name} has {len(ids)} rows, Y_true has {n}")
    if ids.shape[1] < k:
        raise ValueError(f"{name} has {ids.shape[1]} label ids per row, k={k} needs at least as many")
    ids = ids[:, :k]
    if ids.max() >= n_labels or ids.min() < -1:
        bad = ids[(ids >= n_labels) | (ids < -1)].flat[0]
        raise ValueError(f"{name} must hold label ids in [0, {n_labels}) or -1 for none, found {bad}")
    ids = ids.astype(np.int64)
    in_order = np.sort(ids, axis=1)
    twice = (in_order[:, 1:] == in_order[:, :-1]) & (in_order[:, 1:] >= 0)
    if twice.any():
        row, rank = np.argwhere(twice)[0]
        # One label found twice would count as two hits.
        raise ValueError(f"{name} names label {in_order[row, rank]} twice in row {row}")
    return ids
