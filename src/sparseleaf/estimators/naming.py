"""Public methods named after the public class rather than an internal base class, and methods of some models only."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any, TypeVar

Estimator = TypeVar("Estimator", bound=type)


def named(estimator: Estimator) -> Estimator:
    """Copy the public methods that a class inherits within this package into the class.

    Python's error messages (``SketchForestClassifier.fit() got an unexpected keyword argument``) name a method after
    the class that defines it.
    """
    for base in estimator.__mro__[1:]:
        if not base.__module__.startswith("sparseleaf."):
            continue
        for name, method in vars(base).items():
            public = name == "__init__" or not name.startswith("_")
            inherited = public and getattr(estimator, name, None) is getattr(base, name, None)
            own_name = f"{estimator.__qualname__}.{name}"
            if inherited and isinstance(method, FunctionType):
                setattr(estimator, name, _copy(method, own_name))
            elif inherited and isinstance(method, available_with):
                setattr(estimator, name, available_with(method.require)(_copy(method.function, own_name)))
    return estimator


class available_with:
    """Decorator of a method that only some fitted models have: ``require`` raises AttributeError for the others.

    As scikit-learn's ``available_if``, with a method that :func:`named` can copy.
    """

    function: Any

    def __init__(self, require: Callable[[Any], None]) -> None:
        self.require = require

    def __call__(self, function: Any) -> Any:
        """Decorate the method."""
        self.function = function
        return self

    def __get__(self, estimator: Any, owner: type | None = None) -> Any:
        if estimator is None:
            return self.function
        self.require(estimator)
        return MethodType(self.function, estimator)


def _copy(method: FunctionType, name: str) -> FunctionType:
    copy = FunctionType(
        method.__code__, method.__globals__, method.__name__, method.__defaults__, method.__closure__
    )
    copy.__qualname__ = name
    copy.__kwdefaults__ = method.__kwdefaults__
    copy.__annotations__ = method.__annotations__
    copy.__doc__ = method.__doc__
    copy.__module__ = method.__module__
    copy.__dict__.update(method.__dict__)
    return copy
