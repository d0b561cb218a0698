"""Whether the outputs of bagged boosted models share their trees, or each has its own: ``tree_per_output="auto"``.

A shared tree finds splits that are good for all outputs together, which fits related outputs best and unrelated ones
badly. Two short boosted models, one of each kind, are compared on the rows of one fold, which both leave out; a large
learning rate makes them cheap.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sparseleaf._settings import Settings
from sparseleaf.callbacks import EarlyStopping, best_tree

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.training.auto import Bagging
    from sparseleaf.training.folds import BaggedGrowth

LEARNING_RATE = 0.3
MAX_ROUNDS = 200
PATIENCE = 10
MIN_IMPROVEMENT = 0.005

STANDARD_ERRORS = 3.0
"""How far the mean loss of the held-out rows has to be lower with separate trees, in standard errors."""


def compared_settings(params: Settings) -> Settings:
    """Parameters of a compared model. Its few rows stay in main memory, as do those of the forest."""
    changed = {"learning_rate": LEARNING_RATE, "n_trees": MAX_ROUNDS, "n_models": 1, "device": "cpu"}
    return Settings(**vars(params) | changed)


def compared_bagging(bagging: Bagging) -> Bagging:
    """One model without a forest, which leaves out one fold."""
    return replace(bagging, n_models=1, n_forest_trees=0, compares_sharing=False)


def with_separate_trees(params: Settings) -> Settings:
    """Parameters with a tree per output; such a tree sees the whole gradient of its output."""
    return Settings(**vars(params) | {"tree_per_output": True, "split": "full"})


def separate_bagging(bagging: Bagging) -> Bagging:
    """Bagging of models with a tree per output, beside which no forest is grown."""
    return replace(bagging, n_forest_trees=0, compares_sharing=False)


def held_out_losses(growth: BaggedGrowth) -> Array:
    """Grow a compared model; returns the losses of all held-out rows in the best round, the same on all workers."""
    stopper = EarlyStopping("", PATIENCE, higher_is_better=False, min_improvement=MIN_IMPROVEMENT)
    values: list[float] = []
    losses = np.empty(0)
    growth.replay(())
    while len(values) < MAX_ROUNDS and not stopper.stops(values):
        (grown,) = growth.next()
        if not grown.metrics:  # a tree within a round
            continue
        values += grown.metrics.values()
        if best_tree(values, higher_is_better=False) == len(values):
            losses = growth.held_out_losses()
    return losses


def prefers_separate_trees(shared: Array, separate: Array) -> bool:
    """Whether the rows' losses are significantly lower with separate trees than with shared ones.

    Sums are exactly rounded, so that they do not depend on the order of the rows.
    """
    lower = shared - separate
    n = len(lower)
    if n < 2:
        return False
    mean = math.fsum(lower) / n
    variance = math.fsum((lower - mean) ** 2) / (n - 1)
    return mean > STANDARD_ERRORS * math.sqrt(variance / n)
