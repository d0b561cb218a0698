"""The plots of the benchmark page: accuracy against time, and cost against the size of synthetic datasets.

sparseleaf is drawn in one colour, other systems in grey; points and lines are labelled directly.
"""

from __future__ import annotations

import hashlib
import json
from itertools import pairwise, product
from pathlib import Path
from typing import Any

from benchmarks.results import Records, completed, lower_is_better, main_metric, stopped_early
from benchmarks.suites import SUITES, Suite
from benchmarks.systems import SYSTEMS

OURS, PEERS, FRONTIER = "#1558b0", "#6e6e6e", "#9db8dc"
COSTS = (("train_seconds", "training time, s", 1.0), ("predict_ms_per_row", "prediction time, ms/row", 1.0))
SWEEP_COSTS = (("train_seconds", "training time, s", 1.0), ("peak_bytes", "peak memory, GB", 1e9))
SIZE = (10.0, 4.4)
CROP = 0.75
"""Systems below this share of the best score are left out of a plot of accuracy."""

Point = dict[str, Any]


class Plot:
    """Points of a plot; ``save`` needs matplotlib, ``digest`` does not."""

    def __init__(self, points: list[Point], suite: Suite) -> None:
        self.points, self.suite = points, suite

    @property
    def digest(self) -> str:
        data = json.dumps([self.suite.name, self.points], sort_keys=True)
        return hashlib.sha256(data.encode()).hexdigest()

    def save(self, path: Path) -> None:
        import matplotlib

        with matplotlib.rc_context({"svg.hashsalt": "sparseleaf", "svg.fonttype": "none", "font.size": 10.5}):
            figure, _ = self.draw()
            path.parent.mkdir(exist_ok=True)
            metadata = {"Date": None, "Creator": None, "Description": f"data {self.digest}"}
            figure.savefig(path, metadata=metadata)

    def draw(self) -> tuple[Any, list[Any]]:
        """The figure and its labels."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=SIZE, dpi=72, layout="constrained", facecolor="white")
        FigureCanvasAgg(figure)  # measures text
        axes = figure.subplots(1, 2, sharey=self.suite.axis is None)
        draw_panel = self._sweep if self.suite.axis else self._accuracy
        costs = SWEEP_COSTS if self.suite.axis else COSTS
        anchors = [draw_panel(ax, *cost) for ax, cost in zip(axes, costs, strict=True)]
        for ax in axes:
            ax.grid(alpha=0.2)
            ax.spines[["top", "right"]].set_visible(False)
        figure.draw_without_rendering()  # fixes the layout
        figure.set_layout_engine("none")
        labels = []
        for ax, points in zip(axes, anchors, strict=True):
            labels += place_labels(ax, points, right_only=self.suite.axis is not None)
        return figure, labels  # laid out for DejaVu Sans, which is wider than most fonts of viewers

    def _accuracy(self, ax: Any, cost: str, title: str, unit: float) -> list[tuple[str, float, float]]:
        metric = main_metric(self.suite)
        sign = -1 if lower_is_better(metric) else 1
        x, y = [point[cost] / unit for point in self.points], [point[metric] for point in self.points]
        frontier = [
            (a, b) for a, b in sorted(zip(x, y, strict=True))
            if not any(c <= a and sign * d >= sign * b and (c, d) != (a, b) for c, d in zip(x, y, strict=True))
        ]  # fmt: skip
        ax.set_xscale("log")
        ax.set_xlim(min(x) / 1.6, max(x) * 1.6)
        margin = 0.08 * (max(y) - min(y) or 1)
        ax.set_ylim(min(y) - margin, max(y) + margin)
        ax.step(*zip(*frontier, strict=True), where="post", color=FRONTIER, linewidth=1.6, zorder=1)
        colours = [OURS if SYSTEMS[point["key"]].ours else PEERS for point in self.points]
        ax.scatter(x, y, c=colours, s=34, zorder=3)
        readable_ticks(ax.xaxis)
        ax.set_xlabel(title)
        if ax.get_subplotspec().is_first_col():
            ax.set_ylabel(f"{metric} on {self.suite.title}, %")
        return [(point["key"], a, b) for point, a, b in zip(self.points, x, y, strict=True)]

    def _sweep(self, ax: Any, cost: str, title: str, unit: float) -> list[tuple[str, float, float]]:
        ends = []
        for key in self.suite.systems:
            line = [(point["case"], point[cost] / unit) for point in self.points if point["key"] == key]
            if len(line) > 1:
                colour = OURS if SYSTEMS[key].ours else PEERS
                ax.plot(*zip(*line, strict=True), "o-", color=colour, linewidth=1.3, markersize=4)
                ends.append((key, *line[-1]))
        cases = sorted({point["case"] for point in self.points})
        ax.set_xscale("log")
        ax.set_yscale("log")
        span = cases[-1] / cases[0] if len(cases) > 1 else 10.0
        ax.set_xlim(cases[0] / span**0.05, cases[-1] * span**1.15)  # room for the labels
        ax.set_xticks(cases, [short(case) for case in cases])
        ax.xaxis.minorticks_off()
        readable_ticks(ax.yaxis)
        ax.set_xlabel(f"number of {'labels' if self.suite.axis == 'outputs' else self.suite.axis}")
        ax.set_ylabel(title)
        return ends


def short(number: int) -> str:
    """10k for 10,000, 1M for 1,000,000."""
    for unit, letter in ((10**6, "M"), (10**3, "k")):
        if number >= unit:
            return f"{number / unit:g}{letter}"
    return str(number)


def readable_ticks(axis: Any) -> None:
    """Plain numbers on a logarithmic axis: 1, 2, 5, 10, ..."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def place_labels(ax: Any, anchors: list[tuple[str, float, float]], *, right_only: bool) -> list[Any]:
    """Label every anchor at the nearest position that overlaps neither points nor lines nor other labels."""
    obstacles = [box(x - r, y - r, x + r, y + r) for x, y, r in drawn_marks(ax)]
    inside = ax.get_window_extent()
    labels = []
    for key, x, y in sorted(anchors, key=lambda anchor: (not SYSTEMS[anchor[0]].ours, -anchor[2])):
        ours = SYSTEMS[key].ours
        label = ax.annotate(
            SYSTEMS[key].name, (x, y), (0, 0), textcoords="offset points", fontsize=9,
            color=OURS if ours else PEERS, weight="bold" if ours else "normal",
            annotation_clip=False, zorder=4,
        )  # fmt: skip
        size = label.get_window_extent()
        width, height = 1.05 * size.width, size.height
        at_x, at_y = ax.transData.transform((x, y))
        for dx, dy in offsets(width, height, right_only=right_only):
            place = box(at_x + dx, at_y + dy, at_x + dx + width, at_y + dy + height)
            if contains(inside, place) and not any(place.overlaps(other) for other in obstacles):
                break
        label.set_position((dx, dy))
        if distance(dx, dy, width, height) > 9:
            ax.annotate(
                "", (x, y), (dx + min(max(-dx, 0), width), dy + min(max(-dy, 0), height)),
                textcoords="offset points", arrowprops={"arrowstyle": "-", "color": "#bbbbbb", "shrinkB": 3},
                zorder=2,
            )  # fmt: skip
        obstacles.append(box(place.x0 - 4, place.y0, place.x1 + 4, place.y1))
        labels.append(label)
    return labels


