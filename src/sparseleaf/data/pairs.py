"""Files of pairs of strings: labels and names, labels and broader ones, words and translations."""

from __future__ import annotations

import codecs
import csv
import io
import json
from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import Any

from sparseleaf._files import AnyPath, read_bytes

Pairs = list[tuple[str, str]]


def grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """The second strings by the first."""
    grouped: dict[str, list[str]] = {}
    for label, value in pairs:
        grouped.setdefault(label, []).append(value)
    return grouped


def suffix_of(path: AnyPath) -> str:
    """Suffix of a file, without that of its compression."""
    return PurePath(str(path).lower().removesuffix(".gz")).suffix


def read_text(path: AnyPath) -> str:
    """Text of a file in UTF-8; ValueError if it is not."""
    try:
        return read_bytes(path).removeprefix(codecs.BOM_UTF8).decode()
    except UnicodeDecodeError:
        raise ValueError(f"{path}: the text is not valid UTF-8.") from None


def two_columns(path: AnyPath, text: str, first: str = "label", second: str = "name") -> Pairs:
    """The first two columns, separated by tabs, or by commas in a ``.csv`` file.

    ``first`` and ``second`` say what they are; a first line that starts with the former is a header.
    """
    comma = suffix_of(path) == ".csv"
    rows = csv.reader(
        io.StringIO(text, newline=""),
        delimiter="," if comma else "\t",
        quoting=csv.QUOTE_MINIMAL if comma else csv.QUOTE_NONE,
    )
    pairs = []
    try:
        for number, row in enumerate(rows, start=1):
            if not row or (number == 1 and row[0].strip().lower() == first):
                continue
            if len(row) < 2 or not row[0].strip():
                raise ValueError(
                    f"{path}: line {number}: expected a {first} and a {second} in two columns. Got {row!r:.60} instead."
                )
            pairs.append((row[0].strip(), row[1].strip()))
    except csv.Error as error:
        raise ValueError(f"{path}: line {rows.line_num}: {error}.") from None
    return pairs


def from_object(path: AnyPath, text: str) -> Iterator[tuple[str, str]]:
    """Pairs of a JSON object of strings, or lists of strings."""
    values = parse_json(path, text)
    if not isinstance(values, dict):
        raise ValueError(f"{path}: expected a JSON object of texts, or lists of texts.")
    for label, names in values.items():
        yield from ((label, name) for name in strings(path, names))


def parse_json(place: object, text: str) -> Any:
    """Parsed JSON; ValueError with the place if it is invalid."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{place}: invalid JSON ({error}).") from None


def strings(place: object, values: Any) -> list[str]:
    """None, a string or number, or a list of those."""
    several = values if isinstance(values, list) else [] if values is None else [values]
    if not all(isinstance(one, str | int) and not isinstance(one, bool) for one in several):
        raise ValueError(f"{place}: expected text, or a list of texts. Got {values!r:.60} instead.")
    return [str(one) for one in several]
