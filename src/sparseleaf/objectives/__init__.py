"""Losses: one file each, registered by name.

A file defines gradients and hessians, base score, link function, loss value, default metric and valid targets of a
loss. Parameter validation, documentation, prediction and export are derived from it. Every module of this package is
imported here, so a new loss is a new file (and a kernel function of the same name in ``cuda/losses.h``).
"""

from importlib import import_module
from pkgutil import iter_modules
from typing import cast

from sparseleaf.objectives.base import OBJECTIVES, Number, Objective, Task
from sparseleaf.objectives.custom import Custom, LossFunction
from sparseleaf.objectives.dense import DenseObjective, RowObjective
from sparseleaf.objectives.ranking import RankingObjective
from sparseleaf.objectives.sparse import SparseObjective

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")


def objectives_of(task: Task) -> dict[str, type[Objective]]:
    """The losses of a task, by name."""
    return {name: objective for name, objective in OBJECTIVES.items() if objective.task == task}


def describe(objectives: dict[str, type[Objective]]) -> str:
    """Descriptions of the losses, for parameter documentation."""
    return "; ".join(
        f'"{name}{":x" * (objective.number is not None)}": {objective.description}'
        + (f" (default {objective.number.default:g})" if objective.number is not None else "")
        for name, objective in objectives.items()
    )


def dense_objective(loss: str | LossFunction) -> DenseObjective:
    """The dense loss with that name, such as ``"huber:2"``, or one defined by a callable."""
    if callable(loss):
        return Custom(loss)
    name, _, number = loss.partition(":")
    objective = cast("type[RowObjective]", OBJECTIVES[name])
    default = 0.0 if objective.number is None else objective.number.default
    return objective(float(number) if number else default)


def ranking_objective(name: str) -> type[RankingObjective]:
    """The ranking loss with that name."""
    return cast("type[RankingObjective]", OBJECTIVES[name])


def sparse_objective(name: str) -> type[SparseObjective]:
    """The sparse loss with that name; ValueError for losses with dense residuals."""
    sparse = objectives_of("sparse")
    if name in sparse:
        return cast("type[SparseObjective]", sparse[name])
    supported = " or ".join(map(repr, sparse))
    if name.partition(":")[0] in OBJECTIVES:
        raise ValueError(
            f"loss={name!r} has a non-zero residual for every (row, label) pair, which would need memory for rows ×"
            " labels."
            f" SparseGBDTClassifier supports {supported}; for {name!r} use MultiGBDTClassifier."
        )
    raise ValueError(
        f"The 'loss' parameter must be one of {{{', '.join(map(repr, sparse))}}}. Got {name!r} instead."
    )


__all__ = [
    "OBJECTIVES",
    "Custom",
    "DenseObjective",
    "LossFunction",
    "Number",
    "Objective",
    "RankingObjective",
    "RowObjective",
    "SparseObjective",
    "Task",
    "dense_objective",
    "describe",
    "objectives_of",
    "ranking_objective",
    "sparse_objective",
]
