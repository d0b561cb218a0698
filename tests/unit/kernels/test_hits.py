"""Whether the best candidates of lists are true."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparseleaf import _kernels


def naive_hits(starts, scores, truth, n):
    hits = np.zeros((len(starts) - 1, n), np.uint8)
    for row, (a, b) in enumerate(itertools.pairwise(starts)):
        order = np.argsort(-scores[a:b], kind="stable")[:n]
        hits[row, : len(order)] = truth[a:b][order]
    return hits


@given(st.lists(st.integers(0, 12), max_size=20), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_hits_are_those_of_a_stable_sort(sizes, n, seed):
    rng = np.random.default_rng(seed)
    starts = np.cumsum([0, *sizes])
    scores = rng.integers(-3, 3, starts[-1]).astype(np.float32)  # with ties
    truth = rng.integers(0, 2, starts[-1]).astype(np.uint8)
    hits = np.full((len(sizes), n), 7, np.uint8)
    _kernels.best_hits(starts, scores, truth, hits, 2)
    np.testing.assert_array_equal(hits, naive_hits(starts, scores, truth, n))


@given(st.lists(st.integers(0, 12), max_size=80), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_gains_are_those_of_every_mix(sizes, n_jobs, seed):
    rng = np.random.default_rng(seed)
    starts = np.cumsum([0, *sizes])
    labels = rng.integers(0, 4, starts[-1]).astype(np.int32)
    first, second = rng.integers(-3, 3, (2, starts[-1])).astype(np.float32)
    truth = rng.integers(0, 2, starts[-1]).astype(np.uint8)
    offsets = rng.integers(-2, 3, 4).astype(np.float32)
    powers, weights = np.array([0, 0.5, 2], np.float32), np.array([0, 0.3], np.float32)
    of_place = np.array([7, 3, 1], np.uint8)
    gains = np.full((6, len(sizes)), 99, np.uint8)
    _kernels.mixed_gains(
        starts, labels, first, second, truth, offsets, powers, weights, of_place, 0.5, gains, n_jobs
    )
    for (power, weight), got in zip(itertools.product(powers, weights), gains, strict=True):
        margins = weight * first + (1 - weight) * (
            second - np.float32(0.5) * offsets[labels] + power * offsets[labels]
        )
        np.testing.assert_array_equal(got, naive_hits(starts, margins, truth, 3) @ of_place)


def test_lists_beyond_the_candidates_are_refused():
    scores, truth, hits = np.zeros(3, np.float32), np.zeros(3, np.uint8), np.zeros((1, 5), np.uint8)
    for starts in ([0, 4], [2, 1], [-1, 3]):
        with pytest.raises(ValueError, match="starts"):
            _kernels.best_hits(np.array(starts), scores, truth, hits, 1)
    with pytest.raises(ValueError, match="hits"):
        _kernels.best_hits(np.array([0, 3]), scores, truth, np.zeros((2, 5), np.uint8), 1)
