import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score, precision_score, recall_score

import naive
from sparseleaf import metrics
from sparseleaf._spelling import current_name
from sparseleaf.metrics import (
    evaluate,
    ndcg_at_k,
    precision_at_k,
    propensities,
    psndcg_at_k,
    psp_at_k,
    recall_at_k,
)

# Three rows: two labels, none, one.
Y = np.array([[1, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 1]])
IDS = np.array([[2, 1, 0], [0, 1, 2], [1, 3, -1]])
P = np.array([0.5, 1.0, 0.25, 0.2])  # worth 2, 1, 4, 5
LOG3 = 1 / math.log2(3)


# --- by hand


@pytest.mark.parametrize(("k", "expected"), [(1, 1 / 3), (2, 2 / 6), (3, 3 / 9)])
def test_precision_by_hand(k, expected):
    assert precision_at_k(Y, IDS, k) == pytest.approx(expected)


@pytest.mark.parametrize(("k", "expected"), [(1, 0.5 / 3), (2, 1.5 / 3), (3, 2 / 3)])
def test_recall_by_hand(k, expected):
    assert recall_at_k(Y, IDS, k) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("k", "expected"),
    [(1, 1 / 3), (2, (1 / (1 + LOG3) + LOG3) / 3), (3, (1.5 / (1 + LOG3) + LOG3) / 3)],
)
def test_ndcg_by_hand(k, expected):
    assert ndcg_at_k(Y, IDS, k) == pytest.approx(expected)


@pytest.mark.parametrize(("k", "expected"), [(1, 4 / 9), (2, 9 / 11), (3, 11 / 11)])
def test_psp_by_hand(k, expected):
    assert psp_at_k(Y, IDS, P, k) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("k", "expected"),
    [
        (1, 4 / 9),
        (2, (4 / (1 + LOG3) + 5 * LOG3) / ((4 + 2 * LOG3) / (1 + LOG3) + 5)),
        (3, (5 / (1 + LOG3) + 5 * LOG3) / ((4 + 2 * LOG3) / (1 + LOG3) + 5)),
    ],
)
def test_psndcg_by_hand(k, expected):
    assert psndcg_at_k(Y, IDS, P, k) == pytest.approx(expected)


def test_ratio_of_means_is_not_a_mean_of_ratios():
    truth = [[1, 0], [0, 1]]
    assert psp_at_k(truth, [[0], [0]], [1.0, 0.25], k=1) == pytest.approx(1 / 5)


def test_propensities_by_hand():
    train = np.zeros((8, 3))
    train[:4, 0] = 1
    train[:, 1] = 1
    C = (math.log(8) - 1) * 2.5**0.55
    expected = [1 / (1 + C * (count + 1.5) ** -0.55) for count in (4, 8, 0)]
    assert propensities(train) == pytest.approx(expected, rel=1e-14)
    assert propensities(train).dtype == np.float64
    assert propensities(sp.csr_matrix(train), A=0.6, B=2.6) == pytest.approx(
        naive.propensities(train, 0.6, 2.6)
    )


@pytest.mark.parametrize("n", [1, 2])
def test_propensities_of_tiny_sets_are_one(n):
    assert propensities(np.eye(n, 3)).tolist() == [1, 1, 1]


# --- forms of input


def test_all_forms_of_a_ranking_agree():
    scores = np.array([[0.1, 0.9, 0.5], [0.3, 0.2, 0.1]])
    truth = np.array([[0, 1, 1], [0, 1, 0]])
    ids = [[1, 2], [0, 1]]
    forms = [
        ids,
        np.array(ids, dtype=np.uint32),
        scores,
        scores.astype(np.float32),
        sp.csr_matrix(scores),
        sp.coo_array(scores),
        sp.csc_matrix(scores),
    ]
    for predicted in forms:
        for Y_true in (truth, truth.astype(bool), sp.csr_array(truth), sp.csc_matrix(truth.astype(float))):
            assert precision_at_k(Y_true, predicted, 2) == 0.75


