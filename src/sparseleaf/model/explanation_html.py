"""Explanations as HTML for notebooks: self-contained, without scripts; all text is escaped.

Colours are semi-transparent on the page's background, so that they suit light and dark themes, and every bar has its
number beside it.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from sparseleaf.model.explanation_text import number, signed

if TYPE_CHECKING:
    from sparseleaf.model.explanation import LabelExplanation, RowExplanation

STYLE = """
<style>
.sparseleaf-explanation { color: inherit; font-size: 0.9em; }
.sparseleaf-explanation table { border-collapse: collapse; margin: 0.5em 0 1em; color: inherit; }
.sparseleaf-explanation caption { text-align: left; font-weight: bold; padding: 0.2em 0; color: inherit; }
.sparseleaf-explanation th, .sparseleaf-explanation td { text-align: left; padding: 0.1em 0.6em; border: 0; }
.sparseleaf-explanation td.number { text-align: right; font-variant-numeric: tabular-nums; }
.sparseleaf-explanation .bar { display: inline-block; height: 0.8em; min-width: 1px; border: 1px solid currentColor; }
.sparseleaf-explanation .for { background: rgba(0, 114, 178, 0.6); }
.sparseleaf-explanation .against { background: rgba(213, 94, 0, 0.6); }
</style>
"""

BAR_EMS = 8
"""Width of the longest bar."""


def document(content: str) -> str:
    """Content with its style sheet."""
    return f'<div class="sparseleaf-explanation">{STYLE}{content}</div>'


def row_html(row: RowExplanation, n_features: int) -> str:
    """All labels of a row."""
    labels = "".join(label_html(one, n_features) for one in row.labels) or "<p>no labels</p>"
    return f"<section><p><b>row {row.row}</b></p>{labels}</section>"


def label_html(one: LabelExplanation, n_features: int) -> str:
    """A label: a table of its features, then components and neighbours."""
    prediction = "" if one.prediction is None else f" (prediction {number(one.prediction)})"
    shown = one.contributions[:n_features].tolist()
    rest = float(one.contributions[n_features:].sum())
    longest = max((abs(value) for value in [one.base, *shown, rest]), default=0.0)
    lines = [_line("base", "", one.base, longest)]
    listed = zip(one.feature_names[:n_features], one.values[:n_features].tolist(), shown, strict=True)
    lines += [_line(name, number(value), part, longest) for name, value, part in listed]
    if len(one.features) > n_features:
        lines.append(_line(f"{len(one.features) - n_features} other features", "", rest, longest))
    heads = "".join(f'<th scope="col">{name}</th>' for name in ("feature", "value", "contribution", ""))
    table = (
        f"<table><caption>{escape(str(one.label))}: {number(one.score)}{prediction}</caption>"
        f"<thead><tr>{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    )
    return table + _components(one) + _neighbours(one)


def _line(name: str, value: str, contribution: float, longest: float) -> str:
    width = BAR_EMS * abs(contribution) / longest if longest > 0 else 0.0
    side = "for" if contribution >= 0 else "against"
    bar = f'<span class="bar {side}" style="width: {width:.2f}em" aria-hidden="true"></span>'
    return (
        f'<tr><th scope="row">{escape(name)}</th><td class="number">{escape(value)}</td>'
        f'<td class="number">{signed(contribution)}</td><td>{bar}</td></tr>'
    )


def _components(one: LabelExplanation) -> str:
    if len(one.components) < 2:
        return ""
    parts = ", ".join(f"{escape(name)} {number(value)}" for name, value in one.components.items())
    return f"<p>Components: {parts}</p>"


def _neighbours(one: LabelExplanation) -> str:
    items = "".join(
        f"<li>{'' if title is None else escape(title) + ', '}training row {row}, similarity {number(cosine)}</li>"
        for row, cosine, title in one.neighbours
    )
    return f"<p>Similar training rows with this label:</p><ul>{items}</ul>" if items else ""
