"""Reader of svmlight (libsvm) text: ``label feature:value feature:value …``, one row per line.

A row may have several labels (``3,7``) or none, followed by an optional query (``qid:12``). Files may be gzipped.
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
    "could not convert string to float": "a label or value that is not a number",
    "need more than 1 value to unpack": "a feature without a value",
    "invalid literal for int": "a feature that is not an integer",
    "should be sorted and unique": "features that are not sorted and unique",
    "Invalid index": "a negative feature",
    "too large to convert": "a feature that is too large",
}
"""Explanations of the parser's errors."""


@register
class SvmlightReader(Reader):
    """Read svmlight text as CSR matrix, labels and queries."""

    name = "svmlight"
    suffixes = (".svm", ".svmlight", ".libsvm")

    def read(self, source: Source) -> Rows:
        """Read the rows; X has the columns of ``source.features``, or as many as the largest feature requires."""
        X, y, qid = load_svmlight(source.paths)
        if source.features is None:
            return Rows(X, y, qid)
        # without a header, features not seen in training are to be expected, and the model does not use them
        width = source.features.count
        if X.shape[1] > width:
            warn(
                f"{source.files}: features above {width - 1} are ignored, since the model has {width} features."
            )
            return Rows(X[:, :width], y, qid)
        X.resize(X.shape[0], width)
        return Rows(X, y, qid)


def load_svmlight(paths: Sequence[AnyPath]) -> tuple[sparse.csr_matrix, Any, NDArray[np.int64] | None]:
    """Read and concatenate files.

    Feature ids are column numbers. For files that count from 1, column 0 is empty: guessing the first id would fail for
    files without a feature 0.

    Parameters
    ----------
    paths : sequence of paths

    Returns
    -------
    X : csr_matrix of float32
        Features. ``nan`` is a missing value.
    y : ndarray of int64 or float64, shape (n_rows,), or list of lists of int
        Labels; lists if any row has several labels or none.
    qid : ndarray of int64, shape (n_rows,), or None
        Query of each row, if there are queries.
    """
    texts = [read_bytes(path) for path in paths]
    several = False
    try:
        parsed = [_parse(text, several) for text in texts]
    except (ValueError, OverflowError):  # several labels in a row, no label, or an invalid file
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
    # Queries are parsed separately: scikit-learn needs quadratic time for them.
    X, y = load_svmlight_file(io.BytesIO(text), dtype=np.float32, zero_based=True, multilabel=several)
    return X, y


def _parse_or_explain(path: AnyPath, text: bytes) -> tuple[sparse.csr_matrix, Any]:
    try:
        return _parse(text, True)
    except (ValueError, OverflowError):
        lines = text.split(b"\n")
    begin, end = 0, len(lines)
    while end - begin > 1:  # the parser does not report the line: bisect
        middle = (begin + end) // 2
        try:
            _parse(b"\n".join(lines[begin:middle]), True)
            begin = middle
        except (ValueError, OverflowError):
            end = middle
    try:
        return _parse(lines[begin], True)
    except (ValueError, OverflowError) as error:
        reason = next((text for pattern, text in _REASONS.items() if pattern in str(error)), str(error))
    shown = lines[begin][:60].decode(errors="replace").strip()
    raise ValueError(f"{path}: line {begin + 1}: expected 'label feature:value …', got {reason}: {shown!r}.")


def _check(path: AnyPath, X: sparse.csr_matrix, y: Any) -> None:
    if X.shape[0] == 0:
        raise ValueError(f"{path}: the file has no rows.")
    infinite = np.flatnonzero(np.isinf(X.data))
    if infinite.size:
        row = int(np.searchsorted(X.indptr, infinite[0], side="right"))
        raise ValueError(f"{path}: row {row}: values must be finite in float32.")
    if isinstance(y, list):
        for number, row in enumerate(y, start=1):
            if not all(label.is_integer() and abs(label) < 2**53 for label in row):
                raise ValueError(f"{path}: row {number}: labels must be integers. Got {row} instead.")
    elif np.isinf(y).any():
        raise ValueError(f"{path}: row {int(np.isinf(y).argmax()) + 1}: labels must be finite.")


def _queries(path: AnyPath, text: bytes, n_rows: int) -> NDArray[np.int64] | None:
    values = _QUERY.findall(text)
    if not values:
        return None
    if len(values) != n_rows:
        raise ValueError(f"{path}: all rows or none must have a qid. Got {len(values)} of {n_rows} rows.")
    try:
        return np.array([int(value) for value in values], np.int64)
    except (ValueError, OverflowError):
        raise ValueError(f"{path}: qid must be a 64-bit integer.") from None


def _joined_queries(
    paths: Sequence[AnyPath], queries: list[NDArray[np.int64] | None]
) -> NDArray[np.int64] | None:
    known = [query for query in queries if query is not None]
    if known and len(known) < len(queries):
        without = paths[next(i for i, query in enumerate(queries) if query is None)]
        raise ValueError(f"{without}: every row must have a qid, as in the other files.")
    return np.concatenate(known) if known else None


def _integers(labels: NDArray[np.float64]) -> NDArray[Any]:
    """Convert to integers if all values are whole: a class is 1, not 1.0."""
    whole = np.isfinite(labels) & (labels == np.trunc(labels)) & (np.abs(labels) < 2**53)
    return labels.astype(np.int64) if whole.all() else labels
