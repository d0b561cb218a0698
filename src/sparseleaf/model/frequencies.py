"""Label frequencies of the leaves of routed trees: from counts, back to counts, and with the labels of more rows.

A frequency is the count of a label in a leaf, relative to the leaf's total: its number of rows (forest) or of label
occurrences (LdSM). Frequencies are stored in 16 bits, so that with the total a count below 1,024 is recovered exactly.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from sparseleaf import _kernels
from sparseleaf._arrays import replace_rows

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.model.routed import RoutedTrees


def label_frequencies(
    counts: sp.csr_matrix,
    totals: Array,
    most: int | None,
    label_weights: Array | None = None,
    n_jobs: int = 1,
    *,
    added: sp.csr_matrix | None = None,
) -> sp.csr_matrix:
    """Label counts of leaves, and those ``added``, relative to the totals; the ``most`` highest, sorted by label."""
    if added is None:
        added = sp.csr_matrix(counts.shape, dtype=np.float64)
    indptr, labels, values = _kernels.leaf_frequencies(
        *_sorted_parts(counts),
        *_sorted_parts(added),
        np.ascontiguousarray(totals, np.float64),
        np.empty(0) if label_weights is None else label_weights.astype(np.float64),
        -1 if most is None else most,
        n_jobs,
    )
    return sp.csr_matrix((values, labels, indptr), shape=counts.shape)


def _sorted_parts(counts: sp.csr_matrix) -> tuple[Array, Array, Array]:
    if not counts.has_sorted_indices:
        counts = counts.sorted_indices()
    return (
        np.ascontiguousarray(counts.indptr, np.int64),
        np.ascontiguousarray(counts.indices, np.int32),
        np.ascontiguousarray(counts.data, np.float64),
    )


def rounded(frequencies: Array) -> Array:
    """Frequencies as float16; positive values do not underflow to 0."""
    return np.maximum(frequencies, np.finfo(np.float16).smallest_subnormal).astype(np.float16)


def narrow_labels(leaves: sp.csr_matrix) -> Array:
    """Labels of the entries in the narrowest type."""
    labels: Array = leaves.indices.astype(np.uint16 if leaves.shape[1] <= 2**16 else np.uint32)
    return labels


def leaf_totals(trees: RoutedTrees) -> Array:
    """Totals of the leaves, float64.

    Files of earlier versions have none. A leaf's rarest label most often occurs once, so its total is then estimated
    by 1 / its lowest frequency.
    """
    if len(trees.leaf_totals):
        return trees.leaf_totals.astype(np.float64)
    sizes = np.diff(trees.leaf_indptr)
    totals = np.ones(len(sizes))
    filled = np.flatnonzero(sizes)
    if len(filled):
        values = trees.leaf_values.astype(np.float64)
        lowest = np.minimum.reduceat(values, trees.leaf_indptr[filled])
        totals[filled] = np.rint(1 / np.clip(lowest, 1e-6, 1))
    return totals


def leaf_counts(trees: RoutedTrees, n_labels: int, leaves: Array, totals: Array) -> sp.csr_matrix:
    """Label counts of some leaves with these totals, float64 (len(leaves), n_labels): whole if the totals are."""
    stored = sp.csr_matrix(
        (trees.leaf_values.astype(np.float32), trees.leaf_labels.astype(np.int32), trees.leaf_indptr),
        shape=(len(trees.leaf_indptr) - 1, n_labels),
    )[leaves]
    counts = stored.data * np.repeat(totals, np.diff(stored.indptr))
    if np.array_equal(totals, np.rint(totals)):
        counts = np.rint(counts)
    return sp.csr_matrix((counts, stored.indices, stored.indptr), shape=stored.shape)


def add_labels(
    trees: RoutedTrees, reached: sp.csr_matrix, Y: sp.csr_matrix, keep: float, most: int | None
) -> RoutedTrees:
    """Add the labels of more rows to the leaves.

    Parameters
    ----------
    trees : RoutedTrees
    reached : CSR matrix of ones, shape (n_rows, n_leaves)
        The leaves that these rows reach.
    Y : CSR matrix, shape (n_rows, n_labels)
        May have more labels than the trees.
    keep : float
        Factor of the old counts.
    most : int or None
        Maximum number of labels per leaf.
    """
    before = leaf_totals(trees)
    totals = keep * before
    touched = np.flatnonzero(np.bincount(reached.indices, minlength=reached.shape[1]))
    members = sp.csr_matrix(reached.T, dtype=np.float64)[touched]
    added = sp.csr_matrix(members @ Y.astype(np.float64))
    old = keep * leaf_counts(trees, Y.shape[1], touched, before[touched])
    totals[touched] += np.asarray((members if trees.counts_rows else added).sum(axis=1)).ravel()
    totals = totals.astype(np.float32).astype(np.float64)  # as they are stored
    changed = label_frequencies(sp.csr_matrix(old + added), totals[touched], most)
    stored = sp.csr_matrix(
        (trees.leaf_values.astype(np.float32), trees.leaf_labels.astype(np.int32), trees.leaf_indptr),
        shape=(len(totals), Y.shape[1]),
    )
    leaves = replace_rows(stored, touched, changed)
    return replace(
        trees,
        leaf_indptr=leaves.indptr.astype(np.int64),
        leaf_labels=narrow_labels(leaves),
        leaf_values=rounded(leaves.data),
        leaf_totals=totals,
    )
