"""Encoding of the ``y`` and ``sample_weight`` arguments for dense losses: numbers, classes or labels, maybe unknown."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_array
from sklearn.utils.validation import check_consistent_length

from sparseleaf.data.checks import check_infinity, check_names, check_sparse, check_values
from sparseleaf.data.targets import ONE_CLASS_PER_ROW, Targets, encode_known, encode_targets, join_forms
from sparseleaf.objectives.targets import NO_CLASSES, NO_VALUES, DenseTargets, KnownValues

if TYPE_CHECKING:
    from sparseleaf._arrays import Array


@dataclass(frozen=True)
class KnownTargets:
    """Kind, names and counts of the targets.

    Attributes
    ----------
    kind : str
        Form of ``y``: see :mod:`sparseleaf.data.targets`.
    names : array or None
        Names of the outputs.
    counts : int64 array
        Number of rows with each label, or with a known value of each output.
    """

    kind: str
    names: Array | None
    counts: Array

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return len(self.counts)


def join_known(parts: list[KnownTargets]) -> KnownTargets:
    """Combine the targets of several partitions."""
    forms = [Targets(sp.csr_matrix((0, part.n_outputs)), part.names, _kind(part)) for part in parts]
    if parts[0].kind.startswith("regression"):
        for number, part in enumerate(parts):
            if (part.kind, part.n_outputs) != (parts[0].kind, parts[0].n_outputs):
                raise ValueError(
                    f"All parts of y must have {parts[0].n_outputs} outputs, as part 0."
                    f" Got {part.n_outputs} in part {number} instead."
                )
            if _listed(part.names) != _listed(parts[0].names):
                raise ValueError(
                    f"All parts of y must have equal column names. Part {number} differs from part 0."
                )
        known = KnownTargets(parts[0].kind, parts[0].names, np.sum([part.counts for part in parts], axis=0))
        if not known.counts.all():
            raise ValueError("Every output of y must have a value that is not NaN.")
        return known
    form = join_forms(forms)
    counts = np.zeros(form.n_labels, np.int64)
    for part in parts:
        counts[_places(part, form.names)] += part.counts
    return KnownTargets(form.kind, form.names, counts)


def with_labels(
    targets: DenseTargets, local: KnownTargets, known: KnownTargets, unknown: bool
) -> DenseTargets:
    """Targets of a partition, encoded with the classes or labels of all partitions."""
    values, classes = targets.values, targets.classes
    if local.n_outputs != known.n_outputs:
        places = _places(local, known.names)
        if len(classes):
            classes = np.where(classes >= 0, places[classes], -1).astype(np.int32)
        else:
            values = np.zeros((len(values), known.n_outputs), np.float32)
            values[:, places] = targets.values
    return DenseTargets(values, classes, targets.weights, known.n_outputs, unknown)


def _places(local: KnownTargets, names: Array | None) -> Array:
    """Indices of a partition's outputs among those of all partitions."""
    if local.names is None or names is None or len(local.names) == len(names):
        return np.arange(local.n_outputs)
    return np.searchsorted(names, local.names)


def _kind(known: KnownTargets) -> Any:
    return known.kind


def _listed(names: Array | None) -> list[Any] | None:
    return None if names is None else names.tolist()


def in_order(y: Any, names: Array | None) -> Any:
    """Reorder the columns of a DataFrame as in training."""
    if names is None or not hasattr(y, "columns"):
        return y
    columns = [str(name) for name in y.columns]
    if sorted(columns) != sorted(names.tolist()):
        raise ValueError(
            f"y must have the columns {names.tolist()!r:.80}, as in training. Got {columns!r:.80} instead."
        )
    return y.iloc[:, [columns.index(name) for name in names.tolist()]]


def as_numbers(y: Any, n_jobs: int = 1) -> Array:
    """Regression targets as a dense float array, NaN where unknown."""
    check_values(y, "y")
    if sp.issparse(y):
        y = check_sparse(y, "y").toarray()
    try:
        values: Array = check_array(
            y, dtype=(np.float64, np.float32), ensure_2d=False, ensure_all_finite=False, input_name="y"
        )
        check_infinity(values, "y", n_jobs)
    except ValueError as error:
        raise ValueError(f"y: {error}") from None
    return values


def encode_numbers(
    y: Any, n_rows: int, known: KnownTargets | None, n_jobs: int = 1
) -> tuple[KnownTargets, DenseTargets]:
    """Encode regression targets; ``known`` are those of training, for a validation set."""
    if known is not None:
        y = in_order(y, known.names)
    names = check_names(list(y.columns), "y", "column name") if hasattr(y, "columns") else None
    values = as_numbers(y, n_jobs)
    check_consistent_length(np.empty(n_rows), values)
    if values.ndim > 2:
        raise ValueError(
            f"y must have shape (n_rows,) or (n_rows, n_outputs). Got {values.ndim} dimensions instead."
        )
    column = values.ndim == 1
    with np.errstate(over="ignore"):
        values = np.ascontiguousarray(values[:, None] if column else values, np.float32)
    there = KnownValues.of(values, n_jobs)
    if not there.finite:
        raise ValueError("y has values that exceed the range of float32.")
    if known is not None and values.shape[1] != known.n_outputs:
        raise ValueError(
            f"y must have {known.n_outputs} outputs, as in training. Got {values.shape[1]} instead."
        )
    kind = "regression-column" if column else "regression"
    unknown = bool((there.counts < len(values)).any())
    targets = DenseTargets(values, NO_CLASSES, NO_VALUES, values.shape[1], unknown)
    return KnownTargets(kind, names, there.counts), targets


def encode_labels(
    y: Any, n_rows: int, known: KnownTargets | None, *, by_class: bool
) -> tuple[KnownTargets, DenseTargets]:
    """Encode classes or labels; ``by_class`` keeps one class per row as its index."""
    partly = partly_known(y, n_rows, None if known is None else known.names)
    if partly is not None:
        if known is not None and partly[0].n_outputs != known.n_outputs:
            raise ValueError(
                f"y must have {known.n_outputs} labels, as in training. Got {partly[0].n_outputs} instead."
            )
        return partly
    if known is None:
        targets = encode_targets(y, n_rows)
        matrix = targets.matrix
        if not matrix.shape[1]:
            raise ValueError("y must have at least one label. Got none in any row instead.")
        known = KnownTargets(
            targets.kind, targets.names, np.bincount(matrix.indices, minlength=matrix.shape[1])
        )
    else:
        kind: Any = known.kind
        blank = sp.csr_matrix((0, known.n_outputs), dtype=np.float32)
        matrix = encode_known(y, n_rows, Targets(blank, known.names, kind))
        if matrix.shape[1] > known.n_outputs:
            raise ValueError("y has a class or label that is not in the training set.")
    if known.kind in ONE_CLASS_PER_ROW and by_class:
        classes = matrix.indices.astype(np.int32)
        return known, DenseTargets(NO_VALUES, classes, NO_VALUES, known.n_outputs)
    values = matrix.toarray().astype(np.float32)
    return known, DenseTargets(values, NO_CLASSES, NO_VALUES, known.n_outputs)


def partly_known(
    y: Any, n_rows: int, trained: Array | None = None
) -> tuple[KnownTargets, DenseTargets] | None:
    """Encode a 0/1 matrix with NaN for unknown labels; None if ``y`` has another form.

    Columns of a DataFrame are reordered to ``trained``, the label names of training.
    """
    check_values(y, "y")
    values = y.to_numpy() if hasattr(y, "columns") and hasattr(y, "to_numpy") else y
    if not (isinstance(values, np.ndarray) and values.ndim == 2 and values.shape[1] > 1):
        return None
    if values.dtype.kind != "f" or not np.isnan(values).any():
        return None
    if values.shape[0] != n_rows:
        raise ValueError(f"y must have {n_rows} rows, as X. Got {values.shape[0]} instead.")
    if not np.isin(values[~np.isnan(values)], (0, 1)).all():
        raise ValueError("y must have only the values 0, 1 and NaN (unknown).")
    if trained is not None and hasattr(y, "columns"):
        y = in_order(y, trained)
        values = y.to_numpy()
    names = check_names(list(y.columns), "y") if hasattr(y, "columns") else None
    known = KnownTargets("multilabel-indicator", names, np.nansum(values, axis=0).astype(np.int64))
    values = np.ascontiguousarray(values, np.float32)
    return known, DenseTargets(values, NO_CLASSES, NO_VALUES, values.shape[1])


def weighted(targets: DenseTargets, sample_weight: Any) -> DenseTargets:
    """Add weights per row, or per (row, output) pair."""
    if sample_weight is None:
        return targets
    if isinstance(sample_weight, int | float):
        sample_weight = np.full(targets.n_rows, sample_weight)
    check_values(sample_weight, "sample_weight")
    weights = check_array(
        sample_weight, dtype=np.float32, ensure_2d=False, order="C", input_name="sample_weight"
    )
    shape = weights.shape
    weights = weights[:, None] if weights.ndim == 1 else weights
    if weights.shape not in ((targets.n_rows, 1), (targets.n_rows, targets.n_outputs)):
        raise ValueError(
            f"sample_weight must have shape ({targets.n_rows},) or ({targets.n_rows}, {targets.n_outputs})."
            f" Got {shape} instead."
        )
    if weights.min() < 0 or not weights.any():
        raise ValueError("sample_weight must be non-negative and not all zero.")
    return DenseTargets(targets.values, targets.classes, weights, targets.n_outputs)


def times_label_weights(targets: DenseTargets, labels: Array) -> DenseTargets:
    """Multiply the weights by ``labels``: of a row with one class, else of every pair whose label is true."""
    if len(targets.classes):
        known = targets.classes >= 0
        factors = np.where(known, labels[np.where(known, targets.classes, 0)], 1)[:, None]
    else:
        factors = np.where(targets.values == 1, labels, 1)
    weights = factors if not len(targets.weights) else targets.weights * factors
    return replace(targets, weights=np.ascontiguousarray(weights, np.float32))
