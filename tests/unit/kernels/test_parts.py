"""Margins of the parts of label names, compared with the naive twin."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import naive_names as naive
from sparseleaf import _kernels
from sparseleaf._arrays import csr_parts
from sparseleaf._vectors import PackedLists, PackedVectors

N_FEATURES, N_PARTS, N_LABELS, N_ROWS = 9, 7, 6, 70


def random_parts(rng):
    """Parts of every label, their packed form, and packed and dense weights."""
    parts = [sorted(rng.choice(N_PARTS, rng.integers(0, 4), replace=False).tolist()) for _ in range(N_LABELS)]
    member = np.zeros((N_LABELS, N_PARTS), np.float32)
    for label, few in enumerate(parts):
        member[label, few] = 1
    weights = rng.normal(size=(N_PARTS, N_FEATURES)) * (rng.random((N_PARTS, N_FEATURES)) < 0.5)
    packed = PackedVectors.of(sp.csr_matrix(weights.astype(np.float32)))
    return parts, PackedLists.of(sp.csr_matrix(member)), packed, packed.unpacked().toarray()


@given(st.integers(0, 1000))
def test_margins_of_parts_are_those_of_the_twin(seed):
    rng = np.random.default_rng(seed)
    parts, lists, packed, weights = random_parts(rng)
    bias = rng.normal(size=N_PARTS).astype(np.float32)
    X = (rng.random((N_ROWS, N_FEATURES)) * (rng.random((N_ROWS, N_FEATURES)) < 0.4)).astype(np.float32)
    chosen = [
        np.sort(rng.choice(N_LABELS, rng.integers(0, N_LABELS + 1), replace=False)) for _ in range(N_ROWS)
    ]
    labels = np.concatenate(chosen).astype(np.int32)
    starts = np.cumsum([0, *map(len, chosen)], dtype=np.int64)
    tables = []
    for n_threads in (1, 3):
        tables.append(np.full((len(labels), 5), np.nan, np.float32))
        rows = csr_parts(sp.csr_matrix(X))
        _kernels.part_margins(
            *rows, starts, labels, lists.kernel, packed.kernel, bias, tables[-1], 1, n_threads
        )
    np.testing.assert_array_equal(*tables)
    assert np.isnan(tables[0][:, [0, 4]]).all()
    row = np.repeat(np.arange(N_ROWS), np.diff(starts))
    wanted = [
        naive.part_margins(X[i], parts[label], weights, bias)
        for i, label in zip(row, labels.tolist(), strict=True)
    ]
    np.testing.assert_allclose(tables[0][:, 1:4], np.array(wanted).reshape(-1, 3), atol=1e-5)


def test_bad_arguments_are_refused():
    _, lists, packed, _ = random_parts(np.random.default_rng(0))
    rows = csr_parts(sp.csr_matrix(np.ones((1, N_FEATURES), np.float32)))
    starts, labels, bias = np.array([0, 1]), np.zeros(1, np.int32), np.zeros(N_PARTS, np.float32)
    good = [*rows, starts, labels, lists.kernel, packed.kernel, bias, np.empty((1, 3), np.float32), 0, 1]
    _kernels.part_margins(*good)
    for place, bad in (
        (1, rows[1] + np.int32(N_FEATURES)),
        (2, rows[2][:-1]),
        (3, np.array([0, 2])),
        (4, labels + np.int32(N_LABELS)),
        (4, labels - np.int32(1)),
        (7, bias[:-1]),
        (8, np.empty((1, 2), np.float32)),
        (9, 1),
        (9, -1),
    ):
        with pytest.raises(ValueError):
            _kernels.part_margins(*good[:place], bad, *good[place + 1 :])
