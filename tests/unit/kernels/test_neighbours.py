"""Votes of the nearest rows, against all cosines, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from sparseleaf import _kernels
from sparseleaf._arrays import csr_parts
from sparseleaf.routed.neighbours import POWER, NeighbourVotes, fit_neighbours

N_FEATURES, N_LABELS = 20, 7


def random_rows(n, seed, density=0.4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, N_FEATURES)) * (rng.random((n, N_FEATURES)) < density)
    return sp.csr_matrix(X.astype(np.float32))


def random_labels(n, seed):
    return sp.csr_matrix((np.random.default_rng(seed).random((n, N_LABELS)) < 0.3).astype(np.float32))


def naive_votes(votes: NeighbourVotes, X, n_neighbours):
    """Shares of the labels among the nearest rows, by all cosines."""
    rows = votes.rows.toarray() * votes.scale[:, None]
    out = np.zeros((X.shape[0], N_LABELS))
    for i, x in enumerate(X.toarray()):
        x = x * votes.feature_weights if len(votes.feature_weights) else x
        cosines = rows @ x / max(np.linalg.norm(x), 1e-30)
        nearest = [j for j in np.argsort(-cosines, kind="stable") if cosines[j] > 0][:n_neighbours]
        weights = cosines[nearest] ** POWER
        if len(nearest):
            out[i] = weights @ votes.labels.toarray()[nearest] / weights.sum()
    return out


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_neighbours", [1, 5, 1000])
@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_scores_are_those_of_all_cosines(weight, n_neighbours, weighted):
    weights = (
        np.random.default_rng(9).random(N_FEATURES).astype(np.float32)
        if weighted
        else np.empty(0, np.float32)
    )
    votes = fit_neighbours(random_rows(80, 0), random_labels(80, 1), weights, n_neighbours, weight)
    X, trees = random_rows(90, 2), random_labels(90, 3)
    wanted = weight * trees.toarray() + (1 - weight) * naive_votes(votes, X, n_neighbours)
    found = votes.scores(X, trees, 1)
    assert found.toarray() == pytest.approx(wanted, abs=1e-5)
    assert (found != votes.scores(X, trees, 3)).nnz == 0
    ids, scores = votes.topk(X, trees, 3, 2)
    best = -np.sort(-found.toarray(), axis=1)[:, :3]
    assert np.where(ids < 0, 0, scores) == pytest.approx(best, abs=1e-6)


def test_by_hand():
    rows = sp.csr_matrix(np.array([[3, 4], [1, 0], [0, 1]], np.float32))
    votes = fit_neighbours(rows, sp.csr_matrix(np.eye(3, dtype=np.float32)), np.empty(0, np.float32), 2, 0.0)
    found = votes.scores(
        sp.csr_matrix(np.array([[1, 0]], np.float32)), sp.csr_matrix((1, 3), dtype=np.float32), 1
    )
    # cosines 0.6, 1 and 0; cubes 0.216 and 1
    assert found.toarray()[0] == pytest.approx([0.216 / 1.216, 1 / 1.216, 0], abs=0.01)


def test_rows_in_8_bits_are_near_themselves():
    X = random_rows(50, 0)
    votes = fit_neighbours(X, random_labels(50, 1), np.empty(0, np.float32), 5, 0.5)
    restored = votes.rows.toarray() * votes.scale[:, None]
    wanted = X.toarray() / np.maximum(np.linalg.norm(X.toarray(), axis=1, keepdims=True), 1e-30)
    assert restored == pytest.approx(wanted, abs=1 / 127)


def test_rows_without_features_get_no_votes():
    votes = fit_neighbours(random_rows(30, 0, 0.05), random_labels(30, 1), np.empty(0, np.float32), 3, 0.5)
    X, trees = sp.csr_matrix((2, N_FEATURES), dtype=np.float32), random_labels(2, 3)
    assert votes.scores(X, trees, 1).toarray() == pytest.approx(0.5 * trees.toarray())


def test_lists_beyond_the_budget_still_find_the_rows_that_count():
    # all rows have feature 0, in a list too long; a rare feature tells them apart
    n = 40_000
    rare = np.arange(n) % 1000 + 1
    X = sp.csr_matrix(
        (
            np.tile(np.array([1, 2], np.float32), n),
            np.stack((np.zeros(n, int), rare), 1).ravel(),
            np.arange(n + 1) * 2,
        )
    )
    Y = sp.csr_matrix((np.ones(n, np.float32), rare, np.arange(n + 1)))
    votes = fit_neighbours(X, Y, np.empty(0, np.float32), 10, 0.0)
    nothing = sp.csr_matrix((3, Y.shape[1]), dtype=np.float32)
    assert votes.topk(X[:3], nothing, 1, 1)[0].ravel().tolist() == [1, 2, 3]
    only = sp.csr_matrix(([1.0], ([0], [0])), shape=(1, X.shape[1]), dtype=np.float32)
    assert votes.topk(only, nothing[:1], 1, 1)[0][0, 0] >= 0  # better the long list than none


def parts(votes):
    return {
        "indptr": votes.rows.indptr.astype(np.int64),
        "indices": votes.rows.indices.astype(np.int32),
        "values": votes.rows.data.copy(),
        "scale": votes.scale.copy(),
        "label_indptr": votes.labels.indptr.astype(np.int64),
        "labels": votes.labels.indices.astype(np.int32),
    }


@pytest.mark.parametrize(
    ("name", "at", "value"),
    [
        ("indptr", 1, 10**9),
        ("indptr", 0, 1),
        ("indices", 0, N_FEATURES),
        ("indices", 0, -1),
        ("scale", 0, np.nan),
        ("label_indptr", 1, -1),
        ("labels", 0, N_LABELS),
        ("labels", 0, -1),
    ],
)
def test_arrays_that_no_search_should_see_are_refused(name, at, value):
    arrays = parts(fit_neighbours(random_rows(30, 0), random_labels(30, 1), np.empty(0, np.float32), 3, 0.5))
    arrays[name][at] = value
    with pytest.raises(ValueError, match=r"indptr|feature|label|finite"):
        _kernels.NeighbourIndex(
            **arrays,
            feature_weights=np.empty(0, np.float32),
            unit_rows=True,
            n_features=N_FEATURES,
            n_labels=N_LABELS,
        )


def test_queries_are_checked():
    votes = fit_neighbours(random_rows(30, 0), random_labels(30, 1), np.empty(0, np.float32), 3, 0.5)
    X, trees = csr_parts(random_rows(4, 2)), csr_parts(random_labels(4, 3))
    for changed in ((0, 1.0, 0.5), (1, -1.0, 0.5), (1, 1.0, 1.5)):
        with pytest.raises(ValueError, match="n_neighbours"):
            votes.kernel.scores(*X, *trees, *changed, 1)
    with pytest.raises(ValueError, match="same rows"):
        votes.kernel.scores(*X, *csr_parts(random_labels(3, 3)), 1, 1.0, 0.5, 1)
    with pytest.raises(ValueError, match="does not have"):
        votes.kernel.scores(X[0], X[1] + np.int32(N_FEATURES), X[2], *trees, 1, 1.0, 0.5, 1)
