"""Files to rows: a reader per format, found by its name or by the suffix of a file.

``read(source)`` is the one way from files to what estimators take. A new format is a new file in ``data/readers``.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from sparseleaf._files import AnyPath, as_path, expand

PathLike = str | os.PathLike[str]

AUTO = "auto"
STDIN = Path("/dev/stdin")


@dataclass(frozen=True)
class Columns:
    """Features that rows must have: those of a model, or of other rows.

    Attributes
    ----------
    count : int
    names : sequence of str or None
        Where they are known by name.
    """

    count: int
    names: Sequence[str] | None

    @classmethod
    def of_rows(cls, X: Any) -> Columns:
        """Those of other rows."""
        return cls(X.shape[1], list(X.columns) if hasattr(X, "columns") else None)

    @classmethod
    def of_model(cls, estimator: Any) -> Columns:
        """Those that a model was trained on."""
        return cls(estimator.n_features_in_, getattr(estimator, "feature_names_in_", None))


@dataclass(frozen=True)
class Rows:
    """What files hold, as estimators take it.

    Attributes
    ----------
    X : pandas.DataFrame, array, or scipy.sparse.csr_matrix of float32
        Tables are DataFrames: numbers and booleans as float32, NaN where a value is missing; text as categories, whose
        levels are sorted str. Where :attr:`Source.features` has no names they are arrays.
    y : array, list of lists, CSR matrix, pandas.DataFrame or None
        One target column: an array of int64, float64 (NaN: not measured), bool or str. Several: a DataFrame of float64.
        svmlight: an array, or lists of label ids; XC text: a CSR matrix. None without targets.
    qid : array or None
        Query of every row, where the files tell.
    sample_weight : float64 array or None
    """

    X: Any
    y: Any
    qid: Any = None
    sample_weight: Any = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])


@dataclass(frozen=True)
class Source:
    """Files, and how they are to be read.

    Attributes
    ----------
    paths : path, or sequence of paths
        Read as one set, in this order; ``-`` is standard input, ``s3://…`` and the like are read through fsspec.
    format : str
        Name of a reader; "auto" looks at the suffix, and is XC text where that does not tell.
    target : tuple of str
        Columns to predict, for formats whose columns have names; the others hold their labels.
    qid, weight : str or None
        Columns with the query and the weight of every row.
    categorical : tuple of str
        Columns that are text whatever they look like, such as postal codes.
    features : Columns or None
        Features that rows must have: columns of tables are brought into this order, sparse rows into this width. None
        takes those of the files, which must agree.
    labelled : bool
        False reads rows to predict: targets, queries and weights that are not there are no error.
    max_categories : int or None
        Distinct values that a text column may have; None for any number.
    n_jobs : int or None
        Threads; the rows do not depend on it.
    """

    paths: Sequence[AnyPath]
    format: str = AUTO
    target: tuple[str, ...] = ()
    qid: str | None = None
    weight: str | None = None
    categorical: tuple[str, ...] = ()
    features: Columns | None = None
    labelled: bool = True
    max_categories: int | None = None
    n_jobs: int | None = None

    @property
    def files(self) -> str:
        """The paths, in a message."""
        return ", ".join(map(str, self.paths))


class Reader(ABC):
    """How files of one format become rows.

    Attributes
    ----------
    name : str
    suffixes : tuple of str
        Of files that are read so by default, in lower case; ``.gz`` may follow.
    named_columns : bool
        Whether columns have names, of which some are targets.
    """

    name: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]]
    named_columns: ClassVar[bool] = False

    @abstractmethod
    def read(self, source: Source) -> Rows:
        """The rows of all paths."""


READERS: dict[str, Reader] = {}
"""All readers by name."""

Registered = TypeVar("Registered", bound=type[Reader])


def register(reader: Registered) -> Registered:
    """Make a reader known by its name."""
    READERS[reader.name] = reader()
    return reader


def guess_format(path: PathLike) -> str | None:
    """Format of a file by its name; None if the name does not tell."""
    suffix = suffix_of(path)
    return next((name for name, reader in READERS.items() if suffix in reader.suffixes), None)


def suffix_of(path: PathLike) -> str:
    """What a file's name ends in, but for ``.gz``, in lower case."""
    return Path(os.fspath(path).lower().removesuffix(".gz")).suffix


def reader_of(source: Source) -> Reader:
    """The reader of all files of a source."""
    if source.format != AUTO and source.format not in READERS:
        raise ValueError(f"format: found {source.format!r}, wanted one of {', '.join((AUTO, *READERS))}")
    names = [_format_of(path, source.format) for path in source.paths]
    for path, name in zip(source.paths, names, strict=True):
        if name != names[0]:
            raise ValueError(
                f"{path}: is read as {name}, but {source.paths[0]} as {names[0]}; wanted one format."
            )
    return READERS[names[0]]


def _format_of(path: AnyPath, given: str) -> str:
    return guess_format(path) or "xc" if given == AUTO else given


def read(source: Source | PathLike | Iterable[PathLike], **options: Any) -> Rows:
    """Read files as one set of rows.

    Parameters
    ----------
    source : Source, path, or iterable of paths
    **options
        Attributes of :class:`Source`, which replace its own.

    Returns
    -------
    Rows

    Raises
    ------
    ValueError
        If a file or an option is not valid; the message names it, and the line or column.
    ImportError
        If a package that the format needs is not installed; the message says which.

    Examples
    --------
    >>> rows = read("train.csv", target=("price",))  # doctest: +SKIP
    >>> MultiGBDTRegressor().fit(rows.X, rows.y)  # doctest: +SKIP
    """
    if isinstance(source, Source):
        source = replace(source, **options)
    else:
        paths = [source] if isinstance(source, str | os.PathLike) else list(source)
        source = Source([as_path(path) for path in paths], **options)
    source = replace(source, paths=_opened(source.paths))
    reader = reader_of(source)
    if not reader.named_columns:
        _refuse_columns(source, reader)
    return reader.read(source)


def _refuse_columns(source: Source, reader: Reader) -> None:
    """Columns that are asked for by name, of a format that has no names."""
    asked = {
        "target": source.target,
        "qid": (source.qid,),
        "weight": (source.weight,),
        "categorical": source.categorical,
    }
    for argument, names in asked.items():
        for name in filter(None, names):
            raise ValueError(
                f"{argument}: found {name!r}, but {source.paths[0]} is read as {reader.name}, whose columns have no"
                " names; wanted CSV or Parquet (see format)"
            )


def _opened(paths: Sequence[AnyPath]) -> list[AnyPath]:
    if not paths:
        raise ValueError("paths: found no file, wanted at least one")
    if sum(str(path) == "-" for path in paths) > 1:
        raise ValueError("-: standard input is given twice; wanted once.")
    return [STDIN if str(path) == "-" else path for path in expand(paths)]
