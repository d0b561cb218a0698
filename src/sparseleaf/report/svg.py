"""Charts as inline SVG. Colours are classes of the style sheet, so that they follow the colour scheme of the page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 460, 260
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 12, 40
"""Margins of the plot area."""

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Axis:
    """A linear scale from values to pixels, with round ticks."""

    low: float
    high: float
    begin: float
    end: float

    def at(self, value: float) -> float:
        """Pixel of a value."""
        span = self.high - self.low
        return self.begin + (self.end - self.begin) * ((value - self.low) / span if span else 0.5)

    def ticks(self, most: int = 6) -> list[float]:
        """Round values within the range."""
        span = self.high - self.low
        if not span > 0:
            return [self.low]
        power = 10.0 ** math.floor(math.log10(span / most))
        step = next(power * nice for nice in (1, 2, 2.5, 5, 10) if span / (power * nice) <= most)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [round(number * step, 12) for number in range(first, last + 1)]


def lines(
    series: Mapping[str, Sequence[float | None]],
    title: str,
    x_label: str,
    y_label: str,
    *,
    y_range: tuple[float, float] | None = None,
) -> str:
    """Lines over 1, 2, …, with a legend. None is a gap."""
    longest = max((len(values) for values in series.values()), default=0)
    known = [value for values in series.values() for value in values if value is not None]
    low, high = y_range or _range(known)
    x, y = _axes((1, max(longest, 2)), (low, high))
    shapes = []
    for number, values in enumerate(series.values()):
        points = [
            None if value is None else (x.at(place), y.at(value)) for place, value in enumerate(values, 1)
        ]
        shapes.append(f'<path class="line series-{number % 6}" d="{_path(points)}"/>')
        if longest <= 20:
            shapes += [_circle(*point, 2.5, f"dot series-{number % 6}") for point in points if point]
    return _chart(title, "".join(shapes), x, y, x_label, y_label, whole=True) + _legend(list(series))


def reliability(predicted: Sequence[float], frequency: Sequence[float], counts: Sequence[int]) -> str:
    """A reliability diagram; the area of a point is proportional to its number of entries."""
    x, y = _axes((0, 1), (0, 1))
    largest = max(counts, default=1)
    diagonal = f'<path class="guide" d="M{x.at(0):.1f} {y.at(0):.1f}L{x.at(1):.1f} {y.at(1):.1f}"/>'
    points = [(x.at(p), y.at(f)) for p, f in zip(predicted, frequency, strict=True)]
    shapes = [diagonal, f'<path class="line series-0" d="{_path(points)}"/>']
    shapes += [
        _circle(px, py, 2.5 + 7 * math.sqrt(n / largest), "dot soft series-0")
        for (px, py), n in zip(points, counts, strict=True)
    ]
    return _chart(
        "Reliability diagram", "".join(shapes), x, y, "predicted probability", "frequency of true labels"
    )


def scatter(truth: Sequence[float], predicted: Sequence[float], title: str) -> str:
    """Predicted against true values, with the diagonal."""
    low, high = _range([*truth, *predicted])
    x, y = _axes((low, high), (low, high))
    diagonal = f'<path class="guide" d="M{x.at(low):.1f} {y.at(low):.1f}L{x.at(high):.1f} {y.at(high):.1f}"/>'
    # a segment of length 0 with round ends is a point
    points = "".join(f"M{x.at(t):.1f} {y.at(p):.1f}h0" for t, p in zip(truth, predicted, strict=True))
    return _chart(title, f'{diagonal}<path class="points series-0" d="{points}"/>', x, y, "true", "predicted")


def histogram(edges: Sequence[float], counts: Sequence[int], title: str, x_label: str, y_label: str) -> str:
    """Bars of counts between edges."""
    x, y = _axes((edges[0], edges[-1]), (0, max([*counts, 1])))
    bars = "".join(
        f'<rect class="bar series-0" x="{x.at(left):.1f}" y="{y.at(n):.1f}"'
        f' width="{max(0.5, x.at(right) - x.at(left) - 1):.1f}" height="{y.at(0) - y.at(n):.1f}"/>'
        for left, right, n in zip(edges[:-1], edges[1:], counts, strict=True)
    )
    return _chart(title, bars, x, y, x_label, y_label)


def boxes(groups: Mapping[str, Sequence[float]], title: str, x_label: str, y_label: str) -> str:
    """Boxes from the 25 % to the 75 % quantile with the median; lines from the 5 % to the 95 % quantile."""
    low, high = _range([value for values in groups.values() for value in values])
    x, y = _axes((0, len(groups)), (low, high))
    shapes, names = [], []
    for number, (name, (q5, q25, q50, q75, q95)) in enumerate(groups.items()):
        middle, half = x.at(number + 0.5), min(26.0, 0.3 * (x.at(1) - x.at(0)))
        box = f'y="{y.at(q75):.1f}" width="{2 * half:.1f}" height="{max(1.0, y.at(q25) - y.at(q75)):.1f}"'
        shapes.append(
            f'<path class="whisker" d="M{middle:.1f} {y.at(q5):.1f}V{y.at(q95):.1f}"/>'
            f'<rect class="bar soft series-0" x="{middle - half:.1f}" {box}/>'
            f'<path class="line series-1" d="M{middle - half:.1f} {y.at(q50):.1f}h{2 * half:.1f}"/>'
        )
        names.append(_text(middle, HEIGHT - BOTTOM + 15, name, "middle"))
    return _chart(title, "".join(shapes + names), x, y, x_label, y_label, x_ticks=False)


def _axes(xs: tuple[float, float], ys: tuple[float, float]) -> tuple[Axis, Axis]:
    return Axis(*xs, LEFT, WIDTH - RIGHT), Axis(*ys, HEIGHT - BOTTOM, TOP)


def _range(values: Sequence[float]) -> tuple[float, float]:
    """Limits of an axis, with some room."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    room = 0.06 * (high - low) or max(abs(low), 1.0) * 0.1
    return low - room, high + room


