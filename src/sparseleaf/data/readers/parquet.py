"""Reader of Parquet, by pyarrow."""

from __future__ import annotations

import io
from typing import Any

from sparseleaf._files import AnyPath
from sparseleaf.data.columns import Part, needed, rows_of
from sparseleaf.data.reading import Reader, Rows, Source, register


@register
class ParquetReader(Reader):
    """Parquet to a DataFrame; an index that pandas wrote is left out."""

    name = "parquet"
    suffixes = (".parquet",)
    named_columns = True

    def read(self, source: Source) -> Rows:
        """See :class:`Rows`."""
        return rows_of([Part(path, _read(path)) for path in source.paths], source)


def _read(path: AnyPath) -> Any:
    pa, parquet = needed("pyarrow"), needed("pyarrow.parquet")
    with path.open("rb") as file:
        source = file if file.seekable() else io.BytesIO(file.read())
        try:
            table = parquet.ParquetFile(source).read()
        except (pa.ArrowException, OSError, ValueError) as error:
            raise ValueError(f"{path}: found no sound Parquet file ({error})") from None
    index = (table.schema.pandas_metadata or {}).get("index_columns", [])
    return table.drop_columns(
        [name for name in index if isinstance(name, str) and name in table.column_names]
    )
