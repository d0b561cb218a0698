"""Conversion of records (JSON lines, CSV, Parquet) to texts, label lists and other named fields.

Input: the fields of every file as lists of Python values. Output: `Rows` whose X is a list of dicts, one per record, as
:class:`~sparseleaf.TextVectorizer` accepts it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparseleaf._files import AnyPath
from sparseleaf._warnings import warn
from sparseleaf.data.columns import check_roles, did_you_mean, needed
from sparseleaf.data.reading import Rows, Source

SEPARATOR = ";"
"""Default separator of labels in a string."""

OTHER_SEPARATORS = ("|", "\t", ",")
"""Separators that a column may have instead of the default."""

Convert = Callable[[Any], Any]
"""Converts a value of a record; ValueError if it is not valid."""


@dataclass(frozen=True)
class Records:
    """The records of one file.

    Attributes
    ----------
    path : path
    n_records : int
    fields : mapping of str to list
        Values of each field that is needed and occurs; None where a record lacks it.
    names : sequence of str
        All fields of the file, for hints in messages.
    place : callable
        Place of a record in the file, such as "line 3", for messages.
    """

    path: AnyPath
    n_records: int
    fields: Mapping[str, list[Any]]
    names: Sequence[str]
    place: Callable[[int], str] = "row {}".format

    def values(self, name: str, convert: Convert) -> list[Any]:
        """Converted values of a field; errors name the record."""
        converted = []
        for number, value in enumerate(self.fields.get(name, [None] * self.n_records)):
            try:
                converted.append(convert(value))
            except ValueError as error:
                message = f"{self.path}: {self.place(number + 1)}: the field {name!r} must be {error}."
                raise ValueError(f"{message} Got {value!r:.60} instead.") from None
        return converted


def needed_fields(source: Source) -> list[str]:
    """All fields that a source names."""
    single = (source.labels, source.qid, source.weight)
    listed = (*(source.text or ()), *source.numeric, *source.categorical, *source.target, *source.keep)
    return list(dict.fromkeys([*listed, *(name for name in single if name is not None)]))


def rows_of_records(files: Sequence[Records], source: Source) -> Rows:
    """Texts and the other named fields of all files."""
    texts = source.text or ()
    if not texts:
        hint = (
            f"fields: {', '.join(map(repr, files[0].names[:10]))}" if files[0].names else "there is no field"
        )
        raise ValueError(f"{source.files}: the 'text' parameter (--text) must name the text fields; {hint}.")
    roles = {"target": list(source.target), "labels": _one(source.labels), "qid": _one(source.qid)}
    roles |= {"weight": _one(source.weight), "text": list(texts), "numeric": list(source.numeric)}
    check_roles(roles | {"categorical": list(source.categorical)})
    _require_texts(files, source)
    columns: dict[str, list[Any]] = {name: _joined(files, name, as_text) for name in texts}
    columns |= {name: _joined(files, name, as_number) for name in source.numeric}
    columns |= {name: _joined(files, name, as_category) for name in source.categorical}
    # a loop over zip is several times faster than one over records
    X = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    rows = Rows(
        X,
        _targets(files, source.target) if _there(files, source, "target", source.target) else None,
        _queries(files, source.qid) if _there(files, source, "qid", _one(source.qid)) else None,
        _weights(files, source.weight) if _there(files, source, "weight", _one(source.weight)) else None,
    )
    return with_labels(rows, files, source)


def with_labels(rows: Rows, files: Sequence[Records], source: Source) -> Rows:
    """Rows with the label lists and the kept fields of all files, if the source names such fields."""
    kept = None
    if source.keep:
        for name in source.keep:
            _require(files, name, "keep")
        kept = {name: _joined(files, name, _unchanged) for name in source.keep}
    if source.labels is None or not _there(files, source, "labels", [source.labels]):
        return replace(rows, kept=kept)
    return replace(rows, kept=kept, y=_label_lists(files, source.labels, source.label_separator))


# --- values


def as_text(value: Any) -> str:
    """A text: numbers are converted, lists joined line by line, missing values empty."""
    if isinstance(value, str):
        return _valid_unicode(value)
    if value is None or _is_nan(value):
        return ""
    if isinstance(value, list):
        return "\n".join(map(as_text, value))
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("text, numbers or a list of them")
    return str(value)


def as_number(value: Any) -> float:
    """A number; NaN if it is missing."""
    if value is None or value == "":
        return math.nan
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError("a number") from None
    if math.isinf(number):
        raise ValueError("a finite number")
    return number


def as_category(value: Any) -> str | None:
    """A category as text; None if it is missing."""
    if value is None or value == "" or _is_nan(value):
        return None
    if isinstance(value, str):
        return _valid_unicode(value)
    if not isinstance(value, int | float):
        raise ValueError("text or a number")
    return str(value)


def as_labels(value: Any, separator: str) -> list[str | int]:
    """Distinct labels in order: those of a list, of a string with separators, or a single number."""
    if value is None or _is_nan(value):
        return []
    if isinstance(value, str):
        value = value.split(separator) if separator else [value]
    elif not isinstance(value, list):
        value = [value]
    labels = (_label(entry) for entry in value if entry is not None)
    return list(dict.fromkeys(label for label in labels if label != ""))


def _label(value: Any) -> str | int:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, float) and value.is_integer():  # a column with missing values
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("labels: text or integers, one or a list of them")
    return value


def _unchanged(value: Any) -> Any:
    return value


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _valid_unicode(text: str) -> str:
    """The text, with lone surrogates (from JSON escapes) replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


