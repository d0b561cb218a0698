"""Calibrators: stages that map scores to probabilities, without changing the ranking.

Monotone curves are fitted to validation rows. The score of a label is mapped by the curve of its frequency group, and
the result by the logistic curve of its rank in the row, since scores of some models are relative to the row. Curves of
different groups may contradict the ranking of a row: a rare label may be less likely than the frequent one below it.
The probabilities of a row are therefore the isotonic regression of the mapped scores on their ranks: values that
contradict the ranking are replaced by their mean, which keeps the expected number of true labels.

Only ``predict_proba`` and decoders that need probabilities apply this stage.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from sparseleaf import _kernels
from sparseleaf.model.candidates import PLACES, by_rank
from sparseleaf.model.curves import Curves, IsotonicCurves, PlattCurves
from sparseleaf.model.registry import register
from sparseleaf.model.source import prefixed
from sparseleaf.model.stage import Role, Scores, Stage

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.model.attribution import Attribution, Pairs
    from sparseleaf.model.source import StageSource
    from sparseleaf.model.update import NewRows

SMALLEST = 1e-6
"""Probabilities are at least this and at most 1 minus this."""

N_RANK_BINS = 7
"""Ranks 1, 2 to 3, 4 to 7, …, from 64."""


@dataclass(frozen=True)
class Calibrator(Stage):
    """Base class of calibrators.

    Attributes
    ----------
    group : uint8 array, shape (n_labels,)
        Frequency group of every label: its curve of ``by_frequency``.
    rank_group : uint8 array, shape (N_RANK_BINS,)
        Curve of ``by_rank`` of every bin of ranks.
    prior_scale : float
        Factor from the scores of the ``EMPTY_ROWS`` stage to probabilities.
    by_frequency : Curves
    by_rank : PlattCurves
    """

    group: Array
    rank_group: Array
    prior_scale: float
    by_frequency: Curves
    by_rank: PlattCurves

    role: ClassVar[Role] = Role.CALIBRATOR
    takes_nan: ClassVar[bool] = True
    curves: ClassVar[type[Curves]]

    @property
    def n_groups(self) -> int:
        """Number of frequency groups."""
        return self.by_frequency.n_curves

    def apply(self, before: Scores) -> CalibratedScores:
        """Scores to probabilities."""
        return CalibratedScores(before, self)

    def probabilities(self, starts: Array, labels: Array, scores: Array, n_jobs: int) -> Array:
        """Probabilities of ranked lists of labels, best first: float32, decreasing within a list."""
        values = self.by_frequency.mapped_by(self.group[labels], scores, n_jobs)
        values = self.by_rank.mapped_by(self.rank_group[rank_bins(starts)], values, n_jobs)
        np.clip(values, SMALLEST, 1 - SMALLEST, out=values)
        _kernels.pool_ranked(starts, values, PLACES, n_jobs)
        return values

    def updated(self, new: NewRows) -> Calibrator:
        """See :class:`~sparseleaf.model.stage.Stage`; new labels belong to the group of the rarest."""
        group = np.zeros(new.n_labels, np.uint8)
        group[: len(self.group)] = self.group
        return replace(self, group=group)

    def describe(self) -> dict[str, Any]:
        """Method and number of groups."""
        return {"calibration": {"method": self.kind, "n_groups": self.n_groups}}

    # --- tensors of the model file

    def tensors(self, compact: bool) -> dict[str, Array]:
        """Tensors by name."""
        return {
            "group": self.group,
            "rank_group": self.rank_group,
            "prior_scale": np.array([self.prior_scale], np.float32),
            **prefixed("frequency", self.by_frequency.tensors()),
            **prefixed("rank", self.by_rank.tensors()),
        }

    @classmethod
    def from_tensors(cls, source: StageSource) -> Self:
        """See :class:`~sparseleaf.model.stage.Stage`."""
        by_frequency = cls.curves.from_tensors(source.part("frequency"))
        by_rank = PlattCurves.from_tensors(source.part("rank"))
        scale = source.finite("prior_scale", ("F32",), 1)
        if len(scale) != 1 or scale[0] <= 0:
            raise ValueError("prior_scale must be one number above 0")
        groups = []
        for name, curves, size in (
            ("group", by_frequency, source.n_labels),
            ("rank_group", by_rank, N_RANK_BINS),
        ):
            numbers = source.take(name, ("U8",), 1)
            if len(numbers) != size or numbers.max(initial=0) >= curves.n_curves:
                raise ValueError(f"{name} must have {size} numbers below {curves.n_curves}")
            groups.append(numbers)
        return cls(groups[0], groups[1], float(scale[0]), by_frequency, by_rank)


@register("isotonic")
@dataclass(frozen=True)
class Isotonic(Calibrator):
    """Isotonic regression per group."""

    kind: ClassVar[str] = "isotonic"
    curves: ClassVar[type[Curves]] = IsotonicCurves


@register("platt")
@dataclass(frozen=True)
class Platt(Calibrator):
    """Logistic regression per group."""

    kind: ClassVar[str] = "platt"
    curves: ClassVar[type[Curves]] = PlattCurves


def rank_bins(starts: Array) -> Array:
    """Bin of the rank of every entry of ranked lists."""
    rank = np.arange(starts[-1]) - np.repeat(starts[:-1], np.diff(starts))
    edges = 2 ** np.arange(1, N_RANK_BINS) - 1  # the first rank of a bin, from 0
    bins: Array = np.searchsorted(edges, rank, side="right")
    return bins


class CalibratedScores(Scores):
    """Probabilities of scored labels."""

    def __init__(self, before: Scores, stage: Calibrator) -> None:
        self.rows, self._before, self._stage = before.rows, before, stage
        self.prior_scale = stage.prior_scale

    def topk(self, k: int) -> tuple[Array, Array]:
        """See :class:`~sparseleaf.model.stage.Scores`; independent of k."""
        labels, scores = self._before.topk(max(k, PLACES))
        listed = labels >= 0
        starts = np.concatenate(([0], np.cumsum(listed.sum(axis=1)))).astype(np.int64)
        probabilities = np.full(scores.shape, -np.inf, np.float32)
        probabilities[listed] = self._stage.probabilities(
            starts, labels[listed], scores[listed], self.rows.threads
        )
        return labels[:, :k].copy(), probabilities[:, :k].copy()

    def sparse(self) -> sp.csr_matrix:
        """See :class:`~sparseleaf.model.stage.Scores`."""
        scores = self._scores()
        ranked = by_rank(scores, scores.data)
        probabilities = np.empty(scores.nnz, np.float32)
        probabilities[ranked] = self._stage.probabilities(
            scores.indptr.astype(np.int64), scores.indices[ranked], scores.data[ranked], self.rows.threads
        )
        return sp.csr_matrix((probabilities, scores.indices, scores.indptr), shape=scores.shape)

    def explain(self, pairs: Pairs) -> Attribution:
        """See :class:`~sparseleaf.model.stage.Scores`; contributions to the score are scaled to the probability."""
        part = self._before.explain(pairs)
        base = self._stage.by_frequency.mapped_by(self._stage.group[pairs.labels], part.base).astype(
            np.float64
        )
        return part.through(base, self.of_pairs(pairs).astype(np.float64)).named("probability")

    def _scores(self) -> sp.csr_matrix:
        if self._before.base is None:
            return self._before.sparse()
        return all_entries(self._before.dense())


def all_entries(dense: Array) -> sp.csr_matrix:
    """A dense matrix in CSR form with all entries, zeros included."""
    n_rows, n_labels = dense.shape
    labels = np.tile(np.arange(n_labels, dtype=np.int32), n_rows)
    return sp.csr_matrix((dense.ravel(), labels, np.arange(n_rows + 1) * n_labels), shape=dense.shape)
