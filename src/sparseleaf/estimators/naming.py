"""Methods under the name of the class that users know, not under that of an internal base class."""

from __future__ import annotations

from types import FunctionType
from typing import TypeVar

Estimator = TypeVar("Estimator", bound=type)


def named(estimator: Estimator) -> Estimator:
    """Give a class copies of the public methods that it inherits within this package.

    Python's own messages (``SketchForestClassifier.fit() got an unexpected keyword argument``) name a method after the
    class that defines it.
    """
    for base in estimator.__mro__[1:]:
        if not base.__module__.startswith("sparseleaf."):
            continue
        for name, method in vars(base).items():
            public = name == "__init__" or not name.startswith("_")
            if public and isinstance(method, FunctionType) and getattr(estimator, name) is method:
                setattr(estimator, name, _copy(method, f"{estimator.__qualname__}.{name}"))
    return estimator


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
