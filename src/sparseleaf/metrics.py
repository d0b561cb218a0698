"""Ranking metrics of extreme multi-label classification.

Input: the true labels as a sparse 0/1 matrix or as lists of label names, and for each row a ranking (label ids or
names, best first) or scores. All rows, with or without labels, are included in the mean. No array of size rows × labels
is allocated: true labels are looked up by binary search, a block of rows at a time.

Propensity-scored metrics are normalised as in the Extreme Classification Repository: the mean over rows is divided by
that of the best possible ranking.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sparseleaf import _named_rankings
from sparseleaf._label_checks import MatrixLike, SparseMatrix, as_array, check_labels, check_scores
from sparseleaf._named_rankings import LabelPropensities
from sparseleaf._set_metrics import (
    brier_score,
    expected_calibration_error,
    f1_score,
    precision_score,
    recall_score,
    reliability_curve,
)
from sparseleaf._spelling import FORMER, ByMetric, Measured, warn_of_name

__all__ = [
    "RankingScorer",
    "brier_score",
    "evaluate",
    "expected_calibration_error",
    "f1_at_k",
    "f1_score",
    "ndcg_at_k",
    "precision_at_k",
    "precision_score",
    "propensities",
    "propensities_from_counts",
    "psndcg_at_k",
    "psp_at_k",
    "recall_at_k",
    "recall_score",
    "reliability_curve",
    "scorers",
]

Propensities: TypeAlias = ArrayLike | Mapping[Any, float]

# Entries per block: small enough for sorting in cache, large enough to amortise the overhead of Python.
_BLOCK = 1 << 18


def precision_at_k(Y_true: MatrixLike, predicted: MatrixLike, k: int = 5) -> float:
    """Precision at k: fraction of the k best predictions that are true labels, averaged over rows.

    Parameters
    ----------
    Y_true : sparse matrix or array-like of 0 and 1, shape (n_rows, n_labels), or lists of label names
        True labels.
    predicted : integer array of shape (n_rows, >= k), matrix of shape (n_rows, n_labels), or lists of label names
        Predictions. *Integers*: label ids, best first, each at most once per row; -1 is padding. *Sparse matrix*:
        scores; the k highest stored entries of a row are its ranking. *Dense floats*: scores of all labels. Ties are
        broken by the lower label id. *Label names*, if Y_true has names: lists, best first; None is padding. The
        result of ``predict_topk``, labels and scores, is accepted too.
    k : int, default=5
        Number of predictions per row.

    Returns
    -------
    precision : float
        In [0, 1]. The divisor is ``k`` even if a row has fewer true labels; rows without labels score 0.

    Examples
    --------
    >>> from sparseleaf.metrics import precision_at_k
    >>> precision_at_k([[1, 0, 1], [0, 1, 0]], [[0, 1], [1, 2]], k=2)
    0.5
    >>> precision_at_k([["cat", "pet"], ["dog"]], [["cat", "dog"], ["dog", "pet"]], k=2)
    0.5
    """
    k = _check_k(k)
    return _precision(_rank(Y_true, predicted, k), k)


def recall_at_k(Y_true: MatrixLike, predicted: MatrixLike, k: int = 5) -> float:
    """Recall at k: fraction of the true labels that are among the k best predictions, averaged over rows.

    Rows without labels score 0 and are included in the mean, as in the other metrics.

    Parameters
    ----------
    Y_true, predicted, k
        As for `precision_at_k`.

    Returns
    -------
    recall : float
        In [0, 1].

    Examples
    --------
    >>> from sparseleaf.metrics import recall_at_k
    >>> recall_at_k([[1, 1, 0], [0, 0, 1]], [[0], [2]], k=1)
    0.75
    """
    k = _check_k(k)
    ranking = _rank(Y_true, predicted, k)
    n_hits = ranking.hits[:, :k].sum(axis=1)
    return float(np.mean(n_hits / np.maximum(ranking.n_true, 1)))


def f1_at_k(Y_true: MatrixLike, predicted: MatrixLike, k: int = 5) -> float:
    """F1 at k: harmonic mean of precision and recall of the k best predictions, averaged over rows.

    The F1 of a row is ``2 * hits / (predictions + true labels)``, with the number of predictions that the row has, at
    most k. It is scikit-learn's ``f1_score`` with ``average="samples"``. Rows without labels score 0.

    Parameters
    ----------
    Y_true, predicted, k
        As for `precision_at_k`.

    Returns
    -------
    f1 : float
        In [0, 1].

    Examples
    --------
    >>> from sparseleaf.metrics import f1_at_k
    >>> f1_at_k([["cat", "pet"], ["dog"]], [["cat", "pet"], ["cat"]], k=2)
    0.5
    """
    k = _check_k(k)
    ranking = _rank(Y_true, predicted, k)
    n_hits, n_predicted = ranking.hits[:, :k].sum(axis=1), (ranking.ids[:, :k] >= 0).sum(axis=1)
    return float(np.mean(2 * n_hits / np.maximum(n_predicted + ranking.n_true, 1)))


def ndcg_at_k(Y_true: MatrixLike, predicted: MatrixLike, k: int = 5) -> float:
    """Normalised discounted cumulative gain at k, averaged over rows.

    A true label at rank r has gain ``1 / log2(r + 1)``; the sum of a row is divided by that of a perfect ranking, whose
    first ``min(k, number of true labels)`` predictions are true.

    Parameters
    ----------
    Y_true, predicted, k
        As for `precision_at_k`.

    Returns
    -------
    ndcg : float
        In [0, 1]; rows without labels score 0.

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
    propensity: Propensities,
    k: int = 5,
) -> float:
    """Propensity-scored precision at k, which gives more weight to rare labels.

    A true label l has gain ``1 / propensity[l]``. The mean over rows is divided by that of the best possible ranking (a
    ratio of two means, not a mean of ratios).

    Parameters
    ----------
    Y_true, predicted, k
        As for `precision_at_k`.
    propensity : array-like of float, shape (n_labels,), or mapping from label names
        Label propensities in (0, 1], from `propensities` of the *training* labels.

    Returns
    -------
    score : float
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
    propensity: Propensities,
    k: int = 5,
) -> float:
    """Propensity-scored nDCG at k.

    A true label l at rank r has gain ``1 / (propensity[l] * log2(r + 1))``, and the sum of a row is divided by
    ``sum(1 / log2(r + 1) for r in 1 .. min(k, number of true labels))``. The mean over rows is divided by that of the
    best possible ranking.

    Parameters
    ----------
    Y_true, predicted, propensity, k
        As for `psp_at_k`.

    Returns
    -------
    score : float
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


