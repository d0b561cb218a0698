import numpy as np
import pytest
import scipy.sparse as sp

import naive
from sparseleaf import _kernels
from sparseleaf.model import Trees


def grow(rng, n_features, n_labels, depth, entries):
    """A random tree as nested nodes."""
    if depth == 0 or rng.random() < 0.15:
        labels = np.sort(rng.choice(n_labels, rng.integers(0, min(entries, n_labels) + 1), replace=False))
        return {
            "leaf": {int(q): np.float32(v) for q, v in zip(labels, rng.normal(size=len(labels)), strict=True)}
        }
    return {
        "feature": int(rng.integers(n_features)),
        "threshold": np.float32(rng.choice([-np.inf, np.inf, *np.round(rng.normal(size=9), 1)])),
        "missing_left": bool(rng.integers(2)),
        "left": grow(rng, n_features, n_labels, depth - 1, entries),
        "right": grow(rng, n_features, n_labels, depth - 1, entries),
    }


def flatten(nested, n_features, n_labels=100, value_scale=()):
    """Nested trees as the arrays of a model; with a scale for every tree, leaf values are 16-bit integers."""
    offsets, indptr = [0], [0]
    feature, threshold, missing_left, child, labels, values = ([] for _ in range(6))
    for tree in nested:
        first, queue = offsets[-1], [tree]
        for node in queue:  # it grows while it is walked
            if "leaf" in node:
                feature.append(-1), threshold.append(0), missing_left.append(0), child.append(len(indptr) - 1)
                labels.extend(node["leaf"]), values.extend(node["leaf"].values()), indptr.append(len(labels))
            else:
                feature.append(node["feature"]), threshold.append(node["threshold"])
                missing_left.append(node["missing_left"]), child.append(len(queue))
                queue += [node["left"], node["right"]]
        offsets.append(first + len(queue))
    return Trees(
        np.array(offsets, np.int64), np.array(feature, np.int32), np.array(threshold, np.float32),
        np.array(missing_left, np.uint8), np.array(child, np.int32), np.array(indptr, np.int64),
        np.array(labels, np.uint16 if n_labels <= 2**16 else np.uint32),
        np.array(values, np.int16 if len(value_scale) else np.float32),
        np.array(value_scale, np.float32), np.zeros(n_features),
    )  # fmt: skip


def scaled(node, scale):
    """The tree with every leaf value multiplied."""
    if "leaf" in node:
        return {
            "leaf": {label: np.float32(value) * np.float32(scale) for label, value in node["leaf"].items()}
        }
    return {**node, "left": scaled(node["left"], scale), "right": scaled(node["right"], scale)}


def rounded(node):
    """The tree with leaf values as integers other than 0."""
    if "leaf" in node:
        whole = {label: int(np.round(1000 * value)) or 1 for label, value in node["leaf"].items()}
        return {"leaf": whole}
    return {**node, "left": rounded(node["left"]), "right": rounded(node["right"])}


def make_predictor(trees, n_features, n_labels):
    arrays = {name: value for name, value in vars(trees).items() if name != "feature_gain"}
    return _kernels.Predictor(**arrays, n_features=n_features, n_labels=n_labels)


def make_rows(n, n_features, seed, missing):
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n, n_features)), 1).astype(np.float32)  # values often sit on a threshold
    X[rng.random(X.shape) < 0.4] = 0
    if missing:
        X[rng.random(X.shape) < 0.2] = np.nan
    return X


