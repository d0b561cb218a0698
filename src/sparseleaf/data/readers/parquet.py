"""Reader of Parquet files with pyarrow."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from sparseleaf._files import AnyPath
from sparseleaf.data.columns import Part, needed, rows_of
from sparseleaf.data.reading import Reader, Rows, Source, register
from sparseleaf.data.records import Records, needed_fields, rows_of_records, with_labels


@register
class ParquetReader(Reader):
    """Read Parquet; a pandas index is ignored."""

    name = "parquet"
    suffixes = (".parquet",)
    named_columns = True
    has_texts = True

    def read(self, source: Source) -> Rows:
        """Read the rows."""
        parts = [Part(path, _read(path)) for path in source.paths]
        if source.text is not None:
            fields = needed_fields(source)
            return rows_of_records([_records(part, fields) for part in parts], source)
        rows = rows_of(parts, source)
        lists = [*source.keep, *([] if source.labels is None else [source.labels])]
        return with_labels(rows, [_records(part, lists) for part in parts], source) if lists else rows


def _records(part: Part, fields: Sequence[str]) -> Records:
    """Some columns as lists of values."""
    table = part.columns
    names = table.column_names
    there = [name for name in fields if name in names]
    return Records(part.path, table.num_rows, table.select(there).to_pydict(), names)


def _read(path: AnyPath) -> Any:
    pa, parquet = needed("pyarrow"), needed("pyarrow.parquet")
    with path.open("rb") as file:
        source = file if file.seekable() else io.BytesIO(file.read())
        try:
            table = parquet.ParquetFile(source).read()
        except (pa.ArrowException, OSError, ValueError) as error:
            raise ValueError(f"{path}: invalid Parquet file ({error}).") from None
    index = (table.schema.pandas_metadata or {}).get("index_columns", [])
    return table.drop_columns(
        [name for name in index if isinstance(name, str) and name in table.column_names]
    )
