"""Successive halving on the number of trees, as a pruner of Optuna."""

from __future__ import annotations

import math

from optuna.pruners import BasePruner
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from sparseleaf.tuning.spaces import ETA

METHOD = "method"
"""User attribute of a trial: its estimator."""


class SuccessiveHalving(BasePruner):
    """Asynchronous successive halving: a trial continues if it is among the best third at its rung.

    It is compared with the earlier trials of the same estimator only: after the same fraction of their trees, different
    estimators are not equally far from their final score.
    """

    def prune(self, study: Study, trial: FrozenTrial) -> bool:
        """Whether to stop the trial; see :class:`optuna.pruners.BasePruner`."""
        step = trial.last_step
        if step is None:
            return False
        sign = 1 if study.direction == StudyDirection.MAXIMIZE else -1
        value = sign * trial.intermediate_values[step]
        if math.isnan(value):
            return True
        method = trial.user_attrs.get(METHOD)
        others = [
            sign * other.intermediate_values[step]
            for other in study.get_trials(deepcopy=False)
            if other.number != trial.number
            and other.state != TrialState.FAIL
            and other.user_attrs.get(METHOD) == method
            and step in other.intermediate_values
        ]
        n_kept = math.ceil((len(others) + 1) / ETA)
        return sum(other > value for other in others) >= n_kept
