"""Drift: how well a model fits new rows before it is updated with them, and whether to retrain instead.

The model is evaluated on the new rows first (prequential evaluation, test then train). Its precision is compared with
that on the validation rows of training, or on the rows of the first update if training had none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sparseleaf._arrays import hash_rows, smallest_hashes
from sparseleaf.model.candidates import topk_of, true_candidates
from sparseleaf.model.source import ModelFileError

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.model.model import Model
    from sparseleaf.model.update import NewRows

RANKS = (1, 3, 5)

MAX_ROWS = 2000
"""Maximum number of new rows to evaluate, a random sample."""

MAX_LOSS = 0.03
"""Loss of precision@1, if it exceeds two standard errors, from which to retrain."""

MAX_CHANGE = 0.1
"""Relative change of a metric to the worse, from which to retrain."""

MAX_UNKNOWN = 0.1
"""Fraction of unknown features from which to retrain."""

MAX_GROWTH = 1.0
"""Rows added since training, relative to the training rows, from which to retrain."""


@dataclass(frozen=True)
class Drift:
    """Fit of a model to new rows, before its update.

    Attributes
    ----------
    n_rows : int
        Number of new rows.
    n_new_labels : int
        Number of labels without earlier rows.
    new_label_rate : float
        Fraction of the new rows' label occurrences that are of these labels.
    unknown_features : float
        Fraction of the new rows' non-zero feature values whose feature is zero in all earlier rows; for texts, words
        that are not in the vocabulary count as such.
    n_evaluated : int
        Number of new rows with labels that the model was evaluated on, at most 2,000.
    precision : tuple of float
        precision@1, @3 and @5 on these rows, before the update.
    n_expected : int
        Number of rows that ``expected`` was measured on; 0 if it is unknown.
    expected : tuple of float
        precision@1, @3 and @5 on the validation rows of training; without these, on the rows of the first update.
    growth : float
        Rows of all updates, relative to the training rows.
    metric : str
        precision@1, or the ``eval_metric`` of a regressor or ranker, for which ``precision`` is 0.
    value, expected_value : float
        The metric on the new rows before the update, and the expected value: the last one of ``history_``, or that of
        the first update. NaN if unknown.
    higher_is_better : bool
        Whether a higher value of the metric is better.
    expected_unknown : float
        Expected ``unknown_features`` of texts that are like those of training: even these have some new words.

    Examples
    --------
    >>> from sparseleaf import SketchForestClassifier
    >>> from sparseleaf.data import make_xc
    >>> X, Y = make_xc(500, 100, 50, labels_per_row=3)
    >>> clf = SketchForestClassifier(n_trees=5).fit(X[:400], Y[:400])
    >>> drift = clf.update(X[400:], Y[400:]).drift_
    >>> drift.n_rows, drift.growth
    (100, 0.25)
    """

    n_rows: int
    n_new_labels: int
    new_label_rate: float
    unknown_features: float
    n_evaluated: int
    precision: tuple[float, float, float]
    n_expected: int
    expected: tuple[float, float, float]
    growth: float
    metric: str = "precision@1"
    value: float = math.nan
    expected_value: float = math.nan
    higher_is_better: bool = True
    expected_unknown: float = 0.0

    @property
    def loss(self) -> float:
        """Expected minus measured precision@1; 0 if either is unknown."""
        known = self.n_evaluated and self.n_expected
        return self.expected[0] - self.precision[0] if known else 0.0

    @property
    def reasons(self) -> list[str]:
        """Reasons to retrain the model; empty if there are none."""
        reasons = []
        if self.loss > MAX_LOSS and self.loss > 2 * self._error():
            reasons.append(
                f"precision@1 fell from {100 * self.expected[0]:.1f} to {100 * self.precision[0]:.1f} %"
            )
        change = abs(self.value - self.expected_value)
        if self.metric != "precision@1" and self.worse and change > MAX_CHANGE * abs(self.expected_value):
            reasons.append(f"{self.metric} changed from {self.expected_value:.4g} to {self.value:.4g}")
        if self.unknown_features > max(MAX_UNKNOWN, 2 * self.expected_unknown):
            reasons.append(
                f"{100 * self.unknown_features:.0f} % of the feature values are of unknown features"
            )
        if self.growth > MAX_GROWTH:
            reasons.append(f"updates have {self.growth:.1f} times the rows of training")
        return reasons

    @property
    def worse(self) -> bool:
        """Whether the metric is worse than expected; False if either is unknown."""
        if self.higher_is_better:
            return self.value < self.expected_value
        return self.value > self.expected_value

    def as_dict(self) -> dict[str, Any]:
        """JSON values; null for NaN."""
        values = {name: list(one) if isinstance(one, tuple) else one for name, one in asdict(self).items()}
        return {name: None if one != one else one for name, one in values.items()}

    def _error(self) -> float:
        """Standard error of the loss."""
        pairs = ((self.precision[0], self.n_evaluated), (self.expected[0], self.n_expected))
        return float(np.sqrt(sum(p * (1 - p) / n for p, n in pairs if n)))


def measure_drift(new: NewRows) -> Drift:
    """Evaluate the model on new rows, before the update."""
    model, Y = new.before, new.Y
    added = (new.old_counts == 0) & (new.counts > 0)
    labelled = np.flatnonzero(np.diff(Y.indptr))
    if len(labelled) > MAX_ROWS:
        labelled = labelled[smallest_hashes(hash_rows(len(labelled), new.seed, 11), MAX_ROWS)]
    precision = (0.0, 0.0, 0.0)
    if len(labelled):
        best, _ = model.topk(new.X[labelled], max(RANKS), None, new.n_jobs)
        precision = precision_of(best, Y[labelled])
    n_expected, expected = expected_precision(model)
    return Drift(
        n_rows=new.n_rows,
        n_new_labels=int(added.sum()),
        new_label_rate=float(new.counts[added].sum() / max(1, Y.nnz)),
        unknown_features=_unknown_features(new),
        n_evaluated=len(labelled),
        precision=precision,
        n_expected=n_expected,
        expected=expected,
        growth=_growth(new),
        value=precision[0] if len(labelled) else math.nan,
        expected_value=expected[0] if n_expected else math.nan,
        expected_unknown=new.unknown_words[1],
    )


def measure_metric_drift(
    drift: Drift, model: Model, validated: float | None, metric: str, value: float, higher: bool
) -> Drift:
    """The drift of a regressor or ranker, by its metric on new rows.

    Expected is the metric on the validation set, ``validated``, or without one that of the first update.
    """
    values = [record["value"] for record in model.updates if record.get("metric") == metric]
    records = [one for one in values if one is not None]
    expected = validated if validated is not None else records[0] if records else math.nan
    nothing = (0.0, 0.0, 0.0)
    return replace(
        drift,
        n_new_labels=0,
        new_label_rate=0.0,
        n_evaluated=drift.n_rows,
        precision=nothing,
        n_expected=0,
        expected=nothing,
        metric=metric,
        value=float(value),
        expected_value=float(expected),
        higher_is_better=higher,
    )


def precision_of(best: Array, Y: sp.csr_matrix) -> tuple[float, float, float]:
    """precision@1, @3 and @5 of the best labels of rows, -1 for none."""
    starts = np.arange(len(best) + 1, dtype=np.int64) * best.shape[1]
    hits = true_candidates(starts, best.ravel(), Y).reshape(best.shape) & (best >= 0)
    first, third, fifth = (float(hits[:, :k].mean()) for k in RANKS)
    return first, third, fifth


def validation_record(scores: sp.csr_matrix, Y: sp.csr_matrix, n_jobs: int) -> dict[str, Any] | None:
    """Precision on validation rows, from their scores; only labelled rows count. None if there are none."""
    labelled = np.flatnonzero(np.diff(Y.indptr))
    if not len(labelled):
        return None
    part = scores if len(labelled) == scores.shape[0] else scores[labelled]
    best, _ = topk_of(part.indptr, part.indices, part.data, max(RANKS), n_jobs)
    return {"n_evaluated": len(labelled), "precision": list(precision_of(best, Y[labelled]))}


def expected_precision(model: Model) -> tuple[int, tuple[float, float, float]]:
    """Number of rows and precision at training, or of the first update."""
    record = model.validation or (model.updates[0] if model.updates else None)
    if record is None:
        return 0, (0.0, 0.0, 0.0)
    first, third, fifth = record["precision"]
    return record["n_evaluated"], (first, third, fifth)


def _unknown_features(new: NewRows) -> float:
    """Fraction of the non-zero feature values, and words that are no features, whose feature or word is unknown.

    0 if the model does not know its features.
    """
    empty, unknown = new.before.empty, 0.0
    if empty is not None:
        X = sp.csr_matrix(new.X)
        used = X.data != 0
        unknown = float((~empty.known[X.indices[used]]).sum() / max(1, used.sum()))
    return 1 - (1 - unknown) * (1 - new.unknown_words[0])


def _growth(new: NewRows) -> float:
    model = new.before
    added = sum(record["n_rows"] for record in model.updates)
    trained = model.updates[0]["n_before"] if model.updates else model.n_train_rows
    return float((added + new.n_rows) / max(1, trained))


# --- records in the header of a model file


def record_of(drift: Drift, model: Model) -> dict[str, Any]:
    """The record of an update of this model."""
    kept = ("n_rows", "n_new_labels", "n_evaluated", "precision", "unknown_features", "metric", "value")
    values = drift.as_dict()
    return {name: values[name] for name in kept} | {"n_before": model.n_train_rows}


def check_validation(record: object) -> dict[str, Any] | None:
    """The precision on validation rows from an untrusted header."""
    if record is None:
        return None
    return _checked(record, "validation", ("n_evaluated",), ())


def check_updates(records: object) -> list[dict[str, Any]]:
    """The records of updates from an untrusted header."""
    if not isinstance(records, list):
        raise ModelFileError("metadata 'updates' must be a list of objects")
    whole = ("n_rows", "n_new_labels", "n_evaluated", "n_before")
    return [_checked(record, "updates", whole, ("unknown_features",)) for record in records]


def _checked(record: object, key: str, whole: tuple[str, ...], fractions: tuple[str, ...]) -> dict[str, Any]:
    def fraction(value: object) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1

    def count(value: object) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63

    if not isinstance(record, Mapping):
        raise ModelFileError(f"metadata {key!r} must be an object")
    precision = record.get("precision")
    valid = isinstance(precision, list) and len(precision) == len(RANKS) and all(map(fraction, precision))
    valid = valid and all(count(record.get(name)) for name in whole)
    if not valid or not all(fraction(record.get(name)) for name in fractions):
        names = ", ".join((*whole, "precision", *fractions))
        raise ModelFileError(f"metadata {key!r} must have valid values of {names}")
    metric, value = record.get("metric", ""), record.get("value")
    if not isinstance(metric, str) or not (value is None or isinstance(value, float)):
        raise ModelFileError(f"metadata {key!r} must have a name as metric and a number as value")
    return dict(record)
