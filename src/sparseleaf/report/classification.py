"""Classification in a report: metrics by k, frequency groups, reliability, and the table of labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sparseleaf import metrics
from sparseleaf.data.targets import ONE_CLASS_PER_ROW, encode_extended, encode_labels
from sparseleaf.estimators.probabilities import as_matrix
from sparseleaf.report.labels import as_lists, confusions, label_counts, label_features
from sparseleaf.report.names import FeatureList, label_texts
from sparseleaf.report.rows import count

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.report.options import Options

KS = (1, 3, 5, 10)
DEPTH = 10
"""Number of ranked labels per row."""

CALIBRATED = 5
"""Number of labels per row of the reliability diagram."""

GROUPS = ("head", "torso", "tail")


@dataclass(frozen=True)
class Ranked:
    """Predictions of a classifier and the true labels.

    Attributes
    ----------
    truth : csr_matrix of 0 and 1, shape (n_rows, n_labels)
        Labels not seen in training are columns at the end.
    names : ndarray or None
        Names of the columns.
    counts : int array, shape (n_labels,)
        Training rows of every label.
    ids, scores : arrays, shape (n_rows, depth)
        Labels with the highest scores, best first; -1 for none.
    chosen : csr_matrix of 0 and 1
        Labels that ``predict`` returns.
    """

    truth: sp.csr_matrix
    names: Array | None
    counts: Array
    ids: Array
    scores: Array
    chosen: sp.csr_matrix

    @property
    def depth(self) -> int:
        """Number of ranked labels."""
        return int(self.ids.shape[1])

    @property
    def hits(self) -> Array:
        """Whether a ranked label is true, bool (n_rows, depth)."""
        flat = np.maximum(self.ids, 0)
        rows = np.arange(len(flat))[:, None]
        true = np.asarray(self.truth[np.broadcast_to(rows, flat.shape).ravel(), flat.ravel()]).reshape(
            flat.shape
        )
        hits: Array = (true > 0) & (self.ids >= 0)
        return hits

    @classmethod
    def of(cls, estimator: Any, X: Any, y: Any, decode: str | None) -> Ranked:
        """Predict the rows of labelled data."""
        model = estimator.model_
        targets = encode_extended(y, count(X), model.known_labels)
        truth = targets.matrix
        counts = np.zeros(truth.shape[1], np.int64)
        counts[: model.n_labels] = model.label_counts
        ids, scores = estimator._topk_ids(X, min(DEPTH, max(1, model.n_labels)), None)
        chosen = _chosen(estimator, X, decode)
        return cls(truth, targets.names, counts, ids, scores, _widened(chosen, truth.shape[1]))


def classification(
    estimator: Any, X: Any, ranked: Ranked, options: Options, features: FeatureList
) -> dict[str, Any]:
    """Parts of a report for a classifier."""
    model, truth = estimator.model_, ranked.truth
    propensity = metrics.propensities_from_counts(ranked.counts, model.n_train_rows)
    group = frequency_groups(ranked.counts)
    support = np.bincount(truth.indices, minlength=truth.shape[1])
    probabilities = _probabilities(estimator, X, truth.shape[1])
    missed, mistaken = confusions(truth, ranked.chosen)
    importances, note = _importances(estimator, support, options, features)
    return {
        "metrics": _metrics(ranked, propensity, probabilities),
        "curve": _curve(ranked),
        "groups": _groups(ranked, propensity, group),
        "reliability": None if probabilities is None else _reliability(truth, probabilities),
        "labels": {
            "names": label_texts(ranked.names, truth.shape[1], options.label_names),
            "train": ranked.counts.tolist(),
            **label_counts(truth, ranked.chosen),
            "group": group.tolist(),
            "features": importances,
            "missed": as_lists(missed),
            "mistaken": as_lists(mistaken),
            "note": note,
        },
    }


def frequency_groups(counts: Array) -> Array:
    """0 (head), 1 (torso) or 2 (tail) for every label.

    Labels are sorted by frequency in training; each group has about a third of all occurrences. Labels that do not
    occur in training are in the tail.
    """
    order = np.argsort(-counts, kind="stable")
    before = np.cumsum(counts[order]) - counts[order]
    group = np.empty(len(counts), np.int64)
    group[order] = np.minimum(3 * before // max(1, int(counts.sum())), 2)
    group[counts == 0] = 2
    return group


def _metrics(ranked: Ranked, propensity: Array, probabilities: sp.csr_matrix | None) -> dict[str, float]:
    truth, ids = ranked.truth, ranked.ids
    ks = [k for k in KS if k <= ranked.depth]
    values = dict(metrics.evaluate(truth, ids, propensity, ks))
    values |= {f"recall@{k}": metrics.recall_at_k(truth, ids, k) for k in ks}
    values |= {f"f1@{k}": metrics.f1_at_k(truth, ids, k) for k in ks}
    for average in ("micro", "macro"):
        values[f"precision_{average}"] = metrics.precision_score(truth, ranked.chosen, average)
        values[f"recall_{average}"] = metrics.recall_score(truth, ranked.chosen, average)
        values[f"f1_{average}"] = metrics.f1_score(truth, ranked.chosen, average)
    if probabilities is not None:
        values["ece"] = metrics.expected_calibration_error(truth, probabilities)
        values["brier"] = metrics.brier_score(truth, probabilities)
    return values


def _curve(ranked: Ranked) -> dict[str, list[float]]:
    """Metrics for every k up to the depth of the ranking."""
    functions = {
        "precision": metrics.precision_at_k,
        "ndcg": metrics.ndcg_at_k,
        "recall": metrics.recall_at_k,
    }
    return {
        name: [function(ranked.truth, ranked.ids, k) for k in range(1, ranked.depth + 1)]
        for name, function in functions.items()
    }


def _groups(ranked: Ranked, propensity: Array, group: Array) -> list[dict[str, Any]]:
    """Metrics of the labels of each group: other labels are neither true nor counted as hits."""
    ks = [k for k in KS[:3] if k <= ranked.depth]
    rows = []
    for number, name in enumerate(GROUPS):
        members = group == number
        truth = _restricted(ranked.truth, members)
        chosen = _restricted(ranked.chosen, members)
        trained = ranked.counts[members]
        row: dict[str, Any] = {
            "name": name,
            "labels": int(members.sum()),
            "least": int(trained.min(initial=trained.max(initial=0))),
            "most": int(trained.max(initial=0)),
            "true": int(truth.nnz),
            "f1": metrics.f1_score(truth, chosen, "micro"),
        }
        row |= {f"precision@{k}": metrics.precision_at_k(truth, ranked.ids, k) for k in ks}
        row |= {f"psp@{k}": metrics.psp_at_k(truth, ranked.ids, propensity, k) for k in ks}
        rows.append(row)
    return rows


def _restricted(matrix: sp.csr_matrix, members: Array) -> sp.csr_matrix:
    """A matrix with the entries of some columns only."""
    kept = members[matrix.indices]
    indptr = np.concatenate(([0], np.cumsum(kept)))[matrix.indptr]
    return sp.csr_matrix((matrix.data[kept], matrix.indices[kept], indptr), shape=matrix.shape)


def _reliability(truth: sp.csr_matrix, probabilities: sp.csr_matrix) -> dict[str, list[float]]:
    predicted, frequency, counts = metrics.reliability_curve(truth, probabilities)
    return {
        "predicted": predicted.tolist(),
        "frequency": frequency.tolist(),
        "counts": counts.tolist(),
    }


def _chosen(estimator: Any, X: Any, decode: str | None) -> sp.csr_matrix:
    """The labels that ``predict`` returns, as ones."""
    model = estimator.model_
    if model.target_kind in ONE_CLASS_PER_ROW:
        ids = encode_labels(np.asarray(estimator.predict(X)), model.label_names)
        return as_matrix(ids.reshape(-1, 1), np.ones((len(ids), 1), np.float32), model.n_labels)
    chosen = estimator._decoded(X, decode)
    ones = np.ones(len(chosen.indices), np.float32)
    return sp.csr_matrix((ones, chosen.indices, chosen.indptr), shape=chosen.shape)


def _probabilities(estimator: Any, X: Any, n_labels: int) -> sp.csr_matrix | None:
    """Probabilities of the best labels of every row; None if the model has none."""
    if not hasattr(estimator, "predict_proba"):
        return None
    k = min(CALIBRATED, estimator.model_.n_labels)
    probabilities = estimator.predict_proba(X, k)
    if not sp.issparse(probabilities):
        best = np.argsort(-probabilities, axis=1, kind="stable")[:, :k].astype(np.int32)
        probabilities = as_matrix(best, np.take_along_axis(probabilities, best, axis=1), n_labels)
    return _widened(probabilities, n_labels)


def _widened(matrix: sp.csr_matrix, n_labels: int) -> sp.csr_matrix:
    """With columns for labels not seen in training, which are never predicted."""
    return sp.csr_matrix((matrix.data, matrix.indices, matrix.indptr), shape=(matrix.shape[0], n_labels))


def _importances(
    estimator: Any, support: Array, options: Options, features: FeatureList
) -> tuple[dict[str, list[int]] | None, str]:
    """Discriminative features, and a note if some labels or all have none."""
    n_labels = estimator.model_.n_labels
    try:
        listed = label_features(estimator, support, options.n_importances, features)
    except ValueError as error:  # model files of version 1
        return None, str(error)
    if options.n_importances >= n_labels:
        return listed, ""
    return listed, f"Features of the {options.n_importances:,} labels with the most rows in the data."
