"""One definition of every parameter: what it may be, and what it means.

It feeds the checks of the estimators, ``--set`` of the command line, the estimators' docstrings, and the table in the
documentation.
"""

from __future__ import annotations

import difflib
import inspect
import math
import numbers
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Never, TypeVar

import numpy as np

if TYPE_CHECKING:
    from sparseleaf.objectives import Number

Estimator = TypeVar("Estimator", bound=type)


@dataclass(frozen=True)
class Parameter:
    """A parameter of an estimator.

    Attributes
    ----------
    kind : "int", "float", "name", "number", "flag", "list" or "seed"
        "number" is a share below 1 or a whole number; "flag" is a bool, or one of the choices; "list" is a sequence,
        whose entries are checked by the estimator.
    low, high : float
        Bounds; ``low_open`` excludes the lower one.
    choices : tuple of str
        Names it may be.
    with_number : dict of str to Number
        Choices that may carry a number, such as ``huber:2``, and its range.
    function : bool
        Whether a function may be given.
    by_feature : bool
        Whether a list may also be a dict by feature.
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
    with_number: Mapping[str, Number] = field(default_factory=dict)
    function: bool = False
    by_feature: bool = False

    @property
    def wanted(self) -> str:
        """What may be given, in words."""
        if self.kind == "seed":
            return "an int, a numpy RandomState or None"
        if self.kind == "flag" and not self.choices:
            return "True or False"
        if self.kind == "list":
            words = "".join(f"{choice!r}, " for choice in self.choices) + "a sequence"
            words += ", a dict by feature" if self.by_feature else ""
        elif self.kind == "flag":
            words = "True, False or " + " or ".join(map(repr, self.choices))
        elif self.kind == "name":
            words = f"one of {{{', '.join(map(repr, self.choices))}}}"
            words += "".join(
                f" ('{name}:x' with {number.wanted})" for name, number in self.with_number.items()
            )
            words += " or a function" if self.function else ""
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
        if self.kind == "list":
            return value in self.choices if isinstance(value, str) else self._accepts_list(value)
        if value is None:
            return self.none
        if callable(value):
            return self.function
        if self.kind == "flag" and (isinstance(value, bool | np.bool_) or not self.choices):
            return isinstance(value, bool | np.bool_)
        if isinstance(value, str) or self.kind in ("name", "flag"):
            return isinstance(value, str) and (value in self.choices or self._carries_number(value))
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

    def _accepts_list(self, value: Any) -> bool:
        if value is None:
            return self.none
        return isinstance(value, Sequence | np.ndarray) or (self.by_feature and isinstance(value, Mapping))

    def _carries_number(self, text: str) -> bool:
        name, _, number = text.partition(":")
        return name in self.with_number and self.with_number[name].accepts(number)

    def parse(self, text: str) -> Any:
        """The value that a user wrote as text; ``none`` is None."""
        if text.lower() == "none":
            return None
        if text in self.choices:
            return text
        if self.kind == "list":
            return _parse_list(text)
        if self.kind == "flag" and text.lower() in ("true", "false"):
            return text.lower() == "true"
        for convert in (int, float):
            try:
                return convert(text)
            except ValueError:
                continue
        return text


class Settings(SimpleNamespace):
    """The value of every declared parameter, as an attribute; read-only."""

    def __setattr__(self, name: str, value: object) -> Never:
        raise AttributeError(f"settings are read-only: {name}")


def most_leaves(params: Settings, n_rows: int) -> int:
    """Leaves that a boosted tree can have."""
    by_rows = max(1, n_rows // params.min_samples_leaf)
    by_depth = 2 ** min(params.max_depth, 40) if params.max_depth is not None else by_rows
    return int(min(by_rows, by_depth, params.max_leaves or by_rows))


N_JOBS = Parameter(
    "int",
    "Threads; None, 0 or -1 for all cores, -2 for all but one. The model does not depend on it.",
    none=True,
)

SAMPLING_PARAMETERS: dict[str, Parameter] = {
    "subsample": Parameter(
        "float", "Share of the rows that a tree is grown on.", low=0, high=1, low_open=True
    ),
    "colsample_bytree": Parameter(
        "float", "Share of the features a tree may use.", low=0, high=1, low_open=True
    ),
    "colsample_bynode": Parameter(
        "float", "Share of the tree's features a node may use.", low=0, high=1, low_open=True
    ),
}
"""What boosted trees are grown on."""


def _parse_list(text: str) -> Any:
    """``1,0,-1`` and ``age,town`` are lists, ``age:1,price:-1`` is a dict; numbers are numbers."""

    def value(word: str) -> Any:
        return int(word) if word.lstrip("+-").isdecimal() else word

    words = [word.strip() for word in text.split(",")]
    if all(":" in word for word in words):
        return {name: value(number) for name, _, number in (word.rpartition(":") for word in words)}
    return [value(word) for word in words]


def documented(estimator: Estimator) -> Estimator:
    """Write the parameters of a class's ``parameter_table`` where its docstring says ``{parameters}``."""
    if estimator.__doc__ is None:  # python -OO
        return estimator
    defaults = inspect.signature(estimator).parameters
    table: Mapping[str, Parameter] = estimator.parameter_table  # type: ignore[attr-defined]
    entries = [
        f"{name} : {parameter.wanted}, default={defaults[name].default!r}\n"
        + textwrap.fill(
            parameter.doc, 108, initial_indent=" " * 4, subsequent_indent=" " * 4, break_on_hyphens=False
        )
        for name, parameter in table.items()
    ]
    text = "\n".join(entries)
    estimator.__doc__ = inspect.cleandoc(estimator.__doc__).replace("{parameters}", text)
    return estimator


def check_parameters(estimator: str, values: Mapping[str, Any], table: Mapping[str, Parameter]) -> None:
    """Raise ValueError for the first parameter that may not be what it is."""
    for name, parameter in table.items():
        if not parameter.accepts(values[name]):
            raise ValueError(
                f"The {name!r} parameter of {estimator} must be {parameter.wanted}. Got {values[name]!r:.80} instead."
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
            raise ValueError(
                f"--set {setting!r}: the {name!r} parameter must be {table[name].wanted}. Got {text!r} instead."
            )
    return values