def propensities(Y_train: MatrixLike, A: float = 0.55, B: float = 1.5) -> Any:
    """Label propensities: probability that a true label is observed, as a function of its frequency.

    ``p_l = 1 / (1 + C (N_l + B)^-A)`` with ``C = (ln N - 1) (B + 1)^A``, for N training rows, N_l of them with label l
    (Jain, Prabhu & Varma, KDD 2016). The usual constants are A=0.5, B=0.4 for WikiLSHTC-325K and Wikipedia-500K, A=0.6,
    B=2.6 for Amazon-670K and Amazon-3M, and the defaults for other datasets.

    Parameters
    ----------
    Y_train : sparse matrix or array-like of 0 and 1, shape (n_rows, n_labels), or lists of label names
        Labels of the training set.
    A : float, default=0.55
        Exponent, >= 0.
    B : float, default=1.5
        Smoothing of the counts, > 0.

    Returns
    -------
    propensity : ndarray of float64, shape (n_labels,), or dict
        In (0, 1]. For fewer than three training rows C would be negative; it is then set to 0. For lists of label
        names: a dict from names to propensities, in which labels that are not in the training set have that of a label
        without rows.

    Examples
    --------
    >>> from sparseleaf.metrics import propensities
    >>> rare_first = propensities([[0, 1], [0, 1], [1, 1], [0, 1]])
    >>> bool(rare_first[0] < rare_first[1])
    True
    >>> by_name = propensities([["pet"], ["cat", "pet"], ["pet"], ["pet"]])
    >>> by_name["bird"] < by_name["cat"] < by_name["pet"]
    True
    """
    if _named_rankings.is_named(Y_train):
        of_name, n_rows = _named_rankings.counts_by_name(Y_train)
        values = propensities_from_counts([*of_name.values(), 0], n_rows, A, B).tolist()
        return LabelPropensities(dict(zip(of_name, values, strict=False)), values[-1])
    Y = check_labels(Y_train, "Y_train")
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    return propensities_from_counts(counts, Y.shape[0], A, B)


