"""Tables: CSV, Parquet and svmlight files to what an estimator takes.

In: one or more files of a kind. Out: a `Table`, with a DataFrame of float32 and category columns for CSV and
Parquet, or a CSR matrix for the sparse formats. CSV and Parquet are read by pyarrow, which refuses what is ragged
and knows a date from a text; it and pandas are imported here only when such a file is read.
"""

from __future__ import annotations

import difflib
import importlib
import io
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparseleaf._files import AnyPath, as_path, read_bytes
from sparseleaf.data.categories import MAX_CATEGORIES
from sparseleaf.data.svmlight import load_svmlight
from sparseleaf.data.xc import load_xc

__all__ = ["Table", "guess_format", "load_table"]

PathLike = str | os.PathLike[str]

FORMATS = ("auto", "csv", "parquet", "svmlight", "xc")
SUFFIXES = {
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".svm": "svmlight",
    ".svmlight": "svmlight",
    ".libsvm": "svmlight",
    ".txt": "xc",
}
_MORE_NULLS = ["?"]
"""What stands for a missing value beside empty, NA, NaN, null and their kin, which pyarrow knows."""
_INK = re.compile(rb"\S")
_LINE = re.compile(rb"[^\r\n]*")
_RAGGED = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")
"""What pyarrow says of a ragged row; its own hook for such rows fails where they are not UTF-8."""
_DECIMAL_COMMA = re.compile(r"[+-]?\d+(,\d+)?")


@dataclass(frozen=True)
class Table:
    """Rows as an estimator takes them.

    Attributes
    ----------
    X : pandas.DataFrame, or scipy.sparse.csr_matrix of float32
        CSV and Parquet give a DataFrame: numbers and booleans as float32, NaN where a value is missing; text as
        categories, whose levels are sorted str.
    y : ndarray, list, csr_matrix or None
        One target: an array of int64, float64 (NaN: not measured), bool or str, the last as objects. Several:
        float64, shape (n_rows, n_targets), NaN where not measured. svmlight: an array, or a list of lists of
        label ids; XC text: a CSR matrix. None without targets.
    target_names : tuple of str
        Columns that ``y`` came from; empty for the sparse formats.
    qid : ndarray, shape (n_rows,), or None
        Query of every row: int64 from ``qid:`` in svmlight; of a column numbers as they are, or str as objects.
    """

    X: Any
    y: Any
    target_names: tuple[str, ...]
    qid: NDArray[Any] | None


def load_table(
    path_or_paths: PathLike | Iterable[PathLike],
    target: str | Sequence[str] | None = None,
    *,
    format: str = "auto",
    qid: str | None = None,
    categorical: str | Sequence[str] | None = None,
    require_target: bool = True,
    max_categories: int | None = MAX_CATEGORIES,
) -> Table:
    """Read a table of numbers and text.

    Parameters
    ----------
    path_or_paths : path, or iterable of paths
        Files to read as one set, in the order given; their columns must be the same, in the same order. CSV and
        svmlight may be gzipped, which is known by content; ``s3://…`` and the like are read through fsspec.
    target : str or sequence of str, optional
        Columns to predict, for CSV and Parquet; all others are features. The sparse formats hold their labels.
    format : {"auto", "csv", "parquet", "svmlight", "xc"}
        "auto" looks at the names: ``.csv``, ``.tsv``, ``.parquet``, ``.svm``, ``.svmlight``, ``.libsvm``, and
        ``.txt`` for XC text; with or without ``.gz``. The values of CSV may be separated by commas, semicolons
        or tabs.
    qid : str, optional
        Column with the query of every row, for CSV and Parquet; it is no feature.
    categorical : str or sequence of str, optional
        Columns that are text whatever they look like, such as postal codes.
    require_target : bool
        False reads rows to predict: targets and queries that are not there are no error, and are then None.
    max_categories : int or None
        Distinct values that a text column may have; None for any number.

    Returns
    -------
    Table

    Raises
    ------
    ValueError
        If a file or an argument is not valid; the message names it, and the column.
    ImportError
        If CSV or Parquet is to be read and pandas or pyarrow is not installed.
    """
    if isinstance(path_or_paths, str | os.PathLike):
        path_or_paths = [path_or_paths]
    paths = [as_path(path) for path in path_or_paths]
    if not paths:
        raise ValueError("path_or_paths: found no file, wanted at least one")
    targets, texts = _names("target", target), _names("categorical", categorical)
    queries = _names("qid", qid)
    for argument, given in (("categorical", texts), ("qid", queries)):
        for name in given:
            if name in targets:
                raise ValueError(f"{argument}: found {name!r}, which is a target; wanted features")
    kind = _common_format(paths, format)
    if kind in ("csv", "parquet"):
        parts = [
            _Part(path, _read_csv(path, texts) if kind == "csv" else _read_parquet(path)) for path in paths
        ]
        return _from_columns(parts, targets, queries, texts, require_target, max_categories)
    for argument, given in (("target", targets), ("categorical", texts), ("qid", queries)):
        if not given:
            continue
        raise ValueError(
            f"{argument}: found {given[0]!r}, but {paths[0]} is read as {kind}, whose columns have no names;"
            " wanted CSV or Parquet"
        )
    if kind == "xc":
        X, Y = load_xc(paths)
        return Table(X, Y, (), None)
    X, y, query_of_row = load_svmlight(paths)
    return Table(X, y, (), query_of_row)


