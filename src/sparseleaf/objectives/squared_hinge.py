"""Squared hinge loss of sparse labels."""

from sparseleaf.objectives.base import register
from sparseleaf.objectives.sparse import SparseObjective


@register
class SquaredHinge(SparseObjective):
    """Eq. 9: max(1 - z, 0)² for a true label, max(z, 0)² for a false one."""

    name = "squared_hinge"
    description = "squared hinge loss: no residual once a true label is above 1 or a false one below 0"
    code = 1
