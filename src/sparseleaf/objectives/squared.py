"""Squared error of sparse labels."""

from sparseleaf.objectives.base import register
from sparseleaf.objectives.sparse import SparseObjective


@register
class Squared(SparseObjective):
    """(y - z)²; residual y - z."""

    name = "squared"
    description = "squared error"
    code = 0
