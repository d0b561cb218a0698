"""The table of labels: support, counts for precision and recall, discriminative features, confusions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sparseleaf._arrays import largest_entries

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.report.names import FeatureList

CONFUSIONS = 5
"""Number of confused labels per label."""

FEATURES = 6
"""Number of features per label."""

BLOCK_LABELS, BLOCK_CONFUSIONS = 256, 8192
"""Labels per block of importances and of confusions, which bounds memory."""


def label_counts(truth: sp.csr_matrix, chosen: sp.csr_matrix) -> dict[str, list[int]]:
    """Rows of every label in which it is true, predicted, and both."""
    both = truth.multiply(chosen).tocsr()
    columns = {"true": truth, "predicted": chosen, "hits": both}
    return {
        name: np.bincount(matrix.indices, minlength=truth.shape[1]).tolist()
        for name, matrix in columns.items()
    }


def confusions(truth: sp.csr_matrix, chosen: sp.csr_matrix) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Most frequent confusions of every label, as CSR matrices of counts (n_labels, n_labels).

    A row in which label a is true and not predicted, and b is predicted and not true, confuses a with b. The first
    matrix has, for each a, the most frequent b; the second has, for each b, the most frequent a.
    """
    both = truth.multiply(chosen)
    missed, wrong = _positive(truth - both), _positive(chosen - both)
    return _most_frequent(missed, wrong), _most_frequent(wrong, missed)


def label_features(
    estimator: Any, support: Array, n_importances: int, features: FeatureList
) -> dict[str, list[int]]:
    """Discriminative features of the labels with the largest support; the other labels have none.

    The result is a CSR matrix of importances in units of 0.001, negative if a feature speaks against the label.
    """
    model = estimator.model_
    order = np.argsort(-support[: model.n_labels], kind="stable")[:n_importances]
    labels = np.sort(order)
    names = np.arange(model.n_labels) if model.label_names is None else model.label_names
    sizes = np.zeros(len(support), np.int64)
    ids: list[int] = []
    weights: list[int] = []
    for begin in range(0, len(labels), BLOCK_LABELS):
        some = labels[begin : begin + BLOCK_LABELS]
        for label, (columns, values) in zip(
            some.tolist(),
            by_size(estimator.label_importances(names[some].tolist(), max_features=FEATURES)),
            strict=True,
        ):
            sizes[label] = len(columns)
            ids += features.places(columns)
            weights += np.rint(1000 * values).astype(np.int64).tolist()
    return {"offsets": np.concatenate(([0], np.cumsum(sizes))).tolist(), "ids": ids, "weights": weights}


def by_size(matrix: sp.csr_matrix) -> Iterator[tuple[Array, Array]]:
    """Columns and values of every row, by decreasing absolute value."""
    for row in range(matrix.shape[0]):
        entries = slice(matrix.indptr[row], matrix.indptr[row + 1])
        order = np.argsort(-np.abs(matrix.data[entries]), kind="stable")
        yield matrix.indices[entries][order], matrix.data[entries][order]


def as_lists(matrix: sp.csr_matrix) -> dict[str, list[int]]:
    """A CSR matrix of counts, those of a row by decreasing count."""
    row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    order = np.lexsort((matrix.indices, -matrix.data, row))
    return {
        "offsets": matrix.indptr.tolist(),
        "ids": matrix.indices[order].tolist(),
        "counts": matrix.data[order].astype(np.int64).tolist(),
    }


def _positive(matrix: Any) -> sp.csr_matrix:
    matrix = sp.csr_matrix(matrix)
    matrix.eliminate_zeros()
    return matrix


def _most_frequent(rows: sp.csr_matrix, columns: sp.csr_matrix) -> sp.csr_matrix:
    """The largest entries of rows.T @ columns, a block of labels at a time."""
    by_label = sp.csr_matrix(rows.T)
    parts = [sp.csr_matrix((0, columns.shape[1]), dtype=np.float64)]
    for begin in range(0, by_label.shape[0], BLOCK_CONFUSIONS):
        counts = sp.csr_matrix(by_label[begin : begin + BLOCK_CONFUSIONS] @ columns, dtype=np.float64)
        counts.sort_indices()
        parts.append(largest_entries(counts, CONFUSIONS))
    return sp.vstack(parts, "csr")
