"""Columns of Arrow batches become the arrays that they hold."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from sparseleaf.spark.columns import features_of, join_features, numbers_of, targets_of  # noqa: E402

VECTOR = pa.struct(
    [
        ("type", pa.int8()),
        ("size", pa.int32()),
        ("indices", pa.list_(pa.int32())),
        ("values", pa.list_(pa.float64())),
    ]
)


def vector(row, sparse):
    """A row in the storage of Spark's vectors."""
    if not sparse:
        return {"type": 1, "size": None, "indices": None, "values": row.tolist()}
    (indices,) = np.nonzero(row)
    return {"type": 0, "size": len(row), "indices": indices.tolist(), "values": row[indices].tolist()}


@settings(max_examples=30)
@given(
    st.integers(0, 6),
    st.integers(1, 5),
    st.integers(0, 2**32 - 1),
    st.sampled_from(["sparse", "dense", "mixed"]),
)
def test_vectors_are_the_rows_they_hold(n_rows, n_features, seed, kind):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n_rows, n_features)) < 0.5, rng.normal(size=(n_rows, n_features)), 0)
    sparse = {"sparse": np.ones(n_rows), "dense": np.zeros(n_rows), "mixed": rng.random(n_rows) < 0.5}[kind]
    column = pa.array([vector(row, one) for row, one in zip(X, sparse, strict=True)], VECTOR)
    for begin in (0, n_rows // 2):  # a slice has offsets
        found = features_of(column[begin:])
        assert sp.issparse(found) == bool(sparse[begin:].any())
        dense = found.toarray() if sp.issparse(found) else found
        assert dense.dtype == np.float32
        if n_rows > begin:
            assert np.array_equal(dense, X[begin:].astype(np.float32))


def test_arrays_are_rows_and_nan_is_kept():
    found = features_of(pa.array([[1.0, np.nan], [3.0, 4.0]]))
    assert np.array_equal(found, np.array([[1, np.nan], [3, 4]], np.float32), equal_nan=True)
    wrapped = pa.StructArray.from_arrays([pa.array([[1, 2], [3, 4]])], names=["values"])
    assert features_of(wrapped).tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([[1.0, 2.0], [1.0]]), "vectors of equal size. Got sizes 1 and 2"),
        (pa.array([[1.0], None]), "must not have nulls"),
        (pa.array([[1.0, None]]), "must not have nulls"),
        (pa.array([vector(np.ones(2), True), None], VECTOR), "must not have nulls"),
        (pa.array([vector(np.ones(2), True), vector(np.ones(3), False)], VECTOR), "Got sizes 2 and 3"),
    ],
)
def test_rows_that_cannot_be_trained_on_are_refused(column, message):
    with pytest.raises(ValueError, match=message):
        features_of(column)


def test_targets():
    assert targets_of(pa.array([["b", "a"], []])) == [["b", "a"], []]
    assert targets_of(pa.array([[3], [1, 2]])) == [[3], [1, 2]]
    assert np.isnan(targets_of(pa.array([[1.5, np.nan, None]]))).tolist() == [[False, True, True]]
    assert targets_of(pa.array(["b", "a"])).tolist() == ["b", "a"]
    assert targets_of(pa.array([2, 1])).tolist() == [2, 1]
    assert np.isnan(targets_of(pa.array([1.5, None])))[1]
    assert sp.issparse(targets_of(pa.array([vector(np.array([0, 1.0]), True)], VECTOR)))
    lists = pa.array([["a"], None]), pa.array([["a", None]]), pa.array([[1.5], None])
    for column in (*lists, pa.array(["a", None]), pa.array([1, None]), pa.array([True, None])):
        with pytest.raises(ValueError, match="labelCol must not have nulls"):
            targets_of(column)
    with pytest.raises(ValueError, match="weightCol must not have nulls"):
        numbers_of(pa.array([1.0, None]), "weightCol")


def test_pieces_of_both_kinds_are_sparse_together():
    dense, sparse = np.eye(2, dtype=np.float32), sp.csr_matrix(np.ones((1, 2), np.float32))
    assert join_features([dense, sparse]).toarray().tolist() == [[1, 0], [0, 1], [1, 1]]
    assert join_features([dense, dense]).shape == (4, 2)
    with pytest.raises(ValueError, match=r"labelCol must have vectors of equal size\. Got sizes 2 and 3"):
        join_features([dense, np.ones((1, 3), np.float32)], "labelCol")
