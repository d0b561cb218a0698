"""A hierarchy of labels as evidence: how well broader, narrower and sibling candidates are supported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from sparseleaf import _kernels
from sparseleaf._steps import UNSIGNED, encode_steps, narrow
from sparseleaf._vectors import PackedLists, starts_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sparseleaf._arrays import Array
    from sparseleaf.model.source import StageSource

RELATED_COLUMNS = ("broader score", "narrower score", "sibling score")
"""Columns of evidence: the largest mean score component among the candidates that are broader than a label, narrower,
or have a broader label in common with it; 0 without any."""


GROUPS = 2**30
"""The first number of broader terms that are no labels themselves, but have several labels below them."""

WIDTH = 2**31
"""Upper limit of the numbers."""


@dataclass(frozen=True)
class Hierarchy:
    """Broader terms of every label: labels, or other terms from number ``GROUPS`` on.

    Attributes
    ----------
    broader : PackedLists
    """

    broader: PackedLists

    @classmethod
    def fit(cls, broader: Sequence[Sequence[int]]) -> Self:
        """From the broader terms of every label."""
        indptr = np.cumsum([0, *(len(set(several)) for several in broader)], dtype=np.int64)
        indices = np.array([label for several in broader for label in sorted(set(several))], np.int32)
        _, steps = encode_steps(indices, indptr)
        return cls(PackedLists(indptr, steps, WIDTH))

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return self.broader.n_lists

    def fill(
        self, starts: Array, labels: Array, values: Array, table: Array, first: int, n_jobs: int
    ) -> None:
        """Write the ``RELATED_COLUMNS`` of candidates with these values into a table, from column ``first`` on."""
        _kernels.related_values(starts, labels, values, self.broader.kernel, table, first, n_jobs)

    def with_labels(self, n_labels: int) -> Hierarchy:
        """With more labels, which have no broader ones."""
        more = np.full(n_labels - self.n_labels, self.broader.indptr[-1], np.int64)
        indptr = np.concatenate((self.broader.indptr, more))
        return Hierarchy(PackedLists(indptr, self.broader.steps, WIDTH))

    # --- tensors of the model file

    def tensors(self) -> dict[str, Array]:
        """Tensors by name."""
        return {"sizes": narrow(np.diff(self.broader.indptr)), "steps": self.broader.steps}

    @classmethod
    def from_tensors(cls, source: StageSource) -> Self:
        """From tensors; ValueError if they are invalid."""
        sizes = source.take("sizes", UNSIGNED, 1)
        if len(sizes) != source.n_labels:
            raise ValueError(f"{source.prefix}sizes must have one entry for each of {source.n_labels} labels")
        lists = PackedLists(starts_of(sizes), source.take("steps", UNSIGNED, 1, in_place=True), WIDTH)
        _ = lists.kernel  # validates
        return cls(lists)
