"""Features to bins: small integers, row-major, with a bin of their own for missing values.

Bin ``b`` of a feature holds the values in ``(cuts[b - 1], cuts[b]]``; NaN goes to bin ``n_cuts + 1``. A split at
bin ``b`` is thus the test ``x <= cuts[b]`` on raw values, and training and prediction can never disagree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from sparseleaf import _kernels
from sparseleaf._arrays import csr_parts, hash_rows, smallest_hashes

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features

MAX_BINS = 255
"""Value bins that fit a byte beside the bin for missing values."""

EXACT_BINS = 2**31 - 2
"""'One bin per distinct value', for the exact split search."""

COMMON_SHARE = 0.3
"""A feature whose most frequent bin has this share of the rows is kept sparse: see :func:`common_bins`."""

FEW_DENSE = 0.02
"""So small a share of dense features is kept sparse too: to look for their bins alone would take longer."""

COMMON_SAMPLE = 4_096

SAMPLE_ROWS = 200_000
"""Cuts are found on a sample of at most this many rows, drawn by global row number."""


@dataclass(frozen=True)
class Cuts:
    """Where every feature is cut.

    Attributes
    ----------
    offsets : int64 array, shape (n_features + 1,)
        ``values[offsets[f]:offsets[f + 1]]`` are the cuts of feature ``f``, increasing.
    values : float32 array
    """

    offsets: Array
    values: Array

    @classmethod
    def none(cls) -> Cuts:
        """Cuts of no features."""
        return cls(np.zeros(1, np.int64), np.empty(0, np.float32))

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.offsets) - 1

    @property
    def missing_bins(self) -> Array:
        """The bin of missing values of every feature, int32."""
        return (np.diff(self.offsets) + 1).astype(np.int32)

    def threshold(self, feature: Array, bin_: Array) -> Array:
        """Raw thresholds of cuts at the given bins; a cut above all values is +inf (missing rows stay right)."""
        at = self.offsets[feature] + bin_
        beyond = at >= self.offsets[feature + 1]
        inside = self.values[np.where(beyond, 0, at)] if len(self.values) else np.zeros(len(at), np.float32)
        return np.where(beyond, np.float32(np.inf), inside).astype(np.float32)


def find_cuts(parts: list[Features], max_bins: int, seed: int, n_jobs: int) -> Cuts:
    """Cuts that give every feature of the parts, side by side, at most ``max_bins`` bins of about equal size."""
    return join_cuts([_find_cuts(X, max_bins, seed, n_jobs) for X in parts])


def join_cuts(cuts: list[Cuts]) -> Cuts:
    """Cuts of features that follow each other."""
    if len(cuts) == 1:
        return cuts[0]
    starts = np.cumsum([0, *(len(part.values) for part in cuts)])
    offsets = [part.offsets[:-1] + start for part, start in zip(cuts, starts[:-1], strict=True)]
    return Cuts(
        np.concatenate([*offsets, starts[-1:]]).astype(np.int64),
        np.concatenate([part.values for part in cuts]),
    )


def _find_cuts(X: Features, max_bins: int, seed: int, n_jobs: int) -> Cuts:
    if max_bins != EXACT_BINS and X.shape[0] > SAMPLE_ROWS:
        X = X[smallest_hashes(hash_rows(X.shape[0], seed), SAMPLE_ROWS)]
    if sp.issparse(X):
        csc = X.tocsc()
        offsets, values = _kernels.find_cuts_csc(
            csc.indptr.astype(np.int64), csc.data, X.shape[0], max_bins, n_jobs
        )
    else:
        offsets, values = _kernels.find_cuts_dense(X, max_bins, n_jobs)
    return Cuts(offsets, values)


def bin_features(parts: list[Features], cuts: Cuts, dtype: type[np.unsignedinteger], n_jobs: int) -> Array:
    """Bins of every value of the parts, side by side: shape (n_rows, n_features)."""
    blocks, first = [], 0
    for X in parts:
        bins = np.empty(X.shape, dtype)
        own = cuts.offsets[first : first + X.shape[1] + 1]
        values = cuts.values[own[0] : own[-1]]
        if sp.issparse(X):
            _kernels.bin_csr(*csr_parts(X), own - own[0], values, bins, n_jobs)
        else:
            _kernels.bin_dense(X, own - own[0], values, bins, n_jobs)
        blocks.append(bins)
        first += X.shape[1]
    return blocks[0] if len(blocks) == 1 else np.hstack(blocks)


def common_bins(bins: Array, n_jobs: int) -> Array:
    """The most frequent bin of features that are kept sparse, as the rows that have another; -1 of the others. int32.

    Only bytes are looked at: the exact search has no histograms.
    """
    if bins.dtype != np.uint8:
        return np.full(bins.shape[1], -1, np.int32)
    step = max(1, len(bins) // COMMON_SAMPLE)
    common = _kernels.common_bins(bins, step, COMMON_SHARE, n_jobs)
    if 0 < np.count_nonzero(common < 0) <= FEW_DENSE * len(common):
        common = _kernels.common_bins(bins, step, 0.0, n_jobs)
    return common
