"""Targets and weights of dense losses, as users have them."""

import numpy as np
import pytest
import scipy.sparse as sp

from sparseleaf.training.dense_targets import encode_labels, encode_numbers, join_known, weighted

pd = pytest.importorskip("pandas")


def test_numbers_in_every_form():
    matrix = np.array([[1.0, np.nan], [2, 3], [4, 5]])
    for y in (matrix, matrix.tolist(), pd.DataFrame(matrix, columns=["a", "b"])):
        known, targets = encode_numbers(y, 3, None)
        assert (known.kind, known.n_outputs) == ("regression", 2)
        np.testing.assert_array_equal(targets.values, matrix.astype(np.float32))
        assert known.counts.tolist() == [3, 2]
    assert known.names.tolist() == ["a", "b"]
    known, targets = encode_numbers(sp.csr_matrix(np.eye(3)), 3, None)
    np.testing.assert_array_equal(targets.values, np.eye(3))
    for y in ([1, 2, 3], np.array([1, 2, 3]), pd.Series([1, 2, 3])):
        known, targets = encode_numbers(y, 3, None)
        assert known.kind == "regression-column"
        assert targets.values.tolist() == [[1], [2], [3]]


@pytest.mark.parametrize(("y", "match"), [
    (np.zeros((3, 2, 2)), "dim"),
    (np.zeros(4), "inconsistent numbers of samples"),
    (np.array([1.0, np.inf, 0]), "infinity"),
    (np.array([1.0, 1e39, 0]), "exceed the range of float32"),
    (np.array(["a", "b", "c"]), "convert string to float"),
])  # fmt: skip
def test_numbers_that_cannot_be_fitted_are_refused(y, match):
    with pytest.raises(ValueError, match=match):
        encode_numbers(y, 3, None)


def test_an_output_that_no_part_knows_is_refused():
    one, other = (encode_numbers(np.array(y), 3, None)[0] for y in ([[1, np.nan]] * 3, [[np.nan, 2]] * 3))
    with pytest.raises(ValueError, match="that is not NaN"):
        join_known([one, one])
    assert join_known([one, other]).counts.tolist() == [3, 3]


def test_validation_numbers_must_fit_training():
    known, _ = encode_numbers(np.zeros((3, 2)), 3, None)
    encode_numbers(np.array([[np.nan, 1.0]]), 1, known)
    with pytest.raises(ValueError, match=r"must have 2 outputs, as in training. Got 1"):
        encode_numbers(np.zeros(3), 3, known)


def test_classes():
    for y, names in (
        (["b", "a", "b"], ["a", "b"]),
        ([3, 1, 3], [1, 3]),
        ([True, False, True], [False, True]),
    ):
        known, targets = encode_labels(np.array(y), 3, None, by_class=True)
        assert known.names.tolist() == names
        assert targets.classes.tolist() == [1, 0, 1]
        assert known.counts.tolist() == [1, 2]
        known, targets = encode_labels(np.array(y), 3, None, by_class=False)
        assert targets.values.tolist() == [[0, 1], [1, 0], [0, 1]]


def test_labels():
    matrix = np.array([[1, 0, 1], [0, 0, 0]])
    for y in (matrix, sp.csr_matrix(matrix)):
        known, targets = encode_labels(y, 2, None, by_class=True)
        np.testing.assert_array_equal(targets.values, matrix)
        assert known.counts.tolist() == [1, 0, 1]
    known, targets = encode_labels([["x", "z"], ["y"]], 2, None, by_class=True)
    assert known.names.tolist() == ["x", "y", "z"]
    assert targets.values.tolist() == [[1, 0, 1], [0, 1, 0]]


def test_labels_partly_known():
    y = np.array([[1, np.nan], [0, 1], [np.nan, 0.0]])
    for given in (y, pd.DataFrame(y, columns=["p", "q"])):
        known, targets = encode_labels(given, 3, None, by_class=True)
        np.testing.assert_array_equal(targets.values, y)
        assert known.kind == "multilabel-indicator"
        assert known.counts.tolist() == [1, 1]
    assert known.names.tolist() == ["p", "q"]
    with pytest.raises(ValueError, match="only the values 0, 1 and NaN"):
        encode_labels(y * 2, 3, None, by_class=True)
    with pytest.raises(ValueError, match=r"must have 4 rows, as X. Got 3"):
        encode_labels(y, 4, None, by_class=True)
    with pytest.raises(ValueError, match=r"must have 3 labels, as in training. Got 2"):
        encode_labels(
            y, 3, encode_labels(np.eye(3, dtype=int)[:, [0, 1, 2]], 3, None, by_class=True)[0], by_class=True
        )


def test_validation_classes_must_be_those_of_training():
    known, _ = encode_labels(np.array(["a", "b", "c"]), 3, None, by_class=True)
    _, targets = encode_labels(np.array(["c", "a"]), 2, known, by_class=True)
    assert targets.classes.tolist() == [2, 0]
    with pytest.raises(ValueError, match="not in the training set"):
        encode_labels(np.array(["c", "z"]), 2, known, by_class=True)


@pytest.mark.parametrize(("weight", "shape"), [
    ([1, 2, 3], (3, 1)), (np.ones((3, 1)), (3, 1)), (np.ones((3, 2)), (3, 2)), (2.0, (3, 1)),
    (pd.Series([1, 0, 2]), (3, 1)),
])  # fmt: skip
def test_weights(weight, shape):
    _, targets = encode_numbers(np.zeros((3, 2)), 3, None)
    found = weighted(targets, weight).weights
    assert found.shape == shape
    assert found.dtype == np.float32
    assert found.flags.c_contiguous


@pytest.mark.parametrize(("weight", "match"), [
    ([1, 2], r"shape \(3,\) or \(3, 2\). Got \(2,\)"),
    (np.ones((3, 3)), r"Got \(3, 3\)"),
    ([1, -1, 1], "non-negative"),
    ([0, 0, 0], "not all zero"),
    ([1, np.nan, 1], "NaN"),
    ([1, np.inf, 1], "infinity"),
])  # fmt: skip
def test_weights_that_make_no_sense_are_refused(weight, match):
    _, targets = encode_numbers(np.zeros((3, 2)), 3, None)
    with pytest.raises(ValueError, match=match):
        weighted(targets, weight)


def test_no_weights():
    _, targets = encode_numbers(np.zeros((3, 2)), 3, None)
    assert weighted(targets, None) is targets
