"""The former place of :mod:`sparseleaf.objectives.targets`; goes when nothing imports it any more."""

from sparseleaf.objectives.dense import DenseObjective as Loss
from sparseleaf.objectives.targets import (
    NO_CLASSES,
    NO_VALUES,
    DenseTargets,
    TargetForm,
    TargetSums,
    base_quantiles,
    largest_targets,
    target_sums,
)

__all__ = [
    "NO_CLASSES",
    "NO_VALUES",
    "DenseTargets",
    "Loss",
    "TargetForm",
    "TargetSums",
    "base_quantiles",
    "largest_targets",
    "target_sums",
]
