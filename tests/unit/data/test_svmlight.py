from __future__ import annotations

import gzip

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file

from sparseleaf.data.readers.svmlight import load_svmlight


@pytest.fixture
def write(tmp_path):
    def write(text, name="t.svm"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("zero_based", [False, True])
def test_what_scikit_learn_writes_comes_back_with_ids_as_columns(tmp_path, zero_based, packed):
    X = sp.random(50, 12, 0.3, "csr", np.float32, random_state=0)
    # a file that counts from 0 and has no feature 0 must not be taken for one that counts from 1
    X = sp.hstack([sp.csr_matrix((50, 1), dtype=np.float32), X], format="csr")
    y, qid = np.arange(50) % 3, np.arange(50) // 7
    path = tmp_path / "t.svm"
    dump_svmlight_file(X, y, str(path), zero_based=zero_based, query_id=qid)
    if packed:
        path.write_bytes(gzip.compress(path.read_bytes()))
    found, labels, queries = load_svmlight([path])
    wanted = X if zero_based else sp.hstack([sp.csr_matrix((50, 1)), X], format="csr")
    np.testing.assert_array_equal(found.toarray(), wanted[:, : found.shape[1]].toarray())
    assert found.dtype == np.float32
    np.testing.assert_array_equal(labels, y)
    assert labels.dtype == np.int64
    np.testing.assert_array_equal(queries, qid)


def test_several_labels_or_none_are_lists(write):
    X, y, qid = load_svmlight([write("3,1 0:1\n 1:2 2:0\n# a comment, 1:1\n7 0:nan # qid:5\n")])
    assert y == [[1, 3], [], [7]]
    np.testing.assert_array_equal(X.toarray(), [[1, 0, 0], [0, 2, 0], [np.nan, 0, 0]])
    assert X.nnz == 3  # a zero that is written is not stored
    assert qid is None


def test_labels_that_are_not_whole_stay_numbers(write):
    _, y, _ = load_svmlight([write("0.5 1:1\nnan 1:1\n")])
    np.testing.assert_array_equal(y, [0.5, np.nan])


def test_rows_without_features(write):
    X, y, _ = load_svmlight([write("1\n2 4:1\n")])
    assert X.shape == (2, 5)
    assert y.tolist() == [1, 2]


def test_several_files_are_one_set_as_wide_as_the_widest(write):
    a, b = write("1 qid:1 1:1\n", "a"), write("2 qid:2 9:1\n", "b")
    X, y, qid = load_svmlight([a, b])
    assert X.shape == (2, 10)
    assert (y.tolist(), qid.tolist()) == ([1, 2], [1, 2])
    _, y, _ = load_svmlight([write("1 1:1\n", "a"), write("1,2 1:1\n", "b")])
    assert y == [[1], [1, 2]]


def test_labels_and_queries_together(write):
    _, y, qid = load_svmlight([write("1,2 qid:1 1:1\n  qid:2 1:1\n")])
    assert y == [[1, 2], []]
    assert qid.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the file has no rows"),
        ("# nothing\n", "the file has no rows"),
        (
            "1 1:1\n2 2:1 2:2\n",
            "line 2: expected 'label feature:value …', got features that are not sorted and unique: '2 2:1 2:2'",
        ),
        ("1 3:1 2:1\n", "got features that are not sorted and unique"),
        ("1 1:1\n\n1 -2:1\n", "line 3: expected 'label feature:value …', got a negative feature"),
        ("1 1:1\none 1:1\n", "got a label or value that is not a number: 'one 1:1'"),
        ("1 1:x\n", "got a label or value that is not a number"),
        ("1 1\n", "got a feature without a value"),
        ("1 a:1\n", "got a feature that is not an integer"),
        ("1 4294967296:1\n", "got a feature that is too large"),
        ("1 99999999999999999999:1\n", "got a feature that is too large"),
        ("1 1:1\n1 1:inf\n", "row 2: values must be finite"),
        ("1 1:1\n1\n1 1:1e39\n", "row 3: values must be finite"),
        ("inf 1:1\n", "row 1: labels must be finite"),
        ("1,2 1:1\n1.5 1:1\n", "row 2: labels must be integers. Got (1.5,)"),
        ("1 qid:1 1:1\n1 1:1\n", "must have a qid. Got 1 of 2 rows"),
        ("1 qid:x 1:1\n", "qid must be a 64-bit integer"),
        ("1 qid:99999999999999999999 1:1\n", "qid must be a 64-bit integer"),
    ],
)
def test_bad_files(write, text, said):
    path = write(text)
    with pytest.raises(ValueError) as caught:
        load_svmlight([path])
    assert str(path) in str(caught.value)
    assert said in str(caught.value)


def test_queries_in_one_file_only(write):
    paths = [write("1 qid:1 1:1\n", "a"), write("1 1:1\n", "b")]
    with pytest.raises(ValueError, match="b: every row must have a qid"):
        load_svmlight(paths)


def test_the_first_bad_line_is_found(write):
    lines = [b"1 1:1"] * 1000
    for bad in (0, 1, 498, 499, 500, 998, 999):
        broken = list(lines)
        broken[bad] = b"1 x"
        with pytest.raises(ValueError, match=f"line {bad + 1}:"):
            load_svmlight([write(b"\n".join(broken))])