CASES = {
    "few labels": (8, 30, 12, 5, 6),
    "one tree": (3, 5, 1, 3, 5),
    "no features used": (3, 5, 4, 0, 5),
    "most labels of the plain array": (8, 16_384, 12, 5, 40),
    "fewest labels of the table": (8, 16_385, 12, 5, 40),
    "many labels": (8, 1_000_000, 12, 5, 40),
    "the table grows": (4, 1_000_000, 5, 2, 700),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("compact", [False, True])
def test_predictions_are_the_twins(case, missing, n_threads, compact):
    n_features, n_labels, n_trees, depth, entries = CASES[case]
    rng = np.random.default_rng(11)
    nested = [grow(rng, n_features, n_labels, depth, entries) for _ in range(n_trees)]
    if compact:
        scale = rng.random(n_trees).astype(np.float32)
        integers = [rounded(tree) for tree in nested]
        nested = [scaled(tree, s) for tree, s in zip(integers, scale, strict=True)]
        trees = flatten(integers, n_features, n_labels, scale)
    else:
        trees = flatten(nested, n_features, n_labels)
    predictor = make_predictor(trees, n_features, n_labels)
    n, k = 135, 7  # two blocks and a part; rows by fours and three left over
    X = make_rows(n, n_features, 12, missing)
    csr = sp.csr_matrix(X)
    csr_parts = csr.indptr.astype(np.int64), csr.indices, csr.data
    for used in (n_trees, n_trees // 2, 0):
        sums = [naive.predict(x, nested[:used]) for x in X]
        labels, scores = np.empty((n, k), np.int32), np.empty((n, k), np.float32)
        labels_csr, scores_csr = labels.copy(), scores.copy()
        predictor.topk(X, used, missing, labels, scores, n_threads)
        predictor.topk_csr(*csr_parts, used, missing, labels_csr, scores_csr, n_threads)
        for i, row in enumerate(sums):
            wanted = naive.topk(row, k)
            assert labels[i].tolist() == wanted[0]
            assert scores[i].tolist() == [float(v) for v in wanted[1]]
        np.testing.assert_array_equal(labels_csr, labels)
        np.testing.assert_array_equal(scores_csr, scores)
        for indptr, ids, values in (
            predictor.scores(X, used, missing, n_threads),
            predictor.scores_csr(*csr_parts, used, missing, n_threads),
        ):
            assert ids.tolist() == [q for row in sums for q in sorted(row)]
            assert values.tolist() == [float(row[q]) for row in sums for q in sorted(row)]
            assert np.diff(indptr).tolist() == [len(row) for row in sums]


def test_without_missing_values_the_short_walk_is_the_long_one():
    nested = [grow(np.random.default_rng(i), 4, 20, 4, 5) for i in range(5)]
    predictor, X = make_predictor(flatten(nested, 4), 4, 20), make_rows(100, 4, 1, False)
    for a, b in zip(predictor.scores(X, 5, True, 1), predictor.scores(X, 5, False, 1), strict=True):
        np.testing.assert_array_equal(a, b)


def test_ties_go_to_the_lower_label():
    predictor = make_predictor(flatten([{"leaf": {5: 1.0, 2: 1.0, 9: 2.0, 7: 1.0}}], 1), 1, 10)
    labels, scores = np.empty((1, 3), np.int32), np.empty((1, 3), np.float32)
    predictor.topk(np.zeros((1, 1), np.float32), 1, False, labels, scores, 1)
    assert labels.tolist() == [[9, 2, 5]]


def test_a_sum_of_exactly_zero_is_no_candidate_as_in_training():
    nested = [{"leaf": {1: np.float32(0.5), 3: np.float32(0.5)}}, {"leaf": {1: np.float32(-0.5)}}]
    for n_labels in (5, 20_000):
        predictor = make_predictor(flatten(nested, 1), 1, n_labels)
        labels, scores = np.empty((1, 3), np.int32), np.empty((1, 3), np.float32)
        predictor.topk(np.zeros((1, 1), np.float32), 2, False, labels, scores, 1)
        assert labels.tolist() == [[3, -1, -1]]


def test_scores_that_overflow_do_no_harm():
    huge = np.float32(3e38)
    nested = [{"leaf": dict.fromkeys(range(50), huge)}] * 2 + [{"leaf": dict.fromkeys(range(25), -huge)}] * 4
    predictor = make_predictor(flatten(nested, 1), 1, 50)
    labels, scores = np.empty((70, 50), np.int32), np.empty((70, 50), np.float32)
    predictor.topk(np.zeros((70, 1), np.float32), 6, False, labels, scores, 2)
    assert set(labels[0].tolist()) == set(range(50))


def test_arguments_that_do_not_fit_are_refused():
    predictor = make_predictor(flatten([{"leaf": {1: 1.0}}], 3), 3, 5)
    X = np.zeros((2, 3), np.float32)
    labels, scores = np.empty((2, 2), np.int32), np.empty((2, 2), np.float32)
    with pytest.raises(ValueError, match="X"):
        predictor.topk(X[:, :2].copy(), 1, False, labels, scores, 1)
    for n_trees in (-1, 2):
        with pytest.raises(ValueError, match="n_trees"):
            predictor.topk(X, n_trees, False, labels, scores, 1)
    with pytest.raises(ValueError, match="labels, scores"):
        predictor.topk(X, 1, False, labels[:1], scores[:1], 1)
    with pytest.raises(ValueError, match="labels, scores"):
        predictor.topk(X, 1, False, labels, scores[:, :1].copy(), 1)
    indices, data = np.array([0, 1], np.int32), np.ones(2, np.float32)
    for indptr in ([0, 1], [1, 2], [0, 3, 2], [0, -1, 2]):
        with pytest.raises(ValueError, match="indptr"):
            predictor.scores_csr(np.array(indptr, np.int64), indices, data, 1, False, 1)
    for feature in (3, -1):
        with pytest.raises(ValueError, match="indices"):
            predictor.scores_csr(np.array([0, 1]), np.array([feature], np.int32), data[:1], 1, False, 1)