def test_equal_scores_go_to_the_lower_label():
    truth = [[0, 1, 1, 0, 0]]
    scores = np.array([[0.0, 0.5, 0.5, 0.5, 0.5]])
    for predicted in (scores, sp.csr_array(scores)):
        assert precision_at_k(truth, predicted, 1) == 1
        assert precision_at_k(truth, predicted, 2) == 1
        assert precision_at_k(truth, predicted, 4) == 0.5


def test_only_stored_scores_are_candidates():
    # A stored 0 and a negative score are predictions; what is not stored is none.
    scores = sp.csr_array((np.array([0.0, -1.0]), np.array([2, 1]), np.array([0, 2])), shape=(1, 4))
    assert precision_at_k([[1, 0, 0, 0]], scores, 4) == 0
    assert precision_at_k([[0, 0, 1, 0]], scores, 1) == 1
    assert recall_at_k([[0, 1, 1, 0]], scores, 2) == 1


def test_infinite_scores_are_ordered():
    assert precision_at_k([[0, 1, 0]], np.array([[-np.inf, np.inf, 3.0]]), 1) == 1


def test_unsorted_duplicated_and_zero_entries():
    data, indices, indptr = np.array([1.0, 0.0, 1.0]), np.array([3, 1, 0]), np.array([0, 3])
    truth = sp.csr_matrix((data, indices, indptr), shape=(1, 4))
    assert precision_at_k(truth, [[0, 3, 1]], 3) == pytest.approx(2 / 3)
    assert recall_at_k(truth, [[0, 3, 1]], 3) == 1
    assert truth.indices.tolist() == [3, 1, 0]  # the caller's matrix stays as it was
    scores = sp.csr_matrix((np.array([2.0, 3.0, 2.0]), np.array([1, 0, 1]), indptr), shape=(1, 4))
    assert precision_at_k([[0, 1, 0, 0]], scores, 1) == 1  # 2 + 2 beats 3
    assert scores.indices.tolist() == [1, 0, 1]


def test_padding_does_not_hit_the_last_label_of_the_row_before():
    assert precision_at_k([[0, 0, 1], [1, 0, 0]], [[0], [-1]], 1) == 0


def test_no_labels_at_all_gives_zeros():
    assert set(evaluate(np.zeros((2, 3)), [[0, 1], [2, 1]], np.ones(3), ks=(1, 2)).values()) == {0.0}


def test_depth_may_exceed_the_number_of_labels_of_a_score_matrix():
    assert precision_at_k([[1, 1]], np.array([[0.2, 0.1]]), 10**12) == pytest.approx(2e-12)
    assert ndcg_at_k([[1, 1]], np.array([[0.2, 0.1]]), 10**12) == 1


def test_evaluate_names_order_and_unit():
    assert list(evaluate(Y, IDS, ks=(1, 3))) == ["precision@1", "precision@3", "ndcg@1", "ndcg@3"]
    ids = np.pad(IDS, ((0, 0), (0, 2)), constant_values=-1)
    result = evaluate(Y, ids, P)
    assert list(result) == [
        f"{name}@{k}" for name in ("precision", "ndcg", "psp", "psndcg") for k in (1, 3, 5)
    ]
    assert all(type(value) is float for value in result.values())
    assert result["precision@3"] == pytest.approx(precision_at_k(Y, ids, 3))
    assert result["ndcg@5"] == pytest.approx(ndcg_at_k(Y, ids, 5))
    assert result["psp@1"] == pytest.approx(psp_at_k(Y, ids, P, 1))
    assert result["psndcg@3"] == pytest.approx(psndcg_at_k(Y, ids, P, 3))


def test_former_names_answer_in_percent():
    result = evaluate(Y, IDS, P, ks=(1, 3))
    for former, name in (
        ("P@1", "precision@1"),
        ("nDCG@3", "ndcg@3"),
        ("PSP@3", "psp@3"),
        ("PSnDCG@1", "psndcg@1"),
    ):
        with pytest.warns(
            FutureWarning, match=f"The metric '{former}' was renamed to '{name}', which is a fraction"
        ):
            assert result[former] == 100 * result[name]
    for name in ("P@2", "precision@2", "loss"):
        with pytest.raises(KeyError, match=name):
            result[name]


