"""Tables: files to features and targets as arrays, with the names of the targets beside them."""

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
            f"{paths[0]}: its name does not tell what is in it; wanted a format, one of {', '.join(READERS)}"
        )
    targets, texts = (
        () if given is None else (given,) if isinstance(given, str) else tuple(given)
        for given in (target, categorical)
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
