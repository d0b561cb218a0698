"""Pictures of routed trees: the paper's Figure 1 (J during training), balance and purity by level, Figure 2 (depth).

Each function takes ``path`` (``.png``, ``.svg`` or ``.pdf``) or ``ax``, and returns what it drew on.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparseleaf._files import drafting
from sparseleaf.routed.diagnostics import SplitRecord, level_summary, objective_by_level

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_depths", "plot_levels", "plot_objective"]

PathLike = str | os.PathLike[str]
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#6b6b6b"


def plot_objective(
    records: Sequence[Sequence[SplitRecord]], path: PathLike | None = None, ax: Axes | None = None
) -> Axes:
    """J after every pass over the rows, a line for every level of the trees: dark is the root."""
    ax = _axes(ax)
    levels = objective_by_level(records)
    deepest = max(levels, default=0)
    for depth, values in levels.items():
        shade = 0.15 + 0.75 * depth / max(1, deepest)
        label = f"level {depth}" if depth in (0, deepest // 2, deepest) else None
        ax.plot(range(1, len(values) + 1), values, color=_shade(shade), label=label)
    ax.set_xlabel("passes over the rows")
    ax.set_ylabel("objective J")
    return _finish(ax, path)


def plot_levels(
    records: Sequence[Sequence[SplitRecord]], path: PathLike | None = None, ax: Axes | None = None
) -> Axes:
    """Balance β and purity α of the splits of every level (definitions 1 and 2): 0 is perfect."""
    ax = _axes(ax)
    levels = level_summary(records)
    depths = [level.depth for level in levels]
    ax.plot(depths, [level.balance for level in levels], "o-", color=BLUE, label="balance β")
    ax.plot(depths, [level.purity for level in levels], "s-", color=ORANGE, label="purity α")
    ax.set_xlabel("level")
    ax.set_ylim(bottom=0)
    return _finish(ax, path)


def plot_depths(
    depths: Mapping[str, tuple[int, int, int]], path: PathLike | None = None, ax: Axes | None = None
) -> Axes:
    """Depth of the deepest tree against the number of labels.

    ``depths`` has (depth, labels K, arity M) by name. The lines are log_M K and three times that, for the smallest M.
    """
    ax = _axes(ax)
    for name, (depth, n_labels, _) in depths.items():
        ax.plot([n_labels], [depth], "o", color=BLUE)
        ax.annotate(name, (n_labels, depth), textcoords="offset points", xytext=(6, 4), fontsize=8)
    arity = min(arity for _, _, arity in depths.values())
    ends = [n_labels for _, n_labels, _ in depths.values()]
    line = [max(2, min(ends) / 2), max(ends) * 2]
    for factor, style in ((1, "-"), (3, "--")):
        text = f"{factor if factor > 1 else ''} log{arity} K".strip()
        ax.plot(line, [factor * math.log(k, arity) for k in line], style, color=GREY, label=text)
    ax.set_xscale("log")
    ax.set_xlabel("labels K")
    ax.set_ylabel("depth")
    ax.set_ylim(bottom=0)
    return _finish(ax, path)


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError('pictures need matplotlib: pip install "sparseleaf[plot]"') from error
    return Figure(figsize=(5.6, 3.6), layout="constrained").add_subplot()


def _shade(amount: float) -> tuple[float, float, float]:
    """From dark blue, at 0, to light."""
    return (0.85 * amount, 0.30 + 0.50 * amount, 0.45 + 0.45 * amount)


def _finish(ax: Axes, path: PathLike | None) -> Axes:
    ax.grid(color="#e4e4e4", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    if ax.get_legend_handles_labels()[1]:
        ax.legend(frameon=False, fontsize=8)
    if path is not None:
        target = Path(path)
        kind = target.suffix.lower().removeprefix(".")
        if kind not in ("png", "svg", "pdf"):
            raise ValueError(f"path: found {str(path)!r}; wanted a name that ends in .png, .svg or .pdf")
        with drafting(target) as draft:
            ax.figure.canvas.figure.savefig(draft, format=kind, dpi=110)
    return ax
