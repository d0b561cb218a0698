"""Parameters as training reads them, and as JSON has them: to compare trainings with each other."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import SimpleNamespace
from typing import Any, Never

import numpy as np


class Settings(SimpleNamespace):
    """The value of every declared parameter, as an attribute; read-only."""

    def __setattr__(self, name: str, value: object) -> Never:
        raise AttributeError(f"settings are read-only: {name}")


def plain_settings(estimator: Any, without: Collection[str]) -> dict[str, Any]:
    """Parameters by name, but those ``without``; a function is known by its name, a seed to be drawn as such."""
    found = {
        name: _plain(value) for name, value in vars(estimator._settings()).items() if name not in without
    }
    if not isinstance(estimator.random_state, int | np.integer):
        found["random_state"] = "drawn"
    return found


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
    """A value in a message."""
    text = value if isinstance(value, str) and "fingerprint" in value else repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def most_leaves(params: Settings, n_rows: int) -> int:
    """Leaves that a boosted tree can have."""
    by_rows = max(1, n_rows // params.min_samples_leaf)
    by_depth = 2 ** min(params.max_depth, 40) if params.max_depth is not None else by_rows
    return int(min(by_rows, by_depth, params.max_leaves or by_rows))
