"""What a parameter is: one declaration feeds constructors, docstrings, the command line and the reference page."""

from __future__ import annotations

import difflib
import inspect
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sparseleaf._warnings import warn
from sparseleaf.estimators.values import Values

Estimator = TypeVar("Estimator", bound=type)

ADVANCED = "advanced"
"""The constructor's argument that holds the advanced parameters."""

ADVANCED_ENTRY = (
    f"{ADVANCED} : dict or None, default=None\n    Values of the parameters below, by name, where they are not to be"
    " the default."
)
REMOVAL = "will be removed in the release after next"


@dataclass(frozen=True)
class Parameter:
    """A parameter of an estimator.

    Attributes
    ----------
    name : str
    values : Values
        What may be given.
    default : object
    description : str
        What it does, in a sentence or two.
    symbol : str
        Its symbol in the paper, if any.
    advanced : bool
        Whether it is an entry of ``advanced={...}`` rather than an argument of its own.
    former_name : str
        What it was called in the last release, if that has changed.
    former_values : mapping of str to str
        Spellings of values in the last release, and what they are now.
    """

    name: str
    values: Values
    default: Any
    description: str
    symbol: str = ""
    advanced: bool = False
    former_name: str = ""
    former_values: Mapping[str, str] = field(default_factory=dict)

    @property
    def takes_function(self) -> bool:
        """Whether a function may be given."""
        return callable in self.values

    def current(self, value: Any) -> Any:
        """The value in today's spelling."""
        return self.former_values.get(value, value) if isinstance(value, str) else value

    def require(self, owner: str, value: Any) -> None:
        """Raise ValueError for a value that may not be given; warn of one in a former spelling."""
        if isinstance(value, str) and value in self.former_values:
            warn(
                f"The value {value!r} of the {self.name!r} parameter was renamed to {self.current(value)!r}; the"
                f" former spelling {REMOVAL}.",
                FutureWarning,
            )
        if self.current(value) not in self.values:
            raise ValueError(
                f"The {self.name!r} parameter of {owner} must be {self.values.text}. Got {value!r:.80} instead."
            )

    def parse(self, text: str) -> Any:
        """The value that a user wrote as text; ValueError where it may not be given."""
        return self.values.parse(self.current(text))


Table = Mapping[str, Parameter]


def declare(*parameters: Parameter) -> dict[str, Parameter]:
    """The parameters of an estimator by name."""
    return {parameter.name: parameter for parameter in parameters}


def former_arguments(table: Table) -> dict[str, Parameter]:
    """Arguments that constructors had in the last release and no longer have, by their former names."""
    return {
        parameter.former_name or parameter.name: parameter
        for parameter in table.values()
        if parameter.advanced or parameter.former_name
    }


def moved_to(parameter: Parameter) -> str:
    """Where a former argument is now."""
    return f"{ADVANCED}={{{parameter.name!r}: …}}" if parameter.advanced else repr(parameter.name)


def renamed_argument(name: str, value: Any, former_name: str, former: Any) -> Any:
    """The value of a method's argument, which may be given under its former name, with a warning."""
    if former is None:
        return value
    if value is not None:
        raise TypeError(f"got {former_name!r} and {name!r}, its new name.")
    warn(f"The {former_name!r} argument was renamed to {name!r}; the former name {REMOVAL}.", FutureWarning)
    return former


def check_parameters(owner: str, values: Mapping[str, Any], table: Table) -> None:
    """Raise ValueError for the first parameter whose value may not be given."""
    for name, parameter in table.items():
        parameter.require(owner, values[name])


def suggestion(name: str, known: Iterable[str]) -> str:
    """The nearest known name, or all of them."""
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}."


def parse_settings(settings: Iterable[str], table: Table) -> dict[str, Any]:
    """``name=value`` texts to values by today's names, advanced or not.

    Unknown names are refused, with the nearest valid one, and so are values that may not be given.
    """
    values: dict[str, Any] = {}
    former = former_arguments(table)
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise ValueError(f"--set {setting!r}: wanted name=value.")
        parameter = table.get(name) or former.get(name)
        if parameter is None:
            raise ValueError(f"--set {setting!r}: there is no parameter {name!r}; {suggestion(name, table)}")
        if parameter.name != name:
            warn(
                f"The {name!r} parameter was renamed to {parameter.name!r}; the former name {REMOVAL}.",
                FutureWarning,
            )
        try:
            values[parameter.name] = parameter.parse(text)
        except ValueError:
            raise ValueError(
                f"--set {setting!r}: the {name!r} parameter must be {parameter.values.text}. Got {text!r} instead."
            ) from None
    return values


def listed(table: Table) -> str:
    """All parameters as text: those that are tuned most often first, the advanced ones last."""
    lines = [_entry(parameter) for parameter in table.values() if not parameter.advanced]
    others = [_entry(parameter) for parameter in table.values() if parameter.advanced]
    return "\n".join(lines + (["", "Advanced:", *others] if others else []))


def documented(estimator: Estimator) -> Estimator:
    """Write the parameters of a class's ``parameter_table`` where its docstring says ``{parameters}``."""
    if estimator.__doc__ is None:  # python -OO
        return estimator
    table: Table = estimator.parameter_table  # type: ignore[attr-defined]
    entries = [_entry(parameter) for parameter in table.values() if not parameter.advanced]
    others = [_entry(parameter) for parameter in table.values() if parameter.advanced]
    if others:
        entries += [ADVANCED_ENTRY, "", "Other Parameters", "----------------", *others]
    text = "\n".join(entries)
    estimator.__doc__ = inspect.cleandoc(estimator.__doc__).replace("{parameters}", text)
    return estimator


def _entry(parameter: Parameter) -> str:
    indent = " " * 4
    return f"{parameter.name} : {parameter.values.text}, default={parameter.default!r}\n" + textwrap.fill(
        parameter.description, 108, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )
