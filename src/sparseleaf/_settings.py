"""Parameters of an estimator as JSON has them: to compare trainings with each other."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np


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
