"""Leaf: from the residuals of a leaf's rows to the vector it stores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparseleaf import _kernels
from sparseleaf.boosting.tree import LeafVectors

if TYPE_CHECKING:
    from sparseleaf._arrays import Array


@dataclass(frozen=True)
class LeafRule:
    """Eq. 19: the k labels of largest |p| = |Σ residuals|, with value rate · p / (n + l2).

    Attributes
    ----------
    leaf_labels : int or None
        k; None keeps every label.
    min_gain : float
        Drops an entry that lowers the loss by less than this: p²/(n + l2) < min_gain (an L0 penalty).
    """

    leaf_labels: int | None
    min_gain: float
    l2: float
    rate: float

    def vectors(
        self,
        blocks: list[tuple[Array, Array, Array]],
        rows: Array,
        starts: Array,
        ends: Array,
        n_labels: int,
        loss: int,
        n_jobs: int,
    ) -> LeafVectors:
        """Vectors of the leaves that hold ``rows[start:end]``."""
        k = -1 if self.leaf_labels is None else self.leaf_labels
        return LeafVectors(
            *_kernels.leaf_vectors(
                blocks, rows, starts, ends, n_labels, loss, k, self.l2, self.min_gain, self.rate, n_jobs
            )
        )
