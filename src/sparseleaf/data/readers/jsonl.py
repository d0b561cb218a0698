"""Reader of JSON lines: one JSON object per line, with texts, label lists, numbers and ids as fields."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from sparseleaf._files import AnyPath, read_lines
from sparseleaf.data.columns import Part, needed, rows_of
from sparseleaf.data.reading import Reader, Rows, Source, register
from sparseleaf.data.records import Records, needed_fields, rows_of_records, with_labels
from sparseleaf.progress import phase

REPORTED = 10_000
"""Number of records between two reports of the progress."""


@register
class JSONLinesReader(Reader):
    """Read records. Without text fields they are rows of a table, whose other fields are features."""

    name = "jsonl"
    suffixes = (".jsonl", ".ndjson")
    named_columns = True
    has_texts = True

    def read(self, source: Source) -> Rows:
        """Read the records; gzipped files are detected by content."""
        fields = None if source.text is None else set(needed_fields(source))
        files = [_read(path, fields) for path in source.paths]
        if source.text is not None:
            return rows_of_records(files, source)
        return with_labels(rows_of([_table(file, source) for file in files], source), files, source)


def _read(path: AnyPath, fields: set[str] | None) -> Records:
    """Some fields of a file (None: all), as columns."""
    columns: dict[str, list[Any]] = {}
    names: dict[str, None] = {}
    lines: list[int] = []
    with phase("reading") as advance:
        for count, (line, record) in enumerate(_records(path)):
            lines.append(line)
            names.update(dict.fromkeys(record))
            for name in record if fields is None else fields:
                if name not in record:
                    continue
                column = columns.setdefault(name, [])
                column.extend([None] * (count - len(column)))  # earlier records lack the field
                column.append(record[name])
            if len(lines) % REPORTED == 0:
                advance(len(lines), f"{len(lines):,} records")
    if not lines:
        raise ValueError(f"{path}: the file has no records; expected one JSON object per line.")
    for column in columns.values():
        column.extend([None] * (len(lines) - len(column)))
    return Records(path, len(lines), columns, list(names), lambda number: f"line {lines[number - 1]}")


def _records(path: AnyPath) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line numbers and objects; empty lines are skipped."""
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except UnicodeDecodeError:
            raise ValueError(f"{path}: line {number}: the text is not valid UTF-8.") from None
        except json.JSONDecodeError as error:
            hint = _array_hint(line) if number == 1 else ""
            raise ValueError(
                f"{path}: line {number}: invalid JSON (character {error.pos + 1}: {error.msg}).{hint}"
            ) from None
        except RecursionError:
            raise ValueError(f"{path}: line {number}: the JSON values are nested too deeply.") from None
        except ValueError as error:  # such as an integer with thousands of digits
            raise ValueError(f"{path}: line {number}: invalid JSON ({error}).") from None
        if not isinstance(record, dict):
            raise ValueError(
                f"{path}: line {number}: expected a JSON object with one record. Got {line[:40].decode()!r} instead."
                f"{_array_hint(line)}"
            )
        yield number, record


def _array_hint(line: bytes) -> str:
    if not line.lstrip().startswith(b"["):
        return ""
    return " The file may be a JSON array: write one record per line, for instance with jq -c '.[]'."


def _table(file: Records, source: Source) -> Part:
    """The features and targets of the records as a pyarrow table."""
    pa = needed("pyarrow")
    arrays = {}
    for name in file.names:
        if name == source.labels or name in source.keep:
            continue
        values = file.fields[name]
        if name in source.categorical:
            values = [value if value is None else str(value) for value in values]
        try:
            arrays[name] = pa.array(values)
        except (pa.ArrowException, TypeError, OverflowError) as error:
            raise ValueError(
                f"{file.path}: the field {name!r} must be numbers, or text, in all records ({error})."
            ) from None
    return Part(file.path, pa.table(arrays))
