"""Base class of estimators whose parameters are declared in a table."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from sklearn.base import BaseEstimator

from sparseleaf._settings import Settings
from sparseleaf._warnings import warn
from sparseleaf.estimators.parameters import (
    ADVANCED,
    REMOVAL,
    Parameter,
    Table,
    check_parameters,
    former_arguments,
    moved_to,
    suggestion,
)

NESTED = f"{ADVANCED}__"
"""Prefix of advanced parameters in ``set_params``."""


class DeclaredEstimator(BaseEstimator):  # type: ignore[misc]
    """A scikit-learn estimator with a table of declared parameters.

    Constructors have an explicit signature: the parameters that are not advanced, ``advanced``, and ``**former`` for
    renamed or moved arguments of the previous release, which :meth:`_take_former` translates.
    """

    parameter_table: ClassVar[Table]
    __signature__: ClassVar[inspect.Signature]
    advanced: Mapping[str, Any] | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Add attributes under former names; hide ``**former`` from the signature."""
        super().__init_subclass__(**kwargs)
        _, *arguments = inspect.signature(cls.__init__).parameters.values()
        cls.__signature__ = inspect.Signature([one for one in arguments if one.kind != one.VAR_KEYWORD])
        for name, parameter in former_arguments(vars(cls).get("parameter_table", {})).items():
            setattr(cls, name, _FormerAttribute(name, parameter))

    def set_params(self, **params: Any) -> Self:
        """Set the parameters of this estimator.

        Parameters
        ----------
        **params : dict
            Values by parameter name. ``advanced__<name>`` sets one entry of ``advanced``.

        Returns
        -------
        self
        """
        former = former_arguments(self.parameter_table)
        known: dict[str, Any] = {}
        entries: dict[str, Any] = {}
        for name, value in params.items():
            if name.startswith(NESTED):
                entries[name.removeprefix(NESTED)] = value
            elif name not in former:
                known[name] = value
            else:
                _warn_of(name, former[name])
                (entries if former[name].advanced else known)[former[name].name] = value
        if entries:
            known[ADVANCED] = {**(known.get(ADVANCED, self.advanced) or {}), **entries}
        super().set_params(**known)
        return self

    def _take_former(self, arguments: dict[str, Any]) -> None:
        """Accept arguments of the previous release with a FutureWarning; others raise Python's usual TypeError."""
        former = former_arguments(self.parameter_table)
        for name in arguments:
            if name not in former:
                known = self.parameter_table.get(name)
                hint = f"pass {moved_to(known)}." if known else suggestion(name, self.parameter_table)
                raise TypeError(
                    f"{type(self).__name__}.__init__() got an unexpected keyword argument {name!r}; {hint}"
                )
            parameter = former[name]
            if not parameter.advanced and getattr(self, parameter.name) != parameter.default:
                raise TypeError(
                    f"{type(self).__name__}.__init__() got both {parameter.name!r} and its former name {name!r}."
                )
        self.set_params(**arguments)

    @classmethod
    def from_settings(cls, values: Mapping[str, Any]) -> Self:
        """Create an estimator from one flat mapping of parameters, such as a configuration file.

        Parameters
        ----------
        values : mapping
            Values by parameter name, advanced or not; the result of ``get_params`` is accepted too, as are names and
            spellings of the previous release. Advanced parameters equal to their default are omitted from
            ``advanced``.

        Returns
        -------
        estimator : object
            Unfitted estimator.
        """
        values = dict(values)
        values |= values.pop(ADVANCED, None) or {}
        known: dict[str, Any] = {}
        entries: dict[str, Any] = {}
        for name, value in values.items():
            if name.partition("__")[0] in values and "__" in name:
                continue  # a parameter of an object among the values
            parameter = cls._declared(name)
            if parameter is None:
                raise ValueError(
                    f"{cls.__name__} has no parameter {name!r}; {suggestion(name, cls.parameter_table)}"
                )
            (entries if parameter.advanced else known)[parameter.name] = parameter.current(value)
        entries = {
            name: value
            for name, value in entries.items()
            if not _same(value, cls.parameter_table[name].default)
        }
        return cls(**known, **({ADVANCED: entries} if entries else {}))

    @classmethod
    def _declared(cls, name: str) -> Parameter | None:
        """The parameter with that current or former name."""
        return cls.parameter_table.get(name) or former_arguments(cls.parameter_table).get(name)

    def _raw_values(self) -> dict[str, Any]:
        """The value of every declared parameter, as passed by the user."""
        entries = self.advanced or {}
        return {
            name: entries.get(name, parameter.default) if parameter.advanced else getattr(self, name)
            for name, parameter in self.parameter_table.items()
        }

    def _settings(self) -> Settings:
        """The value of every declared parameter in its current spelling, as read by training."""
        table = self.parameter_table
        return Settings(**{name: table[name].current(value) for name, value in self._raw_values().items()})

    def _check_parameters(self) -> None:
        """Raise ValueError for the first parameter whose value is not valid."""
        owner = type(self).__name__
        if self.advanced is not None and not isinstance(self.advanced, Mapping):
            raise ValueError(
                f"The {ADVANCED!r} parameter of {owner} must be a dict or None. Got {self.advanced!r:.80} instead."
            )
        known = {name: one for name, one in self.parameter_table.items() if one.advanced}
        for name in self.advanced or {}:
            if name in known:
                continue
            meant = self._declared(name)
            if meant is None:
                hint = suggestion(str(name), known)
            else:
                hint = f"did you mean {meant.name!r}?" if meant.advanced else f"pass it as {meant.name}=…."
            raise ValueError(
                f"The {ADVANCED!r} parameter of {owner} must have names of advanced parameters as keys. Got {name!r}"
                f" instead; {hint}"
            )
        check_parameters(owner, self._raw_values(), self.parameter_table)


def _same(value: Any, default: Any) -> bool:
    return type(value) is type(default) and value == default


class _FormerAttribute:
    """Attribute access to a parameter under its name in the previous release."""

    def __init__(self, name: str, parameter: Parameter) -> None:
        self._name, self._parameter = name, parameter

    def __get__(self, estimator: DeclaredEstimator | None, owner: type) -> Any:
        if estimator is None:
            return self
        _warn_of(self._name, self._parameter)
        return getattr(estimator._settings(), self._parameter.name)

    def __set__(self, estimator: DeclaredEstimator, value: Any) -> None:
        estimator.set_params(**{self._name: value})


def _warn_of(name: str, parameter: Parameter) -> None:
    warn(
        f"The {name!r} parameter is now passed as {moved_to(parameter)}; the former argument {REMOVAL}.",
        FutureWarning,
    )
