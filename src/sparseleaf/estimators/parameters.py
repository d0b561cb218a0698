"""Declaration of a parameter, from which validation, docstrings, the CLI and the parameter reference are derived."""

from __future__ import annotations

import difflib
import inspect
import re
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sparseleaf._warnings import warn
from sparseleaf.estimators.values import Values

Estimator = TypeVar("Estimator", bound=type)

ADVANCED = "advanced"
"""The constructor argument that holds the advanced parameters."""

ADVANCED_ENTRY = (
    f"{ADVANCED} : dict or None, default=None\n    Values of the advanced parameters below, by name."
)
REMOVAL = "will be removed in the release after next"


@dataclass(frozen=True)
class Parameter:
    """A parameter of an estimator.

    Attributes
    ----------
    name : str
    values : Values
        Valid values.
    default : object
    description : str
        Effect of the parameter, in one or two sentences.
    symbol : str
        Symbol in the paper, if any.
    advanced : bool
        Whether it is an entry of ``advanced={...}`` rather than a constructor argument.
    former_name : str
        Name in the previous release, if it was renamed.
    former_values : mapping of str to str
        Renamed values: spelling in the previous release to current spelling.
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
        """Whether a callable is a valid value."""
        return callable in self.values

    @property
    def type_text(self) -> str:
        """Valid values in the form of numpydoc: without articles."""
        return re.sub(r"\b(?:an?|one of) ", "", self.values.text)

    def current(self, value: Any) -> Any:
        """The value in its current spelling."""
        return self.former_values.get(value, value) if isinstance(value, str) else value

    def require(self, owner: str, value: Any) -> None:
        """Raise ValueError for an invalid value; warn about a former spelling."""
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
        """Convert text to a value; ValueError if it is not valid."""
        return self.values.parse(self.current(text))


Table = Mapping[str, Parameter]


def declare(*parameters: Parameter) -> dict[str, Parameter]:
    """The parameters of an estimator by name."""
    return {parameter.name: parameter for parameter in parameters}


def former_arguments(table: Table) -> dict[str, Parameter]:
    """Constructor arguments of the previous release that were renamed or moved, by their former names."""
    return {
        parameter.former_name or parameter.name: parameter
        for parameter in table.values()
        if parameter.advanced or parameter.former_name
    }


def moved_to(parameter: Parameter) -> str:
    """How a former argument is passed now."""
    return f"{ADVANCED}={{{parameter.name!r}: …}}" if parameter.advanced else repr(parameter.name)


def renamed_argument(name: str, value: Any, former_name: str, former: Any) -> Any:
    """The value of an argument that may be passed under its former name, with a FutureWarning."""
    if former is None:
        return value
    if value is not None:
        raise TypeError(f"got both {name!r} and its former name {former_name!r}; pass {name!r} only.")
    warn(f"The {former_name!r} argument was renamed to {name!r}; the former name {REMOVAL}.", FutureWarning)
    return former


def check_parameters(owner: str, values: Mapping[str, Any], table: Table) -> None:
    """Raise ValueError for the first parameter whose value is not valid."""
    for name, parameter in table.items():
        parameter.require(owner, values[name])


def suggestion(name: str, known: Iterable[str]) -> str:
    """A hint with the closest known name, or all known names."""
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
    return f"did you mean {near[0]!r}?" if near else f"valid names: {', '.join(known)}."


def parse_settings(settings: Iterable[str], table: Table) -> dict[str, Any]:
    """Parse ``name=value`` strings to a dict of values by current parameter name, advanced or not.

    Raises ValueError for unknown names, with the closest valid one as a hint, and for invalid values.
    """
    values: dict[str, Any] = {}
    entries: dict[str, dict[str, str]] = {}
    former = former_arguments(table)
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise ValueError(f"--set must be name=value. Got {setting!r} instead.")
        owner, nested, entry = name.partition("__")
        if nested and owner in table:
            entries.setdefault(owner, {})[entry] = text
            continue
        parameter = table.get(name) or former.get(name)
        if parameter is None:
            raise ValueError(f"--set {setting!r}: unknown parameter {name!r}; {suggestion(name, table)}")
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
    for owner, texts in entries.items():
        try:
            values[owner] = table[owner].values.parse_entries(texts)
        except ValueError as error:
            raise ValueError(f"--set {owner}__…: {error}") from None
    return values


def listed(table: Table) -> str:
    """All parameters as text: those to tune first come first, the advanced ones last."""
    lines = [_entry(parameter) for parameter in table.values() if not parameter.advanced]
    others = [_entry(parameter) for parameter in table.values() if parameter.advanced]
    return "\n".join(lines + (["", "Advanced:", *others] if others else []))


def documented(estimator: Estimator) -> Estimator:
    """Replace ``{parameters}`` in a class docstring with the parameters of its ``parameter_table``."""
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


def entries(parameters: Iterable[Parameter]) -> list[str]:
    """Descriptions of parameters in the form of numpydoc."""
    return [_entry(parameter) for parameter in parameters]


def _entry(parameter: Parameter) -> str:
    indent = " " * 4
    return f"{parameter.name} : {parameter.type_text}, default={parameter.default!r}\n" + textwrap.fill(
        parameter.description, 108, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )
