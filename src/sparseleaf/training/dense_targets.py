"""Targets of dense losses as a user has them: numbers, classes, labels, with what is unknown, and their weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_array
from sklearn.utils.validation import check_consistent_length

from sparseleaf.data.checks import check_names, check_sparse, check_values
from sparseleaf.data.targets import ONE_CLASS_A_ROW, Targets, encode_known, encode_targets, join_forms
from sparseleaf.objectives.targets import NO_CLASSES, NO_VALUES, DenseTargets

if TYPE_CHECKING:
    from sparseleaf._arrays import Array


@dataclass(frozen=True)
class KnownTargets:
    """What training knows of its targets.

    Attributes
    ----------
    kind : str
        How they were given: see :mod:`sparseleaf.data.targets`.
    names : array or None
        What outputs are called.
    counts : int64 array
        Rows of every label, or rows in which an output is known.
    """

    kind: str
    names: Array | None
    counts: Array

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return len(self.counts)


def join_known(parts: list[KnownTargets]) -> KnownTargets:
    """What is known of targets that were read in parts."""
    forms = [Targets(sp.csr_matrix((0, part.n_outputs)), part.names, _kind(part)) for part in parts]
    if parts[0].kind.startswith("regression"):
        for number, part in enumerate(parts):
            if (part.kind, part.n_outputs) != (parts[0].kind, parts[0].n_outputs):
                raise ValueError(
                    f"y: found {part.n_outputs} outputs in part {number}; wanted {parts[0].n_outputs}, as in part 0."
                )
            if _listed(part.names) != _listed(parts[0].names):
                raise ValueError(f"y: found other column names in part {number} than in part 0.")
        known = KnownTargets(parts[0].kind, parts[0].names, np.sum([part.counts for part in parts], axis=0))
        if not known.counts.all():
            raise ValueError("y: found an output that is NaN in every row; wanted at least one number.")
        return known
    form = join_forms(forms)
    counts = np.zeros(form.n_labels, np.int64)
    for part in parts:
        counts[_places(part, form.names)] += part.counts
    return KnownTargets(form.kind, form.names, counts)


def with_labels(targets: DenseTargets, own: KnownTargets, known: KnownTargets, unknown: bool) -> DenseTargets:
    """Targets of a part with the classes or labels of all parts."""
    values, classes = targets.values, targets.classes
    if own.n_outputs != known.n_outputs:
        places = _places(own, known.names)
        if len(classes):
            classes = np.where(classes >= 0, places[classes], -1).astype(np.int32)
        else:
            values = np.zeros((len(values), known.n_outputs), np.float32)
            values[:, places] = targets.values
    return DenseTargets(values, classes, targets.weights, known.n_outputs, unknown)


def _places(own: KnownTargets, names: Array | None) -> Array:
    """Where a part's outputs are among those of all parts."""
    if own.names is None or names is None or len(own.names) == len(names):
        return np.arange(own.n_outputs)
    return np.searchsorted(names, own.names)


def _kind(known: KnownTargets) -> Any:
    return known.kind


def _listed(names: Array | None) -> list[Any] | None:
    return None if names is None else names.tolist()


def in_order(y: Any, names: Array | None) -> Any:
    """Targets with their columns in the order of training, where both have names."""
    if names is None or not hasattr(y, "columns"):
        return y
    found = [str(name) for name in y.columns]
    if sorted(found) != sorted(names.tolist()):
        raise ValueError(
            f"y: found the columns {found!r:.80}; wanted {names.tolist()!r:.80}, as in training."
        )
    return y.iloc[:, [found.index(name) for name in names.tolist()]]


def as_numbers(y: Any) -> Array:
    """Numbers to predict as a dense array of float64 or float32, NaN where they are unknown."""
    check_values(y, "y")
    if sp.issparse(y):
        y = check_sparse(y, "y").toarray()
    try:
        values: Array = check_array(
            y, dtype=(np.float64, np.float32), ensure_2d=False, ensure_all_finite="allow-nan", input_name="y"
        )
    except ValueError as error:
        raise ValueError(f"y: {error}") from None
    return values