def guess_format(path: PathLike) -> str | None:
    """Format of a file by its name; None if the name does not tell."""
    return SUFFIXES.get(_suffix(path))


def text_sample(levels: Iterable[str]) -> str:
    """A level that shows why a column is text: the first that is no number, if any."""
    listed = list(levels)
    return next((level for level in listed if not _is_number(level)), listed[0])


# --- arguments


def _names(argument: str, given: str | Sequence[str] | None) -> list[str]:
    names = [] if given is None else [given] if isinstance(given, str) else list(given)
    for name in names:
        if not isinstance(name, str):
            raise ValueError(f"{argument}: found {name!r}, wanted names of columns")
        if names.count(name) > 1:
            raise ValueError(f"{argument}: found {name!r} twice, wanted distinct columns")
    return names


def _common_format(paths: list[AnyPath], given: str) -> str:
    if given not in FORMATS:
        raise ValueError(f"format: found {given!r}, wanted one of {', '.join(FORMATS)}")
    if given != "auto":
        return given
    first = guess_format(paths[0])
    if first is None:
        raise ValueError(
            f"{paths[0]}: its name does not tell what is in it; wanted a format, one of {', '.join(FORMATS[1:])}"
        )
    for path in paths:
        if guess_format(path) != first:
            raise ValueError(
                f"{path}: found another format than {first}, that of {paths[0]}; wanted the same"
            )
    return first


def _suffix(path: PathLike) -> str:
    name = os.fspath(path).lower()
    return Path(name.removesuffix(".gz")).suffix


def _needed(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise ImportError(
            f"CSV and Parquet need {package}, which is not installed: pip install 'sparseleaf[table]'",
            name=package,
        ) from None


def _did_you_mean(name: str, known: list[str]) -> str:
    folded = {column.casefold(): column for column in known}
    near = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.5)
    if near:
        return f"did you mean {folded[near[0]]!r}?"
    shown = ", ".join(repr(column) for column in known[:10])
    return f"its columns are {shown}{', …' if len(known) > 10 else ''}"


# --- files


class _Part(NamedTuple):
    """A file and its columns."""

    path: AnyPath
    columns: Any  # pyarrow.Table


def _read_csv(path: AnyPath, texts: list[str]) -> Any:
    pa, csv = _needed("pyarrow"), _needed("pyarrow.csv")
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
    delimiter = b"\t" if _suffix(path) == ".tsv" else _sniff(header)
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


def _read_parquet(path: AnyPath) -> Any:
    pa, parquet = _needed("pyarrow"), _needed("pyarrow.parquet")
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


