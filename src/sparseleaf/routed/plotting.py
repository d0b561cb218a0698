"""Plots of LdSM trees: objective J (Figure 1 of the paper), balance and purity by level, depth (Figure 2).

Each function draws on ``ax`` or a new figure, saves it to ``path`` (``.png``, ``.svg`` or ``.pdf``) if given, and
returns the axes.
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
    """Plot the objective J after every epoch, one line per depth, dark for the root.

    Parameters
    ----------
    records : sequence of sequences of SplitRecord
        ``split_records_`` of a fitted :class:`~sparseleaf.LdSMClassifier`: one sequence per tree.
    path : path-like, optional
        File to write, by suffix PNG, SVG or PDF.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; a new figure by default.

    Returns
    -------
    ax : matplotlib.axes.Axes
        The axes.

    Examples
    --------
    >>> from sparseleaf import LdSMClassifier
    >>> from sparseleaf.data import make_xc
    >>> from sparseleaf.routed.plotting import plot_objective
    >>> X, Y = make_xc(200, 50, 20, labels_per_row=2, nnz_per_row=8)
    >>> clf = LdSMClassifier(n_trees=2, max_nodes=15).fit(X, Y)
    >>> plot_objective(clf.split_records_).get_ylabel()
    'objective J'
    """
    ax = _axes(ax)
    levels = objective_by_level(records)
    deepest = max(levels, default=0)
    for depth, values in levels.items():
        shade = 0.15 + 0.75 * depth / max(1, deepest)
        label = f"level {depth}" if depth in (0, deepest // 2, deepest) else None
        ax.plot(range(1, len(values) + 1), values, color=_shade(shade), label=label)
    ax.set_xlabel("epoch")
    ax.set_ylabel("objective J")
    return _finish(ax, path)


def plot_levels(
    records: Sequence[Sequence[SplitRecord]], path: PathLike | None = None, ax: Axes | None = None
) -> Axes:
    """Plot balance β and purity α (definitions 1 and 2 of the paper) by depth; 0 is best.

    Parameters
    ----------
    records : sequence of sequences of SplitRecord
        ``split_records_`` of a fitted :class:`~sparseleaf.LdSMClassifier`: one sequence per tree.
    path : path-like, optional
        File to write, by suffix PNG, SVG or PDF.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; a new figure by default.

    Returns
    -------
    ax : matplotlib.axes.Axes
        The axes.

    Examples
    --------
    >>> from sparseleaf import LdSMClassifier
    >>> from sparseleaf.data import make_xc
    >>> from sparseleaf.routed.plotting import plot_levels
    >>> X, Y = make_xc(200, 50, 20, labels_per_row=2, nnz_per_row=8)
    >>> clf = LdSMClassifier(n_trees=2, max_nodes=15).fit(X, Y)
    >>> plot_levels(clf.split_records_).get_xlabel()
    'level'
    """
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
    """Plot the depth of the deepest tree against the number of labels, with log_M K and 3 log_M K for the smallest M.

    Parameters
    ----------
    depths : mapping of str to (int, int, int)
        Depth, number of labels K and arity M of each model by name.
    path : path-like, optional
        File to write, by suffix PNG, SVG or PDF.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; a new figure by default.

    Returns
    -------
    ax : matplotlib.axes.Axes
        The axes.

    Examples
    --------
    >>> from sparseleaf.routed.plotting import plot_depths
    >>> plot_depths({"bibtex": (14, 159, 2), "delicious": (16, 983, 2)}).get_ylabel()
    'depth'
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
        raise ImportError(
            'Plots require matplotlib. Install it with: pip install "sparseleaf[plot]"'
        ) from error
    return Figure(figsize=(5.6, 3.6), layout="constrained").add_subplot()


def _shade(amount: float) -> tuple[float, float, float]:
    """Shade of blue, from dark at 0 to light."""
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
            raise ValueError(
                f"The 'path' parameter must end in .png, .svg or .pdf. Got {str(path)!r} instead."
            )
        with drafting(target) as draft:
            ax.figure.canvas.figure.savefig(draft, format=kind, dpi=110)
    return ax
