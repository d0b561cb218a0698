"""Gradients of the ranking losses: twins, pairs by hand, finite differences, documents really exchanged."""

import itertools
import math

import numpy as np
import pytest

import naive_ranking
from sparseleaf import _kernels
from sparseleaf.objectives import objectives_of
from sparseleaf.objectives.ranking import CHANGES

KERNELS = ("lambdamart", "gbrank", "smoothdcg", "squared-gains", "gbrank-steps")

NO_WEIGHTS = np.empty(0, np.float32)


def run(
    loss,
    scores,
    grades,
    sizes=None,
    *,
    order=None,
    change="ndcg",
    places=30,
    normalise=False,
    parameter=1.0,
    factor=1.0,
    weights=NO_WEIGHTS,
    n_threads=2,
):
    """(g, h) of the kernel; one query unless ``sizes`` tell more."""
    scores, grades = np.asarray(scores, np.float32), np.asarray(grades, np.float32)
    n = len(scores)
    order = np.arange(n, dtype=np.int32) if order is None else np.asarray(order, np.int32)
    indptr = np.concatenate(([0], np.cumsum([n] if sizes is None else sizes))).astype(np.int64)
    g, h = np.full(n, 99, np.float32), np.full(n, 99, np.float32)
    _kernels.rank_gradients(
        loss, CHANGES.index(change), places, normalise, parameter, factor, scores, grades,
        order, indptr, np.asarray(weights, np.float32), g, h, n_threads,
    )  # fmt: skip
    return g, h


def make(n=9, seed=0, grades=5):
    rng = np.random.default_rng(seed)
    return rng.normal(size=n).astype(np.float32), rng.integers(0, grades, n).astype(np.float32)


def plain(array):
    return np.asarray(array, np.float64).tolist()


def test_every_loss_is_tested_here():
    assert set(KERNELS[:3]) == set(objectives_of("ranking"))
    assert CHANGES == ("ndcg", "map", "pairwise")


# --- LambdaMART