# --- columns


def _from_columns(
    parts: list[_Part],
    targets: list[str],
    queries: list[str],
    texts: list[str],
    require_target: bool,
    max_categories: int | None,
) -> Table:
    pd = _needed("pandas")
    for path, columns in parts:
        names = columns.column_names
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"{path}: found the column {twice!r} twice, wanted distinct names")
        if columns.num_rows == 0:
            raise ValueError(f"{path}: found column names and no rows, wanted at least one row")
        wanted_columns = [("categorical", texts)]
        if require_target:
            wanted_columns += [("target", targets), ("qid", queries)]
        for argument, wanted in wanted_columns:
            for name in wanted:
                if name not in names:
                    raise ValueError(
                        f"{path}: found no column {name!r} ({argument}); {_did_you_mean(name, names)}"
                    )
    features = _common_features(parts, [*targets, *queries])
    data = {name: _feature(parts, name, name in texts, max_categories) for name in features}

    def there(names: list[str]) -> bool:
        return bool(names) and all(name in columns.column_names for _, columns in parts for name in names)

    return Table(
        pd.DataFrame(data),
        _targets(parts, targets) if there(targets) else None,
        tuple(targets),
        _queries(parts, queries[0]) if there(queries) else None,
    )


def _common_features(parts: list[_Part], others: list[str]) -> list[str]:
    listed = [[name for name in columns.column_names if name not in others] for _, columns in parts]
    first = listed[0]
    for (path, _), names in zip(parts, listed, strict=True):
        if not names:
            raise ValueError(f"{path}: found no column beside the target, wanted features")
        for number, (found, wanted) in enumerate(zip(names, first, strict=False), start=1):
            if found != wanted:
                raise ValueError(
                    f"{path}: found {found!r} as feature {number}, wanted {wanted!r} as in {parts[0].path}"
                )
        if len(names) != len(first):
            raise ValueError(
                f"{path}: found {len(names)} features, wanted {len(first)} as in {parts[0].path}; the first"
                f" difference is {max(names, first, key=len)[min(len(names), len(first))]!r}"
            )
    return first


def _feature(parts: list[_Part], name: str, as_text: bool, max_categories: int | None) -> Any:
    if as_text or _common_kind(parts, name) == "text":
        return _categories(parts, name, as_text, max_categories)
    return np.concatenate([_numbers(part, name, np.float32) for part in parts])


def _targets(parts: list[_Part], names: list[str]) -> NDArray[Any]:
    kinds = {name: _common_kind(parts, name) for name in names}
    if len(names) > 1:
        text = next((name for name in names if kinds[name] == "text"), None)
        if text is not None:
            raise ValueError(
                f"{parts[0].path}: the target {text!r} holds text; wanted numbers where there are several targets"
            )
        return np.column_stack(
            [np.concatenate([_numbers(part, name, np.float64) for part in parts]) for name in names]
        )
    name = names[0]
    if kinds[name] == "text":
        return np.concatenate([_classes(part, name) for part in parts])
    return np.concatenate([_numbers(part, name, None) for part in parts])


def _queries(parts: list[_Part], name: str) -> NDArray[Any]:
    """Numbers as they are: in float32, as features, two large ones could become one query."""
    for part in parts:
        missing = part.columns.column(name).is_null(nan_is_null=True).to_numpy()
        if missing.any():
            row = int(missing.argmax()) + 1
            raise ValueError(
                f"{part.path}: row {row}: found no value of {name!r}, wanted the query of every row"
            )
    if _common_kind(parts, name) == "text":
        return np.concatenate([_classes(part, name) for part in parts])
    return np.concatenate([_numbers(part, name, None) for part in parts])


def _common_kind(parts: list[_Part], name: str) -> str:
    """Whether it is a "number" or "text"; a file where all values are missing goes with the others."""
    known: tuple[str, AnyPath] | None = None
    for part in parts:
        kind = _kind(part, name)
        if kind is None:
            continue
        if known is not None and kind != known[0]:
            raise ValueError(
                f"{part.path}: the column {name!r} holds {kind}s, wanted {known[0]}s as in {known[1]}"
            )
        known = known or (kind, part.path)
    return "number" if known is None else known[0]


