"""Names of metrics: ``precision@1``, ``ndcg@5``, ``psp@5``; those of the last release are understood for a release."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

from sparseleaf._warnings import warn

Value = TypeVar("Value")

FORMER = {"P": "precision", "nDCG": "ndcg", "PSP": "psp", "PSnDCG": "psndcg"}
"""Metrics of rankings, by what they were called when they were in percent."""

_FORMER_NAME = re.compile(r"(.* )?(P|nDCG|PSP|PSnDCG)(@\d+)?")


def current_name(name: str) -> str:
    """``"P@1"`` is ``"precision@1"``, ``"valid nDCG@5"`` is ``"valid ndcg@5"``; other names are what they are."""
    found = _FORMER_NAME.fullmatch(name)
    return name if found is None else f"{found[1] or ''}{FORMER[found[2]]}{found[3] or ''}"


def current_history(history: Mapping[str, list[float]], *, percent: bool) -> dict[str, list[float]]:
    """The history of a model file in today's names and, where it was in ``percent``, in fractions."""
    return {
        current_name(name): [value / 100 for value in values]
        if percent and current_name(name) != name
        else list(values)
        for name, values in history.items()
    }


def warn_of_name(name: str) -> None:
    """Say what a metric is called now."""
    warn(
        f"The metric {name!r} was renamed to {current_name(name)!r}, which is a fraction; the former name, in percent"
        " where it was so, will be removed in the release after next.",
        FutureWarning,
    )


class ByMetric(dict[str, Value]):
    """Anything by the name of a metric; former names answer too, with a warning."""

    def __missing__(self, name: str) -> Value:
        if current_name(name) not in self or current_name(name) == name:
            raise KeyError(name)
        warn_of_name(name)
        return self._in_former_unit(self[current_name(name)])

    def _in_former_unit(self, value: Value) -> Value:
        return value


class Measured(ByMetric[Value]):
    """Numbers, or lists of them, by the name of a metric; what a former name answers is multiplied by ``scale``."""

    def __init__(self, values: Mapping[str, Value], scale: float) -> None:
        super().__init__(values)
        self._scale = scale

    def _in_former_unit(self, value: Any) -> Any:
        return [one * self._scale for one in value] if isinstance(value, list) else value * self._scale