def propensities_from_counts(
    label_counts: ArrayLike, n_rows: int, A: float = 0.55, B: float = 1.5
) -> NDArray[np.float64]:
    """Label propensities from label counts, which a model stores.

    Parameters
    ----------
    label_counts : array-like of int, shape (n_labels,)
        Number of training rows with each label, such as ``model_.label_counts``.
    n_rows : int
        Number of training rows, such as ``model_.n_train_rows``.
    A, B : float, default=0.55, 1.5
        As for `propensities`.

    Returns
    -------
    propensity : ndarray of float64, shape (n_labels,)
        In (0, 1].

    Examples
    --------
    >>> from sparseleaf.metrics import propensities_from_counts
    >>> propensities_from_counts([1, 10, 100], 1_000).round(2).tolist()
    [0.14, 0.28, 0.56]
    """
    for name, value, bound, valid in (("A", A, ">= 0", A >= 0), ("B", B, "> 0", B > 0)):
        if not (valid and np.isfinite(value)):
            raise ValueError(
                f"The {name!r} parameter must be a finite number {bound}. Got {value!r} instead."
            )
    count = as_array(label_counts, "label_counts").astype(np.float64)
    C = max(0.0, np.log(max(n_rows, 1)) - 1.0) * (B + 1.0) ** A
    return np.asarray(1.0 / (1.0 + C * (count + B) ** -A), dtype=np.float64)


def evaluate(
    Y_true: MatrixLike,
    labels: MatrixLike,
    propensity: Propensities | None = None,
    ks: Sequence[int] = (1, 3, 5),
) -> dict[str, float]:
    """Compute precision, nDCG and their propensity-scored variants for several k.

    Parameters
    ----------
    Y_true : sparse matrix or array-like of 0 and 1, shape (n_rows, n_labels), or lists of label names
        True labels.
    labels : integer array of shape (n_rows, >= max(ks)), matrix of shape (n_rows, n_labels), or lists of label names
        Predictions, as ``predicted`` of `precision_at_k`.
    propensity : array-like of float, shape (n_labels,), or mapping from label names, optional
        Label propensities, from `propensities`. Required for psp and psndcg.
    ks : sequence of int, default=(1, 3, 5)
        Values of k.

    Returns
    -------
    scores : dict of str to float
        ``precision@1 precision@3 precision@5 ndcg@1 … psp@1 … psndcg@1 …``, each in [0, 1].

    Examples
    --------
    >>> from sparseleaf.metrics import evaluate
    >>> scores = evaluate([[1, 0, 0, 0, 1], [0, 0, 1, 0, 0]], [[0, 2, 4, 1, 3], [1, 2, 0, 3, 4]])
    >>> scores["precision@1"], scores["precision@5"]
    (0.5, 0.3)
    """
    ks = [_check_k(k, "ks") for k in ks]
    if not ks:
        raise ValueError("The 'ks' parameter must not be empty.")
    ranking = _rank(Y_true, labels, max(ks), "labels")
    result = {f"precision@{k}": _precision(ranking, k) for k in ks}
    result |= {f"ndcg@{k}": _ndcg(ranking, k) for k in ks}
    if propensity is not None:
        gains = _weigh(ranking, propensity)
        result |= {f"psp@{k}": _psp(gains, k) for k in ks}
        result |= {f"psndcg@{k}": _psndcg(ranking, gains, k) for k in ks}
    return Measured(result, scale=100.0)