def _path(points: Sequence[tuple[float, float] | None]) -> str:
    parts, pen = [], "M"
    for point in points:
        if point is None:
            pen = "M"
            continue
        parts.append(f"{pen}{point[0]:.1f} {point[1]:.1f}")
        pen = "L"
    return "".join(parts)


def _circle(x: float, y: float, radius: float, kind: str) -> str:
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"/>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _chart(
    title: str,
    shapes: str,
    x: Axis,
    y: Axis,
    x_label: str,
    y_label: str,
    *,
    whole: bool = False,
    x_ticks: bool = True,
) -> str:
    """Shapes with axes and a grid; screen readers read the title."""
    grid = []
    for value in y.ticks():
        grid.append(f'<path class="grid" d="M{LEFT} {y.at(value):.1f}H{WIDTH - RIGHT}"/>')
        grid.append(_text(LEFT - 7, y.at(value) + 4, f"{value:g}", "end"))
    if x_ticks:
        ticks = [value for value in x.ticks() if not whole or value == int(value)]
        grid += [_text(x.at(value), HEIGHT - BOTTOM + 15, f"{value:g}", "middle") for value in ticks]
    middle = TOP + (HEIGHT - TOP - BOTTOM) / 2
    labels = _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, x_label, "middle")
    turn = f'text-anchor="middle" transform="rotate(-90 12 {middle})"'
    labels += f'<text x="12" y="{middle}" {turn}>{escape(y_label)}</text>'
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">'
        f"{''.join(grid)}{shapes}{labels}</svg>"
    )


def _legend(names: Sequence[str]) -> str:
    items = "".join(
        f'<li><span class="key series-{number % 6}"></span>{escape(name)}</li>'
        for number, name in enumerate(names)
    )
    return f'<ul class="legend">{items}</ul>'
