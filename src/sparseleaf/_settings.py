"""Parameter values as read by training, and in a JSON form to compare trainings."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import SimpleNamespace
from typing import Any, Never

import numpy as np


class Settings(SimpleNamespace):
    """Read-only namespace with the value of every declared parameter."""

    def __setattr__(self, name: str, value: object) -> Never:
        raise AttributeError(f"settings are read-only: {name}")


def plain_settings(estimator: Any, without: Collection[str]) -> dict[str, Any]:
    """Parameters by name, except ``without``, in a JSON-compatible form; callables are replaced by their names."""
    settings = {
        name: _plain(value) for name, value in vars(estimator._settings()).items() if name not in without
    }
    if not isinstance(estimator.random_state, int | np.integer):
        settings["random_state"] = "drawn"
    return settings


def _plain(value: Any) -> Any:
    if callable(value):
        return (
            f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', type(value).__qualname__)}"
        )
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value if isinstance(value, str | int | float | None) else repr(value)


def short(value: Any) -> str:
    """Representation of a value in a message, at most 80 characters."""
    text = value if isinstance(value, str) and "fingerprint" in value else repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def most_leaves(params: Settings, n_rows: int) -> int:
    """Maximum number of leaves of a boosted tree."""
    by_rows = max(1, n_rows // params.min_samples_leaf)
    by_depth = 2 ** min(params.max_depth, 40) if params.max_depth is not None else by_rows
    return int(min(by_rows, by_depth, params.max_leaves or by_rows))
