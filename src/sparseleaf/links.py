"""Link functions: how predictions are made of raw scores.

A model stores the name of its link, and whatever reads a model (prediction, export, explanation) takes it from there:
no reader has to know the loss.
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
"""Larger scores count as this: e^x stays finite, and so do sums and products of it in float64."""


@dataclass(frozen=True)
class Link:
    """The inverse link function of generalised linear models.

    Attributes
    ----------
    name : str
        What a model file calls it.
    apply : callable
        Raw scores (n_rows, n_outputs) to predictions of the same shape.
    """

    name: str
    apply: Callable[[Array], Array]


def _exp(scores: Array) -> Array:
    rates: Array = np.exp(np.minimum(scores, LARGEST_EXPONENT[scores.dtype]))
    return rates


def _softmax(scores: Array) -> Array:
    shares: Array = softmax(scores, axis=1)
    return shares


def normalised(values: Array) -> Array:
    """Values from 0 as probabilities of classes of which one is true."""
    total = values.sum(axis=1, keepdims=True)
    probabilities: Array = values / np.where(total > 0, total, 1)
    return probabilities


IDENTITY = Link("identity", lambda scores: scores)
LOG = Link("log", _exp)
LOGISTIC = Link("logistic", expit)
SOFTMAX = Link("softmax", _softmax)
ONE_VS_REST = Link("one-vs-rest", lambda scores: normalised(expit(scores)))
"""One class per row with a logistic loss for each: probabilities are divided by their sum."""

LINKS = {link.name: link for link in (IDENTITY, LOG, LOGISTIC, SOFTMAX, ONE_VS_REST)}
