"""Quantisation of sparse vectors: against numpy's of a matrix with one column."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparseleaf import _kernels
from sparseleaf._steps import quantise
from sparseleaf._vectors import quantise_vectors


@given(st.lists(st.integers(0, 5), max_size=1200), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_values_and_scales_are_those_of_numpy(sizes, n_jobs, seed):
    rng = np.random.default_rng(seed)
    indptr = np.cumsum([0, *sizes])
    values = (rng.normal(size=indptr[-1]) * 10.0 ** rng.integers(-45, 38)).astype(np.float32)
    values[rng.random(len(values)) < 0.2] = 0
    integers, scale = quantise_vectors(values, indptr, n_jobs)
    wanted, scales = quantise(values[:, None], indptr, 127)
    np.testing.assert_array_equal(integers, wanted[:, 0])
    np.testing.assert_array_equal(scale, scales)


def test_arrays_of_other_sizes_are_refused():
    indptr, values = np.array([0, 2]), np.ones(2, np.float32)
    integers, scale = np.empty(2, np.int8), np.empty(1, np.float32)
    for place, bad, message in [
        (0, np.array([0, 3]), "indptr"),
        (2, 0, "largest"),
        (3, integers[:1], "integers"),
        (4, scale[:0], "scale"),
    ]:
        arguments = [indptr, values, 127, integers, scale, 1]
        arguments[place] = bad
        with pytest.raises(ValueError, match=message):
            _kernels.quantise_vectors(*arguments)