@pytest.mark.parametrize(("former", "name"), [
    ("P@1", "precision@1"), ("valid nDCG@10", "valid ndcg@10"), ("valid_0 PSP@5", "valid_0 psp@5"),
    ("PSnDCG", "psndcg"), ("valid loss", "valid loss"), ("MAP@5", "MAP@5"), ("precision@1", "precision@1"),
    ("P@", "P@"), ("my P value", "my P value"),
])  # fmt: skip
def test_names_of_the_last_release(former, name):
    assert current_name(former) == name


def test_a_million_labels():
    n, n_labels = 1000, 1_000_000
    rng = np.random.default_rng(0)
    truth = sp.csr_array((np.ones(n), rng.integers(n_labels, size=n), np.arange(n + 1)), shape=(n, n_labels))
    ids = np.column_stack([truth.indices, (truth.indices + 1) % n_labels])
    result = evaluate(truth, ids, propensities(truth), ks=(1, 2))
    assert result["precision@2"] == 0.5
    assert result["psndcg@2"] == 1


# --- agreement with the twin and with scikit-learn


@st.composite
def cases(draw):
    n, n_labels, k = draw(st.integers(1, 8)), draw(st.integers(1, 9)), draw(st.integers(1, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    truth = rng.random((n, n_labels)) < draw(st.sampled_from([0.0, 0.2, 0.5, 1.0]))
    scores = rng.integers(-2, 4, size=(n, n_labels)).astype(float)  # few values, so many ties
    missing = rng.random((n, n_labels)) < draw(st.sampled_from([0.0, 0.4, 1.0]))
    return truth.astype(int), scores, missing, k


@settings(deadline=None)
@given(cases(), st.sampled_from([1, 3, metrics._BLOCK]))
def test_agrees_with_the_twin(case, block):
    truth, scores, missing, k = case
    sparse = sp.csr_array((scores[~missing], np.nonzero(~missing)), shape=scores.shape)
    ids_dense = naive.metrics_ranking(scores, k)
    ids_sparse = naive.metrics_ranking(np.where(missing, np.nan, scores), k)
    p = naive.propensities(truth, 0.55, 1.5)
    assert propensities(truth) == pytest.approx(p)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metrics, "_BLOCK", block)
        for predicted, ids in (
            (scores, ids_dense),
            (sparse, ids_sparse),
            (ids_sparse, ids_sparse),
            (np.pad(ids_sparse, ((0, 0), (0, 2)), constant_values=-1), ids_sparse),
        ):
            for name in ("precision_at_k", "recall_at_k", "ndcg_at_k"):
                expected = getattr(naive, name)(truth, ids, k)
                assert getattr(metrics, name)(sp.csr_array(truth), predicted, k) == pytest.approx(expected)
            for name in ("psp_at_k", "psndcg_at_k"):
                expected = getattr(naive, name)(truth, ids, p, k)
                value = getattr(metrics, name)(sp.csr_array(truth), predicted, p, k)
                assert value == pytest.approx(expected)
                assert 0 <= value <= 1


@pytest.mark.parametrize("k", [1, 3, 5, 12])
def test_agrees_with_scikit_learn(k):
    rng = np.random.default_rng(k)
    truth = (rng.random((40, 12)) < 0.25).astype(int)
    truth[3] = 0
    scores = rng.permuted(np.tile(np.arange(12.0), (40, 1)), axis=1)
    chosen = scores >= 12 - k
    assert ndcg_at_k(truth, scores, k) == pytest.approx(ndcg_score(truth, scores, k=k))
    samples = {"average": "samples", "zero_division": 0}
    assert precision_at_k(truth, scores, k) == pytest.approx(precision_score(truth, chosen, **samples))
    assert recall_at_k(truth, scores, k) == pytest.approx(recall_score(truth, chosen, **samples))


def test_a_perfect_ranking_scores_one():
    rng = np.random.default_rng(0)
    truth = rng.random((50, 20)) < 0.3
    truth[:, 0] = True
    p = rng.uniform(0.1, 1, 20)
    scores = truth / p
    for k in (1, 3, 7):
        assert ndcg_at_k(truth, scores, k) == pytest.approx(1)
        assert psp_at_k(truth, scores, p, k) == pytest.approx(1)
        assert psndcg_at_k(truth, scores, p, k) == pytest.approx(1)


# --- errors name the argument and what was found


@pytest.mark.parametrize("k", [0, -1, 1.0, "1", True, None])
def test_bad_depth(k):
    with pytest.raises(ValueError, match="'k' parameter must be an int >= 1"):
        precision_at_k(Y, IDS, k)
    with pytest.raises(ValueError, match="'ks' parameter must be an int >= 1"):
        evaluate(Y, IDS, ks=[k])


@pytest.mark.parametrize(
    ("predicted", "message"),
    [
        (IDS[:2], "'predicted' parameter must have 3 rows, as Y_true. Got 2"),
        (IDS[:, :1], "at least k=2 label ids per row. Got 1"),
        (IDS[0], "'predicted' parameter must be 2-dimensional"),
        (IDS + 2, r"label ids in the range \[0, 4\), or -1 for none. Got 4"),
        (IDS - 2, "Got -2 instead"),
        ([[0, 1], [2, 2], [0, 1]], "must have distinct label ids per row. Got 2 twice in row 1"),
        (IDS.astype(float), r"Got scores of shape \(3, 3\).*integer dtype"),
        (sp.csr_array((3, 5)), r"Got scores of shape \(3, 5\)"),
        (np.full((3, 4), np.nan), "'predicted' parameter must not contain NaN"),
        (sp.csr_array(np.full((3, 4), np.nan)), "'predicted' parameter must not contain NaN"),
        ([[0, 1], [2], [3]], "'predicted' parameter must be an array with rows of equal length"),
    ],
)
def test_bad_predictions(predicted, message):
    with pytest.raises(ValueError, match=message):
        precision_at_k(Y, predicted, 2)


def test_evaluate_calls_its_argument_by_name():
    with pytest.raises(ValueError, match=r"'labels' parameter must have . rows, as Y_true. Got 2"):
        evaluate(Y, IDS[:2], ks=(1,))
    with pytest.raises(ValueError, match="'ks' parameter must not be empty"):
        evaluate(Y, IDS, ks=())


@pytest.mark.parametrize("predicted", [[["a"], ["b"], ["c"]], [[None]] * 3, [[True]] * 3])
def test_predictions_of_the_wrong_type(predicted):
    with pytest.raises(TypeError, match="'predicted' parameter must have integer label ids or float scores"):
        precision_at_k(Y, predicted, 1)


@pytest.mark.parametrize(
    ("truth", "message"),
    [
        (Y * 2, "'Y_true' parameter must have values 0 and 1 only. Got 2"),
        (np.full((3, 4), np.nan), "'Y_true' parameter must have values 0 and 1 only. Got nan"),
        (
            sp.coo_array(([1, 1], ([0, 0], [0, 0])), shape=(3, 4)),
            "'Y_true' parameter must have values 0 and 1 only. Got 2",
        ),
        (Y[0], "'Y_true' parameter must have shape"),
        (np.zeros((0, 4)), "'Y_true' parameter must have shape"),
    ],
)
def test_bad_truth(truth, message):
    with pytest.raises(ValueError, match=message):
        precision_at_k(truth, IDS, 1)


def test_truth_of_the_wrong_type():
    with pytest.raises(TypeError, match="'Y_true' parameter must be a matrix of 0 and 1"):
        precision_at_k(np.array([[None], [None], [None]]), IDS, 1)


@pytest.mark.parametrize("bad", [[0.0, 1, 1, 1], [1, 1, 1, 1.5], [1, 1, 1, np.nan]])
def test_propensity_out_of_range(bad):
    with pytest.raises(ValueError, match=r"'propensity' parameter must be in the range \(0, 1\]"):
        psp_at_k(Y, IDS, bad, 1)


def test_propensity_of_the_wrong_shape():
    with pytest.raises(ValueError, match=r"'propensity' parameter must have shape \(4,\)"):
        psp_at_k(Y, IDS, P[:3], 1)


@pytest.mark.parametrize(
    ("A", "B", "name"), [(-1, 1.5, "A"), (np.nan, 1.5, "A"), (0.5, 0, "B"), (0.5, np.inf, "B")]
)
def test_bad_propensity_constants(A, B, name):
    with pytest.raises(ValueError, match=f"'{name}' parameter must be a finite number"):
        propensities(Y, A, B)