def drawn_marks(ax: Any) -> list[tuple[float, float, float]]:
    """Centre and radius, in pixels, of all markers and of points along all lines."""
    import numpy as np

    marks = []
    for scatter in ax.collections:
        marks += [(x, y, 5.0) for x, y in ax.transData.transform(scatter.get_offsets())]

    for line in ax.lines:
        corners = ax.transData.transform(line.get_xydata())
        if line.get_drawstyle() == "steps-post":
            corners = np.repeat(corners, 2, axis=0)
            corners = np.column_stack((corners[1:, 0], corners[:-1, 1]))
        marks += [(x, y, 3.0) for x, y in corners if line.get_marker() == "o"]
        for (x0, y0), (x1, y1) in pairwise(corners):
            steps = np.linspace(0, 1, 2 + int(np.hypot(x1 - x0, y1 - y0) / 4))
            marks += [(x0 + t * (x1 - x0), y0 + t * (y1 - y0), 1.0) for t in steps]
    return marks


def offsets(width: float, height: float, *, right_only: bool) -> list[tuple[float, float]]:
    """Positions of a label's lower left corner around its point, in points, nearest first."""
    gaps_x = [7.0, -width / 2, -width - 7, *(-width * share for share in (0.25, 0.75, 0.0, 1.0))]
    gaps_x += [sign * step - (width if sign < 0 else 0) for step in (14, 24, 36, 50) for sign in (1, -1)]
    if right_only:
        gaps_x = [7.0, 14.0, 24.0]
    gaps_y = [-height / 2, 5.0, -height - 5]
    gaps_y += [sign * step - height / 2 for step in range(14, 90, 5) for sign in (1, -1)]

    places = [place for place in product(gaps_x, gaps_y) if distance(*place, width, height) >= 4.5]
    return sorted(places, key=lambda place: round(distance(*place, width, height) / 4))