@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize("places", [1, 3, 30])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("n", [1, 2, 9, 40])
def test_lambdas_are_the_twins(n, change, places, normalise):
    for seed in range(5):
        scores, grades = make(n, seed)
        scores = np.round(scores, 1) if seed % 2 else scores  # ties
        g, h = run(
            "lambdamart", scores, grades, change=change, places=places, normalise=normalise, parameter=1.3
        )
        wanted_g, wanted_h = naive_ranking.lambdas(
            plain(grades), plain(scores), metric=change, places=places, normalise=normalise, sigma=1.3
        )
        np.testing.assert_allclose(g, wanted_g, rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(h, wanted_h, rtol=1e-5, atol=1e-7)


def test_a_pair_by_hand():
    # the worse document is ahead by 1: ρ = 1/(1 + e^-1); exchanging them gives all of what NDCG lacks
    rho = 1 / (1 + math.exp(-1))
    delta = (3 - 0) * (1 - 1 / math.log2(3)) / 3
    g, h = run("lambdamart", [0, 1], [2, 0])
    np.testing.assert_allclose(g, [-rho * delta, rho * delta], rtol=1e-6)
    np.testing.assert_allclose(h, [rho * (1 - rho) * delta] * 2, rtol=1e-6)
    g, h = run("lambdamart", [0, 1], [2, 0], change="pairwise", parameter=2.0)
    rho = 1 / (1 + math.exp(-2))
    np.testing.assert_allclose(g, [-2 * rho, 2 * rho], rtol=1e-6)
    np.testing.assert_allclose(h, [4 * rho * (1 - rho)] * 2, rtol=1e-6)
    # average precision is 1/2 with the relevant one second, 1 with it first
    g, _ = run("lambdamart", [0, 1], [2, 0], change="map")
    np.testing.assert_allclose(g, [-0.5 / (1 + math.exp(-1)), 0.5 / (1 + math.exp(-1))], rtol=1e-6)


def test_normalisation_by_hand():
    # two documents with scores 0 and 1: |ΔZ| is divided by 1.01; then λ by Σ 2λ, times log2(1 + Σ 2λ)
    lam = 1 / (1 + math.exp(-1)) * (1 - 1 / math.log2(3)) / 1.01
    g, _ = run("lambdamart", [0, 1], [2, 0], normalise=True)
    np.testing.assert_allclose(g[1], lam * math.log2(1 + 2 * lam) / (2 * lam), rtol=1e-6)
    # where all scores are equal, as before the first tree, nothing is divided by a distance
    lam = 0.5 * (1 - 1 / math.log2(3))
    g, _ = run("lambdamart", [1, 1], [2, 0], normalise=True)
    np.testing.assert_allclose(g[1], lam * math.log2(1 + 2 * lam) / (2 * lam), rtol=1e-6)


@pytest.mark.parametrize("change", ["ndcg", "map"])
@pytest.mark.parametrize("seed", range(6))
def test_pairs_weigh_what_exchanging_them_changes(change, seed):
    scores, grades = make(7, seed, grades=3 if change == "ndcg" else 2)
    if len(set(grades.tolist())) < 2:
        grades[0] = 1 - grades[0]
    g, _ = run("lambdamart", scores, grades, change=change)
    order = naive_ranking.ranked(plain(scores))
    by_place = [float(grades[i]) for i in order]
    measure = naive_ranking.ndcg if change == "ndcg" else naive_ranking.average_precision
    wanted = np.zeros(7)
    for a, b in itertools.combinations(range(7), 2):
        i, j = order[a], order[b]
        if grades[i] == grades[j]:
            continue
        delta = abs(measure(by_place) - measure(naive_ranking.exchanged(by_place, a, b)))
        high, low = (i, j) if grades[i] > grades[j] else (j, i)
        lam = delta / (1 + math.exp(float(scores[high]) - float(scores[low])))
        wanted[high] -= lam
        wanted[low] += lam
    np.testing.assert_allclose(g, wanted, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("sigma", [0.5, 1.0, 3.0])
def test_pairwise_is_the_slope_and_hessian_of_ranknet(sigma):
    scores, grades = make(8, 4)
    g, h = run("lambdamart", scores, grades, change="pairwise", places=8, parameter=sigma)

    def loss(at):
        return naive_ranking.ranknet_loss(plain(grades), at, sigma)

    np.testing.assert_allclose(g, naive_ranking.slope(loss, plain(scores)), rtol=1e-4, atol=1e-5)
    step = 1e-3
    for i in range(8):
        up, down = plain(scores), plain(scores)
        up[i] += step
        down[i] -= step
        second = (loss(up) - 2 * loss(plain(scores)) + loss(down)) / step**2
        assert h[i] == pytest.approx(second, rel=1e-3, abs=1e-4)


def test_only_pairs_that_reach_the_first_places_count():
    scores, grades = np.array([4, 3, 2, 1], np.float32), np.array([0, 0, 1, 2], np.float32)
    g, _ = run("lambdamart", scores, grades, places=1)
    assert g[1] == 0  # second place, and no pair with the first: same grade
    assert g[0] > 0
    assert (g[2:] < 0).all()
    g, _ = run("lambdamart", scores, grades, places=2)
    assert g[1] > 0


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("apart", [1e3, 1e30])
def test_scores_far_apart_stay_finite(change, apart):
    g, h = run("lambdamart", [apart, 0, -apart], [0, 1, 2], change=change, normalise=True)
    assert np.isfinite(g).all()
    assert np.isfinite(h).all()
    assert (h >= 0).all()
    assert g[2] < 0 < g[0]
    right, _ = run("lambdamart", [apart, 0, -apart], [2, 1, 0], change=change)
    np.testing.assert_allclose(right, 0, atol=1e-6)


# --- GBRank


@pytest.mark.parametrize("margin", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("factor", [1.0, 0.25])
@pytest.mark.parametrize("n", [1, 2, 9, 40])
def test_gbrank_targets_are_the_twins(n, factor, margin):
    for seed in range(5):
        scores, grades = make(n, seed)
        g, h = run("gbrank", scores, grades, parameter=margin, factor=factor)
        seen = (factor * scores.astype(np.float64)).tolist()
        targets = naive_ranking.gbrank_targets(plain(grades), seen, margin)
        np.testing.assert_array_equal(h, [len(own) for own in targets])
        np.testing.assert_allclose(-g, [sum(own) for own in targets], rtol=1e-5, atol=1e-5)


def test_gbrank_by_hand():
    # pairs (better, worse): (0, 1) is far enough apart; (0, 2) and (1, 2) are not
    g, h = run("gbrank", [3.0, 1.0, 2.5], [2, 1, 0], parameter=1.0)
    np.testing.assert_array_equal(h, [1, 1, 2])
    np.testing.assert_array_equal(-g / h, [2.5 + 1, 2.5 + 1, ((3 - 1) + (1 - 1)) / 2])


def test_gbrank_leaves_alone_what_is_in_order():
    g, h = run("gbrank", [3.0, 2.0, 1.0], [2, 1, 0], parameter=1.0)
    assert not g.any()
    assert not h.any()
    # equal scores with no margin are in order too: f(u) < f(v) is wanted for a pair to be wrong
    g, h = run("gbrank", [1.0, 1.0], [1, 0], parameter=0.0)
    assert not h.any()


# --- SmoothDCG


@pytest.mark.parametrize("sigma", [0.1, 0.3, 2.0])
@pytest.mark.parametrize("seed", range(4))
def test_smooth_dcg_is_the_slope_with_the_ranking_held(seed, sigma):
    scores, grades = make(7, seed)
    g, h = run("smoothdcg", scores, grades, parameter=sigma)
    order = naive_ranking.ranked(plain(scores))
    wanted = naive_ranking.slope(
        lambda at: -naive_ranking.smooth_dcg(plain(grades), at, sigma, order), plain(scores)
    )
    assert np.abs(wanted).max() > 1e-3
    np.testing.assert_allclose(g, wanted, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(h, np.abs(g) / (0.5 * math.sqrt(sigma)), rtol=1e-5)


def test_smooth_dcg_tends_to_ndcg():
    scores, grades = make(7, 1)
    by_place = [float(grades[i]) for i in naive_ranking.ranked(plain(scores))]
    assert naive_ranking.smooth_dcg(plain(grades), plain(scores), 1e-6) == pytest.approx(
        naive_ranking.ndcg(by_place)
    )


def test_smooth_dcg_has_no_slope_where_scores_are_equal():
    g, h = run("smoothdcg", [1, 1, 1], [0, 1, 2], parameter=0.3)
    assert not g.any()
    assert not h.any()


@pytest.mark.parametrize("sigma", [1e-300, 1e-10, 1e6])
def test_extreme_widths_stay_finite(sigma):
    for scale in (1.0, 1e18):
        g, h = run("smoothdcg", np.array([1, 0, -1]) * scale, [0, 1, 2], parameter=sigma)
        assert np.isfinite(g).all()
        assert np.isfinite(h).all()


def test_squared_gains_by_hand():
    g, h = run("squared-gains", [0.5, 0.5, 0.5], [0, 1, 2])
    np.testing.assert_allclose(g, [0.5, 0.5 - 1 / 3, 0.5 - 1], rtol=1e-6)
    np.testing.assert_array_equal(h, 1)


# --- queries


@pytest.mark.parametrize("loss", KERNELS)
@pytest.mark.parametrize("grades", [[2], [0], [0, 0, 0, 0], [1, 1, 1, 1], [3, 3, 3, 3, 3, 3, 3]], ids=str)
def test_queries_without_a_better_order_ask_for_nothing(loss, grades):
    scores = np.random.default_rng(0).normal(size=len(grades))
    for change in CHANGES if loss == "lambdamart" else ("ndcg",):
        g, h = run(loss, scores, grades, change=change, normalise=True)
        assert not g.any()
        assert not h.any()


def test_without_a_relevant_document_average_precision_asks_for_nothing_and_pairs_of_grades_do():
    # grade 1 against 2 does not matter to average precision, which only knows relevant or not
    g, _ = run("lambdamart", [0, 1], [2, 1], change="map")
    assert not g.any()
    g, _ = run("lambdamart", [0, 1], [2, 1], change="pairwise")
    assert g[0] < 0 < g[1]


@pytest.mark.parametrize("loss", KERNELS)
@pytest.mark.parametrize("weighted", [False, True])
def test_queries_do_not_see_each_other(loss, weighted):
    rng = np.random.default_rng(3)
    sizes = [*rng.integers(0, 12, 60).tolist(), 0]
    n = sum(sizes)
    scores, grades = make(n, 5)
    order = rng.permutation(n)
    weights = rng.choice([0, 0.5, 1, 3], len(sizes)) if weighted else NO_WEIGHTS
    g, h = run(loss, scores, grades, sizes, order=order, weights=weights, normalise=True)
    at = 0
    for q, size in enumerate(sizes):
        rows = order[at : at + size]
        at += size
        own_g, own_h = run(loss, scores[rows], grades[rows], normalise=True)
        weight = np.float32(weights[q]) if weighted else np.float32(1)
        np.testing.assert_allclose(g[rows], weight * own_g, rtol=1e-6)
        np.testing.assert_allclose(h[rows], weight * own_h, rtol=1e-6)


@pytest.mark.parametrize("loss", KERNELS)
def test_threads_change_nothing(loss):
    scores, grades = make(3_000, 2)
    sizes = [30] * 100
    one = run(loss, scores, grades, sizes, normalise=True, n_threads=1)
    for n_threads in (0, 2, 3, 8):
        for found, wanted in zip(
            run(loss, scores, grades, sizes, normalise=True, n_threads=n_threads), one, strict=True
        ):
            np.testing.assert_array_equal(found, wanted)


def test_bad_arguments_are_refused():
    scores, grades = make(4)
    with pytest.raises(ValueError, match="order: no such row"):
        run("gbrank", scores, grades, order=[0, 1, 2, 4])
    with pytest.raises(ValueError, match="order: no such row"):
        run("gbrank", scores, grades, order=[0, 1, 2, -1])
    with pytest.raises(ValueError, match="order: every row once"):
        run("gbrank", scores, grades, order=[0, 1, 2])
    with pytest.raises(ValueError, match="indptr"):
        run("gbrank", scores, grades, [3])
    with pytest.raises(ValueError, match="indptr"):
        run("gbrank", scores, grades, [5, -1])
    with pytest.raises(ValueError, match="weights: must have one entry per query"):
        run("gbrank", scores, grades, weights=[1, 2])
    with pytest.raises(ValueError, match="grades, g, h"):
        run("gbrank", scores, grades[:3])
    indptr, out = np.array([0, 4]), np.empty(4, np.float32)
    order = np.arange(4, dtype=np.int32)
    for loss, change in (("rank", 0), ("", 0), ("lambdamart", 3), ("lambdamart", -1)):
        with pytest.raises(ValueError, match="unknown"):
            _kernels.rank_gradients(
                loss, change, 3, False, 1.0, 1.0, scores, grades, order, indptr, NO_WEIGHTS, out, out, 1
            )


def test_steps_of_gbrank_are_the_gradient_of_the_squared_hinge():
    scores, grades = make(8, seed=3)

    def loss(f):
        pairs = [(u, v) for u in range(8) for v in range(8) if grades[u] > grades[v]]
        return 0.5 * sum(max(0.0, f[v] - f[u] + 0.7) ** 2 for u, v in pairs)

    g, h = run("gbrank-steps", scores, grades, parameter=0.7)
    f = scores.astype(np.float64)
    for i in range(8):
        step = np.eye(8)[i] * 1e-5
        assert g[i] == pytest.approx((loss(f + step) - loss(f - step)) / 2e-5, abs=1e-4)
    assert h.tolist() == run("gbrank", scores, grades, parameter=0.7)[1].tolist()
