"""Explanations as plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparseleaf._printable import printable

if TYPE_CHECKING:
    from sparseleaf.model.explanation import LabelExplanation, RowExplanation


def number(value: float) -> str:
    """Three significant digits."""
    return f"{value:.3g}"


def signed(value: float) -> str:
    """Three significant digits with a sign."""
    return f"{value:+.3g}"


def one_line(text: str) -> str:
    """Untrusted text without control characters or line breaks."""
    return printable(text.replace("\n", " ").replace("\r", " "))


def row_text(row: RowExplanation, n_features: int) -> str:
    """All labels of a row."""
    labels = [label_text(one, n_features) for one in row.labels] or ["no labels"]
    text = "\n".join(labels).replace("\n", "\n  ")
    return f"row {row.row}\n  {text}\n"


def label_text(one: LabelExplanation, n_features: int) -> str:
    """A label: its score, features, components and neighbours."""
    prediction = "" if one.prediction is None else f" (prediction {number(one.prediction)})"
    total = signed(float(one.contributions.sum()))
    features = "feature" if len(one.features) == 1 else "features"
    lines = [
        f"{one_line(str(one.label))}: {number(one.score)}{prediction} = {number(one.base)} base {total} from"
        f" {len(one.features)} {features}"
    ]
    names = [f"{one_line(name)} = {number(value)}" for name, value in _named(one, n_features)]
    for text, contribution in zip(names, one.contributions.tolist(), strict=False):
        lines.append(f"  {signed(contribution):>9}  {text}")
    if len(one.features) > n_features:
        rest = float(one.contributions[n_features:].sum())
        lines.append(f"  {signed(rest):>9}  {len(one.features) - n_features} other features")
    if len(one.components) > 1:
        parts = ", ".join(f"{name} {number(value)}" for name, value in one.components.items())
        lines.append(f"  components: {parts}")
    for neighbour in one.neighbours:
        title = "" if neighbour.title is None else f": {one_line(neighbour.title)}"
        lines.append(f"  similar ({number(neighbour.similarity)}) training row {neighbour.row}{title}")
    return "\n".join(lines)


def _named(one: LabelExplanation, n_features: int) -> list[tuple[str, float]]:
    return list(zip(one.feature_names[:n_features], one.values[:n_features].tolist(), strict=True))
