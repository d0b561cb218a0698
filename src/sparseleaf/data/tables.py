"""Reading tables with typed columns: features, targets and target names."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparseleaf._files import as_path
from sparseleaf.data.categories import MAX_CATEGORIES
from sparseleaf.data.reading import AUTO, READERS, PathLike, guess_format, read


@dataclass(frozen=True)
class Table:
    """Features and targets read by :func:`load_table`.

    Attributes
    ----------
    X : pandas.DataFrame, or scipy.sparse.csr_matrix of float32
        Features. A DataFrame for CSV and Parquet: numbers and booleans as float32, NaN if missing; text as categorical
        columns with sorted categories.
    y : ndarray, list, csr_matrix or None
        Targets. One target: an array of int64, float64 (NaN if unknown), bool or str (as objects). Several: float64,
        shape (n_rows, n_targets), NaN if unknown. svmlight: an array, or a list of lists of label ids. XC text: a CSR
        matrix. None without targets.
    target_names : tuple of str
        Target columns; empty for the sparse formats.
    qid : ndarray of shape (n_rows,), or None
        Query of each row: int64 for svmlight; numbers or str (as objects) for a column.

    Examples
    --------
    >>> from pathlib import Path
    >>> from sparseleaf.data import load_table
    >>> _ = Path("queries.svm").write_text(chr(10).join(["2 qid:1 1:0.5", "0 qid:1 2:0.1"]))
    >>> load_table("queries.svm").qid.tolist()
    [1, 1]
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
    """Read tables in CSV, Parquet, svmlight or XC format.

    Parameters
    ----------
    path_or_paths : path-like, or iterable of path-like
        Files to concatenate; their columns must be the same, in the same order. CSV and svmlight may be gzipped. URLs
        such as ``s3://…`` are read with fsspec.
    target : str or sequence of str, optional
        Target columns, for CSV and Parquet; all other columns are features. The sparse formats contain the targets.
    format : {"auto", "csv", "parquet", "svmlight", "xc"}, default="auto"
        File format. "auto" uses the suffix: ``.csv``, ``.tsv``, ``.parquet``, ``.svm``, ``.svmlight``, ``.libsvm``, and
        ``.txt`` for XC text, with or without ``.gz``. CSV may be separated by commas, semicolons or tabs.
    qid : str, optional
        Column with the query of each row, for CSV and Parquet.
    categorical : str or sequence of str, optional
        Columns to read as text even if they contain numbers, such as postal codes.
    require_target : bool, default=True
        Whether the target and query columns are required. If False, missing ones are None in the result.
    max_categories : int or None, default=255
        Maximum number of distinct values of a text column; None for no limit.

    Returns
    -------
    table : Table
        Features, targets and queries.

    Raises
    ------
    ValueError
        If a file or an argument is not valid.
    ImportError
        If pandas or pyarrow is required and not installed.

    Examples
    --------
    >>> from pathlib import Path
    >>> from sparseleaf.data import load_table
    >>> lines = ["length,width,species", "1.4,0.2,setosa", "4.7,1.4,versicolor"]
    >>> _ = Path("iris.csv").write_text(chr(10).join(lines))
    >>> table = load_table("iris.csv", target="species")
    >>> list(table.X.columns), list(table.y)
    (['length', 'width'], ['setosa', 'versicolor'])
    """
    if isinstance(path_or_paths, str | os.PathLike):
        path_or_paths = [path_or_paths]
    paths = [as_path(path) for path in path_or_paths]
    if format == AUTO and paths and guess_format(paths[0]) is None:
        raise ValueError(
            f"The 'format' parameter must be one of {{{', '.join(map(repr, READERS))}}} for {paths[0]}, whose suffix is"
            " unknown."
        )
    targets, texts = (
        () if names is None else (names,) if isinstance(names, str) else tuple(names)
        for names in (target, categorical)
    )
    rows = read(
        paths,
        format=format,
        target=targets,
        qid=qid,
        categorical=texts,
        labelled=require_target,
        max_categories=max_categories,
    )
    y = rows.y if len(targets) < 2 or rows.y is None else rows.y.to_numpy(np.float64)
    return Table(rows.X, y, targets, rows.qid)
