"""Ranking losses as the boosting loop meets them: what changes from round to round, and which rows belong together."""

import numpy as np
import pytest

import naive_ranking
from sparseleaf.objectives import ranking_objective
from sparseleaf.objectives.targets import NO_CLASSES, NO_VALUES, DenseTargets
from sparseleaf.ranking import make_queries

GRADES = np.array([0, 2, 1, 0, 1, 3], np.float32)
QID = np.array([7, 7, 7, 5, 5, 5])


def gradients(loss, scores, grades=GRADES):
    targets = DenseTargets(np.asarray(grades, np.float32)[:, None], NO_CLASSES, NO_VALUES, 1)
    g, h = np.empty((len(grades), 1), np.float32), loss.hessian_room(targets, (len(grades), 1))
    largest = loss.gradients(targets, np.asarray(scores, np.float32)[:, None], g, h, 2)
    return g[:, 0], h[:, 0], largest


@pytest.mark.parametrize("name", ["lambdamart", "gbrank", "smoothdcg"])
def test_the_largest_of_both_is_told(name):
    loss = ranking_objective(name)(make_queries(6, QID), 0.7)
    g, h, (largest_g, largest_h) = gradients(loss, np.linspace(-1, 1, 6))
    assert largest_g.tolist() == [np.abs(g).max()]
    assert largest_h.tolist() == [h.max()]
    assert largest_g[0] > 0


@pytest.mark.parametrize("round_number", [0, 1, 2, 9])
def test_gbrank_sees_the_mean_of_the_trees_so_far(round_number):
    # f_t = (t · f_{t-1} + g_t)/(t + 1), step by step, from the trees' own outputs
    rng = np.random.default_rng(0)
    trees = rng.normal(size=(round_number, 6))
    f = np.zeros(6)
    for t, tree in enumerate(trees, start=1):
        f = (t * f + tree) / (t + 1)
    loss = ranking_objective("gbrank")(make_queries(6, QID), 1.0).at(round_number)
    g, h, _ = gradients(loss, trees.sum(axis=0))
    for rows in (slice(0, 3), slice(3, 6)):
        targets = naive_ranking.gbrank_targets(GRADES[rows].tolist(), f[rows].tolist(), 1.0)
        assert h[rows].tolist() == [len(own) for own in targets]
        np.testing.assert_allclose(-g[rows], [sum(own) for own in targets], rtol=1e-5, atol=1e-6)


def test_smooth_dcg_starts_with_the_gains_themselves():
    loss = ranking_objective("smoothdcg")(make_queries(6, QID), 0.3, start_rounds=2)
    assert [loss.at(t).kernel for t in range(4)] == ["squared-gains"] * 2 + ["smoothdcg"] * 2
    g, h, _ = gradients(loss.at(0), np.zeros(6))
    np.testing.assert_allclose(-g, [0, 1, 1 / 3, 0, 1 / 7, 1], rtol=1e-6)
    assert (h == 1).all()


def test_lambdamart_is_the_same_in_every_round():
    loss = ranking_objective("lambdamart")(make_queries(6, QID))
    assert loss.at(0) is loss
    assert loss.at(99) is loss


def test_weights_multiply_queries_in_order_of_first_appearance():
    scores = np.linspace(-1, 1, 6)
    plain, _, _ = gradients(ranking_objective("lambdamart")(make_queries(6, QID)), scores)
    weighted, _, _ = gradients(
        ranking_objective("lambdamart")(make_queries(6, QID, weights=[2.0, 0.5])), scores
    )
    np.testing.assert_allclose(weighted, plain * np.repeat([2.0, 0.5], 3), rtol=1e-6)


def test_it_starts_at_0_and_scores_are_what_they_are():
    loss = ranking_objective("lambdamart")(make_queries(6, QID))
    assert loss.base_score(None).tolist() == [0]
    scores = np.ones((6, 1), np.float32)
    assert loss.link.apply(scores) is scores


# --- queries


def test_queries_are_in_order_of_first_appearance():
    queries = make_queries(7, np.array(["b", "a", "b", "c", "a", "b", "a"]))
    assert queries.ids.tolist() == ["b", "a", "c"]
    assert queries.indptr.tolist() == [0, 3, 6, 7]
    assert queries.order.tolist() == [0, 2, 5, 1, 4, 6, 3]
    assert queries.of_rows().tolist() == [0, 1, 0, 2, 1, 0, 1]
    assert queries.n_queries == 3
    assert (queries.order.dtype, queries.indptr.dtype) == (np.int32, np.int64)


