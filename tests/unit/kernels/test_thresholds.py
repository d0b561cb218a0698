"""Sums over the labels of groups for decreasing thresholds: against recounting for every threshold."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparseleaf import _kernels


@given(st.integers(0, 2**32 - 1), st.integers(0, 60), st.integers(0, 5))
def test_sums_are_those_of_recounting(seed, n, n_steps):
    rng = np.random.default_rng(seed)
    labels, hits = rng.integers(0, 7, n).astype(np.int32), rng.integers(0, 4, n) / 4
    ends = np.sort(rng.integers(0, n + 1, n_steps))
    group, n_true = rng.integers(0, 3, 7), rng.integers(0, 5, 7) / 2
    sums = np.full((3, n_steps, 3), np.nan)
    _kernels.group_sums(labels, hits, ends, group, n_true, sums)
    for step, end in enumerate(ends):
        correct = np.bincount(labels[:end], hits[:end], 7)
        predicted = np.bincount(labels[:end], minlength=7)
        f1 = 2 * correct / np.maximum(predicted + n_true, 1e-9)
        for got, values in zip(sums, (correct, predicted, f1), strict=True):
            np.testing.assert_allclose(got[: step + 1].sum(axis=0), np.bincount(group, values, 3))


def test_ends_labels_and_groups_that_do_not_exist_are_refused():
    good = [np.zeros(2, np.int32), np.ones(2), np.array([2]), np.zeros(1, np.int64), np.ones(1)]
    for place, bad, message in [
        (0, np.ones(2, np.int32), "no such label"),
        (2, np.array([3]), "ends"),
        (3, np.ones(1, np.int64), "no such group"),
    ]:
        arguments = [bad if number == place else array for number, array in enumerate(good)]
        with pytest.raises(ValueError, match=message):
            _kernels.group_sums(*arguments, np.empty((3, 1, 1)))
