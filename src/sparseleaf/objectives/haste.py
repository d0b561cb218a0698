"""Settings of bagged models that are trained in less time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Haste:
    """How a loss is trained with large steps.

    Attributes
    ----------
    max_rounds : int
    patience : int
        Rounds without an improvement of the held-out metric after which training stops.
    """

    max_rounds: int
    patience: int


CLASSES = Haste(max_rounds=50, patience=10)
"""Classes and labels: about the time that other libraries take for a model per output."""

RANKINGS = Haste(max_rounds=1_000, patience=40)
"""NDCG is noisy: with less patience, training stops much too early."""
