"""Valid values of a parameter: how they are described, validated, and parsed from text.

Sets are combined with ``|``: ``Int(low=1) | NONE``.
"""

from __future__ import annotations

import math
import numbers
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sparseleaf.model.decoding import FORMS, make_decoder

if TYPE_CHECKING:
    from sparseleaf.objectives import Number


class Values(ABC):
    """A set of valid values."""

    @property
    @abstractmethod
    def text(self) -> str:
        """Description of the set for error messages and documentation."""

    @abstractmethod
    def __contains__(self, value: object) -> bool:
        """Whether the value is valid."""

    @abstractmethod
    def parse(self, text: str) -> Any:
        """Convert text to a value; ValueError if the value is not in the set."""

    def parse_entries(self, entries: Mapping[str, str]) -> Any:
        """Create an object from its parameters as text; ValueError if there is no such parameter or value."""
        raise ValueError(f"{self.text} has no parameters.")

    def __or__(self, other: Values) -> Values:
        """Union of two sets."""
        return _Union((*_parts(self), *_parts(other)))


def _parts(values: Values) -> tuple[Values, ...]:
    return values.parts if isinstance(values, _Union) else (values,)


@dataclass(frozen=True)
class _Union(Values):
    parts: tuple[Values, ...]

    @property
    def text(self) -> str:
        *first, last = (part.text for part in self.parts)
        return f"{', '.join(first)} or {last}"

    def __contains__(self, value: object) -> bool:
        return any(value in part for part in self.parts)

    def parse(self, text: str) -> Any:
        for part in self.parts:
            try:
                return part.parse(text)
            except ValueError:
                continue
        raise ValueError(text)

    def parse_entries(self, entries: Mapping[str, str]) -> Any:
        return self.parts[0].parse_entries(entries)


@dataclass(frozen=True)
class Float(Values):
    """Numbers in an interval; ``low_open`` excludes the lower bound."""

    low: float = -math.inf
    high: float = math.inf
    low_open: bool = False

    _noun: ClassVar[str] = "a number"
    _type: ClassVar[type] = numbers.Real

    @property
    def text(self) -> str:
        """See :attr:`Values.text`."""
        words = self._noun
        if math.isfinite(self.low):
            words += f" {'>' if self.low_open else '>='} {self.low:g}"
        if math.isfinite(self.high):
            words += f" and <= {self.high:g}"
        return words

    def __contains__(self, value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, self._type):
            return False
        try:
            number = float(value)  # type: ignore[arg-type]
        except OverflowError:  # an int beyond any float
            return False
        above = number > self.low if self.low_open else number >= self.low
        return above and number <= self.high  # NaN is neither

    def parse(self, text: str) -> Any:
        """See :meth:`Values.parse`."""
        for convert in (int, float):
            try:
                number = convert(text)
            except ValueError:
                continue
            if number in self:
                return number
        raise ValueError(text)


class Int(Float):
    """Integers in an interval."""

    _noun: ClassVar[str] = "an int"
    _type: ClassVar[type] = numbers.Integral


class FractionOrCount(Float):
    """A fraction below 1, or an integer."""

    _noun: ClassVar[str] = "a fraction below 1 or an integer"

    def __contains__(self, value: object) -> bool:
        return super().__contains__(value) and (value < 1 or float(value).is_integer())  # type: ignore[operator, arg-type]


@dataclass(frozen=True)
class Names(Values):
    """A fixed list of names; some may be followed by a number, such as ``quantile:0.9``."""

    choices: tuple[str, ...]
    with_number: Mapping[str, Number] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """See :attr:`Values.text`."""
        if len(self.choices) == 1:
            return repr(self.choices[0])
        words = f"one of {{{', '.join(map(repr, self.choices))}}}"
        return words + "".join(
            f" ('{name}:x' with {number.text})" for name, number in self.with_number.items()
        )

    def __contains__(self, value: object) -> bool:
        return isinstance(value, str) and (value in self.choices or self._carries_number(value))

    def _carries_number(self, text: str) -> bool:
        name, _, number = text.partition(":")
        return name in self.with_number and self.with_number[name].accepts(number)

    def parse(self, text: str) -> str:
        """See :meth:`Values.parse`."""
        if text not in self:
            raise ValueError(text)
        return text


