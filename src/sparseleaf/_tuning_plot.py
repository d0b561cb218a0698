"""Optimisation history and parameter importances of tuning: part of :mod:`sparseleaf.plotting`."""

from __future__ import annotations

import os
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparseleaf._files import drafting
from sparseleaf._reliability import FORMATS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from sparseleaf.tuning import TuneResult

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
GREY = "#6b6b6b"
MOST_BARS = 12


def plot_tuning(result: TuneResult, path: str | os.PathLike[str] | None = None) -> Figure:
    """Plot the optimisation history of tuning and the importances of the parameters.

    Left, the metric of every trial, coloured by method, and the best so far as a line. Pruned trials, whose value is
    that of fewer trees, are hollow, and at the edge if it is outside of the range of the complete ones. Right, the
    importances of the parameters of the best method, if there were enough trials.

    Parameters
    ----------
    result : TuneResult
        Result of :func:`sparseleaf.tune`.
    path : path-like, optional
        File to save the figure to: ``.png``, ``.svg`` or ``.pdf``.

    Returns
    -------
    figure : matplotlib.figure.Figure
        Without ``path`` it is a pyplot figure, which ``plt.show()`` and notebooks display.

    Raises
    ------
    ImportError
        If matplotlib is not installed: ``pip install "sparseleaf[plot]"``.

    Examples
    --------
    >>> import numpy as np
    >>> import sparseleaf
    >>> from sparseleaf.plotting import plot_tuning
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> result = sparseleaf.tune(X, X[:, 0] > 0, n_trials=2, cv=2, params={"n_trees": 5})
    >>> figure = plot_tuning(result)
    """
    target = None if path is None else check_plot_path(path)
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            'plot_tuning requires matplotlib. Install it with: pip install "sparseleaf[plot]".'
        ) from error
    n_panels = 1 + bool(result.importances)
    size: dict[str, Any] = {"figsize": (5.2 * n_panels, 3.8), "layout": "constrained"}
    if target is None:
        import matplotlib.pyplot as plt

        figure = plt.figure(**size)
    else:
        figure = Figure(**size)
    axes = figure.subplots(1, n_panels, squeeze=False)[0]
    _draw_history(axes[0], result)
    if result.importances:
        _draw_importances(axes[1], result)
    if target is not None:
        with drafting(target) as draft:
            figure.savefig(draft, format=target.suffix.lower().removeprefix("."), dpi=160)
    return figure


def check_plot_path(path: str | os.PathLike[str], argument: str = "The 'path' parameter") -> Path:
    """The path, if its suffix is that of a format of figures; else ValueError."""
    if Path(path).suffix.lower() not in FORMATS:
        raise ValueError(f"{argument} must end in .png, .svg or .pdf. Got {os.fspath(path)!r} instead.")
    return Path(path)


def _draw_history(ax: Axes, result: TuneResult) -> None:
    from matplotlib.ticker import MaxNLocator

    trials = [trial for trial in result.trials if trial["value"] is not None]
    complete = [trial for trial in trials if trial["state"] == "complete"]
    values = [trial["value"] for trial in complete]
    margin = 0.1 * (max(values) - min(values)) or 0.01 * abs(values[0]) or 0.01
    low, high = min(values) - margin, max(values) + margin
    methods = list(dict.fromkeys(trial["method"] for trial in trials))
    for colour, method in zip(COLOURS * len(methods), methods, strict=False):
        for state, fill in (("complete", colour), ("pruned", "none")):
            of_both = [trial for trial in trials if (trial["method"], trial["state"]) == (method, state)]
            x = [trial["number"] + 1 for trial in of_both]
            # pruned trials have few trees; those outside of the range of the others are at its edge
            y = [min(max(trial["value"], low), high) for trial in of_both]
            if of_both:
                label = method if state == "complete" else f"{method}, pruned"
                ax.scatter(x, y, 22, facecolors=fill, edgecolors=colour, label=label, clip_on=False)
    best = list(accumulate(values, max if result.higher_is_better else min))
    numbers = [trial["number"] + 1 for trial in complete]
    ax.step(numbers, best, where="post", color=GREY, linewidth=1.2, label="best so far")
    ax.axhline(result.default_score, color=GREY, linewidth=0.8, linestyle=(0, (4, 2)), label="defaults")
    ax.set(xlabel="trial", ylabel=result.metric, ylim=(low, high))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend(frameon=False, fontsize="small")
    ax.spines[["top", "right"]].set_visible(False)


def _draw_importances(ax: Axes, result: TuneResult) -> None:
    bars = sorted(result.importances.items(), key=lambda bar: bar[1])[-MOST_BARS:]
    ax.barh([name for name, _ in bars], [value for _, value in bars], color=COLOURS[0], height=0.6)
    ax.set(xlabel="importance", title=result.best_method)
    ax.tick_params(axis="y", length=0)
    ax.spines[["top", "right"]].set_visible(False)
