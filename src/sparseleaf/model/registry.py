"""Registry of stage classes by kind.

A module of one of the packages below registers its stage where it is defined. Modules are imported when a kind is first
looked up, so that packages that depend on this one can add stages.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from sparseleaf.model.stage import Role

PACKAGES = ("sparseleaf.model", "sparseleaf.features", "sparseleaf.projection", "sparseleaf.rerank")
"""Where stages are defined."""

S = TypeVar("S", bound=type)

_CLASSES: dict[str, Any] = {}


def register(*kinds: str) -> Callable[[S], S]:
    """Class decorator: register a stage under these kinds."""

    def add(cls: S) -> S:
        for kind in kinds:
            _CLASSES[kind] = cls
        return cls

    return add


@cache
def _import_all() -> None:
    for name in PACKAGES:
        package = import_module(name)
        for module in pkgutil.iter_modules(package.__path__, f"{name}."):
            import_module(module.name)


def stage_class(kind: str) -> Any:
    """The class of that kind; ValueError if unknown."""
    _import_all()
    if kind not in _CLASSES:
        raise ValueError("unknown kind of stage; update sparseleaf")
    return _CLASSES[kind]


def kinds_of(role: Role) -> tuple[str, ...]:
    """All kinds of that role, in alphabetical order."""
    _import_all()
    return tuple(sorted(kind for kind, cls in _CLASSES.items() if cls.role is role))
