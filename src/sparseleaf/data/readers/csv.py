"""Reader of CSV files, separated by commas, semicolons or tabs, with pyarrow."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sparseleaf._files import AnyPath, read_bytes
from sparseleaf.data.columns import Part, needed, rows_of
from sparseleaf.data.reading import Reader, Rows, Source, register, suffix_of
from sparseleaf.data.records import Records, needed_fields, rows_of_records, with_labels

TSV = ".tsv"
_MORE_NULLS = ["?"]
"""Missing values in addition to pyarrow's (empty, NA, NaN, null, …)."""
_INK = re.compile(rb"\S")
_LINE = re.compile(rb"[^\r\n]*")
_RAGGED = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")
"""pyarrow's error for a row with a wrong number of values; its callback for such rows fails if they are not UTF-8."""


@register
class CSVReader(Reader):
    """Read CSV with column names in the first line."""

    name = "csv"
    suffixes = (".csv", TSV)
    named_columns = True
    has_texts = True

    def read(self, source: Source) -> Rows:
        """Read the rows; gzipped files are detected by content."""
        files = [_File.read(path) for path in source.paths]
        if source.text is not None:
            fields, typed = needed_fields(source), {*source.target, *source.numeric, source.weight}
            return rows_of_records([_records(file, fields, typed) for file in files], source)
        rows = rows_of([Part(file.path, _table(file, source.categorical)) for file in files], source)
        lists = [*source.keep, *([] if source.labels is None else [source.labels])]
        return with_labels(rows, [_records(file, lists, ()) for file in files], source) if lists else rows


@dataclass(frozen=True)
class _File:
    """Content of a CSV file, decompressed, with the line of column names and the delimiter."""

    path: AnyPath
    content: bytes
    header: bytes
    delimiter: bytes

    @classmethod
    def read(cls, path: AnyPath) -> _File:
        content = read_bytes(path).removeprefix(codecs.BOM_UTF8)
        begin = _INK.search(content)
        if begin is None:
            raise ValueError(
                f"{path}: the file is empty; expected a line with column names, followed by rows."
            )
        if b"\0" in content[:4096]:
            raise ValueError(f"{path}: the file contains zero bytes; expected CSV in UTF-8.")
        if content.count(b'"') % 2:
            raise ValueError(f"{path}: unclosed quotation mark.")
        header = _LINE.match(content, begin.start())[0]  # type: ignore[index]
        if _INK.search(content, begin.start() + len(header)) is None:
            raise ValueError(f"{path}: the file has column names but no rows.")
        return cls(path, content, header, b"\t" if suffix_of(path) == TSV else _sniff(header))

    def names(self) -> list[str]:
        """The column names, without reading the rows."""
        # errors in the names are reported when the rows are read
        lines = io.TextIOWrapper(io.BytesIO(self.content), "utf-8", "replace", newline="")
        return next(names for names in csv.reader(lines, delimiter=self.delimiter.decode()) if names)

    def parse(self, **convert: Any) -> Any:
        """A pyarrow table."""
        pa, arrow = needed("pyarrow"), needed("pyarrow.csv")
        converting = arrow.ConvertOptions(**convert)
        converting.null_values = [*converting.null_values, *_MORE_NULLS]
        options = arrow.ParseOptions(
            delimiter=self.delimiter.decode(),
            ignore_empty_lines=self.delimiter
            in self.header,  # with one column an empty line is a missing value
            newlines_in_values=b'"' in self.content,
        )
        reason, block, threads = "", max(1 << 20, min(64 * len(self.header), 1 << 30)), True
        while True:
            reading = arrow.ReadOptions(use_threads=threads, block_size=block)
            try:
                table = arrow.read_csv(pa.BufferReader(self.content), reading, options, converting)
                _check_header(self.path, table.column_names)
                return table
            except UnicodeDecodeError:
                raise ValueError(f"{self.path}: the column names are not valid UTF-8.") from None
            except pa.ArrowInvalid as error:
                reason = str(error)
            if "straddl" in reason and block < len(self.content):
                block = min(8 * block, 1 << 30)  # a block must hold at least one row
            elif threads:
                threads = False  # reports row numbers
            else:
                break
        ragged = _RAGGED.search(reason)
        if ragged:
            number, expected, n_values = map(int, ragged.groups())
            raise ValueError(f"{self.path}: row {number - 1}: expected {expected} values, got {n_values}.")
        raise ValueError(f"{self.path}: invalid CSV ({reason}).")


def _table(file: _File, texts: Sequence[str]) -> Any:
    """All columns, with inferred types; ``texts`` are read as text."""
    types = dict.fromkeys(texts, needed("pyarrow").string())
    return file.parse(strings_can_be_null=True, column_types=types)


def _records(file: _File, fields: Sequence[str], typed: Collection[str | None]) -> Records:
    """Some columns as text, unchanged (NA may be a label), those in ``typed`` with inferred types."""
    names = file.names()
    _check_header(file.path, names)
    there = [name for name in fields if name in names]
    if not there:
        return Records(file.path, 0, {}, names)
    types = {name: needed("pyarrow").string() for name in there if name not in typed}
    table = file.parse(include_columns=there, column_types=types)
    return Records(file.path, table.num_rows, table.to_pydict(), names)


def _sniff(header: bytes) -> bytes:
    """The most frequent delimiter in the header, outside quotes."""
    bare = re.sub(rb'"[^"]*"', b"", header)
    counts = [(bare.count(one), one) for one in (b",", b";", b"\t")]
    return max(counts, key=lambda pair: pair[0])[1]


def _check_header(path: AnyPath, names: list[str]) -> None:
    if "" in names:
        raise ValueError(
            f"{path}: column {names.index('') + 1} has no name. If it is the index of a pandas DataFrame, write the"
            " file with"
            " index=False."
        )
