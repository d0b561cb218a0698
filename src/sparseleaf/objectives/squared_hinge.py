"""Squared hinge loss of sparse labels."""

from sparseleaf.objectives.base import register
from sparseleaf.objectives.sparse import SparseObjective


@register
class SquaredHinge(SparseObjective):
    """Eq. 9: max(1 - z, 0)² for a positive label, max(z, 0)² for a negative one."""

    name = "squared_hinge"
    description = (
        "squared hinge loss, 0 for positive labels scored above 1 and negative labels scored below 0"
    )
    code = 1