def distance(dx: float, dy: float, width: float, height: float) -> float:
    """From the point to the label's rectangle, vertical distance counted more."""
    across = max(dx, -dx - width, 0.0)
    up = max(dy, -dy - height, 0.0)
    return float((across**2 + 1.2 * up**2) ** 0.5)


def box(x0: float, y0: float, x1: float, y1: float) -> Any:
    from matplotlib.transforms import Bbox

    return Bbox.from_extents(x0, y0, x1, y1)


def contains(outer: Any, inner: Any) -> bool:
    return bool(
        outer.x0 <= inner.x0
        and inner.x1 <= outer.x1 + 2
        and outer.y0 <= inner.y0
        and inner.y1 <= outer.y1 + 4
    )


def plot_file(name: str) -> str:
    return f"benchmark-{name}.svg"


def plot_points(records: Records, suite: Suite) -> list[Point]:
    """What is drawn of a suite."""
    metric = main_metric(suite)
    costs = SWEEP_COSTS if suite.axis else COSTS
    return [
        {"key": key, "case": int(case) if suite.axis else case, metric: record["metrics"][metric]}
        | {cost: record[cost] for cost, _, _ in costs}
        for case in suite.cases
        for key, record in completed(records, suite, case).items()
        if suite.axis or is_drawn(records, suite, case, key)
    ]


def is_drawn(records: Records, suite: Suite, case: str, key: str) -> bool:
    """Baselines and systems far below the best would squeeze the others together."""
    metric = main_metric(suite)
    results = completed(records, suite, case)
    best = max(record["metrics"][metric] for record in results.values())
    return not SYSTEMS[key].baseline and results[key]["metrics"][metric] >= CROP * best


def left_out_text(records: Records, suite: Suite) -> str:
    """Which systems of the table are not in the plot, and which were stopped early."""
    metric = main_metric(suite)
    (case,) = suite.cases
    results = completed(records, suite, case)
    left_out = [
        f"{SYSTEMS[key].name} ({record['metrics'][metric]:.1f})"
        for key, record in results.items()
        if not is_drawn(records, suite, case, key)
    ]
    stopped = [
        SYSTEMS[key].name
        for key, record in results.items()
        if stopped_early(record) and is_drawn(records, suite, case, key)
    ]
    text = f"Not drawn, with their {metric}: {', '.join(left_out)}." if left_out else ""
    if stopped:
        text += f" Stopped at the time limit: {', '.join(stopped)}."
    return text.strip()


def plots(records: Records) -> dict[str, Plot]:
    """All plots of the page by file name."""
    return {
        plot_file(suite.name): Plot(points, suite)
        for suite in SUITES.values()
        if suite.figure and (points := plot_points(records, suite))
    }
