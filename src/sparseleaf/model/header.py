"""The header of a model file: encoding, and validation of untrusted headers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, get_args

from sparseleaf.data.categories import MAX_CATEGORIES
from sparseleaf.data.targets import Kind
from sparseleaf.links import LINKS
from sparseleaf.model.drift import check_updates, check_validation
from sparseleaf.model.source import ModelFileError
from sparseleaf.model.target_columns import check_target_columns

if TYPE_CHECKING:
    from sparseleaf.model.model import Model

NAME_KINDS = {"i": "int", "u": "int", "f": "float", "b": "bool"}
"""Type of label names by numpy kind; all others are strings."""

MAX_LEVELS = 64
"""Maximum nesting depth of the JSON header."""

PLAIN = ("method", "n_features", "n_labels", "n_train_rows", "target_kind", "link", "parameters", "history")
"""Attributes stored without conversion."""

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
    columns = {"target_columns": model.target_columns} if model.target_columns else {}
    return (
        columns
        | {name: getattr(model, name) for name in PLAIN}
        | {
            "label_name_kind": "none" if names is None else NAME_KINDS.get(names.dtype.kind, "str"),
            "feature_names": model.feature_names,
            "categories": {str(feature): names for feature, names in model.categories.items()},
            "threshold": model.threshold,
            "validation": model.validation,
            "updates": list(model.updates),
        }
    )


def decode(header: dict[str, Any]) -> dict[str, Any]:
    """Attributes of a model from a validated header."""
    return {name: header[name] for name in PLAIN} | {
        "feature_names": _feature_names(header),
        "categories": _categories(header),
        "threshold": _threshold(header),
        "validation": check_validation(header.get("validation")),
        "updates": tuple(check_updates(header.get("updates", []))),
        "target_columns": check_target_columns(header.get("target_columns", {})),
    }


def check(header: dict[str, Any]) -> None:
    """Raise ModelFileError if a key is missing or has a wrong type or value."""
    for key, kind in TYPES.items():
        require(header, key, kind)
    for key, choices in (("target_kind", get_args(Kind)), ("link", tuple(LINKS))):
        if header[key] not in choices:
            raise ModelFileError(f"metadata {key!r} must be one of {choices}, is {short(header[key])}")
    for name, values in header["history"].items():
        if not isinstance(values, list) or not all(isinstance(value, int | float) for value in values):
            raise ModelFileError(f"metadata 'history' of {short(name)} must be a list of numbers")
    for entry in header["stages"]:
        if not isinstance(entry, dict) or not isinstance(entry.get("kind"), str):
            raise ModelFileError(f"metadata 'stages' must have objects with a 'kind', has {short(entry)}")


def require_shallow(header: dict[str, Any]) -> None:
    """Raise ModelFileError if values are nested too deeply for recursion."""
    level: list[Any] = [header]
    for _ in range(MAX_LEVELS):
        level = [
            inner
            for value in level
            if isinstance(value, dict | list)
            for inner in (value.values() if isinstance(value, dict) else value)
        ]
        if not level:
            return
    raise ModelFileError(f"its metadata is nested more than {MAX_LEVELS} levels deep")


def require(header: dict[str, Any], key: str, kind: type) -> None:
    """Raise ModelFileError if a key is missing or has a wrong type; integers must be non-negative, below 2⁶³."""
    value = header.get(key)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ModelFileError(f"metadata {key!r} must be {kind.__name__}, is {short(value)}")
    if isinstance(value, int) and not 0 <= value < 2**63:
        raise ModelFileError(f"metadata {key!r} must be non-negative and below 2^63, is {short(value)}")


def _threshold(header: dict[str, Any]) -> float | None:
    value = header.get("threshold")
    if value is not None and not (isinstance(value, float) and math.isfinite(value)):
        raise ModelFileError(f"metadata 'threshold' must be a finite number or null, is {short(value)}")
    return value


def _feature_names(header: dict[str, Any]) -> list[str] | None:
    names = header.get("feature_names")
    if names is None:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ModelFileError(f"metadata 'feature_names' must be a list of names, is {short(names)}")
    if len(names) != header["n_features"]:
        raise ModelFileError(
            f"metadata 'feature_names' must have {header['n_features']} names, has {len(names)}"
        )
    return names


def _categories(header: dict[str, Any]) -> dict[int, list[Any]]:
    entries = header.get("categories", {})
    if not isinstance(entries, dict):
        raise ModelFileError(f"metadata 'categories' must be an object, is {short(entries)}")
    categories = {}
    for feature, names in entries.items():
        if not feature.isdecimal() or len(feature) > 9 or int(feature) >= header["n_features"]:
            raise ModelFileError(f"metadata 'categories' of {short(feature)}: no such feature")
        if not isinstance(names, list) or not all(isinstance(name, str | int | float) for name in names):
            raise ModelFileError(f"metadata 'categories' of {short(feature)} must be a list of names")
        if len(names) > MAX_CATEGORIES or len(set(names)) < len(names):
            raise ModelFileError(
                f"categories of feature {feature} must be at most {MAX_CATEGORIES} distinct names"
            )
        categories[int(feature)] = names
    return categories


def short(value: object) -> str:
    """A value shortened for an error message."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
