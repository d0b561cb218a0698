"""Link functions from raw scores to predictions.

A model stores the name of its link function, so that prediction, export and explanation do not depend on the loss.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit, softmax

if TYPE_CHECKING:
    from sparseleaf._arrays import Array

LARGEST_EXPONENT = {np.dtype(np.float32): 88.0, np.dtype(np.float64): 500.0}
"""Scores are clipped at this value, so that e^x, and sums and products of it in float64, stay finite."""


@dataclass(frozen=True)
class Link:
    """The inverse link function of generalised linear models.

    Attributes
    ----------
    name : str
        Name in the model file.
    apply : callable
        Raw scores (n_rows, n_outputs) to predictions of the same shape.
    """

    name: str
    apply: Callable[[Array], Array]


def _exp(scores: Array) -> Array:
    rates: Array = np.exp(np.minimum(scores, LARGEST_EXPONENT[scores.dtype]))
    return rates


def _softmax(scores: Array) -> Array:
    probabilities: Array = softmax(scores, axis=1)
    return probabilities


def normalised(values: Array) -> Array:
    """Non-negative values divided by their sum per row."""
    total = values.sum(axis=1, keepdims=True)
    probabilities: Array = values / np.where(total > 0, total, 1)
    return probabilities


IDENTITY = Link("identity", lambda scores: scores)
LOG = Link("log", _exp)
LOGISTIC = Link("logistic", expit)
SOFTMAX = Link("softmax", _softmax)
ONE_VS_REST = Link("one-vs-rest", lambda scores: normalised(expit(scores)))
"""Logistic probabilities of each class, divided by their sum."""

LINKS = {link.name: link for link in (IDENTITY, LOG, LOGISTIC, SOFTMAX, ONE_VS_REST)}