@dataclass(frozen=True)
class Decoding(Values):
    """Names of decoders; see :mod:`sparseleaf.model.decoding`."""

    text = FORMS

    def __contains__(self, value: object) -> bool:
        try:
            make_decoder(value)
        except ValueError:
            return False
        return True

    def parse(self, text: str) -> str:
        """See :meth:`Values.parse`."""
        make_decoder(text)
        return text


@dataclass(frozen=True)
class Bool(Values):
    """True and False."""

    text = "a bool"

    def __contains__(self, value: object) -> bool:
        return isinstance(value, bool | np.bool_)

    def parse(self, text: str) -> bool:
        """See :meth:`Values.parse`."""
        if text.lower() not in ("true", "false"):
            raise ValueError(text)
        return text.lower() == "true"


@dataclass(frozen=True)
class Sequences(Values):
    """Sequences and arrays; the estimator validates the entries."""

    text = "a sequence"

    def __contains__(self, value: object) -> bool:
        return isinstance(value, Sequence | np.ndarray) and not isinstance(value, str)

    def parse(self, text: str) -> Any:
        """See :meth:`Values.parse`."""
        words = text.split(",")
        if text.lower() == "none" or all(":" in word for word in words):  # None, or a mapping
            raise ValueError(text)
        return [_int_or_name(word) for word in words]


@dataclass(frozen=True)
class ByFeature(Values):
    """Mappings from features (names or column numbers) to numbers."""

    text = "a dict keyed by feature"

    def __contains__(self, value: object) -> bool:
        return isinstance(value, Mapping)

    def parse(self, text: str) -> Any:
        """See :meth:`Values.parse`."""
        pairs = [word.strip().rpartition(":") for word in text.split(",")]
        if not all(colon for _, colon, _ in pairs):
            raise ValueError(text)
        return {name: _int_or_name(number) for name, _, number in pairs}


class ByLabel(ByFeature):
    """Mappings from labels to numbers."""

    text = "a dict keyed by label"

    def parse(self, text: str) -> Any:
        """See :meth:`Values.parse`."""
        pairs = [word.strip().rpartition(":") for word in text.split(",")]
        if not all(colon for _, colon, _ in pairs):
            raise ValueError(text)
        return {name: float(number) for name, _, number in pairs}


class Numbers(Sequences):
    """Sequences and arrays of numbers."""

    text = "a sequence of numbers"

    def parse(self, text: str) -> Any:
        """See :meth:`Values.parse`."""
        return [float(word) for word in text.split(",")]


def _int_or_name(word: str) -> int | str:
    word = word.strip()
    return int(word) if word.lstrip("+-").isdecimal() else word


@dataclass(frozen=True)
class Function(Values):
    """Callables, which have no text form."""

    text = "a callable"

    def __contains__(self, value: object) -> bool:
        return callable(value)

    def parse(self, text: str) -> Any:
        """See :meth:`Values.parse`."""
        raise ValueError(text)


@dataclass(frozen=True)
class Seed(Values):
    """Everything that scikit-learn's ``check_random_state`` accepts except None."""

    text = "an int, a numpy RandomState"

    def __contains__(self, value: object) -> bool:
        return isinstance(value, numbers.Integral) or hasattr(value, "randint")

    def parse(self, text: str) -> int:
        """See :meth:`Values.parse`."""
        return int(text)


@dataclass(frozen=True)
class _Nothing(Values):
    text = "None"

    def __contains__(self, value: object) -> bool:
        return value is None

    def parse(self, text: str) -> None:
        """See :meth:`Values.parse`."""
        if text.lower() != "none":
            raise ValueError(text)


NONE = _Nothing()
"""The value None, written as ``none`` in text."""
