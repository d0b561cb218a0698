"""What training will need in memory, said before it is taken. The formula is explained in ``docs/memory.md``."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from typing import Any

from sparseleaf.boosting.columns import padded_width
from sparseleaf.boosting.histograms import MIN_SLOTS, MORE_SLOTS

GIB = 2.0**30


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes that training takes beyond the caller's own X and Y.

    Attributes
    ----------
    features : int
        The projection and the projected columns, while bins are made.
    bins : int
        One byte a value; four with ``split="exact"``.
    residuals : int
        Reduced residuals: float32 and int16, ``sketch_dim`` columns.
    histograms : int
        The pool, at most.
    scores : int
        Stored (row, label) scores, at most: labels of the row plus k a tree; in practice a fraction.
    model : int
        The trees, at most: every leaf full.
    """

    features: int
    bins: int
    residuals: int
    histograms: int
    scores: int
    model: int

    @property
    def certain(self) -> int:
        """What is taken at once, whatever the trees look like."""
        return self.features + self.bins + self.residuals

    @property
    def total(self) -> int:
        """All of it, at most."""
        return sum(getattr(self, field.name) for field in fields(self))

    def __str__(self) -> str:
        parts = ", ".join(f"{field.name} {_readable(getattr(self, field.name))}" for field in fields(self))
        return f"memory at most {_readable(self.total)} ({parts})"


def estimate(
    n_rows: int,
    n_features: int,
    n_labels: int,
    target_entries: int,
    *,
    input_features: int,
    projected: int,
    max_bins: int,
    sketch_width: int,
    exact: bool,
    n_trees: int,
    leaf_labels: int | None,
    max_leaves: int,
    histogram_budget: int,
) -> MemoryEstimate:
    """Apply the formula of ``docs/memory.md``; ``n_features`` counts the columns that trees see."""
    k = n_labels if leaf_labels is None else min(leaf_labels, n_labels)
    columns = 0 if exact else padded_width(sketch_width)
    histograms = _histograms(n_features, max_bins, columns, max_leaves, histogram_budget)
    entries = min(target_entries + n_rows * n_trees * k, n_rows * n_labels)
    return MemoryEstimate(
        features=projected * (4 * n_rows + 6 * input_features),
        bins=(4 if exact else 1) * n_rows * n_features,
        residuals=0 if exact else n_rows * (4 * sketch_width + 2 * columns),
        histograms=0 if exact else histograms,
        scores=8 * entries,
        model=n_trees * max_leaves * (8 * k + 34),
    )


def estimate_dense(
    n_rows: int,
    n_features: int,
    n_outputs: int,
    *,
    curvature_columns: int,
    width: int,
    reduced: int,
    max_bins: int,
    n_trees: int,
    leaf_outputs: int | None,
    max_leaves: int,
    histogram_budget: int,
) -> MemoryEstimate:
    """The formula of ``docs/memory.md`` for dense losses: targets, scores, gradients and curvatures are all there."""
    columns = padded_width(width)
    k = n_outputs if leaf_outputs is None else min(leaf_outputs, n_outputs)
    return MemoryEstimate(
        features=0,
        bins=n_rows * n_features,
        residuals=n_rows * (4 * (n_outputs + curvature_columns) + 4 * reduced + 2 * columns),
        histograms=_histograms(n_features, max_bins, columns, max_leaves, histogram_budget),
        scores=8 * n_rows * n_outputs,
        model=n_trees * max_leaves * (8 * k + 34),
    )


def _histograms(n_features: int, max_bins: int, columns: int, max_leaves: int, budget: int) -> int:
    """Of the pool: no more slots are written than nodes wait to be split, with some to spare."""
    slot = n_features * (max_bins + 1) * (columns + 1) * 4
    return max(MIN_SLOTS * slot, min(budget, (max_leaves + MORE_SLOTS) * slot))


def available_memory() -> int | None:
    """Bytes that the system could still give, where it tells."""
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") + _cached()
    except (ValueError, OSError, AttributeError):
        return None


def _cached() -> int:
    """Page cache that the system would give back, on Linux."""
    try:
        with open("/proc/meminfo") as file:  # noqa: PTH123
            values: dict[str, Any] = dict(line.split(":") for line in file)
        return max(0, 1024 * (int(values["MemAvailable"].split()[0]) - int(values["MemFree"].split()[0])))
    except (OSError, KeyError, ValueError):
        return 0


def require(estimated: MemoryEstimate, advice: str) -> None:
    """Refuse what cannot fit, before it is taken."""
    available = available_memory()
    if available is not None and estimated.certain > available:
        raise MemoryError(
            f"training would take at least {_readable(estimated.certain)} at once ({estimated}), and"
            f" {_readable(available)} are free. {advice}"
        )


def _readable(n_bytes: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if n_bytes < 1024 or unit == "GiB":
            return f"{n_bytes:.0f} {unit}" if unit == "B" else f"{n_bytes:.1f} {unit}"
        n_bytes /= 1024
    raise AssertionError
