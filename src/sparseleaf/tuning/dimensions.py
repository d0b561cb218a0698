"""Dimensions of a search space: a range of numbers or a list of choices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optuna.trial import Trial


@dataclass(frozen=True)
class Range:
    """Numbers between two bounds, both included; integers if both bounds are integers.

    Parameters
    ----------
    low, high : int or float
        Bounds.
    log : bool, default=False
        Whether to sample uniformly on a logarithmic scale; requires ``low > 0``.

    Examples
    --------
    >>> from sparseleaf.tuning import Range
    >>> 31 in Range(4, 255, log=True), 0.5 in Range(4, 255)
    (True, False)
    """

    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        """Validate the bounds."""
        bounds = (self.low, self.high)
        valid = all(
            isinstance(one, int | float) and not isinstance(one, bool) and math.isfinite(one)
            for one in bounds
        )
        if not valid or not self.low < self.high or (self.log and self.low <= 0):
            raise ValueError(
                f"The bounds of a Range must be finite numbers, low < high{' and low > 0' if self.log else ''}. Got"
                f" {self.low!r} and {self.high!r} instead."
            )

    @property
    def integer(self) -> bool:
        """Whether the numbers are integers."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    @property
    def ends(self) -> tuple[Any, ...]:
        """Values that represent the dimension in checks: the bounds."""
        return self.low, self.high

    @property
    def text(self) -> str:
        """Description for the documentation."""
        return f"{self.low:g} to {self.high:g}{', log scale' if self.log else ''}"

    def __contains__(self, value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, int if self.integer else int | float):
            return False
        return self.low <= value <= self.high

    def suggest(self, trial: Trial, name: str) -> Any:
        """Value of a trial."""
        if self.integer:
            return trial.suggest_int(name, int(self.low), int(self.high), log=self.log)
        return trial.suggest_float(name, self.low, self.high, log=self.log)

    def stored(self, value: Any) -> Any:
        """A value as it is stored in a study."""
        return value

    def restored(self, stored: Any) -> Any:
        """The value that a study has stored."""
        return stored


@dataclass(frozen=True)
class Choice:
    """One of several values.

    Parameters
    ----------
    values : sequence
        Values of any type, such as names, None or pairs.

    Examples
    --------
    >>> from sparseleaf.tuning import Choice
    >>> None in Choice([None, "linear"])
    True
    """

    values: Sequence[Any]

    def __post_init__(self) -> None:
        """Validate the values."""
        if isinstance(self.values, str) or not isinstance(self.values, Sequence) or not self.values:
            raise ValueError(
                f"A Choice must have a non-empty list of values. Got {self.values!r:.80} instead."
            )
        if len({repr(value) for value in self.values}) < len(self.values):
            raise ValueError(f"A Choice must have distinct values. Got {self.values!r:.80} instead.")

    @property
    def ends(self) -> tuple[Any, ...]:
        """Values that represent the dimension in checks: all."""
        return tuple(self.values)

    @property
    def text(self) -> str:
        """Description for the documentation."""
        return ", ".join(f'"{value}"' if isinstance(value, str) else repr(value) for value in self.values)

    def __contains__(self, value: object) -> bool:
        return repr(value) in map(repr, self.values)  # True is not 1

    def suggest(self, trial: Trial, name: str) -> Any:
        """Value of a trial."""
        return self.restored(trial.suggest_categorical(name, [self.stored(value) for value in self.values]))

    def stored(self, value: Any) -> Any:
        """A value as it is stored in a study, which has no pairs."""
        return value if isinstance(value, str) or value is None else repr(value)

    def restored(self, stored: Any) -> Any:
        """The value that a study has stored."""
        return next(value for value in self.values if self.stored(value) == stored)


Dimension = Range | Choice


def as_dimension(value: Any, name: str) -> Dimension:
    """A dimension that a user passed: a :class:`Range`, a :class:`Choice`, or a list of choices."""
    if isinstance(value, Range | Choice):
        return value
    if isinstance(value, list):
        return Choice(value)
    raise ValueError(
        f"The 'space' parameter must have a Range, a Choice or a list of values for each parameter. Got {value!r:.80}"
        f" for {name!r} instead."
    )