def _kind(part: _Part, name: str) -> str | None:
    types = _needed("pyarrow").types
    found = part.columns.column(name).type
    if types.is_null(found):
        return None
    if types.is_string(found) or types.is_large_string(found) or types.is_dictionary(found):
        return "text"
    if (
        types.is_integer(found)
        or types.is_floating(found)
        or types.is_boolean(found)
        or types.is_decimal(found)
    ):
        return "number"
    if types.is_temporal(found):
        raise ValueError(
            f"{part.path}: the column {name!r} holds dates or times ({found}); wanted numbers or text: make"
            " numbers of them first, such as days or seconds"
        )
    if types.is_binary(found) or types.is_large_binary(found):
        raise ValueError(
            f"{part.path}: the column {name!r} holds bytes that are not UTF-8; wanted numbers or text"
        )
    raise ValueError(f"{part.path}: the column {name!r} holds {found}; wanted numbers or text")


def _numbers(part: _Part, name: str, dtype: Any) -> NDArray[Any]:
    """Values as that type, or as they are; missing ones are NaN, infinite ones are refused."""
    pa = _needed("pyarrow")
    column = part.columns.column(name)
    if pa.types.is_null(column.type) or pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    elif pa.types.is_boolean(column.type) and (dtype is not None or column.null_count):
        column = column.cast(pa.uint8())
    values: NDArray[Any] = column.to_numpy()
    with np.errstate(over="ignore"):
        cast = values if dtype is None else values.astype(dtype)
    infinite = np.isinf(cast)
    if infinite.any():
        row = int(infinite.argmax())
        wanted = "what float32 can hold" if dtype is np.float32 else "finite numbers"
        raise ValueError(
            f"{part.path}: row {row + 1}: found {values[row]} in the column {name!r}, wanted {wanted}"
        )
    return cast


def _classes(part: _Part, name: str) -> NDArray[Any]:
    column = part.columns.column(name)
    if column.null_count:
        row = int(column.is_null().to_numpy().argmax()) + 1
        raise ValueError(
            f"{part.path}: row {row}: found no value of the target {name!r}, wanted a class for every row"
        )
    return np.array(_as_text(column).to_pylist(), dtype=object)


def _categories(parts: list[_Part], name: str, as_text: bool, max_categories: int | None) -> Any:
    """A text column over all files, as a pandas Categorical whose levels are sorted."""
    pa, pd = _needed("pyarrow"), _needed("pandas")
    chunks = [chunk for part in parts for chunk in _as_text(part.columns.column(name)).chunks]
    encoded = pa.chunked_array(chunks).combine_chunks().dictionary_encode()
    levels: list[str] = encoded.dictionary.to_pylist()
    files = ", ".join(str(part.path) for part in parts)
    if not as_text and all(map(_DECIMAL_COMMA.fullmatch, levels)) and any("," in level for level in levels):
        raise ValueError(
            f"{files}: the column {name!r} holds numbers with a decimal comma, such as {levels[0]!r}; wanted a"
            " point"
        )
    if max_categories is not None and len(levels) > max_categories:
        raise ValueError(
            f"{files}: the column {name!r} holds text, such as {text_sample(levels)!r}, with {len(levels):,}"
            f" distinct values; wanted numbers, or at most {max_categories} distinct values"
        )
    order = sorted(range(len(levels)), key=levels.__getitem__)
    rank = np.full(len(levels) + 1, -1, np.int64)  # the last is for missing values, whose code is -1
    rank[order] = np.arange(len(levels))
    codes = rank[encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)]
    return pd.Categorical.from_codes(codes, [levels[i] for i in order])


def _as_text(column: Any) -> Any:
    pa = _needed("pyarrow")
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(pa.large_string())


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
