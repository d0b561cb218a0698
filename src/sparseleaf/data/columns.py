"""Named columns, as pyarrow reads them from CSV and Parquet, to rows.

In: a pyarrow table per file. Out: `Rows`, with a DataFrame of float32 and category columns. pyarrow and pandas are
imported only when such a file is read.
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


class Part(NamedTuple):
    """A file and its columns."""

    path: AnyPath
    columns: Any  # pyarrow.Table


def needed(module: str) -> Any:
    """A module of an optional package; ImportError says how to install it."""
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


def rows_of(parts: Sequence[Part], source: Source) -> Rows:
    """The rows of all parts: features and, where they are, targets, queries and weights."""
    pd = needed("pandas")
    optional = {
        "target": list(source.target),
        "qid": [] if source.qid is None else [source.qid],
        "weight": [] if source.weight is None else [source.weight],
    }
    texts = list(source.categorical)
    _check_names(optional | {"categorical": texts})
    for path, columns in parts:
        names = columns.column_names
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"{path}: found the column {twice!r} twice, wanted distinct names")
        if columns.num_rows == 0:
            raise ValueError(f"{path}: found column names and no rows, wanted at least one row")
        for argument, wanted in ({"categorical": texts} | (optional if source.labelled else {})).items():
            for name in wanted:
                if name not in names:
                    raise ValueError(
                        f"{path}: found no column {name!r} ({argument}); {_did_you_mean(name, names)}"
                    )
    features = _common_features(parts, [name for names in optional.values() for name in names])
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
    """The columns that are asked for; an array where they have no names, unless some hold text."""
    if features.names is not None:
        for name in features.names:
            if name not in X.columns:
                raise ValueError(f"{files}: found no column {name!r}, which training had.")
        return X[list(features.names)]
    if X.shape[1] != features.count:
        raise ValueError(
            f"{files}: found {X.shape[1]} features; wanted the {features.count} of training (targets are no features:"
            " say which columns they are)."
        )
    return X if (X.dtypes == "category").any() else X.to_numpy("float32")


def _check_names(given: dict[str, list[str]]) -> None:
    """Refuse columns that have two roles, or one of them twice."""
    roles: dict[str, str] = {}
    for argument, names in given.items():
        for name in names:
            if not isinstance(name, str):
                raise ValueError(f"{argument}: found {name!r}, wanted names of columns")
            if names.count(name) > 1:
                raise ValueError(f"{argument}: found {name!r} twice, wanted distinct columns")
            if name in roles:
                raise ValueError(
                    f"{argument}: found {name!r}, which is a {roles[name]}; wanted another column"
                )
            roles[name] = argument


def text_sample(levels: Iterable[str]) -> str:
    """A level that shows why a column is text: the first that is no number, if any."""
    listed = list(levels)
    return next((level for level in listed if not _is_number(level)), listed[0])


def _common_features(parts: Sequence[Part], others: list[str]) -> list[str]:
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
                f"{parts[0].path}: the target {text!r} holds text; wanted numbers where there are several targets"
            )
        return needed("pandas").DataFrame(
            {name: np.concatenate([_numbers(part, name, np.float64) for part in parts]) for name in names}
        )
    name = names[0]
    if kinds[name] == "text":
        return np.concatenate([_classes(part, name) for part in parts])
    return np.concatenate([_numbers(part, name, None) for part in parts])


def _queries(parts: Sequence[Part], name: str) -> NDArray[Any]:
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


def _weights(parts: Sequence[Part], name: str) -> NDArray[np.float64]:
    for part in parts:
        if _kind(part, name) == "text":
            raise ValueError(f"{part.path}: the column {name!r} (weight) holds text; wanted numbers")
        missing = part.columns.column(name).is_null(nan_is_null=True).to_numpy()
        if missing.any():
            row = int(missing.argmax()) + 1
            raise ValueError(
                f"{part.path}: row {row}: found no value of {name!r}, wanted the weight of every row"
            )
    return np.concatenate([_numbers(part, name, np.float64) for part in parts])


def _common_kind(parts: Sequence[Part], name: str) -> str:
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


def _kind(part: Part, name: str) -> str | None:
    types = needed("pyarrow").types
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


def _numbers(part: Part, name: str, dtype: Any) -> NDArray[Any]:
    """Values as that type, or as they are; missing ones are NaN, infinite ones are refused."""
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
        wanted = "what float32 can hold" if dtype is np.float32 else "finite numbers"
        raise ValueError(
            f"{part.path}: row {row + 1}: found {values[row]} in the column {name!r}, wanted {wanted}"
        )
    return cast


def _classes(part: Part, name: str) -> NDArray[Any]:
    column = part.columns.column(name)
    if column.null_count:
        row = int(column.is_null().to_numpy().argmax()) + 1
        raise ValueError(
            f"{part.path}: row {row}: found no value of the target {name!r}, wanted a class for every row"
        )
    return np.array(_as_text(column).to_pylist(), dtype=object)


def _categories(parts: Sequence[Part], name: str, as_text: bool, max_categories: int | None) -> Any:
    """A text column over all files, as a pandas Categorical whose levels are sorted."""
    pa, pd = needed("pyarrow"), needed("pandas")
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
