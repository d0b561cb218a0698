"""Losses whose residual is zero where label and score are both zero, so that residuals stay sparse.

Assumption (8) of the paper. The kernels compute residuals from the stored scores on the fly; a loss is known to
them by its code. The base score is 0: any other would make every residual non-zero.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SparseLoss:
    """A loss with sparse residuals.

    Attributes
    ----------
    name : str
        What users write.
    code : int
        What the kernels know it by.
    """

    name: str
    code: int


SQUARED = SparseLoss("squared", 0)
"""(y - z)²; residual y - z."""

SQUARED_HINGE = SparseLoss("squared_hinge", 1)
"""Eq. 9: max(1 - z, 0)² for a true label, max(z, 0)² for a false one."""

SPARSE_LOSSES = {loss.name: loss for loss in (SQUARED, SQUARED_HINGE)}

DENSE_LOSSES = (
    "logistic",
    "log_loss",
    "bce",
    "softmax",
    "cross_entropy",
    "absolute",
    "huber",
    "quantile",
    "poisson",
)


def sparse_loss(name: str) -> SparseLoss:
    """Look a loss up by name, refusing those that would make residuals dense."""
    if name in SPARSE_LOSSES:
        return SPARSE_LOSSES[name]
    wanted = " or ".join(repr(known) for known in SPARSE_LOSSES)
    if name in DENSE_LOSSES:
        raise ValueError(
            f"loss={name!r} has a non-zero residual for every (row, label) pair, which would take rows × labels of"
            f" memory. SparseGBDTClassifier takes {wanted}; for {name!r} use MultiGBDTClassifier."
        )
    raise ValueError(f"loss: {name!r} is unknown; wanted {wanted}.")