def encode_numbers(y: Any, n_rows: int, known: KnownTargets | None) -> tuple[KnownTargets, DenseTargets]:
    """Numbers to predict; ``known`` are those of training, which others must fit."""
    if known is not None:
        y = in_order(y, known.names)
    names = check_names(list(y.columns), "y", "column name") if hasattr(y, "columns") else None
    values = as_numbers(y)
    check_consistent_length(np.empty(n_rows), values)
    if values.ndim > 2:
        raise ValueError(f"y: found {values.ndim} dimensions; wanted (n_rows,) or (n_rows, n_outputs).")
    column = values.ndim == 1
    with np.errstate(over="ignore"):
        values = np.ascontiguousarray(values[:, None] if column else values, np.float32)
    if np.isinf(values).any():
        raise ValueError("y: found a number beyond float32; wanted smaller ones.")
    if known is not None and values.shape[1] != known.n_outputs:
        raise ValueError(f"y: found {values.shape[1]} outputs; wanted {known.n_outputs}, as in training.")
    counts = (~np.isnan(values)).sum(axis=0)
    kind = "regression-column" if column else "regression"
    found = KnownTargets(kind, names, counts)
    return found, DenseTargets(values, NO_CLASSES, NO_VALUES, values.shape[1])


def encode_labels(
    y: Any, n_rows: int, known: KnownTargets | None, *, by_class: bool
) -> tuple[KnownTargets, DenseTargets]:
    """Classes or labels to predict; ``by_class`` keeps one class a row as its number."""
    partly = partly_known(y, n_rows, None if known is None else known.names)
    if partly is not None:
        if known is not None and partly[0].n_outputs != known.n_outputs:
            raise ValueError(
                f"y: found {partly[0].n_outputs} labels; wanted {known.n_outputs}, as in training."
            )
        return partly
    if known is None:
        targets = encode_targets(y, n_rows)
        matrix = targets.matrix
        if not matrix.shape[1]:
            raise ValueError("y: found no label in any row; wanted at least one.")
        known = KnownTargets(
            targets.kind, targets.names, np.bincount(matrix.indices, minlength=matrix.shape[1])
        )
    else:
        kind: Any = known.kind
        blank = sp.csr_matrix((0, known.n_outputs), dtype=np.float32)
        matrix = encode_known(y, n_rows, Targets(blank, known.names, kind))
        if matrix.shape[1] > known.n_outputs:
            raise ValueError("y: found a class or label that training did not have.")
    if known.kind in ONE_CLASS_A_ROW and by_class:
        classes = matrix.indices.astype(np.int32)
        return known, DenseTargets(NO_VALUES, classes, NO_VALUES, known.n_outputs)
    values = matrix.toarray().astype(np.float32)
    return known, DenseTargets(values, NO_CLASSES, NO_VALUES, known.n_outputs)


def partly_known(
    y: Any, n_rows: int, trained: Array | None = None
) -> tuple[KnownTargets, DenseTargets] | None:
    """A 0/1 matrix in which NaN marks what is unknown; None where y is something else.

    Columns of a DataFrame are brought into the order of ``trained``, the label names of training.
    """
    check_values(y, "y")
    values = y.to_numpy() if hasattr(y, "columns") and hasattr(y, "to_numpy") else y
    if not (isinstance(values, np.ndarray) and values.ndim == 2 and values.shape[1] > 1):
        return None
    if values.dtype.kind != "f" or not np.isnan(values).any():
        return None
    if values.shape[0] != n_rows:
        raise ValueError(f"y: found {values.shape[0]} rows, wanted {n_rows}, one for each row of X.")
    if not np.isin(values[~np.isnan(values)], (0, 1)).all():
        raise ValueError("y: found numbers besides 0, 1 and NaN (unknown); wanted only these.")
    if trained is not None and hasattr(y, "columns"):
        y = in_order(y, trained)
        values = y.to_numpy()
    names = check_names(list(y.columns), "y") if hasattr(y, "columns") else None
    known = KnownTargets("multilabel-indicator", names, np.nansum(values, axis=0).astype(np.int64))
    values = np.ascontiguousarray(values, np.float32)
    return known, DenseTargets(values, NO_CLASSES, NO_VALUES, values.shape[1])


def weighted(targets: DenseTargets, sample_weight: Any) -> DenseTargets:
    """The targets with weights of rows, or of (row, output) pairs."""
    if sample_weight is None:
        return targets
    if isinstance(sample_weight, int | float):
        sample_weight = np.full(targets.n_rows, sample_weight)
    check_values(sample_weight, "sample_weight")
    weights = check_array(
        sample_weight, dtype=np.float32, ensure_2d=False, order="C", input_name="sample_weight"
    )
    given = weights.shape
    weights = weights[:, None] if weights.ndim == 1 else weights
    if weights.shape not in ((targets.n_rows, 1), (targets.n_rows, targets.n_outputs)):
        raise ValueError(
            f"sample_weight: found shape {given}; wanted ({targets.n_rows},) or"
            f" ({targets.n_rows}, {targets.n_outputs})."
        )
    if weights.min() < 0 or not weights.any():
        raise ValueError("sample_weight: wanted numbers of 0 or more, not all zero.")
    return DenseTargets(targets.values, targets.classes, weights, targets.n_outputs)
