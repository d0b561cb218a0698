"""One definition of every parameter: what it may be, and what it means.

It feeds the checks of the estimators, ``--set`` of the command line, and the table in the documentation.
"""

from __future__ import annotations

import difflib
import math
import numbers
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Parameter:
    """A parameter of an estimator.

    Attributes
    ----------
    kind : "int", "float", "name", "number", "flag" or "seed"
        "number" is a share below 1 or a whole number; "flag" is a bool, or one of the choices.
    low, high : float
        Bounds; ``low_open`` excludes the lower one.
    choices : tuple of str
        Names it may be.
    none : bool
        Whether None is allowed.
    doc : str
        What it does.
    symbol : str
        Its symbol in the paper, if any.
    """

    kind: str
    doc: str
    low: float = -math.inf
    high: float = math.inf
    low_open: bool = False
    choices: tuple[str, ...] = ()
    none: bool = False
    symbol: str = ""

    @property
    def wanted(self) -> str:
        """What may be given, in words."""
        if self.kind == "seed":
            return "an int, a numpy RandomState or None"
        if self.kind in ("name", "flag"):
            flags = ("True", "False") if self.kind == "flag" else ()
            words = ", ".join((*flags, *(repr(choice) for choice in self.choices)))
        else:
            words = "".join(f"{choice!r} or " for choice in self.choices)
            words += {"int": "an int", "float": "a number", "number": "a share below 1 or a whole number"}[
                self.kind
            ]
            if math.isfinite(self.low):
                words += f" {'>' if self.low_open else '>='} {self.low:g}"
            if math.isfinite(self.high):
                words += f" and <= {self.high:g}"
        return words + (" or None" if self.none else "")

    def accepts(self, value: Any) -> bool:
        """Whether the value may be given."""
        if self.kind == "seed":
            return value is None or isinstance(value, numbers.Integral) or hasattr(value, "randint")
        if value is None:
            return self.none
        if self.kind == "flag" and isinstance(value, bool | np.bool_):
            return True
        if isinstance(value, str) or self.kind in ("name", "flag"):
            return value in self.choices
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            return False
        if self.kind == "int" and not isinstance(value, numbers.Integral):
            return False
        try:
            number = float(value)
        except OverflowError:  # an int beyond any float
            return False
        if self.kind == "number" and number >= 1 and not number.is_integer():
            return False
        return (
            not math.isnan(number)
            and self.low <= number <= self.high
            and not (self.low_open and number == self.low)
        )

    def parse(self, text: str) -> Any:
        """The value that a user wrote as text; ``none`` is None."""
        if text.lower() == "none":
            return None
        if text in self.choices:
            return text
        if self.kind == "flag" and text.lower() in ("true", "false"):
            return text.lower() == "true"
        for convert in (int, float):
            try:
                return convert(text)
            except ValueError:
                continue
        return text


def check_parameters(estimator: str, values: Mapping[str, Any], table: Mapping[str, Parameter]) -> None:
    """Raise ValueError for the first parameter that may not be what it is."""
    for name, parameter in table.items():
        if not parameter.accepts(values[name]):
            raise ValueError(
                f"{name}={values[name]!r:.80} is not allowed in {estimator}; wanted {parameter.wanted}."
            )


def parse_settings(settings: Iterable[str], table: Mapping[str, Parameter]) -> dict[str, Any]:
    """``name=value`` texts to values, refusing unknown names (with the nearest valid one) and bad values."""
    values: dict[str, Any] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise ValueError(f"--set {setting!r}: wanted name=value.")
        if name not in table:
            near = difflib.get_close_matches(name, table, n=1, cutoff=0.4)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(table)}."
            raise ValueError(f"--set {setting!r}: there is no parameter {name!r}; {hint}")
        values[name] = table[name].parse(text)
        if not table[name].accepts(values[name]):
            raise ValueError(f"--set {setting!r}: {text!r} is not allowed; wanted {table[name].wanted}.")
    return values
