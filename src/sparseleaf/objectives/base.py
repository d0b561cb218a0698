"""Base class of losses, and their registry."""

from __future__ import annotations

import math
from abc import ABC
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeVar

from sparseleaf.links import IDENTITY, Link

Task = Literal["sparse", "regression", "classification", "ranking"]


@dataclass(frozen=True)
class Number:
    """Numeric parameter of a loss, as in ``"huber:2"``.

    Attributes
    ----------
    default : float
        Value if the name has no number.
    low, high : float
        Open interval of valid values.
    """

    default: float
    low: float = 0.0
    high: float = math.inf

    def accepts(self, text: str) -> bool:
        """Whether the text is a valid number."""
        try:
            return self.low < float(text) < self.high
        except ValueError:
            return False

    @property
    def text(self) -> str:
        """The valid range, for error messages and documentation."""
        return f"x > {self.low:g}" if math.isinf(self.high) else f"{self.low:g} < x < {self.high:g}"


class Objective(ABC):
    """A loss to minimise.

    Attributes
    ----------
    name : str
        Value of the ``loss`` parameter, without the number.
    task : str
        Estimators that support it: those for sparse labels, regression, classification or ranking.
    description : str
        Short description for the parameter reference.
    number : Number or None
        Numeric parameter, if any.
    link : Link
        Link function from raw scores to predictions.
    default_metric : str
        Default of ``eval_metric``.
    """

    name: ClassVar[str]
    task: ClassVar[Task]
    description: ClassVar[str]
    number: ClassVar[Number | None] = None
    link: ClassVar[Link] = IDENTITY
    default_metric: ClassVar[str]


OBJECTIVES: dict[str, type[Objective]] = {}
"""All losses by name."""

Registered = TypeVar("Registered", bound=type[Objective])


def register(objective: Registered) -> Registered:
    """Register a loss under its name."""
    OBJECTIVES[objective.name] = objective
    return objective
