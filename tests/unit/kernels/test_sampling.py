"""Samples of rows, compared with the hashes of numpy."""

import numpy as np
import pytest

from sparseleaf import _kernels
from sparseleaf._arrays import WORD, derive_key, hash_numbers


@pytest.mark.parametrize("n", [0, 1, 1000])
@pytest.mark.parametrize("share", [0.001, 0.3, 0.999, 1.0])
@pytest.mark.parametrize("folds", [None, 3])
def test_sample_rows(n, share, folds):
    numbers = np.random.default_rng(0).permutation(10 * n)[:n]
    left_out = np.zeros(n, bool) if folds is None else np.arange(n) % folds == 1
    highest = min(int(share * 2.0**64) - 1, WORD)
    rows, others = _kernels.sample_rows(
        numbers, (left_out if folds else left_out[:0]).view(np.uint8), derive_key(5, 2), highest
    )
    sampled = (hash_numbers(numbers, 5, 2) <= np.uint64(highest)) & ~left_out
    np.testing.assert_array_equal(rows, np.flatnonzero(sampled))
    np.testing.assert_array_equal(others, np.flatnonzero(~sampled))
    assert rows.dtype == others.dtype == np.int32


def test_a_sample_does_not_depend_on_where_rows_are():
    numbers, none = np.arange(600), np.empty(0, np.uint8)
    whole = _kernels.sample_rows(numbers, none, 7, WORD // 2)[0]
    parts = [_kernels.sample_rows(numbers[a : a + 200], none, 7, WORD // 2)[0] + a for a in (0, 200, 400)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_left_out_has_a_value_for_every_row():
    with pytest.raises(ValueError, match="left_out: must be empty or"):
        _kernels.sample_rows(np.arange(3), np.zeros(2, np.uint8), 0, WORD)
