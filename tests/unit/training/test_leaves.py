"""Vectors of leaves from their sums (eq. 13 and 15 of GBDT-MO, Algorithm 4's siblings)."""

import numpy as np
import pytest

import naive_dense
from sparseleaf.training.leaves import NewtonLeaves
from sparseleaf.training.tree import Bounds, FlatTree


def tree_of(feature, child, bounds=None):
    """Only the shape matters."""
    n = len(feature)
    zeros = np.zeros(n, np.int32)
    return FlatTree(
        np.array(feature, np.int32), zeros, zeros.astype(np.float32), zeros, zeros.astype(np.uint8),
        np.array(child, np.int32), np.zeros(n), np.flatnonzero(np.array(feature) < 0), zeros,
        zeros - 1, np.empty((0, 32), np.uint8), bounds,
    )  # fmt: skip


# leaf 0 is the root's left child; leaves 1 and 2 are the children of its right one
THREE = tree_of([0, -1, 1, -1, -1], [1, 0, 3, 1, 2])
LONE = tree_of([-1], [0])


def dense(vectors, d):
    found = np.full((len(vectors.indptr) - 1, d), np.nan)
    for leaf in range(len(found)):
        own = slice(vectors.indptr[leaf], vectors.indptr[leaf + 1])
        assert (np.diff(vectors.labels[own].astype(int)) > 0).all(), "labels increase"
        found[leaf, vectors.labels[own]] = vectors.values[own]
    return found


