"""Learning curves, metrics against the number of trees, reliability diagrams, and the history of tuning.

`plot_learning_curve` uses matplotlib; `draw_learning_curve` draws with characters, for terminals and logs.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from string import ascii_letters
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sparseleaf._files import drafting
from sparseleaf._reliability import plot_reliability
from sparseleaf._tuning_plot import plot_tuning

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["draw_learning_curve", "plot_learning_curve", "plot_reliability", "plot_tuning"]

# Colour-blind safe palette of Okabe and Ito.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#444444")
_GREY = "#6b6b6b"
_FORMATS = ("png", "svg", "pdf")


def plot_learning_curve(
    history: Mapping[str, Sequence[float]],
    path: str | os.PathLike[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot metrics against the number of trees.

    Curves of the same metric have the same colour; training metrics (``"train precision@1"``) are dashed.

    Parameters
    ----------
    history : mapping of str to sequence of float
        Values after each tree by metric name, such as ``history_`` of an estimator. NaN and infinities are gaps.
    path : path-like, optional
        File to save the figure to: ``.png``, ``.svg`` or ``.pdf``.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on. By default a new figure is created.

    Returns
    -------
    ax : matplotlib.axes.Axes
        The axes. Without ``path`` and ``ax`` they belong to a pyplot figure, which ``plt.show()`` and notebooks
        display.

    Raises
    ------
    ImportError
        If matplotlib is not installed: ``pip install "sparseleaf[plot]"``.

    Examples
    --------
    >>> from sparseleaf.plotting import plot_learning_curve
    >>> axes = plot_learning_curve(dict(valid=[0.3, 0.5, 0.6]))
    """
    curves = _check_history(history)
    target = None if path is None else Path(path)
    if target is not None and target.suffix.lower().removeprefix(".") not in _FORMATS:
        raise ValueError(f"The 'path' parameter must end in .png, .svg or .pdf. Got {str(path)!r} instead.")
    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator
    except ImportError as error:
        raise ImportError(
            'plot_learning_curve requires matplotlib. Install it with: pip install "sparseleaf[plot]".'
            " draw_learning_curve"
            " draws in the terminal without it."
        ) from error

    if ax is None:
        size: dict[str, Any] = {"figsize": (6.4, 4.0), "layout": "constrained"}
        if target is None:
            import matplotlib.pyplot as plt

            ax = plt.figure(**size).add_subplot()
        else:
            ax = Figure(**size).add_subplot()

    metrics = list(dict.fromkeys(_split_name(name)[1] for name in curves))
    for name, values in curves.items():
        part, metric = _split_name(name)
        colour = _COLOURS[metrics.index(metric) % len(_COLOURS)]
        trees = np.arange(1, len(values) + 1)
        ax.plot(
            trees,
            values,
            label=name,
            color=colour,
            linestyle=(0, (4, 2)) if part == "train" else "-",
            linewidth=1.4 if part == "train" else 2.0,
            solid_capstyle="round",
        )
        # isolated points need a marker
        if isolated := _isolated(values):
            fill = ax.get_facecolor() if part == "train" else colour
            ax.plot(
                trees[isolated], values[isolated], "o", color=colour, mfc=fill, markersize=6, clip_on=False
            )
    ax.set_xlabel("trees")
    ax.set_ylabel(metrics[0] if len(metrics) == 1 else "metric")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    longest = max(len(values) for values in curves.values())
    ax.set_xlim((0.5, 1.5) if longest == 1 else (1, longest))
    ax.margins(y=0.08)
    ax.grid(axis="y", color="#e4e4e4", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.tick_params(length=0, colors=_GREY)
    for side, spine in ax.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color("#b0b0b0")
    ax.legend(frameon=False, loc="best")

    if target is not None:
        figure = ax.figure.canvas.figure  # the figure, also if ax is in a subfigure
        with drafting(target) as draft:
            figure.savefig(draft, format=target.suffix.lower().removeprefix("."), dpi=160)
    return ax


def draw_learning_curve(history: Mapping[str, Sequence[float]], width: int = 60, height: int = 12) -> str:
    """Draw metrics against the number of trees as text, with Braille characters.

    Letters at the right refer to the legend, which has names and last values. Training metrics
    (``"train precision@1"``) are dashed.

    Parameters
    ----------
    history : mapping of str to sequence of float
        Values after each tree by metric name, such as ``history_`` of an estimator. NaN and infinities are gaps.
    width, height : int, default=60, 12
        Size of the plot area in characters, at least 10 × 2.

    Returns
    -------
    text : str
        The drawing, without a newline at the end.

    Examples
    --------
    >>> from sparseleaf.plotting import draw_learning_curve
    >>> text = draw_learning_curve(dict(valid=[0.3, 0.5, 0.6]), height=4)
    """
    curves = _check_history(history)
    for name, size, least in (("width", width, 10), ("height", height, 2)):
        if not isinstance(size, int) or size < least:
            raise ValueError(f"The {name!r} parameter must be an int >= {least}. Got {size!r} instead.")
    low, high, step = _scale(curves, max(1, height // 2))
    longest = max(len(values) for values in curves.values())
    right, bottom = 2 * width - 1, 4 * height - 1  # the last dots

    def down(value: float) -> int:
        return min(bottom, max(0, round(bottom * (high - value) / (high - low))))

    def dot(tree: int, value: float) -> tuple[int, int]:
        return round(right * tree / (longest - 1) if longest > 1 else right / 2), down(value)

    # Bit of each dot of a Braille character, by its place in the 2 × 4 dots (down, then right).
    bits = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
    canvas = np.zeros((height, width), dtype=np.int64)
    ends = [""] * height
    legend = []
    for number, (name, values) in enumerate(curves.items()):
        letter = ascii_letters[number % len(ascii_letters)]
        dashed = _split_name(name)[0] == "train"
        points = [dot(tree, value) if math.isfinite(value) else None for tree, value in enumerate(values)]
        isolated = {points[tree] for tree in _isolated(values)}
        for at, (x, y) in enumerate(_path(points)):
            if not dashed or at % 4 < 2 or (x, y) in isolated:
                canvas[y // 4, x // 2] |= bits[y % 4][x % 2]
        finite = values[np.isfinite(values)]
        if len(finite):
            ends[down(finite[-1]) // 4] += letter
        last = f"{finite[-1]:.5g}" if len(finite) else "no value"
        legend.append((f"{letter} {'⠒ ⠒ ⠒' if dashed else '⠒⠒⠒⠒⠒'}", name, last))

    ticks = {down(value) // 4: text for value, text in _ticks(low, high, step)}
    margin = max(len(text) for text in ticks.values())
    lines = []
    for row in range(height):
        cells = "".join(chr(0x2800 + cell) if cell else " " for cell in canvas[row].tolist())
        axis = "┤" if row in ticks else "│"
        lines.append(f"{ticks.get(row, ''):>{margin}} {axis}{cells} {ends[row]}".rstrip())
    lines.append(f"{'':>{margin}} └{'─' * width}")
    scale = f"1{f'{longest} trees':>{width - 1}}" if longest > 1 else f"{'1 tree':^{width}}"
    lines.append(f"{'':>{margin}}  {scale}".rstrip())
    name_width = max(len(name) for _, name, _ in legend)
    lines += [f"{'':>{margin}}  {key}  {name:<{name_width}}  {last}" for key, name, last in legend]
    return "\n".join(lines)


def _check_history(history: Mapping[str, Sequence[float]]) -> dict[str, NDArray[np.float64]]:
    curves = {}
    for name, values in history.items():
        try:
            curve = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(
                f"history[{name!r}] must be a sequence of numbers. Got {values!r} instead."
            ) from None
        if curve.ndim != 1:
            raise ValueError(f"history[{name!r}] must be one-dimensional. Got shape {curve.shape} instead.")
        # huge values are gaps, too: they would overflow in the layout of the axis
        curves[str(name)] = np.where(np.abs(curve) < 1e300, curve, np.nan)
    if not any(len(curve) for curve in curves.values()):
        raise ValueError("The 'history' parameter must have at least one metric with at least one value.")
    return curves


def _split_name(name: str) -> tuple[str, str]:
    """``"train precision@1"`` → ``("train", "precision@1")``; other names are metrics."""
    part, _, metric = name.partition(" ")
    return (part, metric) if part in ("train", "valid", "test") and metric else ("", name)


def _isolated(values: NDArray[np.float64]) -> list[int]:
    """Positions of finite values without a finite neighbour."""
    finite = np.pad(np.isfinite(values), 1)
    return np.flatnonzero(finite[1:-1] & ~finite[:-2] & ~finite[2:]).tolist()


def _scale(curves: Mapping[str, NDArray[np.float64]], intervals: int) -> tuple[float, float, float]:
    """Limits and tick distance of the axis, as round numbers."""
    values = np.concatenate(list(curves.values()))
    values = values[np.isfinite(values)]
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
    # differences due to rounding could not be labelled
    largest = max(abs(low), abs(high))
    if high - low <= max(1e-9 * largest, 1e-200):
        room = largest / 10 if largest > 1e-200 else 0.5
        low, high = low - room, high + room
    rough = (high - low) / intervals
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * nice for nice in (1, 2, 2.5, 5, 10) if power * nice >= rough * (1 - 1e-9))
    # tolerance: no further interval for values barely beyond a tick
    return math.floor(low / step + 1e-6) * step, math.ceil(high / step - 1e-6) * step, step


def _ticks(low: float, high: float, step: float) -> list[tuple[float, str]]:
    values = [low + number * step for number in range(round((high - low) / step) + 1)]
    largest = max(abs(low), abs(high))
    if largest >= 1e6 or step < 1e-5:
        digits = math.ceil(math.log10(largest / step)) + 2  # enough to distinguish neighbours
        return [(value, f"{value:.{digits}g}") for value in values]
    digits = next(digits for digits in range(8) if abs(round(step, digits) - step) < step / 1000)
    return [(value, f"{value:.{digits}f}") for value in values]


def _path(points: Sequence[tuple[int, int] | None]) -> Iterator[tuple[int, int]]:
    """Dots of the line segments between neighbouring points; None is a gap."""
    previous = None
    for start, end in pairwise([*points, None]):
        if start is None:
            continue
        steps = max(abs(end[0] - start[0]), abs(end[1] - start[1])) if end else 0
        for step in range(steps + 1):
            fraction = step / steps if steps else 0.0
            stop = end or start
            here = (
                round(start[0] + fraction * (stop[0] - start[0])),
                round(start[1] + fraction * (stop[1] - start[1])),
            )
            if here != previous:
                yield here
            previous = here
