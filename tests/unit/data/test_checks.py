import datetime

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from sparseleaf.data.checks import check_names, check_sparse, check_values

DAYS = pd.date_range("2020-01-01", periods=3)


@pytest.mark.parametrize("values", [
    DAYS.to_numpy(), np.diff(DAYS.to_numpy()), DAYS.to_series(), np.array([None, datetime.date(2020, 1, 1)]),
], ids=["datetime64", "timedelta64", "Series", "objects"])  # fmt: skip
def test_dates_are_refused(values):
    with pytest.raises(
        ValueError, match=r"^y contains dates or times \(.+\), which are not supported\. Convert"
    ):
        check_values(values, "y")


@pytest.mark.parametrize("column", [
    DAYS, DAYS.tz_localize("UTC"), DAYS.to_period("D"), DAYS - DAYS[0], [pd.NA, *DAYS[1:].date],
    pd.Series(DAYS).astype(object),
], ids=["datetime64", "time zone", "period", "timedelta64", "dates", "objects"])  # fmt: skip
def test_columns_of_dates_are_named(column):
    table = pd.DataFrame({"a": [1.0, 2.0, 3.0], "day": column})
    with pytest.raises(ValueError, match=r"^The column 'day' of X contains dates or times"):
        check_values(table, "X")


def test_masked_values_are_refused():
    values = np.ma.masked_array([1.0, 2.0], mask=[False, True])
    with pytest.raises(ValueError, match=r"^X is a masked array with masked values"):
        check_values(values, "X")
    check_values(np.ma.masked_array([1.0, 2.0]), "X")  # nothing is hidden


@pytest.mark.parametrize("values", [
    [[1, 2]], np.ones(2), np.array(["a", None], object), np.array([[1, 2], None], object), [["a"], []],
    pd.DataFrame({"a": ["x", None], "b": pd.Categorical(["u", "v"]), "c": [1, 2]}), sparse.eye(2, format="csr"), None,
])  # fmt: skip
def test_the_rest_is_for_other_checks(values):
    check_values(values, "X")


def broken(format_):
    matrix = sparse.csr_matrix(np.arange(12.0).reshape(4, 3)).asformat(format_)
    if format_ == "coo":
        matrix.row[2] = 10**8
    else:
        matrix.indices[2] = 10**8
    return matrix


@pytest.mark.parametrize("format_", ["csr", "csc", "bsr", "coo"])
def test_indices_that_do_not_exist(format_):
    with pytest.raises(ValueError, match=r"^y is not a valid sparse matrix: "):
        check_sparse(broken(format_), "y")


def test_pointers_that_do_not_exist():
    matrix = sparse.csr_matrix(np.ones((4, 3)))
    matrix.indptr[-1] = 10**9
    with pytest.raises(ValueError, match=r"^y is not a valid sparse matrix: "):
        check_sparse(matrix, "y")


def test_coordinates_of_other_lengths():
    matrix = sparse.coo_array(np.ones((4, 3)))
    matrix.data = matrix.data[:-1]
    with pytest.raises(ValueError, match=r"^y is not a valid sparse matrix: "):
        check_sparse(matrix, "y")


@pytest.mark.parametrize("format_", ["csr", "csc", "bsr", "coo", "lil", "dok", "dia"])
@pytest.mark.parametrize("dense", [np.eye(3), np.zeros((3, 2)), np.zeros((0, 4))])
def test_sound_matrices_pass(format_, dense):
    if format_ == "bsr" and 0 in dense.shape:
        pytest.skip("scipy has no such block")
    found = check_sparse(sparse.csr_array(dense).asformat(format_), "X")
    np.testing.assert_array_equal(found.toarray(), dense)


def test_names():
    assert check_names(["b", 1, 2.5], "Y").tolist() == ["b", "1", "2.5"]
    with pytest.raises(ValueError, match=r"^Y must have distinct label names. Got '1' twice"):
        check_names([1, "a", "1"], "Y")
    with pytest.raises(ValueError, match=r"^Y contains the label name '\\ud800', which is not valid Unicode"):
        check_names(["a", "\ud800"], "Y")
