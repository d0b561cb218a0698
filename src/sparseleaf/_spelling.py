"""Metric names (``precision@1``, ``ndcg@5``, ``psp@5``) and support for those of the previous release."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

from sparseleaf._warnings import warn

Value = TypeVar("Value")

FORMER = {"P": "precision", "nDCG": "ndcg", "PSP": "psp", "PSnDCG": "psndcg"}
"""Former metric names, whose values were in percent, and their current names."""

_FORMER_NAME = re.compile(r"(.* )?(P|nDCG|PSP|PSnDCG)(@\d+)?")


def current_name(name: str) -> str:
    """Translate former names: ``"P@1"`` to ``"precision@1"``, ``"valid nDCG@5"`` to ``"valid ndcg@5"``."""
    match = _FORMER_NAME.fullmatch(name)
    return name if match is None else f"{match[1] or ''}{FORMER[match[2]]}{match[3] or ''}"


def current_history(history: Mapping[str, list[float]], *, percent: bool) -> dict[str, list[float]]:
    """The history of a model file with current names and, if it was in ``percent``, as fractions."""
    return {
        current_name(name): [value / 100 for value in values]
        if percent and current_name(name) != name
        else list(values)
        for name, values in history.items()
    }


def warn_of_name(name: str) -> None:
    """Warn about a former metric name."""
    warn(
        f"The metric {name!r} was renamed to {current_name(name)!r}, which is a fraction; the former name, in percent"
        " where it was so, will be removed in the release after next.",
        FutureWarning,
    )


class ByMetric(dict[str, Value]):
    """Dict by metric name that also accepts former names, with a FutureWarning."""

    def __missing__(self, name: str) -> Value:
        if current_name(name) not in self or current_name(name) == name:
            raise KeyError(name)
        warn_of_name(name)
        return self._in_former_unit(self[current_name(name)])

    def _in_former_unit(self, value: Value) -> Value:
        return value


class Measured(ByMetric[Value]):
    """Metric values (numbers or lists) by name; values looked up by a former name are multiplied by ``scale``."""

    def __init__(self, values: Mapping[str, Value], scale: float) -> None:
        super().__init__(values)
        self._scale = scale

    def _in_former_unit(self, value: Any) -> Any:
        return [one * self._scale for one in value] if isinstance(value, list) else value * self._scale
