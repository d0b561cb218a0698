import hashlib

import numpy as np
import pytest
from scipy import sparse

from sparseleaf.data import make_xc


def digest(*arrays):
    whole = hashlib.sha256()
    for array in arrays:
        whole.update(np.ascontiguousarray(array))
    return whole.hexdigest()[:16]


def precision_at_1(scores, Y):
    best = np.asarray(scores).argmax(axis=1)
    return np.asarray(Y[np.arange(Y.shape[0]), best]).mean()


@pytest.mark.parametrize(
    "arguments",
    [
        (1500, 300, 200, 5.0, 20.0),
        (1200, 40, 30, 12.0, 30.0),
        (1100, 2000, 50_000, 1.0, 1.0),
        (1100, 5, 5, 4.0, 4.0),
        (1030, 50, 400, 0.4, 0.2),
        (1000, 20, 1, 1.0, 20.0),
        (1000, 1, 7, 7.0, 0.0),
    ],
)
def test_shapes_means_and_form(arguments):
    X, Y = make_xc(*arguments, seed=5)
    n, d, k, labels, nnz = arguments
    assert X.shape == (n, d)
    assert Y.shape == (n, k)
    for matrix, mean in ((X, nnz), (Y, labels)):
        assert isinstance(matrix, sparse.csr_matrix)
        assert matrix.dtype == np.float32
        assert matrix.indices.dtype == np.int32
        matrix.check_format(full_check=True)
        assert (np.diff(matrix.indices)[np.diff(matrix.nonzero()[0]) == 0] > 0).all()
        assert matrix.nnz / n == pytest.approx(mean, rel=0.03)
        if mean >= 1:
            assert np.diff(matrix.indptr).min() >= 1
    assert (Y.data == 1).all()
    assert (X.data > 0).all()
    lengths = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    np.testing.assert_allclose(lengths[np.diff(X.indptr) > 0], 1, rtol=1e-5)


def test_row_sizes_vary():
    X, Y = make_xc(2000)
    for matrix in (X, Y):
        sizes = np.diff(matrix.indptr)
        assert sizes.max() > 2 * sizes.mean()
        assert sizes.min() < sizes.mean() / 2


def test_same_bits_everywhere():
    # Fixed on one machine: a difference on another means that benchmarks cannot be compared.
    X, Y = make_xc(1100, 200, 300, 4.0, 10.0, seed=1)
    Z, _ = make_xc(1100, 20, 300, 4.0, seed=1, dense_features=True)
    assert digest(Y.indptr.astype(np.int64), Y.indices) == "38311d238c9a04b9"
    assert digest(X.indptr.astype(np.int64), X.indices, X.data) == "cafc04a443d2fcca"
    assert digest(Z) == "72826ccff54c582d"


def test_first_rows_do_not_depend_on_how_many_follow():
    for dense in (False, True):
        X, Y = make_xc(2500, 50, 60, 3.0, 10.0, dense_features=dense)
        for n in (1, 1024, 1500):
            X_less, Y_less = make_xc(n, 50, 60, 3.0, 10.0, dense_features=dense)
            assert abs(Y[:n] - Y_less).nnz == 0
            assert abs(X[:n] - X_less).max() == 0


def test_seeds_differ():
    (X0, Y0), (X1, Y1) = (make_xc(100, 50, 60, 3.0, 10.0, seed=seed) for seed in (0, 1))
    assert abs(X0 - X1).nnz
    assert abs(Y0 - Y1).nnz


def test_label_counts_follow_a_power_law():
    _, Y = make_xc(10_000, 10, 2_000, 5.0, 5.0)
    counts = np.sort(np.asarray(Y.sum(axis=0)).ravel())[::-1]
    ranks = np.arange(10, 1000)
    slope = np.polyfit(np.log(ranks + 1), np.log(counts[ranks] + 1), 1)[0]
    assert -1.5 < slope < -0.6
    assert counts[:20].sum() > 0.1 * counts.sum()
    assert np.median(counts) < 0.05 * counts[0]


def learned_and_baseline(**arguments):
    """Precision at 1 of ridge regression on held-out rows, and of the most frequent label."""
    X, Y = make_xc(4_000, 100, 200, 4.0, 20.0, **arguments)
    X = X if isinstance(X, np.ndarray) else X.toarray()
    train, test = slice(0, 3_000), slice(3_000, None)
    weights = np.linalg.solve(X[train].T @ X[train] + np.eye(100), X[train].T @ Y[train].toarray())
    popular = np.repeat(np.asarray(Y[train].sum(axis=0)), 1_000, axis=0)
    return precision_at_1(X[test] @ weights, Y[test]), precision_at_1(popular, Y[test])


@pytest.mark.parametrize("dense", [False, True])
def test_labels_can_be_learned_but_not_perfectly(dense):
    learned, baseline = learned_and_baseline(dense_features=dense)
    assert learned > 2.5 * baseline
    assert learned < 0.95
    assert learned_and_baseline(dense_features=dense, noise=0.7)[0] < 0.7 * learned


def test_dense_features():
    X, Y = make_xc(1_500, 30, 400, 3.0, dense_features=True, seed=2)
    assert type(X) is np.ndarray
    assert X.dtype == np.float32
    assert X.shape == (1_500, 30)
    assert X.flags.c_contiguous
    assert np.isfinite(X).all()
    assert 0.3 < X.std() < 3
    assert Y.shape == (1_500, 400)


def test_a_million_labels():
    X, Y = make_xc(500, 10, 1_000_000, 75.0, dense_features=True)
    assert Y.shape == (500, 1_000_000)
    assert Y.nnz / 500 == pytest.approx(75, rel=0.03)
    assert X.shape == (500, 10)


def test_no_rows():
    X, Y = make_xc(0)
    assert X.shape == Y.shape == (0, 1000)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_rows": -1}, "'n_rows' parameter must be an int in the range .* Got -1"),
        ({"n_rows": 2.0}, "'n_rows' parameter must be .* Got 2.0"),
        ({"n_features": 0}, "'n_features' parameter must be .* Got 0"),
        ({"n_labels": True}, "'n_labels' parameter must be .* Got True"),
        ({"n_labels": 2**31}, "'n_labels' parameter must be .* Got 2147483648"),
        ({"seed": None}, "'seed' parameter must be .* Got None"),
        ({"seed": -1}, "'seed' parameter must be .* Got -1"),
        (
            {"labels_per_row": 1001},
            r"\'labels_per_row\' parameter must be a number in the range \[0, 1000\]. Got 1001",
        ),
        ({"labels_per_row": float("nan")}, "'labels_per_row' parameter must be .* Got nan"),
        ({"nnz_per_row": -1}, "'nnz_per_row' parameter must be .* Got -1"),
        ({"nnz_per_row": "5"}, "'nnz_per_row' parameter must be .* Got '5'"),
        ({"noise": 1.1}, "'noise' parameter must be .* Got 1.1"),
        ({"n_topics": 0}, "'n_topics' parameter must be .* Got 0"),
        ({"n_topics": 1001}, "'n_topics' parameter must be .* Got 1001"),
    ],
)
def test_arguments_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_xc(**arguments)


def test_numpy_numbers_are_numbers():
    X, _ = make_xc(np.int64(10), np.int32(20), np.int64(30), np.float32(2), np.int64(3), np.uint8(1))
    assert X.shape == (10, 20)
