"""What every loss declares, and the registry of losses by name."""

from __future__ import annotations

import math
from abc import ABC
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeVar

from sparseleaf.links import IDENTITY, Link

Task = Literal["sparse", "regression", "classification", "ranking"]


@dataclass(frozen=True)
class Number:
    """The number that may stand behind a loss's name, as in ``"huber:2"``.

    Attributes
    ----------
    default : float
        What the bare name stands for.
    high : float
        It lies between ``low`` and this, both excluded.
    """

    default: float
    low: float = 0.0
    high: float = math.inf

    def accepts(self, text: str) -> bool:
        """Whether the text is such a number."""
        try:
            return self.low < float(text) < self.high
        except ValueError:
            return False

    @property
    def wanted(self) -> str:
        """The range, in words."""
        return f"x > {self.low:g}" if math.isinf(self.high) else f"{self.low:g} < x < {self.high:g}"


class Objective(ABC):
    """A loss to minimise.

    Attributes
    ----------
    name : str
        What users write, without its number.
    task : str
        Which estimators offer it: those of sparse labels, of numbers, of classes and labels, or of rankings.
    description : str
        What it is, in half a sentence, for the reference of parameters.
    number : Number or None
        What may stand behind the name.
    link : Link
        How predictions are made of raw scores.
    default_metric : str
        What is measured on a validation set unless the user says otherwise.
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
    """Make a loss known by its name."""
    OBJECTIVES[objective.name] = objective
    return objective