def test_groups_of_no_rows_keep_their_place():
    queries = make_queries(5, group=[0, 3, 0, 2, 0], weights=[9, 1, 9, 2, 9])
    assert queries.ids.tolist() == [0, 1, 2, 3, 4]
    assert queries.indptr.tolist() == [0, 0, 3, 3, 5, 5]
    assert queries.weights.tolist() == [9, 1, 9, 2, 9]
    assert queries.of_rows().tolist() == [1, 1, 1, 3, 3]
    by_row = make_queries(5, group=[0, 3, 0, 2, 0, 0], weights=[1, 1, 1, 2, 2])
    assert by_row.weights[[1, 3]].tolist() == [1, 2]


@pytest.mark.parametrize("weights", [[3, 1, 2], [3, 1, 3, 2, 1]])
def test_weights_are_one_a_query_or_the_same_in_all_its_rows(weights):
    queries = make_queries(5, [8, 4, 8, 6, 4], weights=weights)
    assert queries.weights.tolist() == [3, 1, 2]


@pytest.mark.parametrize("dtype", [np.int8, np.uint64, np.float64, "U3", "S3", object, "datetime64[D]", bool])
def test_queries_may_be_called_anything(dtype):
    names = np.array([1, 0, 1, 0]).astype(dtype)
    queries = make_queries(4, names)
    assert queries.of_rows().tolist() == [0, 1, 0, 1]


BAD = {
    "neither": ({}, "Either 'qid' or 'group' must be given"),
    "both": ({"qid": QID, "group": [3, 3]}, "Either 'qid' or 'group' must be given"),
    "short": ({"qid": QID[:5]}, r"'qid' parameter must have shape \(6,\). Got \(5,\)"),
    "two columns": ({"qid": np.zeros((6, 2))}, r"'qid' parameter must have shape .* Got \(6, 2\)"),
    "NaN": ({"qid": [1, 1, 2, 2, np.nan, 3]}, "'qid' parameter must not have missing or infinite"),
    "infinity": ({"qid": [1, 1, 2, 2, np.inf, 3]}, "'qid' parameter must not have missing or infinite"),
    "no time": ({"qid": np.array(["NaT"] * 6, "datetime64[D]")}, "'qid' parameter must not have missing or infinite"),
    "None": ({"qid": np.array(["a", "b", None, "a", "b", "a"], object)}, "must be all str or all integers. Got None"),
    "mixed": ({"qid": np.array(["a", "b", 3, "a", "b", "a"], object)}, "must be all str or all integers. Got 3"),
    "sum": ({"group": [3, 2]}, r"'group' parameter must be integers >= 0 that sum to 6.* Got \[3, 2\]"),
    "negative": ({"group": [7, -1]}, "'group' parameter must be integers"),
    "shares": ({"group": [3.0, 3.0]}, "'group' parameter must be integers"),
    "table": ({"group": [[3, 3]]}, "'group' parameter must be integers"),
    "nothing": ({"group": []}, "'group' parameter must be integers"),
    "weights, number": ({"qid": QID, "weights": [1, 2, 3]}, r"must have shape \(2,\), one .* Got \(3,\)"),
    "weights, one": ({"qid": QID, "weights": 3.0}, r"must have shape .* Got \(\)"),
    "weights, differ": ({"qid": QID, "weights": [1, 1, 2, 1, 1, 1]}, "'sample_weight' parameter must be constant"),
    "weights, negative": ({"qid": QID, "weights": [1, -1]}, "'sample_weight' parameter must be >= 0, finite"),
    "weights, NaN": ({"qid": QID, "weights": [1, np.nan]}, "'sample_weight' parameter must be >= 0, finite"),
    "weights, infinite": ({"qid": QID, "weights": [1, np.inf]}, "'sample_weight' parameter must be >= 0, finite"),
    "weights, beyond float32": ({"qid": QID, "weights": [1, 1e300]}, "'sample_weight' parameter must be >= 0, finite"),
    "weights, zero": ({"qid": QID, "weights": [0, 0]}, "not all zero"),
    "weights, text": ({"qid": QID, "weights": ["a", "b"]}, "sample_weight must be an array of numbers"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_told(case):
    given, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        make_queries(6, **given)
