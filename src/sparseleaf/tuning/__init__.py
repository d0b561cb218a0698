"""Tuning: choosing an estimator and its parameters on validation rows, with Optuna (extra "tune")."""

from sparseleaf.tuning.api import tune as tune
from sparseleaf.tuning.dimensions import Choice, Range
from sparseleaf.tuning.result import TuneResult
from sparseleaf.tuning.spaces import TUNABLE, Tunable

__all__ = ["TUNABLE", "Choice", "Range", "Tunable", "TuneResult"]
