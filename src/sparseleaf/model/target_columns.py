"""Columns of the training files that had the labels or targets of the rows, so that further files need not name them.

Keys: ``labels``, a column with the labels of a row, and ``label_separator``, which separates them in a string;
``target``, a list of columns; ``qid``, a column of queries. All are optional.
"""

from __future__ import annotations

from typing import Any

from sparseleaf.model.source import ModelFileError

KEYS = ("labels", "label_separator", "qid")
"""Keys whose values are strings."""


def check_target_columns(columns: object) -> dict[str, Any]:
    """The columns from an untrusted header; unknown keys are ignored."""
    if not isinstance(columns, dict):
        raise ModelFileError("metadata 'target_columns' must be an object")
    listed = columns.get("target", [])
    if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
        raise ModelFileError("metadata 'target_columns' must have a list of names as 'target'")
    checked: dict[str, Any] = {"target": listed} if listed else {}
    for key in KEYS:
        if not isinstance(columns.get(key, ""), str):
            raise ModelFileError(f"metadata 'target_columns' must have a string as {key!r}")
        if key in columns:
            checked[key] = columns[key]
    return checked
