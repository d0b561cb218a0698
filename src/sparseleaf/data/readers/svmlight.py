"""Reader of svmlight text, which is libsvm's too: ``label feature:value feature:value …``, a row a line.

A row may have several labels (``3,7``) or none, and a query (``qid:12``) behind them. In: one or more files, plain
or gzipped. Out: a CSR matrix, the labels and the queries.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.datasets import load_svmlight_file

from sparseleaf._files import AnyPath, read_bytes
from sparseleaf._warnings import warn
from sparseleaf.data.reading import Reader, Rows, Source, register

_QUERY = re.compile(rb"^[^\S\n]*(?:[^\s#:]+[^\S\n]+)?qid:([^\s#]*)", re.MULTILINE)
_REASONS = {
    "could not convert string to float": "a label or value that is no number",
    "need more than 1 value to unpack": "a feature without a value",
    "invalid literal for int": "a feature that is no whole number",
    "should be sorted and unique": "features that do not ascend",
    "Invalid index": "a negative feature",
    "too large to convert": "a feature that is too large",
}
"""What the reader's errors mean, by what is in them."""


@register
class SvmlightReader(Reader):
    """svmlight text to a CSR matrix, labels and queries."""

    name = "svmlight"
    suffixes = (".svm", ".svmlight", ".libsvm")

    def read(self, source: Source) -> Rows:
        """X as wide as ``source.features``, or as its largest feature."""
        X, y, qid = load_svmlight(source.paths)
        if source.features is None:
            return Rows(X, y, qid)
        # there is no header: a feature that training never saw is an ordinary day, and cannot matter to the model
        width = source.features.count
        if X.shape[1] > width:
            warn(f"{source.files}: features above {width - 1} are left out; training had none")
            return Rows(X[:, :width], y, qid)
        X.resize(X.shape[0], width)
        return Rows(X, y, qid)


def load_svmlight(paths: Sequence[AnyPath]) -> tuple[sparse.csr_matrix, Any, NDArray[np.int64] | None]:
    """Read files as one set.

    Feature ids are columns, as they stand: files may count from 0 or from 1, and in the latter column 0 is
    empty. Guessing which it is would go wrong where a file happens to have no feature 0.

    Parameters
    ----------
    paths : sequence of paths

    Returns
    -------
    X : scipy.sparse.csr_matrix of float32
        As wide as the largest feature id needs. ``nan`` is a missing value and stays.
    y : ndarray of int64 or float64, shape (n_rows,), or list of lists of int
        The lists where any row has several labels or none.
    qid : ndarray of int64, shape (n_rows,), or None
        None where no row has one.
    """
    texts = [read_bytes(path) for path in paths]
    several = False
    try:
        parsed = [_parse(text, several) for text in texts]
    except (ValueError, OverflowError):  # several labels in a row, none, or nonsense
        several = True
        parsed = [_parse_or_explain(path, text) for path, text in zip(paths, texts, strict=True)]
    queries = []
    for path, text, (X, y) in zip(paths, texts, parsed, strict=True):
        _check(path, X, y)
        queries.append(_queries(path, text, X.shape[0]))
    width = max(X.shape[1] for X, _ in parsed)
    for X, _ in parsed:
        X.resize(X.shape[0], width)
    whole = sparse.csr_matrix(sparse.vstack([X for X, _ in parsed], format="csr"))
    whole.eliminate_zeros()
    if several:
        labels: Any = [[int(label) for label in row] for _, y in parsed for row in y]
    else:
        labels = _integers(np.concatenate([y for _, y in parsed]))
    return whole, labels, _joined_queries(paths, queries)


def _parse(text: bytes, several: bool) -> tuple[sparse.csr_matrix, Any]:
    # Queries are not read here: scikit-learn's time for them grows with the square of the rows.
    X, y = load_svmlight_file(io.BytesIO(text), dtype=np.float32, zero_based=True, multilabel=several)
    return X, y


def _parse_or_explain(path: AnyPath, text: bytes) -> tuple[sparse.csr_matrix, Any]:
    try:
        return _parse(text, True)
    except (ValueError, OverflowError):
        lines = text.split(b"\n")
    begin, end = 0, len(lines)
    while end - begin > 1:  # the reader does not say where: halve the lines until the first bad one is left
        middle = (begin + end) // 2
        try:
            _parse(b"\n".join(lines[begin:middle]), True)
            begin = middle
        except (ValueError, OverflowError):
            end = middle
    try:
        return _parse(lines[begin], True)
    except (ValueError, OverflowError) as error:
        reason = next((said for sign, said in _REASONS.items() if sign in str(error)), str(error))
    shown = lines[begin][:60].decode(errors="replace").strip()
    raise ValueError(
        f"{path}: line {begin + 1}: found {reason} in {shown!r}, wanted svmlight rows: label feature:value …"
    )


def _check(path: AnyPath, X: sparse.csr_matrix, y: Any) -> None:
    if X.shape[0] == 0:
        raise ValueError(f"{path}: found no rows, wanted at least one")
    infinite = np.flatnonzero(np.isinf(X.data))
    if infinite.size:
        row = int(np.searchsorted(X.indptr, infinite[0], side="right"))
        raise ValueError(f"{path}: row {row}: found an infinite value, wanted what float32 can hold")
    if isinstance(y, list):
        for number, row in enumerate(y, start=1):
            if not all(label.is_integer() and abs(label) < 2**53 for label in row):
                raise ValueError(f"{path}: row {number}: found the labels {row}, wanted whole numbers")
    elif np.isinf(y).any():
        raise ValueError(f"{path}: row {int(np.isinf(y).argmax()) + 1}: found an infinite label")


def _queries(path: AnyPath, text: bytes, n_rows: int) -> NDArray[np.int64] | None:
    found = _QUERY.findall(text)
    if not found:
        return None
    if len(found) != n_rows:
        raise ValueError(f"{path}: found a qid in {len(found)} of {n_rows} rows, wanted it in all or none")
    try:
        return np.array([int(value) for value in found], np.int64)
    except (ValueError, OverflowError):
        raise ValueError(f"{path}: found a qid that is no whole number of 64 bits") from None


def _joined_queries(
    paths: Sequence[AnyPath], queries: list[NDArray[np.int64] | None]
) -> NDArray[np.int64] | None:
    known = [query for query in queries if query is not None]
    if known and len(known) < len(queries):
        without = paths[next(i for i, query in enumerate(queries) if query is None)]
        raise ValueError(f"{without}: found no qid, wanted one in every row, as in the other files")
    return np.concatenate(known) if known else None


def _integers(labels: NDArray[np.float64]) -> NDArray[Any]:
    """The same as integers where all are whole: a class is 1, not 1.0."""
    whole = np.isfinite(labels) & (labels == np.trunc(labels)) & (np.abs(labels) < 2**53)
    return labels.astype(np.int64) if whole.all() else labels
