"""Settings of bagged models that are trained in less time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Haste:
    """How a loss is trained with large steps, in about the time that other libraries take for a model per output.

    Attributes
    ----------
    n_models, n_forest_trees, max_rounds : int
    patience : int
        Rounds without an improvement of the held-out loss after which training stops.
    """

    n_models: int
    n_forest_trees: int
    max_rounds: int
    patience: int


CLASSES = Haste(n_models=8, n_forest_trees=96, max_rounds=50, patience=10)
"""Classes and labels."""

RANKINGS = Haste(n_models=4, n_forest_trees=24, max_rounds=1_000, patience=10)
"""A ranking has one output, and other libraries take little time for it."""
