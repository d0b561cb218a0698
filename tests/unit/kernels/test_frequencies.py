"""Label frequencies of leaves: against dense arithmetic."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from sparseleaf import _kernels
from sparseleaf.data.weights import TrainingWeights
from sparseleaf.model.frequencies import label_frequencies


def naive_frequencies(counts, totals, most, label_weights):
    frequencies = counts * (1 / np.where(totals > 0, totals, 1))[:, None]
    if label_weights is not None:
        frequencies = TrainingWeights(labels=label_weights).frequencies(frequencies, 1.0)
    frequencies = np.where(counts > 0, frequencies, 0)
    for leaf in frequencies:
        leaf[np.argsort(-leaf, kind="stable")[len(leaf) if most is None else most :]] = 0
    return frequencies.astype(np.float32)


@given(
    st.integers(0, 2**32 - 1), st.integers(1, 600), st.integers(1, 3), st.sampled_from([None, 0, 2]),
    st.booleans(), st.booleans(),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_frequencies_are_those_of_the_twin(seed, n, n_jobs, most, more, weighted):
    rng = np.random.default_rng(seed)
    counts, added = rng.integers(1, 5, (2, n, 6)) * (rng.random((2, n, 6)) < 0.3) / 2  # many are equal
    label_weights = rng.random(6).astype(np.float32) + 0.1 if weighted else None
    totals = rng.integers(0, 9, n) / 2
    found = label_frequencies(
        sp.csr_matrix(counts),
        totals,
        most,
        label_weights,
        n_jobs,
        added=sp.csr_matrix(added) if more else None,
    )
    assert found.has_sorted_indices
    summed = counts + added if more else counts
    wanted = naive_frequencies(summed, totals, most, label_weights)
    assert np.array_equal(found.toarray(), wanted)
    assert found.nnz == np.count_nonzero(summed if most is None else wanted)


def test_leaves_and_labels_that_do_not_match_are_refused():
    one = [np.array([0, 1]), np.zeros(1, np.int32), np.ones(1)]
    for first, second, totals, weights, message in [
        ([np.array([0, 2]), *one[1:]], one, np.ones(1), np.empty(0), "indptr"),
        (one, [np.array([0, 0, 1]), *one[1:]], np.ones(1), np.empty(0), "the same leaves"),
        (one, one, np.ones(2), np.empty(0), "the same leaves"),
        (one, [one[0], np.ones(1, np.int32), one[2]], np.ones(1), np.ones(1), "must have weights"),
    ]:
        with pytest.raises(ValueError, match=message):
            _kernels.leaf_frequencies(*first, *second, totals, weights, -1, 1)
