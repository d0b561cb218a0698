"""Metrics of rankings: twins, numbers by hand, scikit-learn where definitions coincide."""

import math

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, ndcg_score, roc_auc_score

import naive_ranking
from sparseleaf.ranking import (
    average_precision,
    evaluate,
    make_queries,
    ndcg,
    pairwise_accuracy,
    reciprocal_rank,
)


def make(seed=0, ties=False):
    """Grades, scores and queries of 1 to 20 documents, rows in any order."""
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(30), rng.integers(1, 20, 30))
    rng.shuffle(qid)
    grades = rng.integers(0, 5, len(qid)) * (rng.random(len(qid)) < 0.5)
    grades[qid == 3] = 0
    grades[qid == 4] = 2
    scores = rng.normal(size=len(qid))
    return grades, np.round(scores) if ties else scores, qid


def by_query(qid):
    return [np.flatnonzero(qid == name) for name in dict.fromkeys(qid.tolist())]


TWINS = {
    "ndcg@1": (lambda *a: ndcg(*a, k=1), lambda grades: naive_ranking.ndcg(grades, 1)),
    "ndcg@5": (lambda *a: ndcg(*a, k=5), lambda grades: naive_ranking.ndcg(grades, 5)),
    "ndcg": (ndcg, naive_ranking.ndcg),
    "map": (average_precision, naive_ranking.average_precision),
    "mrr": (reciprocal_rank, naive_ranking.reciprocal_rank),
}


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("name", TWINS)
def test_metrics_are_the_twins(name, ties):
    measure, twin = TWINS[name]
    grades, scores, qid = make(1, ties)
    found = measure(grades, scores, qid)
    assert len(found) == 30
    for value, rows in zip(found, by_query(qid), strict=True):
        worst_first = sorted(grades[rows].tolist())
        order = naive_ranking.ranked(scores[rows][np.argsort(grades[rows], kind="stable")].tolist())
        wanted = twin([worst_first[i] for i in order])
        assert math.isnan(value) if wanted is None else value == pytest.approx(wanted)
    assert np.isnan(found).any()


@pytest.mark.parametrize("ties", [False, True])
def test_pairwise_accuracy_is_the_twin(ties):
    grades, scores, qid = make(2, ties)
    found = pairwise_accuracy(grades, scores, qid)
    for value, rows in zip(found, by_query(qid), strict=True):
        wanted = naive_ranking.pairwise_accuracy(grades[rows].tolist(), scores[rows].tolist())
        assert math.isnan(value) if wanted is None else value == pytest.approx(wanted)


def test_by_hand():
    # ranked: 0, 2, 1; the best order is 2, 1, 0
    grades, scores, qid = [2, 0, 1], [0.5, 0.9, 0.1], [0, 0, 0]
    ideal = 3 + 1 / math.log2(3)
    assert ndcg(grades, scores, qid).tolist() == pytest.approx([(3 / math.log2(3) + 1 / 2) / ideal])
    assert ndcg(grades, scores, qid, k=1).tolist() == [0]
    assert average_precision(grades, scores, qid).tolist() == pytest.approx([(1 / 2 + 2 / 3) / 2])
    assert reciprocal_rank(grades, scores, qid).tolist() == [0.5]
    assert pairwise_accuracy(grades, scores, qid).tolist() == pytest.approx([1 / 3])


@pytest.mark.parametrize("k", [1, 3, None])
def test_scikit_learn_agrees(k):
    grades, scores, qid = make(5)
    found = ndcg(grades, scores, qid, k=k)
    precision = average_precision(grades, scores, qid)
    pairs = pairwise_accuracy(grades > 0, scores, qid)
    compared = 0
    for q, rows in enumerate(by_query(qid)):
        relevant = grades[rows] > 0
        if len(rows) < 2 or not relevant.any():
            continue
        gains = 2.0 ** grades[rows] - 1  # scikit-learn's gains are linear
        assert found[q] == pytest.approx(ndcg_score([gains], [scores[rows]], k=k))
        assert precision[q] == pytest.approx(average_precision_score(relevant, scores[rows]))
        if not relevant.all():
            assert pairs[q] == pytest.approx(roc_auc_score(relevant, scores[rows]))
        compared += 1
    assert compared > 15


def test_evaluate_takes_means_over_the_queries_that_count():
    grades, scores, qid = make(3)
    found = evaluate(grades, scores, qid, k=(1, 7))
    assert list(found) == ["ndcg@1", "ndcg@7", "map", "mrr", "pairwise"]
    assert found["ndcg@7"] == pytest.approx(np.nanmean(ndcg(grades, scores, qid, k=7)))
    assert found["map"] == pytest.approx(np.nanmean(average_precision(grades, scores, qid)))
    assert found["mrr"] == pytest.approx(np.nanmean(reciprocal_rank(grades, scores, qid)))
    assert found["pairwise"] == pytest.approx(np.nanmean(pairwise_accuracy(grades, scores, qid)))
    perfect = evaluate(grades, grades, qid)
    assert all(value == pytest.approx(1) for value in perfect.values())
    assert all(math.isnan(value) for value in evaluate(np.zeros(len(qid)), scores, qid).values())


def test_groups_do_as_well():
    grades, scores, qid = make(4)
    order = np.argsort(qid, kind="stable")
    sizes = np.bincount(qid)
    found = ndcg(grades[order], scores[order], group=sizes, k=5)
    names = make_queries(len(qid), qid).ids
    np.testing.assert_array_equal(found[names], ndcg(grades, scores, qid, k=5))
    with_empty = ndcg(grades[order], scores[order], group=np.concatenate(([0], sizes, [0])), k=5)
    np.testing.assert_array_equal(with_empty[1:-1], found)
    assert np.isnan(with_empty[[0, -1]]).all()


def test_ties_do_not_depend_on_the_order_of_rows():
    assert reciprocal_rank([1, 0], [0, 0], [0, 0]).tolist() == [0.5]
    assert reciprocal_rank([0, 1], [0, 0], [0, 0]).tolist() == [0.5]
    assert pairwise_accuracy([0, 1], [0, 0], [0, 0]).tolist() == [0.5]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "y must be an array of numbers. Got None"),
        ([0, 1], r"y must have shape \(3,\).* Got \(2,\)"),
        ([[0, 1], [1, 2], [0, 0]], r"y must have shape .* Got \(3, 2\)"),
        ([0, 1, -1], r"y must have grades in the range \[0, 30\]"),
        ([0, 1, 31], r"y must have grades in the range \[0, 30\]"),
        ([0, 1, np.nan], "y must not have missing or infinite grades"),
        ([0, 1, np.inf], "y must not have missing or infinite grades"),
        (["a", "b", "c"], "y must be an array of numbers"),
        ([[1], [1, 2], []], "y must be an array of numbers"),
    ],
)
def test_bad_grades_are_told(y, message):
    for measure in (ndcg, average_precision, reciprocal_rank, pairwise_accuracy):
        with pytest.raises(ValueError, match=message):
            measure(y, [1, 2, 3], [0, 0, 0])


@pytest.mark.parametrize("scores", [[0, np.nan, 1], [0, np.inf, 1], ["a", "b", "c"]])
def test_bad_scores_are_told(scores):
    with pytest.raises(ValueError, match="scores must"):
        ndcg([0, 1, 2], scores, [0, 0, 0])


@pytest.mark.parametrize("k", [0, -1, 1.5])
def test_bad_depths_are_told(k):
    with pytest.raises(ValueError, match=r"'k' parameter must be an int >= 1 or None. Got"):
        ndcg([0, 1], [0, 1], [0, 0], k=k)
