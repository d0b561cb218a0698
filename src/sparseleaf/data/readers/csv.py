"""Reader of CSV, with values between commas, semicolons or tabs, by pyarrow, which refuses what is ragged."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from sparseleaf._files import AnyPath, read_bytes
from sparseleaf.data.columns import Part, needed, rows_of
from sparseleaf.data.reading import Reader, Rows, Source, register, suffix_of

TSV = ".tsv"
_MORE_NULLS = ["?"]
"""What stands for a missing value beside empty, NA, NaN, null and their kin, which pyarrow knows."""
_INK = re.compile(rb"\S")
_LINE = re.compile(rb"[^\r\n]*")
_RAGGED = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")
"""What pyarrow says of a ragged row; its own hook for such rows fails where they are not UTF-8."""


@register
class CSVReader(Reader):
    """CSV to a DataFrame; the first line has the names of the columns."""

    name = "csv"
    suffixes = (".csv", TSV)
    named_columns = True

    def read(self, source: Source) -> Rows:
        """See :class:`Rows`; gzipped files are known by their content."""
        return rows_of([Part(path, _read(path, source.categorical)) for path in source.paths], source)


def _read(path: AnyPath, texts: Sequence[str]) -> Any:
    pa, csv = needed("pyarrow"), needed("pyarrow.csv")
    text = read_bytes(path)
    begin = _INK.search(text)
    if begin is None:
        raise ValueError(f"{path}: found an empty file, wanted a line of column names and rows below it")
    if b"\0" in text[:4096]:
        raise ValueError(f"{path}: found zero bytes, wanted CSV in UTF-8")
    if text.count(b'"') % 2:
        raise ValueError(f"{path}: found a quotation mark that is never closed, wanted them in pairs")
    header = _LINE.match(text, begin.start())[0]  # type: ignore[index]
    if _INK.search(text, begin.start() + len(header)) is None:
        raise ValueError(f"{path}: found column names and no rows, wanted at least one row")
    delimiter = b"\t" if suffix_of(path) == TSV else _sniff(header)
    # with one column an empty line is a missing value
    parse = {"delimiter": delimiter.decode(), "ignore_empty_lines": delimiter in header}
    convert = csv.ConvertOptions(strings_can_be_null=True, column_types=dict.fromkeys(texts, pa.string()))
    convert.null_values = [*convert.null_values, *_MORE_NULLS]
    options = csv.ParseOptions(**parse, newlines_in_values=b'"' in text)
    reason = ""
    for threads in (True, False):  # one thread only where something is wrong: it alone counts rows
        # a block has to hold whole rows, however wide
        reading = csv.ReadOptions(
            use_threads=threads, block_size=max(1 << 20, min(64 * len(header), 1 << 30))
        )
        try:
            table = csv.read_csv(pa.BufferReader(text), reading, options, convert)
            _check_header(path, table.column_names)
            return table
        except UnicodeDecodeError:
            raise ValueError(f"{path}: found column names that are not UTF-8") from None
        except pa.ArrowInvalid as error:
            reason = str(error)
    ragged = _RAGGED.search(reason)
    if ragged:
        number, wanted, found = map(int, ragged.groups())
        raise ValueError(
            f"{path}: row {number - 1} below the column names: found {found} values, wanted {wanted}"
        )
    raise ValueError(f"{path}: found no sound CSV ({reason})")


def _sniff(header: bytes) -> bytes:
    """The most frequent delimiter of the column names, outside quotes."""
    bare = re.sub(rb'"[^"]*"', b"", header)
    counts = [(bare.count(one), one) for one in (b",", b";", b"\t")]
    return max(counts, key=lambda pair: pair[0])[1]


def _check_header(path: AnyPath, names: list[str]) -> None:
    if "" in names:
        raise ValueError(
            f"{path}: column {names.index('') + 1} has no name, wanted one for each (row numbers that pandas"
            " wrote are left out with index=False)"
        )