@dataclass(frozen=True)
class RankingScorer:
    """Scorer for scikit-learn's model selection (``GridSearchCV``, ``cross_val_score``).

    Predefined instances are in `scorers`: ``scoring=scorers["precision@3"]``.

    Parameters
    ----------
    metric : {"precision", "recall", "f1", "ndcg", "psp", "psndcg"}
        Metric. Propensities are those of the training set of the estimator.
    k : int
        Number of predictions per row.

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
        """Translate names of the previous release."""
        if self.metric in FORMER:
            warn_of_name(self.metric)
            object.__setattr__(self, "metric", FORMER[self.metric])

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        """Evaluate a fitted classifier of sparseleaf, or a pipeline that ends with one.

        Parameters
        ----------
        estimator : classifier or Pipeline
            Fitted estimator.
        X : {array-like, sparse matrix} of shape (n_rows, n_features)
            Features.
        y : sparse or dense 0/1 matrix, lists of label names, or one class per row
            True labels.

        Returns
        -------
        score : float
            In [0, 1]; higher is better.
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
        counts = np.zeros(truth.shape[1], np.int64)  # labels not seen in training come last
        counts[: model.n_labels] = model.label_counts
        propensity = propensities_from_counts(counts, model.n_train_rows)
        return _BY_PROPENSITY[self.metric](truth, ids, propensity, self.k)

    def __str__(self) -> str:
        return f"{self.metric}@{self.k}"


