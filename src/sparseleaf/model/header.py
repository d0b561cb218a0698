"""What a model file's header says of a model besides its stages, and the checks of a header from a stranger."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, get_args

from sparseleaf.data.categories import MAX_CATEGORIES
from sparseleaf.data.targets import Kind
from sparseleaf.links import LINKS
from sparseleaf.model.source import ModelFileError

if TYPE_CHECKING:
    from sparseleaf.model.model import Model

NAME_KINDS = {"i": "int", "u": "int", "f": "float", "b": "bool"}
"""How label names are told apart, by the kind of their numpy type; all others are text."""

MOST_LEVELS = 64
"""Of objects and arrays in each other."""

PLAIN = ("method", "n_features", "n_labels", "n_train_rows", "target_kind", "link", "parameters", "history")
"""Attributes that are in the header as they are."""

TYPES: dict[str, type] = {
    "method": str,
    "n_features": int,
    "n_labels": int,
    "n_train_rows": int,
    "target_kind": str,
    "link": str,
    "label_name_kind": str,
    "parameters": dict,
    "history": dict,
    "stages": list,
}


def encode(model: Model) -> dict[str, Any]:
    """The header of a model, without its stages."""
    names = model.label_names
    return {name: getattr(model, name) for name in PLAIN} | {
        "label_name_kind": "none" if names is None else NAME_KINDS.get(names.dtype.kind, "str"),
        "feature_names": model.feature_names,
        "categories": {str(feature): names for feature, names in model.categories.items()},
        "threshold": model.threshold,
    }


def decode(header: dict[str, Any]) -> dict[str, Any]:
    """Attributes of a model from a header that was checked."""
    return {name: header[name] for name in PLAIN} | {
        "feature_names": _feature_names(header),
        "categories": _categories(header),
        "threshold": _threshold(header),
    }


def check(header: dict[str, Any]) -> None:
    """Raise ModelFileError where a key is missing or of another type or range."""
    for key, kind in TYPES.items():
        require(header, key, kind)
    for key, choices in (("target_kind", get_args(Kind)), ("link", tuple(LINKS))):
        if header[key] not in choices:
            raise ModelFileError(f"metadata {key!r} is {short(header[key])}; wanted one of {choices}")
    for name, values in header["history"].items():
        if not isinstance(values, list) or not all(isinstance(value, int | float) for value in values):
            raise ModelFileError(f"metadata 'history' of {short(name)} is not a list of numbers")
    for entry in header["stages"]:
        if not isinstance(entry, dict) or not isinstance(entry.get("kind"), str):
            raise ModelFileError(f"metadata 'stages' has {short(entry)}; wanted an object with a 'kind'")


def require_shallow(header: dict[str, Any]) -> None:
    """Raise ModelFileError where values are nested so deeply that they could not be walked by recursion."""
    level: list[Any] = [header]
    for _ in range(MOST_LEVELS):
        level = [
            inner
            for value in level
            if isinstance(value, dict | list)
            for inner in (value.values() if isinstance(value, dict) else value)
        ]
        if not level:
            return
    raise ModelFileError(f"its metadata has more than {MOST_LEVELS} levels")


def require(header: dict[str, Any], key: str, kind: type) -> None:
    """Raise ModelFileError where a key is missing or of another type; integers are from 0, in 63 bits."""
    value = header.get(key)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ModelFileError(f"metadata {key!r} is {short(value)}; wanted {kind.__name__}")
    if isinstance(value, int) and not 0 <= value < 2**63:
        raise ModelFileError(f"metadata {key!r} is {short(value)}; wanted 0 or more, in 63 bits")


def _threshold(header: dict[str, Any]) -> float | None:
    value = header.get("threshold")
    if value is not None and not (isinstance(value, float) and math.isfinite(value)):
        raise ModelFileError(f"metadata 'threshold' is {short(value)}; wanted a finite number, or null")
    return value


def _feature_names(header: dict[str, Any]) -> list[str] | None:
    names = header.get("feature_names")
    if names is None:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ModelFileError(f"metadata 'feature_names' is {short(names)}; wanted a list of names")
    if len(names) != header["n_features"]:
        raise ModelFileError(f"{len(names)} feature names; wanted one for each of {header['n_features']}")
    return names


def _categories(header: dict[str, Any]) -> dict[int, list[Any]]:
    found = header.get("categories", {})
    if not isinstance(found, dict):
        raise ModelFileError(f"metadata 'categories' is {short(found)}; wanted an object")
    categories = {}
    for feature, names in found.items():
        if not feature.isdecimal() or len(feature) > 9 or int(feature) >= header["n_features"]:
            raise ModelFileError(f"metadata 'categories' of {short(feature)}: no such feature")
        if not isinstance(names, list) or not all(isinstance(name, str | int | float) for name in names):
            raise ModelFileError(f"metadata 'categories' of {short(feature)} is not a list of names")
        if len(names) > MAX_CATEGORIES or len(set(names)) < len(names):
            raise ModelFileError(f"categories of feature {feature}: too many, or one is there twice")
        categories[int(feature)] = names
    return categories


def short(value: object) -> str:
    """A value as an error shows it."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
