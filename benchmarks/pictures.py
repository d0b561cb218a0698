"""The pictures of the benchmark page: quality against cost, and how cost grows."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from benchmarks.numbers import Records, main_metric, of_suite
from benchmarks.suites import SUITES, Suite
from benchmarks.systems import SYSTEMS

COLOURS = {
    "sparse-gbdt": "#0072B2",
    "sparse-gbdt-turned": "#56B4E9",
    "multi-gbdt": "#000000",
    "ldsm": "#009E73",
    "sketch-forest": "#D55E00",
    "sketch-forest-turned": "#E69F00",
    "sketch-forest-trees": "#CC79A7",
    "sketch-forest-bayes": "#F0E442",
}
PEER_COLOURS = ("#7f7f7f", "#8c564b", "#9467bd", "#bcbd22", "#17becf", "#e377c2", "#c49c94")
PEER_MARKERS = ("s", "^", "D", "v", "P", "X", "<", ">", "*", "h")
PANELS = (
    ("predict_ms_per_row", "prediction, ms a row", 1.0),
    ("model_bytes", "model, MB", 1e6),
    ("train_seconds", "training, s", 1.0),
)
SWEEP_PANELS = (
    ("train_seconds", "training, s", 1.0),
    ("predict_ms_per_row", "prediction, ms a row", 1.0),
    ("peak_bytes", "peak memory, GB", 1e9),
)


class Drawing:
    """Points to draw; ``save`` needs matplotlib, `digest` does not."""

    def __init__(self, points: list[dict[str, Any]], suite: Suite) -> None:
        self.points, self.suite = points, suite

    @property
    def digest(self) -> str:
        told = json.dumps([self.suite.name, self.points], sort_keys=True)
        return hashlib.sha256(told.encode()).hexdigest()

    def save(self, path: Path) -> None:
        import matplotlib
        from matplotlib.figure import Figure

        with matplotlib.rc_context({"svg.hashsalt": "sparseleaf", "svg.fonttype": "none", "font.size": 9}):
            figure = Figure(figsize=(10, 3.6), layout="constrained")
            axes = figure.subplots(1, 3, sharey=self.suite.axis is None)
            (self._sweep if self.suite.axis else self._scatter)(axes)
            for ax in axes:
                ax.grid(alpha=0.25)
                ax.spines[["top", "right"]].set_visible(False)
            handles, names = axes[0].get_legend_handles_labels()
            figure.legend(handles, names, loc="outside right upper", frameon=False, fontsize=8)
            path.parent.mkdir(exist_ok=True)
            about = {"Date": None, "Creator": None, "Description": f"data {self.digest}"}
            figure.savefig(path, metadata=about)

    def _scatter(self, axes: Any) -> None:
        metric = main_metric(self.suite)
        for point in self.points:
            style = style_of(point["key"])
            for ax, (cost, _, unit) in zip(axes, PANELS, strict=True):
                ax.plot(
                    point[cost] / unit, point[metric], linestyle="", label=SYSTEMS[point["key"]].name, **style
                )
        for ax, (_, title, _) in zip(axes, PANELS, strict=True):
            ax.set_xscale("log")
            ax.set_xlabel(title)
        axes[0].set_ylabel(f"{metric} on {self.suite.title}, %")

    def _sweep(self, axes: Any) -> None:
        for key in self.suite.systems:
            own = [point for point in self.points if point["key"] == key]
            if not own:
                continue
            for ax, (cost, _, unit) in zip(axes, SWEEP_PANELS, strict=True):
                x, y = [point["case"] for point in own], [point[cost] / unit for point in own]
                ax.plot(x, y, linewidth=1.2, label=SYSTEMS[key].name, **style_of(key))
        for ax, (_, title, _) in zip(axes, SWEEP_PANELS, strict=True):
            ax.set_xscale("log")
            ax.set_yscale("log")
            ax.set_xlabel(self.suite.axis)
            ax.set_title(title, fontsize=9)


def style_of(key: str) -> dict[str, Any]:
    if SYSTEMS[key].ours:
        return {"color": COLOURS.get(key, "#000000"), "marker": "o", "markersize": 7}
    place = [k for k, system in SYSTEMS.items() if not system.ours].index(key)
    return {
        "color": PEER_COLOURS[place % len(PEER_COLOURS)],
        "marker": PEER_MARKERS[place % len(PEER_MARKERS)],
        "markersize": 5,
    }


def picture_name(suite: Suite) -> str:
    return picture_name_of(suite.name)


def picture_name_of(name: str) -> str:
    return f"benchmark-{name}.svg"


def figure_points(records: Records, suite: Suite) -> list[dict[str, Any]]:
    """What is drawn of a suite."""
    metric = main_metric(suite)
    costs = SWEEP_PANELS if suite.axis else PANELS
    return [
        {"key": key, "case": int(case) if suite.axis else case, metric: record["metrics"][metric]}
        | {cost: record[cost] for cost, _, _ in costs}
        for case in suite.cases
        for key, record in of_suite(records, suite, case).items()
        if record["ended"] == "ok"
    ]


def pictures(records: Records) -> dict[str, Drawing]:
    """All pictures of the page by file name."""
    return {
        picture_name(suite): Drawing(points, suite)
        for suite in SUITES.values()
        if suite.figure and (points := figure_points(records, suite))
    }