_PLAIN: dict[str, Callable[[MatrixLike, MatrixLike, int], float]] = {
    "precision": precision_at_k,
    "recall": recall_at_k,
    "f1": f1_at_k,
    "ndcg": ndcg_at_k,
}
_BY_PROPENSITY: dict[str, Callable[[MatrixLike, MatrixLike, Propensities, int], float]] = {
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
"""Scorers by name, such as ``scorers["ndcg@5"]``, for ``scoring`` in scikit-learn's model selection."""


# --- the metrics, given a ranking whose hits are known ------------------------------------------------------


@dataclass(frozen=True)
class _Ranking:
    """A validated ranking, its hits, and the number of true labels per row."""

    Y: SparseMatrix  # CSR (n, L), 0/1, columns sorted
    ids: NDArray[np.int64]  # (n, ranks), -1 = none
    hits: NDArray[np.bool_]  # (n, ranks)
    n_true: NDArray[np.int64]  # (n,)
    names: list[Any] | None = None  # of the labels, if they have names


@dataclass(frozen=True)
class _Gains:
    """Inverse propensities of the hits, and those of the best possible ranking."""

    actual: NDArray[np.float64]  # (n, ranks), 0 for a miss
    best: NDArray[np.float64]  # (n, ranks), 0 past the last true label


def _precision(ranking: _Ranking, k: int) -> float:
    return float(ranking.hits[:, :k].sum() / (len(ranking.hits) * k))


def _ndcg(ranking: _Ranking, k: int) -> float:
    # rounding must not exceed 1, as in _ratio
    return min(1.0, float(np.mean(_discounted(ranking.hits, ranking.n_true, k))))


def _psp(gains: _Gains, k: int) -> float:
    # the factors 1/k and 1/n of the two means cancel
    return _ratio(gains.actual[:, :k].sum(), gains.best[:, :k].sum())


def _psndcg(ranking: _Ranking, gains: _Gains, k: int) -> float:
    return _ratio(
        _discounted(gains.actual, ranking.n_true, k).sum(), _discounted(gains.best, ranking.n_true, k).sum()
    )


def _discounted(
    gains: NDArray[np.float64] | NDArray[np.bool_], n_true: NDArray[np.int64], k: int
) -> NDArray[np.float64]:
    """Discounted sum of the gains of each row, relative to that of ``min(k, n_true)`` gains of 1; 0 without labels."""
    k = min(k, gains.shape[1])  # a ranking by scores has at most n_labels entries
    discount = 1.0 / np.log2(np.arange(2, k + 2))
    # rows without labels have no gains: any divisor gives 0
    ideal = np.cumsum(discount)[np.clip(n_true, 1, k) - 1]
    return np.asarray(gains[:, :k] @ discount / ideal, dtype=np.float64)


def _ratio(actual: float, best: float) -> float:
    # sums of the same terms in another order may differ in the last bit
    return min(1.0, float(actual / best)) if best > 0 else 0.0


def _weigh(ranking: _Ranking, propensity: Propensities) -> _Gains:
    n, n_labels = ranking.Y.shape
    width = ranking.ids.shape[1]
    if isinstance(propensity, Mapping) != (ranking.names is not None):
        kind = "an array" if ranking.names is None else "a mapping from label names"
        raise TypeError(
            f"The 'propensity' parameter must be {kind}, from propensities of the training labels in the form of"
            f" Y_true. Got {type(propensity).__name__} instead."
        )
    if isinstance(propensity, Mapping):
        p = _named_rankings.by_name(propensity, ranking.names or ())
    else:
        p = as_array(propensity, "propensity")
    if p.shape != (n_labels,):
        raise ValueError(f"The 'propensity' parameter must have shape ({n_labels},). Got {p.shape} instead.")
    # values above 1 are probably inverse propensities
    if p.dtype.kind not in "biuf" or not np.all((p > 0) & (p <= 1)):
        raise ValueError(
            "The 'propensity' parameter must be in the range (0, 1]. Pass propensities, not their inverse."
        )
    p = p.astype(np.float64)
    actual = np.where(ranking.hits, 1.0 / p[ranking.ids], 0.0)

    # Labels by decreasing gain. Sorting integer keys (row, place in this order) is several times faster than sorting
    # pairs, and the best labels of each row come first.
    order = np.argsort(p, kind="stable")
    place = np.empty(n_labels, dtype=np.int64)
    place[order] = np.arange(n_labels)
    gain_at = 1.0 / p[order]
    best = np.zeros((n, width))
    for start, stop, rows, cols, first, length in _blocks(ranking.Y, width):
        keys = np.sort(rows * n_labels + place[cols])
        for rank in range(min(width, int(length.max()))):
            has = np.flatnonzero(length > rank)
            best[start:stop][has, rank] = gain_at[keys[first[has] + rank] % n_labels]
    return _Gains(actual, best)


# --- conversion of predictions to a ranking ------------------------------------------------------------------


def _rank(Y_true: MatrixLike, predicted: MatrixLike, k: int, name: str = "predicted") -> _Ranking:
    predicted, names = _named_rankings.first_of_topk(predicted), None
    if _named_rankings.is_named(Y_true):
        Y_true, predicted, names = _named_rankings.encode(Y_true, predicted, k, name)
    Y = check_labels(Y_true, "Y_true")
    width = min(k, Y.shape[1])  # a ranking by scores has at most n_labels entries
    if sp.issparse(predicted):
        ids = _top_of_sparse(check_scores(predicted, name, Y.shape), width)
    else:
        array = as_array(predicted, name)
        if array.ndim != 2:
            raise ValueError(
                f"The {name!r} parameter must be 2-dimensional (rows, ranks or labels). Got shape {array.shape}"
                " instead."
            )
        if array.dtype.kind in "iu":
            ids = _check_ids(array, name, Y.shape, k)
        elif array.dtype.kind == "f":
            ids = _top_of_dense(check_scores(array, name, Y.shape), width)
        else:
            raise TypeError(
                f"The {name!r} parameter must have integer label ids or float scores. Got dtype {array.dtype}"
                " instead; label names require lists of names as Y_true."
            )
    return _Ranking(Y, ids, _find(Y, ids), np.diff(Y.indptr).astype(np.int64), names)


def _find(Y: SparseMatrix, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each prediction is a true label, shape of ``ids``."""
    n_labels = Y.shape[1]
    hits = np.zeros(ids.shape, dtype=np.bool_)
    for start, stop, rows, cols, _, _ in _blocks(Y, ids.shape[1]):
        if not len(cols):
            continue
        true_keys = rows * n_labels + cols  # ascending, since CSR is sorted by row and column
        some = ids[start:stop]
        keys = np.arange(stop - start)[:, None] * n_labels + some
        at = np.minimum(np.searchsorted(true_keys, keys), len(true_keys) - 1)
        # padding (-1) would match the last label of the previous row
        hits[start:stop] = (true_keys[at] == keys) & (some >= 0)
    return hits


def _top_of_sparse(scores: SparseMatrix, k: int) -> NDArray[np.int64]:
    """Labels of the k highest stored entries of each row, best first, (n, k) padded with -1."""
    ids = np.full((scores.shape[0], k), -1, dtype=np.int64)
    for start, stop, rows, cols, first, length in _blocks(scores, k):
        value = scores.data[scores.indptr[start] : scores.indptr[stop]]
        # lexsort is stable and columns are sorted: ties are in order of label id
        order = np.lexsort((-value, rows))
        for rank in range(min(k, int(length.max()))):
            has = np.flatnonzero(length > rank)
            ids[start:stop][has, rank] = cols[order[first[has] + rank]]
    return ids


def _top_of_dense(scores: NDArray[np.floating[Any]], k: int) -> NDArray[np.int64]:
    """Like `_top_of_sparse`, with scores of all labels."""
    n, n_labels = scores.shape
    ids = np.full((n, k), -1, dtype=np.int64)
    step = max(1, _BLOCK // n_labels)
    for start in range(0, n, step):
        some = scores[start : start + step]
        # only values up to the k-th highest are sorted; _top_of_sparse breaks ties
        worst = np.partition(some, n_labels - k, axis=1)[:, n_labels - k, None]
        row, col = np.nonzero(some >= worst)
        indptr = np.searchsorted(row, np.arange(len(some) + 1))
        candidates = sp.csr_array((some[row, col], col, indptr), shape=some.shape)
        ids[start : start + step] = _top_of_sparse(candidates, k)
    return ids


def _blocks(
    M: SparseMatrix, per_row: int
) -> Iterator[tuple[int, int, NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]:
    """Split CSR rows into blocks of bounded work: stored entries plus ``per_row`` numbers per row.

    Yields ``start, stop`` (rows), ``rows, cols`` of the entries (rows relative to ``start``), and the first entry
    (``first``) and the number of entries (``length``) of each row.
    """
    n = M.shape[0]
    work = M.indptr.astype(np.int64) + np.arange(n + 1) * per_row
    borders = np.searchsorted(work, np.arange(_BLOCK, int(work[-1]), _BLOCK))
    edges = np.unique(np.concatenate(([0], borders, [n]))).tolist()
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
        raise ValueError(f"The {name!r} parameter must be an int >= 1. Got {k!r} instead.")
    return depth


def _check_ids(ids: NDArray[Any], name: str, shape: tuple[int, int], k: int) -> NDArray[np.int64]:
    n, n_labels = shape
    if len(ids) != n:
        raise ValueError(f"The {name!r} parameter must have {n} rows, as Y_true. Got {len(ids)} instead.")
    if ids.shape[1] < k:
        raise ValueError(
            f"The {name!r} parameter must have at least k={k} label ids per row. Got {ids.shape[1]} instead."
        )
    ids = ids[:, :k]
    if ids.max() >= n_labels or ids.min() < -1:
        bad = ids[(ids >= n_labels) | (ids < -1)].flat[0]
        raise ValueError(
            f"The {name!r} parameter must have label ids in the range [0, {n_labels}), or -1 for none. Got {bad}"
            " instead."
        )
    ids = ids.astype(np.int64)
    in_order = np.sort(ids, axis=1)
    twice = (in_order[:, 1:] == in_order[:, :-1]) & (in_order[:, 1:] >= 0)
    if twice.any():
        row, rank = np.argwhere(twice)[0]
        # a duplicate would count as two hits
        raise ValueError(
            f"The {name!r} parameter must have distinct label ids per row. Got {in_order[row, rank]} twice in row"
            f" {row}."
        )
    return ids
