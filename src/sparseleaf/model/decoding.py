"""Decoders: which labels ``predict`` returns, given the scores or probabilities of a row.

A decoder has a name, such as ``"top:5"``. It takes a CSR matrix of scores and returns the entries to keep.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

import numpy as np
import scipy.sparse as sp

from sparseleaf import _kernels
from sparseleaf.model.candidates import PLACES, by_rank, row_of_entry

if TYPE_CHECKING:
    from sparseleaf._arrays import Array

D = TypeVar("D", bound="type[Decoder]")

DECODERS: dict[str, type[Decoder]] = {}
"""Decoders by name, without their number."""

FORMS = "one of {'threshold', 'threshold:x', 'top:k', 'expected_f1', 'macro_recall@k', 'psp@k'}"
"""The names, for documentation and error messages."""


@dataclass(frozen=True)
class Labels:
    """What is known of the labels from training.

    Attributes
    ----------
    thresholds : float32 array, shape (1,) or (n_labels,)
        Minimum score of a label.
    on_probabilities : bool
        Whether thresholds are for probabilities.
    has_probabilities : bool
    counts : int array, shape (n_labels,)
        Training rows with each label.
    n_rows : int
        Training rows.
    propensities : callable
        Propensities of the labels from ``counts`` and ``n_rows``.
    """

    thresholds: Array
    on_probabilities: bool
    has_probabilities: bool
    counts: Array
    n_rows: int
    propensities: Callable[[Array, int], Array]


class Decoder(ABC):
    """Base class of decoders."""

    separator: ClassVar[str] = ""
    """Character before the number in the name."""
    number_is_optional: ClassVar[bool] = False

    def __init__(self, number: float) -> None:
        self.number = number

    @classmethod
    def accepts(cls, number: float) -> bool:
        """Whether the number is valid: by default a number of labels."""
        return number >= 1 and number == int(number)

    def on_probabilities(self, labels: Labels) -> bool:
        """Whether probabilities are required, as opposed to scores."""
        return True

    @abstractmethod
    def kept(self, scores: sp.csr_matrix, labels: Labels, n_jobs: int) -> Array:
        """Mask of the entries to keep."""


def register(*names: str) -> Callable[[D], D]:
    """Class decorator: register a decoder under these names."""

    def add(cls: D) -> D:
        for name in names:
            DECODERS[name] = cls
        return cls

    return add


def make_decoder(text: object) -> Decoder:
    """The decoder of that name; ValueError if there is none."""
    match = re.fullmatch(r"(\w+)(?:([:@])([^:@]+))?", text) if isinstance(text, str) else None
    cls = DECODERS.get(match[1]) if match is not None else None
    if match is not None and cls is not None:
        number = _number(match[3])
        if match[2] is None and cls.number_is_optional:
            return cls(math.nan)
        if match[2] == cls.separator and math.isfinite(number) and cls.accepts(number):
            return cls(number)
    raise ValueError(f"The 'decode' parameter must be {FORMS}. Got {text!r:.60} instead.")


def _number(text: str | None) -> float:
    try:
        return float(text or "nan")
    except ValueError:
        return math.nan


@register("threshold")
class ByThreshold(Decoder):
    """Labels whose score, or probability, is at least a threshold: a fixed one, or those of the model."""

    separator: ClassVar[str] = ":"
    number_is_optional: ClassVar[bool] = True

    @classmethod
    def accepts(cls, number: float) -> bool:
        """See :class:`Decoder`: any finite number."""
        return True

    def on_probabilities(self, labels: Labels) -> bool:
        """See :class:`Decoder`; a fixed threshold is a probability if the model has probabilities."""
        return labels.on_probabilities if math.isnan(self.number) else labels.has_probabilities

    def kept(self, scores: sp.csr_matrix, labels: Labels, n_jobs: int) -> Array:
        """See :class:`Decoder`."""
        if not math.isnan(self.number):
            fixed: Array = scores.data >= np.float32(self.number)
            return fixed
        per_label = len(labels.thresholds) > 1
        mask: Array = scores.data >= (labels.thresholds[scores.indices] if per_label else labels.thresholds)
        return mask


@register("top")
class Top(Decoder):
    """The k labels of highest score."""

    separator: ClassVar[str] = ":"

    def on_probabilities(self, labels: Labels) -> bool:
        """See :class:`Decoder`; the ranking is the same."""
        return False

    def kept(self, scores: sp.csr_matrix, labels: Labels, n_jobs: int) -> Array:
        """See :class:`Decoder`."""
        return first_ranks(scores, scores.data, int(self.number))


@register("expected_f1")
class ExpectedF1(Decoder):
    """As many of the best labels as maximise the expected F1 of the row, for labels independent given the row."""

    number_is_optional: ClassVar[bool] = True

    def kept(self, scores: sp.csr_matrix, labels: Labels, n_jobs: int) -> Array:
        """See :class:`Decoder`; at least one label of a row with scored labels, at most ``PLACES``."""
        order = by_rank(scores, scores.data)
        rank = np.arange(scores.nnz) - np.repeat(scores.indptr[:-1], np.diff(scores.indptr))
        considered = rank < PLACES
        starts = np.concatenate(([0], np.cumsum(np.minimum(np.diff(scores.indptr), PLACES)))).astype(np.int64)
        sizes = np.empty(scores.shape[0], np.int32)
        ranked = np.clip(scores.data[order][considered], 0, 1).astype(np.float32)
        _kernels.expected_f1_sizes(starts, ranked, sizes, n_jobs)
        mask = np.empty(scores.nnz, bool)
        mask[order] = rank < sizes[row_of_entry(scores)]
        return mask


class Weighted(Decoder):
    """The k labels of highest probability times a weight of the label."""

    separator: ClassVar[str] = "@"

    @abstractmethod
    def weights(self, labels: Labels) -> Array:
        """Weight of every label."""

    def kept(self, scores: sp.csr_matrix, labels: Labels, n_jobs: int) -> Array:
        """See :class:`Decoder`."""
        gains = scores.data.astype(np.float64) * self.weights(labels)[scores.indices]
        return first_ranks(scores, gains, int(self.number))


@register("macro_recall")
class MacroRecall(Weighted):
    """Weights are inverse priors, which maximises the expected macro-averaged recall at k."""

    def weights(self, labels: Labels) -> Array:
        """See :class:`Weighted`."""
        weights: Array = max(labels.n_rows, 1) / np.maximum(labels.counts, 1)
        return weights


@register("psp")
class InversePropensity(Weighted):
    """Weights are inverse propensities, which maximises the expected propensity-scored precision at k."""

    def weights(self, labels: Labels) -> Array:
        """See :class:`Weighted`."""
        weights: Array = 1 / labels.propensities(labels.counts, labels.n_rows)
        return weights


def first_ranks(scores: sp.csr_matrix, gains: Array, k: int) -> Array:
    """Mask of the k entries of highest gain of every row; ties go to the lower label."""
    order = by_rank(scores, gains)
    rank = np.arange(scores.nnz) - np.repeat(scores.indptr[:-1], np.diff(scores.indptr))
    mask = np.empty(scores.nnz, bool)
    mask[order] = rank < k
    return mask


def select(scores: sp.csr_matrix, mask: Array) -> sp.csr_matrix:
    """The entries of a mask."""
    before = np.concatenate(([0], np.cumsum(mask)))
    return sp.csr_matrix((scores.data[mask], scores.indices[mask], before[scores.indptr]), shape=scores.shape)
