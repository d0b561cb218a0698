"""Feature binning: float columns to small integers, row-major, with a separate bin for missing values.

Bin ``b`` of a feature holds the values in ``(thresholds[b - 1], thresholds[b]]``; NaN goes to bin
``n_thresholds + 1``. A split at bin ``b`` is therefore the test ``x <= thresholds[b]`` on raw values, so that training
and prediction cannot disagree.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from sparseleaf import _kernels
from sparseleaf._arrays import csr_parts, hash_rows, smallest_hashes

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features

MAX_BINS = 255
"""Maximum number of bins of a feature: with the bin for missing values they fit in a byte."""

EXACT_BINS = 2**31 - 2
"""No limit: one bin per distinct value, for the exact split search."""

COMMON_FRACTION = 0.3
"""A feature is stored sparse if its most frequent bin has this fraction of the rows: see :func:`common_bins`."""

FEW_DENSE = 0.02
"""If at most this fraction of the features is dense, these are stored sparse, too: separate scans would take longer."""

COMMON_SAMPLE = 4_096

SAMPLE_ROWS = 200_000
"""Maximum number of rows that thresholds are computed on, sampled by global row number."""


@dataclass(frozen=True)
class BinThresholds:
    """Bin thresholds of every feature.

    Attributes
    ----------
    offsets : int64 array, shape (n_features + 1,)
        ``values[offsets[f]:offsets[f + 1]]`` are the thresholds of feature ``f``, increasing.
    values : float32 array
    """

    offsets: Array
    values: Array

    @classmethod
    def none(cls) -> BinThresholds:
        """No features."""
        return cls(np.zeros(1, np.int64), np.empty(0, np.float32))

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.offsets) - 1

    @cached_property
    def missing_bins(self) -> Array:
        """The bin of missing values of every feature, int32."""
        return (np.diff(self.offsets) + 1).astype(np.int32)

    def at(self, feature: Array, bin_: Array) -> Array:
        """Thresholds of splits at the given bins; +inf above the last bin, where only missing values go right."""
        at = self.offsets[feature] + bin_
        beyond = at >= self.offsets[feature + 1]
        inside = self.values[np.where(beyond, 0, at)] if len(self.values) else np.zeros(len(at), np.float32)
        return np.where(beyond, np.float32(np.inf), inside).astype(np.float32)


def find_thresholds(parts: list[Features], max_bins: int, seed: int, n_jobs: int) -> BinThresholds:
    """Thresholds that give every feature of ``parts`` at most ``max_bins`` bins of about equal size."""
    return join_thresholds([_find_thresholds(X, max_bins, seed, n_jobs) for X in parts])


def join_thresholds(thresholds: list[BinThresholds]) -> BinThresholds:
    """Concatenate the thresholds of several blocks of features."""
    if len(thresholds) == 1:
        return thresholds[0]
    starts = np.cumsum([0, *(len(part.values) for part in thresholds)])
    offsets = [part.offsets[:-1] + start for part, start in zip(thresholds, starts[:-1], strict=True)]
    return BinThresholds(
        np.concatenate([*offsets, starts[-1:]]).astype(np.int64),
        np.concatenate([part.values for part in thresholds]),
    )


def _find_thresholds(X: Features, max_bins: int, seed: int, n_jobs: int) -> BinThresholds:
    if max_bins != EXACT_BINS and X.shape[0] > SAMPLE_ROWS:
        X = X[smallest_hashes(hash_rows(X.shape[0], seed), SAMPLE_ROWS)]
    if sp.issparse(X):
        csc = X.tocsc()
        offsets, values = _kernels.find_thresholds_csc(
            csc.indptr.astype(np.int64), csc.data, X.shape[0], max_bins, n_jobs
        )
    else:
        offsets, values = _kernels.find_thresholds_dense(X, max_bins, n_jobs)
    return BinThresholds(offsets, values)


def bin_features(
    parts: list[Features], thresholds: BinThresholds, dtype: type[np.unsignedinteger], n_jobs: int
) -> Array:
    """Bin all features of the parts: shape (n_rows, n_features)."""
    blocks, first = [], 0
    for X in parts:
        bins = np.empty(X.shape, dtype)
        offsets = thresholds.offsets[first : first + X.shape[1] + 1]
        values = thresholds.values[offsets[0] : offsets[-1]]
        if sp.issparse(X):
            _kernels.bin_csr(*csr_parts(X), offsets - offsets[0], values, bins, n_jobs)
        else:
            _kernels.bin_dense(X, offsets - offsets[0], values, bins, n_jobs)
        blocks.append(bins)
        first += X.shape[1]
    return blocks[0] if len(blocks) == 1 else np.hstack(blocks)


def bin_positions(thresholds: BinThresholds) -> Array:
    """Position of every bin on the axis of its feature, float64: the middle between its thresholds.

    The first and the last bin, which are unbounded, are taken to be as wide as their neighbours.
    """
    parts = []
    for begin, end in itertools.pairwise(thresholds.offsets.tolist()):
        values = thresholds.values[begin:end].astype(np.float64)
        if len(values) < 2:
            parts.append(np.arange(len(values) + 1, dtype=np.float64))
            continue
        widths = np.diff(values)
        edges = np.concatenate(([values[0] - widths[0]], values, [values[-1] + widths[-1]]))
        parts.append((edges[:-1] + edges[1:]) / 2)
    return np.concatenate([np.empty(0), *parts])


def common_bins(bins: Array, n_jobs: int) -> Array:
    """Most frequent bin of each feature that is stored sparse (as its rows with another bin), -1 for others, int32.

    All are -1 for bins wider than a byte: the exact split search has no histograms.
    """
    if bins.dtype != np.uint8:
        return np.full(bins.shape[1], -1, np.int32)
    step = max(1, len(bins) // COMMON_SAMPLE)
    common = _kernels.common_bins(bins, step, COMMON_FRACTION, n_jobs)
    if 0 < np.count_nonzero(common < 0) <= FEW_DENSE * len(common):
        common = _kernels.common_bins(bins, step, 0.0, n_jobs)
    return common
