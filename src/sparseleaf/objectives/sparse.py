"""Losses whose residual is zero if label and score are both zero, so that residuals stay sparse.

Assumption (8) of the GBDT-SPARSE paper. The kernels compute residuals from the stored scores on the fly. The base score
is 0, since any other value would make every residual non-zero.
"""

from __future__ import annotations

from typing import ClassVar

from sparseleaf.objectives.base import Objective, Task


class SparseObjective(Objective):
    """A loss with sparse residuals.

    Attributes
    ----------
    code : int
        Code of the loss in the kernels (``cpp/rows.hpp``).
    """

    task: ClassVar[Task] = "sparse"
    default_metric: ClassVar[str] = "precision@1"
    code: ClassVar[int]
