"""Reading data files: one reader per format, selected by name or by file suffix.

``read(source)`` returns rows in the form that estimators accept. A new format is a new module in ``data/readers``.
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
XC, LINES = "xc", "lines"
"""Formats of files with unknown suffixes: of features, and of texts."""
STDIN = Path("/dev/stdin")


@dataclass(frozen=True)
class Columns:
    """Expected features: those of a model, or of other rows.

    Attributes
    ----------
    count : int
        Number of features.
    names : sequence of str or None
        Feature names, if any.

    Examples
    --------
    >>> import numpy as np
    >>> from sparseleaf.data import Columns
    >>> Columns.of_rows(np.zeros((3, 2)))
    Columns(count=2, names=None)
    """

    count: int
    names: Sequence[str] | None

    @classmethod
    def of_rows(cls, X: Any) -> Columns:
        """Features of other rows."""
        return cls(X.shape[1], list(X.columns) if hasattr(X, "columns") else None)

    @classmethod
    def of_model(cls, estimator: Any) -> Columns:
        """Features that a model was trained on."""
        return cls(estimator.n_features_in_, getattr(estimator, "feature_names_in_", None))


@dataclass(frozen=True)
class Rows:
    """Rows of data files, in the form that estimators accept.

    Attributes
    ----------
    X : pandas.DataFrame, array, scipy.sparse.csr_matrix of float32, or list
        Features. Tables are DataFrames: numbers and booleans as float32, NaN if missing; text as categorical columns
        with sorted categories. Arrays if :attr:`Source.features` has no names. With :attr:`Source.text`: a list with
        a dict of the named fields for each record; a list of str for plain lines.
    y : array, list of lists, CSR matrix, pandas.DataFrame or None
        Targets. One target column: an array of int64, float64 (NaN if unknown), bool or str. Several: a DataFrame of
        float64. A label column: lists of str or int. svmlight: an array, or lists of label ids. XC text: a CSR matrix.
        None without targets.
    qid : array or None
        Query of each row, if the files have queries.
    sample_weight : float64 array or None
        Weight of each row, if there is a weight column.
    kept : dict of str to list, or None
        Values of the columns :attr:`Source.keep`, such as record ids.

    Examples
    --------
    >>> from sparseleaf.data import make_xc, read, save_xc
    >>> save_xc("train.txt", *make_xc(10, 20, 5, labels_per_row=2, nnz_per_row=4))
    >>> rows = read("train.txt")
    >>> rows.n_rows, rows.X.shape, rows.y.shape, rows.qid
    (10, (10, 20), (10, 5), None)
    """

    X: Any
    y: Any
    qid: Any = None
    sample_weight: Any = None
    kept: dict[str, list[Any]] | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0]) if hasattr(self.X, "shape") else len(self.X)


@dataclass(frozen=True)
class Source:
    """Data files and how to read them.

    Attributes
    ----------
    paths : path, or sequence of paths
        Files to concatenate, in this order. ``-`` is standard input; URLs such as ``s3://…`` are read with fsspec.
    format : str
        Name of a reader. "auto": by file suffix. For unknown suffixes XC text, or plain lines if ``text`` is set.
    target : tuple of str
        Target columns, for formats with named columns; other formats contain the targets.
    qid, weight : str or None
        Columns with the query and the weight of each row.
    categorical : tuple of str
        Columns to read as text even if they contain numbers, such as postal codes.
    text : tuple of str or None
        Text fields of the records. X then has these and the ``numeric`` and ``categorical`` fields only. The empty
        tuple reads plain lines, one text per line.
    numeric : tuple of str
        Numeric fields beside the texts; NaN if missing.
    labels : str or None
        Column with the labels of each row: a list, or a string with separators. Rows may have no labels.
    label_separator : str or None
        Separator of the labels in a string; empty for one label per string. None is ``";"``.
    keep : tuple of str
        Columns to return in :attr:`Rows.kept`, such as record ids and titles.
    features : Columns or None
        Expected features: columns of tables are reordered, sparse rows are resized. None uses the features of the
        files, which must agree.
    labelled : bool
        Whether targets, queries and weights are required. False for prediction.
    max_categories : int or None
        Maximum number of distinct values of a text column; None for no limit.
    n_jobs : int or None
        Number of threads. Does not affect the result.

    Examples
    --------
    >>> from sparseleaf.data import Source, make_xc, read, save_xc
    >>> save_xc("data.part", *make_xc(10, 20, 5, labels_per_row=2, nnz_per_row=4))
    >>> read(Source(["data.part"], format="xc")).n_rows
    10
    """

    paths: Sequence[AnyPath]
    format: str = AUTO
    target: tuple[str, ...] = ()
    qid: str | None = None
    weight: str | None = None
    categorical: tuple[str, ...] = ()
    text: tuple[str, ...] | None = None
    numeric: tuple[str, ...] = ()
    labels: str | None = None
    label_separator: str | None = None
    keep: tuple[str, ...] = ()
    features: Columns | None = None
    labelled: bool = True
    max_categories: int | None = None
    n_jobs: int | None = None

    @property
    def files(self) -> str:
        """The paths as text, for messages."""
        return ", ".join(map(str, self.paths))


class Reader(ABC):
    """Reader of one file format.

    Attributes
    ----------
    name : str
        Name of the format.
    suffixes : tuple of str
        File suffixes of the format, in lower case; ``.gz`` may follow.
    named_columns : bool
        Whether the format has named columns, some of which are targets.
    has_features, has_texts : bool
        Whether the format may hold features, and texts.

    Examples
    --------
    >>> from sparseleaf.data import READERS
    >>> READERS["csv"].suffixes, READERS["csv"].named_columns
    (('.csv', '.tsv'), True)
    """

    name: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]]
    named_columns: ClassVar[bool] = False
    has_features: ClassVar[bool] = True
    has_texts: ClassVar[bool] = False

    @abstractmethod
    def read(self, source: Source) -> Rows:
        """Read the rows of all paths."""


READERS: dict[str, Reader] = {}
"""All readers by name."""

Registered = TypeVar("Registered", bound=type[Reader])


def register(reader: Registered) -> Registered:
    """Register a reader under its name."""
    READERS[reader.name] = reader()
    return reader


def guess_format(path: PathLike, *, texts: bool = False) -> str | None:
    """Format of a file by its suffix, preferably one with texts (or features); None if the suffix is unknown."""
    suffix = suffix_of(path)
    named = [reader for reader in READERS.values() if suffix in reader.suffixes]
    fitting = [reader for reader in named if (reader.has_texts if texts else reader.has_features)]
    return next((reader.name for reader in fitting or named), None)


def suffix_of(path: PathLike) -> str:
    """Suffix of a file name in lower case, without ``.gz``."""
    return Path(os.fspath(path).lower().removesuffix(".gz")).suffix


def reader_of(source: Source) -> Reader:
    """The reader of a source, whose files must have the same format.

    Parameters
    ----------
    source : Source
        Files, and the name of their format or "auto".

    Returns
    -------
    reader : Reader
        One of ``sparseleaf.data.READERS``.

    Examples
    --------
    >>> from sparseleaf.data import Source, reader_of
    >>> reader_of(Source(["train.csv.gz"])).name
    'csv'
    """
    if source.format != AUTO and source.format not in READERS:
        raise ValueError(
            f"The 'format' parameter must be one of {{{', '.join(map(repr, (AUTO, *READERS)))}}}. Got"
            f" {source.format!r} instead."
        )
    names = [_format_of(path, source) for path in source.paths]
    for path, name in zip(source.paths, names, strict=True):
        if name != names[0]:
            raise ValueError(
                f"All files must have the same format. Got {name} for {path} and {names[0]} for {source.paths[0]}."
            )
    return READERS[names[0]]


def _format_of(path: AnyPath, source: Source) -> str:
    if source.format != AUTO:
        return source.format
    texts = source.text is not None
    return guess_format(path, texts=texts) or (LINES if texts else XC)


def read(source: Source | PathLike | Iterable[PathLike], **options: Any) -> Rows:
    r"""Read data files of any supported format.

    Parameters
    ----------
    source : Source, path, or iterable of paths
        Files to read.
    **options
        Attributes of :class:`Source` to replace.

    Returns
    -------
    rows : Rows
        Features, targets, queries and weights.

    Raises
    ------
    ValueError
        If a file or an option is not valid.
    ImportError
        If a package that the format requires is not installed.

    Examples
    --------
    >>> from sparseleaf.data import make_xc, read, save_xc
    >>> save_xc("a.txt", *make_xc(10, 20, 5, labels_per_row=2, nnz_per_row=4))
    >>> save_xc("b.txt.gz", *make_xc(15, 20, 5, labels_per_row=2, nnz_per_row=4))
    >>> read(["a.txt", "b.txt.gz"]).n_rows
    25

    >>> from pathlib import Path
    >>> _ = Path("houses.csv").write_text("area,age,rent\n50,10,500\n80,,900\n")
    >>> rows = read("houses.csv", target=("rent",))
    >>> rows.X.columns.tolist(), rows.y
    (['area', 'age'], array([500, 900]))

    >>> _ = Path("books.jsonl").write_text('{"title": "Bread", "subjects": ["food", "baking"]}\n')
    >>> rows = read("books.jsonl", text=("title",), labels="subjects")
    >>> rows.X, rows.y
    ([{'title': 'Bread'}], [['food', 'baking']])
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
    """Raise ValueError for column names with a format that has no named columns."""
    columns = {
        "target": source.target,
        "qid": (source.qid,),
        "weight": (source.weight,),
        "labels": (source.labels,),
        "keep": source.keep,
    }
    if not reader.has_texts:  # fields that a text lacks are missing
        columns |= {"text": source.text or (), "numeric": source.numeric, "categorical": source.categorical}
    for argument, names in columns.items():
        for name in filter(None, names):
            raise ValueError(
                f"The {argument!r} parameter requires named columns (CSV, Parquet or JSON lines). Got {name!r} for"
                f" {source.paths[0]},"
                f" which is read as {reader.name}."
            )


def _opened(paths: Sequence[AnyPath]) -> list[AnyPath]:
    if not paths:
        raise ValueError("At least one file is required. Got none.")
    if sum(str(path) == "-" for path in paths) > 1:
        raise ValueError("Standard input (-) must be given at most once.")
    return [STDIN if str(path) == "-" else path for path in expand(paths)]
