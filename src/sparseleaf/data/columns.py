"""Conversion of pyarrow tables (CSV, Parquet) to rows.

Input: one pyarrow table per file. Output: `Rows` with a DataFrame of float32 and categorical columns. pyarrow and
pandas are imported only when such a file is read.
"""

from __future__ import annotations

import difflib
import importlib
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparseleaf._files import AnyPath
from sparseleaf.data.reading import Columns, Rows, Source

_DECIMAL_COMMA = re.compile(r"[+-]?\d+(,\d+)?")
_PLURAL = {"number": "numbers", "text": "text"}


class Part(NamedTuple):
    """A file and its table."""

    path: AnyPath
    columns: Any  # pyarrow.Table


def needed(module: str) -> Any:
    """Import a module of an optional package; the ImportError has the install command."""
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise ImportError(
            f"Reading CSV and Parquet requires {package}. Install it with: pip install 'sparseleaf[table]'",
            name=package,
        ) from None


def did_you_mean(name: str, known: list[str]) -> str:
    """A hint with the closest known column, or the first ones."""
    folded = {column.casefold(): column for column in known}
    near = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.5)
    if near:
        return f"did you mean {folded[near[0]]!r}?"
    shown = ", ".join(repr(column) for column in known[:10])
    return f"columns: {shown}{', …' if len(known) > 10 else ''}"


def rows_of(parts: Sequence[Part], source: Source) -> Rows:
    """Rows of all files: features and, if present, targets, queries and weights."""
    pd = needed("pandas")
    optional = {
        "target": list(source.target),
        "qid": [] if source.qid is None else [source.qid],
        "weight": [] if source.weight is None else [source.weight],
    }
    texts, labels = list(source.categorical), [] if source.labels is None else [source.labels]
    check_roles(optional | {"labels": labels, "categorical": texts})
    for path, columns in parts:
        names = columns.column_names
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"{path}: duplicate column {twice!r}; column names must be unique.")
        if columns.num_rows == 0:
            raise ValueError(f"{path}: the file has column names but no rows.")
        for argument, required in ({"categorical": texts} | (optional if source.labelled else {})).items():
            for name in required:
                if name not in names:
                    raise ValueError(f"{path}: no column {name!r} ({argument}); {did_you_mean(name, names)}")
    others = [name for names in (*optional.values(), labels, source.keep) for name in names]
    features = _common_features(parts, others)
    X = pd.DataFrame({name: _feature(parts, name, name in texts, source.max_categories) for name in features})
    there = {
        argument: names
        for argument, names in optional.items()
        if names and all(name in columns.column_names for _, columns in parts for name in names)
    }
    return Rows(
        X if source.features is None else _in_order(X, source.features, source.files),
        _targets(parts, there["target"]) if "target" in there else None,
        _queries(parts, *there["qid"]) if "qid" in there else None,
        _weights(parts, *there["weight"]) if "weight" in there else None,
    )


def _in_order(X: Any, features: Columns, files: str) -> Any:
    """Select the features in training order; an array if training had no names, unless there is text."""
    if features.names is not None:
        for name in features.names:
            if name not in X.columns:
                raise ValueError(f"{files}: no column {name!r}, which is a feature of the model.")
        return X[list(features.names)]
    if X.shape[1] != features.count:
        raise ValueError(
            f"{files}: expected {features.count} features, as in training, got {X.shape[1]}. Name target columns with"
            " 'target' (--target), so that they are not used as features."
        )
    return X if (X.dtypes == "category").any() else X.to_numpy("float32")


def check_roles(columns_by_role: dict[str, list[str]]) -> None:
    """Raise ValueError for columns with two roles and for duplicates."""
    roles: dict[str, str] = {}
    for argument, names in columns_by_role.items():
        for name in names:
            if not isinstance(name, str):
                raise ValueError(f"The {argument!r} parameter must be column names. Got {name!r} instead.")
            if names.count(name) > 1:
                raise ValueError(
                    f"The {argument!r} parameter must have distinct columns. Got {name!r} twice."
                )
            if name in roles:
                raise ValueError(
                    f"The {argument!r} parameter must not be {name!r}, which is a {roles[name]} column."
                )
            roles[name] = argument


def text_sample(levels: Iterable[str]) -> str:
    """A value that shows that a column is text: the first that is not a number, if any."""
    listed = list(levels)
    return next((level for level in listed if not _is_number(level)), listed[0])


def _common_features(parts: Sequence[Part], others: list[str]) -> list[str]:
    listed = [[name for name in columns.column_names if name not in others] for _, columns in parts]
    first = listed[0]
    for (path, _), names in zip(parts, listed, strict=True):
        if not names:
            raise ValueError(f"{path}: the file has no feature columns.")
        for number, (name, expected) in enumerate(zip(names, first, strict=False), start=1):
            if name != expected:
                raise ValueError(
                    f"{path}: expected {expected!r} as feature {number}, as in {parts[0].path}, got {name!r}."
                )
        if len(names) != len(first):
            raise ValueError(
                f"{path}: expected {len(first)} features, as in {parts[0].path}, got {len(names)}; the first"
                f" difference is {max(names, first, key=len)[min(len(names), len(first))]!r}."
            )
    return first


def _feature(parts: Sequence[Part], name: str, as_text: bool, max_categories: int | None) -> Any:
    if as_text or _common_kind(parts, name) == "text":
        return _categories(parts, name, as_text, max_categories)
    return np.concatenate([_numbers(part, name, np.float32) for part in parts])


