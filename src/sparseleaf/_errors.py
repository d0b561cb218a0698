"""Errors of multi-output regression: RMSE, MAE and R² of each output, on the rows in which it is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from sparseleaf._arrays import Array

MEASURES = ("rmse", "mae", "r2")


def output_errors(truth: Array, predicted: Array) -> dict[str, Array]:
    """RMSE, MAE and R² of every output; NaN where they are undefined.

    Parameters
    ----------
    truth, predicted : arrays of shape (n_rows, n_outputs)
        NaN in ``truth`` is a missing target.
    """
    known = ~np.isnan(truth)
    n_known = known.sum(axis=0)
    error = np.where(known, predicted - truth, 0.0)
    mean = np.divide(np.nansum(truth, axis=0), n_known, out=np.zeros(truth.shape[1]), where=n_known > 0)
    around = (np.where(known, truth - mean, 0.0) ** 2).sum(axis=0)
    squares = (error**2).sum(axis=0)

    def ratio(numerator: Array, denominator: Array) -> Array:
        undefined = np.full(truth.shape[1], np.nan)
        quotient: Array = np.divide(numerator, denominator, out=undefined, where=denominator > 0)
        return quotient

    return {
        "rmse": np.sqrt(ratio(squares, n_known)),
        "mae": ratio(np.abs(error).sum(axis=0), n_known),
        "r2": 1 - ratio(squares, around),
    }