# --- fields


def _one(name: str | None) -> list[str]:
    return [] if name is None else [name]


def _joined(files: Sequence[Records], name: str, convert: Convert) -> list[Any]:
    return [value for file in files for value in file.values(name, convert)]


def _there(files: Sequence[Records], source: Source, argument: str, names: Iterable[str]) -> bool:
    """Whether the source names such fields and all files have them; ValueError if they are required and missing."""
    names = list(names)
    if source.labelled:
        for name in names:
            _require(files, name, argument)
    return bool(names) and all(name in file.fields for file in files for name in names)


def _require(files: Sequence[Records], name: str, argument: str) -> None:
    for file in files:
        if name not in file.fields:
            hint = did_you_mean(name, list(file.names))
            raise ValueError(f"{file.path}: no field {name!r} ({argument}); {hint}")


def _require_texts(files: Sequence[Records], source: Source) -> None:
    """All text fields to train; at least one to predict: records may lack an abstract, say."""
    names = [*(source.text or ()), *source.numeric, *source.categorical]
    if source.labelled:
        for name in names:
            _require(files, name, "text" if name in (source.text or ()) else "feature")
        return
    for file in files:
        if not any(name in file.fields for name in source.text or ()):
            _require([file], (source.text or ())[0], "text")
        missing = [name for name in names if name not in file.fields]
        if missing:
            warn(f"{file.path}: no record has the field {missing[0]!r}, which is read as missing.")


def _label_lists(files: Sequence[Records], name: str, separator: str | None) -> list[list[Any]]:
    if separator is None:
        _check_separator(files, name)
    used = SEPARATOR if separator is None else separator
    labels = _joined(files, name, lambda value: as_labels(value, used))
    if {type(label) for row in labels for label in row} == {int, str}:  # such as 4003 and "4003X"
        return [[str(label) for label in row] for row in labels]
    return labels


def _check_separator(files: Sequence[Records], name: str) -> None:
    """Warn if the labels are separated by something else than the default."""
    texts = [value for file in files for value in file.fields[name] if isinstance(value, str) and value]
    if any(SEPARATOR in text for text in texts):
        return
    for other in OTHER_SEPARATORS:
        count = sum(other in text for text in texts)
        if 2 * count > len(texts):
            warn(
                f"{count:,} of {len(texts):,} values of {name!r} contain {other!r} and none {SEPARATOR!r}: every value"
                " is read as one label. Set the 'label_separator' parameter (--label-separator) if there are several."
            )
            return


def _targets(files: Sequence[Records], names: Sequence[str]) -> Any:
    columns = {name: _target(files, name) for name in names}
    if len(columns) == 1:
        return next(iter(columns.values()))
    for name, values in columns.items():
        if values.dtype.kind not in "biuf":
            raise ValueError(
                f"{files[0].path}: the target {name!r} contains text; several targets must be numeric."
            )
    return needed("pandas").DataFrame({name: values.astype(float) for name, values in columns.items()})


def _target(files: Sequence[Records], name: str) -> Any:
    """Classes (str, int or bool) or numbers, NaN if unknown."""
    values = _joined(files, name, _unchanged)
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int, float} and (kinds == {float} or None in values):
        return np.array([math.nan if value is None else value for value in values], np.float64)
    for file in files:
        file.values(name, _class)
    if kinds == {bool} or kinds <= {int, float}:
        return np.array(values)
    array = np.empty(len(values), object)
    array[:] = [str(value) for value in values]
    return array


def _class(value: Any) -> None:
    if not isinstance(value, str | int | float):
        raise ValueError("a class: text or a number")


def _queries(files: Sequence[Records], name: str | None) -> Any:
    assert name is not None
    return np.array(_joined(files, name, _query), object)


def _query(value: Any) -> Any:
    if not isinstance(value, str | int):
        raise ValueError("a query: text or an integer")
    return value


def _weights(files: Sequence[Records], name: str | None) -> Any:
    assert name is not None
    return np.array(_joined(files, name, _weight), np.float64)


def _weight(value: Any) -> float:
    number = as_number(value)
    if math.isnan(number):
        raise ValueError("a weight, which every row needs")
    return number