def _targets(parts: Sequence[Part], names: list[str]) -> Any:
    kinds = {name: _common_kind(parts, name) for name in names}
    if len(names) > 1:
        text = next((name for name in names if kinds[name] == "text"), None)
        if text is not None:
            raise ValueError(
                f"{parts[0].path}: the target {text!r} contains text; several targets must be numeric."
            )
        return needed("pandas").DataFrame(
            {name: np.concatenate([_numbers(part, name, np.float64) for part in parts]) for name in names}
        )
    name = names[0]
    if kinds[name] == "text":
        return np.concatenate([_classes(part, name) for part in parts])
    return np.concatenate([_numbers(part, name, None) for part in parts])


def _queries(parts: Sequence[Part], name: str) -> NDArray[Any]:
    """Query ids in their own dtype: as float32, two large ids could become equal."""
    for part in parts:
        missing = part.columns.column(name).is_null(nan_is_null=True).to_numpy()
        if missing.any():
            row = int(missing.argmax()) + 1
            raise ValueError(
                f"{part.path}: row {row}: missing value in {name!r}; every row must have a query."
            )
    if _common_kind(parts, name) == "text":
        return np.concatenate([_classes(part, name) for part in parts])
    return np.concatenate([_numbers(part, name, None) for part in parts])


def _weights(parts: Sequence[Part], name: str) -> NDArray[np.float64]:
    for part in parts:
        if _kind(part, name) == "text":
            raise ValueError(f"{part.path}: the weight column {name!r} must be numeric, but contains text.")
        missing = part.columns.column(name).is_null(nan_is_null=True).to_numpy()
        if missing.any():
            row = int(missing.argmax()) + 1
            raise ValueError(
                f"{part.path}: row {row}: missing value in {name!r}; every row must have a weight."
            )
    return np.concatenate([_numbers(part, name, np.float64) for part in parts])


def _common_kind(parts: Sequence[Part], name: str) -> str:
    """Kind of a column, "number" or "text", the same in all files; files with missing values only are ignored."""
    known: tuple[str, AnyPath] | None = None
    for part in parts:
        kind = _kind(part, name)
        if kind is None:
            continue
        if known is not None and kind != known[0]:
            raise ValueError(
                f"{part.path}: the column {name!r} contains {_PLURAL[kind]}, but {_PLURAL[known[0]]} in {known[1]}."
            )
        known = known or (kind, part.path)
    return "number" if known is None else known[0]


def _kind(part: Part, name: str) -> str | None:
    types = needed("pyarrow").types
    dtype = part.columns.column(name).type
    if types.is_null(dtype):
        return None
    if types.is_string(dtype) or types.is_large_string(dtype) or types.is_dictionary(dtype):
        return "text"
    if (
        types.is_integer(dtype)
        or types.is_floating(dtype)
        or types.is_boolean(dtype)
        or types.is_decimal(dtype)
    ):
        return "number"
    if types.is_temporal(dtype):
        raise ValueError(
            f"{part.path}: the column {name!r} contains dates or times ({dtype}), which are not supported. Convert them"
            " to numbers first, such as days or seconds."
        )
    if types.is_binary(dtype) or types.is_large_binary(dtype):
        raise ValueError(
            f"{part.path}: the column {name!r} must be numbers or UTF-8 text, but contains bytes."
        )
    raise ValueError(f"{part.path}: the column {name!r} must be numbers or text. Got {dtype} instead.")


def _numbers(part: Part, name: str, dtype: Any) -> NDArray[Any]:
    """Values as ``dtype`` (None: unchanged), NaN if missing; ValueError for infinite values."""
    pa = needed("pyarrow")
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
        kind = "finite in float32" if dtype is np.float32 else "finite"
        raise ValueError(f"{part.path}: row {row + 1}: {name!r} must be {kind}. Got {values[row]} instead.")
    return cast


def _classes(part: Part, name: str) -> NDArray[Any]:
    column = part.columns.column(name)
    if column.null_count:
        row = int(column.is_null().to_numpy().argmax()) + 1
        raise ValueError(
            f"{part.path}: row {row}: missing value in the target {name!r}; every row must have a class."
        )
    return np.array(_as_text(column).to_pylist(), dtype=object)


def _categories(parts: Sequence[Part], name: str, as_text: bool, max_categories: int | None) -> Any:
    """A text column of all files as a pandas Categorical with sorted categories."""
    pa, pd = needed("pyarrow"), needed("pandas")
    chunks = [chunk for part in parts for chunk in _as_text(part.columns.column(name)).chunks]
    encoded = pa.chunked_array(chunks).combine_chunks().dictionary_encode()
    levels: list[str] = encoded.dictionary.to_pylist()
    files = ", ".join(str(part.path) for part in parts)
    if not as_text and all(map(_DECIMAL_COMMA.fullmatch, levels)) and any("," in level for level in levels):
        raise ValueError(
            f"{files}: the column {name!r} contains numbers with a decimal comma, such as {levels[0]!r}; use a decimal"
            " point."
        )
    if max_categories is not None and len(levels) > max_categories:
        raise ValueError(
            f"{files}: the text column {name!r} must have at most {max_categories} distinct values. Got"
            f" {len(levels):,}, such as {text_sample(levels)!r}. Columns of texts are named in 'text' (--text)."
        )
    order = sorted(range(len(levels)), key=levels.__getitem__)
    rank = np.full(len(levels) + 1, -1, np.int64)  # the last entry is for missing values, code -1
    rank[order] = np.arange(len(levels))
    codes = rank[encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)]
    return pd.Categorical.from_codes(codes, [levels[i] for i in order])


def _as_text(column: Any) -> Any:
    pa = needed("pyarrow")
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(pa.large_string())


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
