"""Pieces of HTML. All text is escaped here."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any


def section(title: str, *content: str, note: str = "") -> str:
    """A section with a heading; empty without content."""
    inside = "".join(content)
    if not inside:
        return ""
    text = f'<p class="note">{escape(note)}</p>' if note else ""
    return f"<section><h2>{escape(title)}</h2>{text}{inside}</section>"


def figure(chart: str, caption: str = "") -> str:
    """A chart with a caption."""
    text = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f"<figure>{chart}{text}</figure>"


def column(*content: str) -> str:
    """Text or tables beside charts."""
    return f'<div class="text">{"".join(content)}</div>'


def figures(*charts: str) -> str:
    """Charts side by side, if there is room."""
    shown = "".join(chart for chart in charts if chart)
    return f'<div class="figures">{shown}</div>' if shown else ""


def table(head: Sequence[str], rows: Sequence[Sequence[Any]], caption: str) -> str:
    """A table whose first column names the rows; numbers are formatted by the caller."""
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    lines = []
    for first, *rest in rows:
        cells = "".join(f"<td>{escape(str(value))}</td>" for value in rest)
        lines.append(f'<tr><th scope="row">{escape(str(first))}</th>{cells}</tr>')
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}"><table>'
        f"<caption>{escape(caption)}</caption>"
        f"<thead><tr>{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def cards(values: Sequence[tuple[str, str]]) -> str:
    """Figures with their names."""
    items = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in values)
    return f'<dl class="cards">{items}</dl>'


def definitions(values: Sequence[tuple[str, str]]) -> str:
    """Names and texts."""
    items = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in values)
    return f'<dl class="facts">{items}</dl>'


def bars(values: Sequence[tuple[str, float]], caption: str) -> str:
    """Names with horizontal bars, the longest for the largest value."""
    largest = max((value for _, value in values), default=0.0) or 1.0
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{100 * value:.3g}%</td>'
        f'<td class="wide"><progress max="1" value="{value / largest:.4f}" aria-hidden="true"></progress></td></tr>'
        for name, value in values
    )
    return (
        f'<table class="bars"><caption>{escape(caption)}</caption><tbody>{rows}</tbody></table>'
        if rows
        else ""
    )


def percent(value: float | None) -> str:
    """A fraction as a percentage."""
    return "–" if value is None else f"{100 * value:.1f}%"


def number(value: float | None) -> str:
    """Four digits."""
    return "–" if value is None else f"{value:.4g}"