def sums(n=3, d=4, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(scale=5, size=(n, d)), rng.uniform(0.5, 4, (n, d))


@pytest.mark.parametrize("l2", [0.0, 1.5])
@pytest.mark.parametrize("one_column", [False, True])
def test_all_outputs(l2, one_column):
    g, h = sums()
    h = h[:, :1] if one_column else h
    found = dense(NewtonLeaves(None, False, 0.0, l2, 0.3).vectors(THREE, g, h), 4)
    wanted = [
        0.3 * naive_dense.newton_values(a, np.broadcast_to(b, 4), l2) for a, b in zip(g, h, strict=True)
    ]
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_no_hessian_and_no_l2_is_no_step():
    found = dense(
        NewtonLeaves(None, False, 0.0, 0.0, 1.0).vectors(LONE, np.ones((1, 2)), np.zeros((1, 2))), 2
    )
    assert found.tolist() == [[0, 0]]


@pytest.mark.parametrize("k", [1, 2, 3, 9])
def test_the_best_outputs_of_each_leaf(k):
    g, h = sums(seed=1)
    found = dense(NewtonLeaves(k, False, 0.0, 1.0, 1.0).vectors(THREE, g, h), 4)
    for leaf in range(3):
        kept = naive_dense.keep_top((g[leaf] ** 2 / (h[leaf] + 1)).tolist(), k)
        wanted = np.where(kept, naive_dense.newton_values(g[leaf], h[leaf], 1.0), np.nan)
        np.testing.assert_allclose(found[leaf], wanted, rtol=1e-6)


def test_ties_go_to_the_lower_output():
    found = dense(
        NewtonLeaves(2, False, 0.0, 0.0, 1.0).vectors(LONE, np.full((1, 4), 3.0), np.ones((1, 4))), 4
    )
    np.testing.assert_array_equal(found, [[-3, -3, np.nan, np.nan]])


def test_entries_that_gain_too_little_are_dropped():
    g, h = np.array([[4.0, -3.0, 2.0, 0.0]]), np.ones((1, 4))
    found = dense(NewtonLeaves(None, False, 4.5, 1.0, 1.0).vectors(LONE, g, h), 4)  # G²/2: 8, 4.5, 2, 0
    np.testing.assert_array_equal(found, [[-2, 1.5, np.nan, np.nan]])


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("seed", range(5))
def test_siblings_share_outputs_as_algorithm_4_has_it(k, seed):
    """Both children of a node keep the outputs of largest sum over the two, an inner sibling counted as a whole."""
    g, h = sums(seed=seed)
    found = dense(NewtonLeaves(k, True, 0.0, 1.0, 1.0).vectors(THREE, g, h), 4)

    def score(*leaves):
        members = list(leaves)
        return g[members].sum(axis=0) ** 2 / (h[members].sum(axis=0) + 1)

    together = {0: score(0) + score(1, 2), 1: score(1) + score(2), 2: score(1) + score(2)}
    for leaf, scores in together.items():
        kept = naive_dense.keep_top(scores.tolist(), k)
        wanted = np.where(kept, naive_dense.newton_values(g[leaf], h[leaf], 1.0), np.nan)
        np.testing.assert_allclose(found[leaf], wanted, rtol=1e-6)
    np.testing.assert_array_equal(np.isnan(found[1]), np.isnan(found[2]))


def test_sharing_with_one_hessian_for_all_outputs():
    g, h = sums(seed=7)
    rule = NewtonLeaves(2, True, 0.0, 1.0, 1.0)
    one = dense(rule.vectors(THREE, g, h[:, :1]), 4)
    np.testing.assert_array_equal(one, dense(rule.vectors(THREE, g, np.repeat(h[:, :1], 4, axis=1)), 4))


def test_a_lone_root_shares_with_nobody():
    g, h = sums(1, seed=3)
    one = dense(NewtonLeaves(2, True, 0.0, 1.0, 1.0).vectors(LONE, g, h), 4)
    np.testing.assert_array_equal(one, dense(NewtonLeaves(2, False, 0.0, 1.0, 1.0).vectors(LONE, g, h), 4))


@pytest.mark.parametrize("d", [2, 3, 6])
@pytest.mark.parametrize("l2", [0.0, 2.0])
def test_the_exact_step_solves_the_matrix(d, l2):
    """Eq. 13: −(H + λ)⁻¹ G, with H packed by rows of its lower triangle."""
    rng = np.random.default_rng(d)
    g = rng.normal(size=(3, d))
    half = rng.normal(size=(3, d, d + 1))
    matrices = half @ half.transpose(0, 2, 1)
    packed = np.array([[m[a, b] for a in range(d) for b in range(a + 1)] for m in matrices])
    found = dense(NewtonLeaves(None, False, 0.0, l2, 0.5).vectors(THREE, g, packed), d)
    for leaf in range(3):
        wanted = -0.5 * np.linalg.inv(matrices[leaf] + l2 * np.eye(d)) @ g[leaf]
        np.testing.assert_allclose(found[leaf], wanted, rtol=1e-4)


def test_the_exact_step_of_a_singular_matrix_is_finite():
    """softmax's matrix always is: it sees no difference between scores that all rise together."""
    p = np.array([0.2, 0.3, 0.5])
    matrix = np.diag(p) - np.outer(p, p)
    g = p - [0, 0, 1]
    packed = np.array([[matrix[a, b] for a in range(3) for b in range(a + 1)]])
    found = dense(NewtonLeaves(None, False, 0.0, 0.0, 1.0).vectors(LONE, g[None, :], packed), 3)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(matrix @ found[0], -g, atol=1e-3)


def test_values_are_kept_within_bounds():
    g, h = sums()
    low, high = np.full((3, 4), -1.0), np.full((3, 4), 0.25)
    bounded = tree_of([0, -1, 1, -1, -1], [1, 0, 3, 1, 2], Bounds(low, high))
    found = dense(NewtonLeaves(None, False, 0.0, 1.0, 0.1).vectors(bounded, g, h), 4)
    np.testing.assert_allclose(found, 0.1 * np.clip(-g / (h + 1), -1.0, 0.25), rtol=1e-6)


def test_given_values_take_the_place_of_the_step():
    g, h = sums()
    values = np.arange(12.0).reshape(3, 4)
    found = dense(NewtonLeaves(2, False, 0.0, 1.0, 0.5, quantile=0.5).vectors(THREE, g, h, values), 4)
    kept = [naive_dense.keep_top((a**2 / (b + 1)).tolist(), 2) for a, b in zip(g, h, strict=True)]
    np.testing.assert_array_equal(found, np.where(kept, 0.5 * values, np.nan))
