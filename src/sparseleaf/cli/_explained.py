"""Explanations as lines of ``sparseleaf predict --explain``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sparseleaf._files import AnyPath, read_bytes

if TYPE_CHECKING:
    from sparseleaf.data import Rows
    from sparseleaf.model.explanation import RowExplanation

BLOCK_ROWS = 1_000
"""Number of rows explained at a time."""

SHOWN = 10
"""Number of features per label."""


def explained_lines(
    estimator: Any,
    rows: Rows,
    k: int,
    n_features: int,
    titles: list[str] | None,
    as_json: bool,
    names: dict[str, str] | None,
    training: Any = None,
) -> Iterator[str]:
    """Explain the k best labels of each row; columns that the rows keep, such as ids, come first."""
    kept = rows.kept or {}
    for begin in range(0, rows.n_rows, BLOCK_ROWS):
        block = rows.X[begin : begin + BLOCK_ROWS]
        explanation = estimator.explain(block, k=k, titles=titles, training=training)
        for row, one in enumerate(explanation, start=begin):
            ids = {column: values[row] for column, values in kept.items()}
            one = replace(one, row=row)
            yield _json(one, ids, n_features, names) if as_json else _text(one, ids, n_features, names)


def read_titles(path: AnyPath | None) -> list[str] | None:
    """Titles, one per line."""
    if path is None:
        return None
    text = read_bytes(path).decode(errors="replace")
    # not splitlines: titles may have other separators than the line feed
    return text.removesuffix("\n").replace("\r\n", "\n").split("\n") if text else []


def _text(row: RowExplanation, ids: dict[str, Any], n_features: int, names: dict[str, str] | None) -> str:
    if names is not None:
        labels = [
            replace(one, label=f"{names[str(one.label)]} ({one.label})") if str(one.label) in names else one
            for one in row.labels
        ]
        row = replace(row, labels=labels)
    kept = "".join(f"{' '.join(str(value).split())}\t" for value in ids.values())
    return f"{kept}{row.to_text(n_features)}\n"


def _json(row: RowExplanation, ids: dict[str, Any], n_features: int, names: dict[str, str] | None) -> str:
    values = ids | row.to_dict(n_features)
    if names is not None:
        for one in values["labels"]:
            one["name"] = names.get(str(one["label"]))
    text = json.dumps(values, ensure_ascii=False, default=str)
    return (text if text.isprintable() else json.dumps(values, default=str)) + "\n"
