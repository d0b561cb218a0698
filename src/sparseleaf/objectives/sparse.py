"""Losses whose residual is zero where label and score are both zero, so that residuals stay sparse.

Assumption (8) of the paper. The kernels compute residuals from the stored scores on the fly. The base score is 0: any
other would make every residual non-zero.
"""

from __future__ import annotations

from typing import ClassVar

from sparseleaf.objectives.base import Objective, Task


class SparseObjective(Objective):
    """A loss with sparse residuals.

    Attributes
    ----------
    code : int
        What the kernels know it by (``cpp/rows.hpp``).
    """

    task: ClassVar[Task] = "sparse"
    default_metric: ClassVar[str] = "precision@1"
    code: ClassVar[int]
