"""Metrics on lists of label names: the same numbers as on matrices, and clear errors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import f1_score, recall_score

from sparseleaf import SketchForestClassifier
from sparseleaf.data import make_xc
from sparseleaf.metrics import (
    evaluate,
    f1_at_k,
    ndcg_at_k,
    precision_at_k,
    propensities,
    psndcg_at_k,
    psp_at_k,
    recall_at_k,
    scorers,
)

NAMES = [f"label {i}" for i in range(8)]
ROWS = st.lists(st.lists(st.integers(0, 7), unique=True, max_size=5), min_size=1, max_size=6)
PLAIN = [precision_at_k, recall_at_k, f1_at_k, ndcg_at_k]


def matrix_of(rows):
    matrix = np.zeros((len(rows), len(NAMES)), np.int64)
    for line, row in zip(matrix, rows, strict=True):
        line[row] = 1
    return matrix


def named(rows):
    return [[NAMES[i] for i in row] for row in rows]


@given(ROWS, st.integers(1, 5), st.randoms(use_true_random=False))
def test_names_score_as_ids(truth, k, random):
    rankings = [random.sample(range(8), random.randint(0, 5)) for _ in truth]
    ids = np.full((len(truth), 5), -1)
    for line, ranking in zip(ids, rankings, strict=True):
        line[: len(ranking)] = ranking
    truth = [*truth, [0]]  # at least one label, so that there are names
    rankings, ids = [*rankings, []], np.vstack([ids, np.full((1, 5), -1)])
    for metric in PLAIN:
        assert metric(named(truth), named(rankings), k) == pytest.approx(metric(matrix_of(truth), ids, k))
    trained, by_name = propensities(matrix_of(truth)), propensities(named(truth))
    for metric in (psp_at_k, psndcg_at_k):
        wanted = metric(matrix_of(truth), ids, trained, k)
        assert metric(named(truth), named(rankings), by_name, k) == pytest.approx(wanted)


@given(ROWS, st.randoms(use_true_random=False))
def test_f1_and_recall_are_scikit_learns(truth, random):
    rankings = [random.sample(range(8), 3) for _ in truth]
    Y, chosen = matrix_of(truth), matrix_of(rankings)
    how = {"average": "samples", "zero_division": 0}
    assert f1_at_k(Y, np.array(rankings), 3) == pytest.approx(f1_score(Y, chosen, **how))
    assert recall_at_k(Y, np.array(rankings), 3) == pytest.approx(recall_score(Y, chosen, **how))


def test_results_of_predict_topk_and_scorers():
    X, Y = make_xc(120, 30, 8, labels_per_row=2, nnz_per_row=6)
    lists = named([Y[i].indices for i in range(Y.shape[0])])
    clf = SketchForestClassifier(n_trees=3, rerank=None).fit(X, lists)
    found = clf.predict_topk(X, k=5)
    ids, _ = SketchForestClassifier(n_trees=3, rerank=None).fit(X, Y).predict_topk(X, k=5)
    for metric, name in zip(PLAIN, ("precision", "recall", "f1", "ndcg"), strict=True):
        assert metric(lists, found, 3) == metric(lists, found[0], 3) == metric(Y, ids, 3)
        assert scorers[f"{name}@3"](clf, X, lists) == metric(lists, found, 3)
    assert precision_at_k(Y, (ids, found[1]), 3) == precision_at_k(Y, ids, 3)
    scores = evaluate(lists, found, propensities(lists))
    assert scores["psp@5"] == psp_at_k(Y, ids, propensities(Y), 5)


def test_integer_names_sets_and_arrays():
    assert precision_at_k([{7, 9}, {12}], [[7, 3], [12]], 1) == 1
    assert precision_at_k([[7, 9], [12]], np.array([[7, 3], [4, -1]]), 1) == 0.5
    assert recall_at_k(np.array([["a", "b"]], object), np.array([["a", None]], object), 2) == 0.5
    assert precision_at_k([["a"], []], [["a"], []], 1) == 0.5


def test_labels_that_are_not_in_the_training_set_have_a_propensity():
    trained = propensities([["a"], ["a", "b"], ["a"], ["a"]])
    assert set(trained) == {"a", "b"}
    assert trained["new"] == trained.unseen < trained["b"]
    assert psp_at_k([["new", "a"]], [["new", "a"]], trained, 2) == 1
    with pytest.raises(ValueError, match=r"must have every label. Got none for 'new'"):
        psp_at_k([["new"]], [["new"]], {"a": 0.5}, 1)


WRONG = {
    "ids": (([["a"]], [[0]]), TypeError, "must have labels such as 'a', as Y_true. Got 0 instead"),
    "scores": (
        ([["a"]], np.ones((1, 1))),
        TypeError,
        "Got a matrix of scores instead; use the result of predict_topk",
    ),
    "rows": (([["a"]], [["a"], ["b"]]), ValueError, "must have 1 rows, as Y_true. Got 2 instead"),
    "twice": (([["a"]], [["b", "b"]]), ValueError, "distinct labels per row. Got 'b' twice in row 0"),
    "text": (([["a"]], ["a"]), TypeError, "must be lists of label names, best first"),
    "names beside a matrix": (
        ([[1, 0]], [["a", "b"]]),
        TypeError,
        "label names require lists of names as Y_true",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_errors(case):
    arguments, error, message = WRONG[case]
    with pytest.raises(error, match=message):
        precision_at_k(*arguments, k=2 if case == "twice" else 1)


def test_propensities_of_another_form():
    with pytest.raises(TypeError, match="'propensity' parameter must be a mapping from label names"):
        psp_at_k([["a"]], [["a"]], [0.5], 1)
    with pytest.raises(TypeError, match="'propensity' parameter must be an array"):
        psp_at_k([[1, 0]], [[0]], {"a": 0.5}, 1)
