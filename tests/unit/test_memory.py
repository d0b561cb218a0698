import numpy as np
import pytest
import scipy.sparse as sp

import sparseleaf
from smalldata import make_set
from sparseleaf import SparseGBDTClassifier, memory


def test_estimate_of_a_known_shape():
    X, Y = np.zeros((1000, 7)), sp.csr_matrix(np.eye(1000, 50))
    found = sparseleaf.estimate_memory(
        X, Y, sketch_dim=25, n_trees=3, leaf_labels=5, min_samples_leaf=10, max_depth=4, histogram_mb=1
    )
    assert found.features == 0
    assert found.bins == 1000 * 7
    assert found.residuals == 1000 * (4 * 25 + 2 * 32)
    assert found.histograms == 1 << 20
    assert found.scores == 8 * (50 + 1000 * 3 * 5)
    assert found.model == 3 * 16 * (8 * 5 + 34)
    assert found.certain == found.bins + found.residuals
    assert found.total == sum(vars(found).values())
    assert "memory at most" in str(found)


def test_estimates_follow_the_parameters():
    X, Y = np.zeros((1000, 7)), sp.csr_matrix(np.eye(1000, 50))
    exact = sparseleaf.estimate_memory(X, Y, split="exact")
    assert (exact.bins, exact.residuals, exact.histograms) == (4 * 7000, 0, 0)
    assert sparseleaf.estimate_memory(X, Y, split="full").residuals == 1000 * (4 * 50 + 2 * 56)
    projected = sparseleaf.estimate_memory(X, Y, projection="random", projection_dim=3, keep_raw=False)
    assert projected.features == 3 * (4 * 1000 + 6 * 7)
    assert projected.bins == 3000
    assert sparseleaf.estimate_memory(X, Y, projection="random", projection_dim=3).bins == 3000 + 7000
    few = sparseleaf.estimate_memory(X, Y, max_leaves=2, max_bins=3)
    assert few.histograms == (2 + 16) * 7 * (3 + 1) * 4 * (32 + 1), "no more than nodes can wait for"
    all_labels = sparseleaf.estimate_memory(X, Y, leaf_labels=None, n_trees=1000)
    assert all_labels.scores == 8 * 1000 * 50, "never more than rows × labels"


def test_what_cannot_fit_is_refused_before_it_is_taken(monkeypatch):
    X, Y = make_set(500, 5, 6)
    monkeypatch.setattr(memory, "available_memory", lambda: 1000)
    with pytest.raises(MemoryError, match=r"at least .* KiB at once .* 1000 B are free.*Fewer rows"):
        SparseGBDTClassifier(n_trees=1).fit(X, Y)


def test_where_the_system_does_not_tell_nothing_is_refused(monkeypatch):
    X, Y = make_set(100, 5, 6)
    monkeypatch.setattr(memory, "available_memory", lambda: None)
    SparseGBDTClassifier(n_trees=1).fit(X, Y)


def test_available_memory_is_plausible():
    found = memory.available_memory()
    assert found is None or 2**20 < found < 2**50


@pytest.mark.parametrize(("size", "text"), [
    (0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3 << 20, "3.0 MiB"), (5 << 40, "5120.0 GiB"),
])  # fmt: skip
def test_sizes_are_readable(size, text):
    assert memory._readable(size) == text


def test_bad_parameters_are_refused_by_the_estimate_too():
    with pytest.raises(ValueError, match="n_trees"):
        sparseleaf.estimate_memory(np.zeros((5, 2)), np.eye(5), n_trees=0)
