import numpy as np
import pytest
import scipy.sparse as sp

import naive
import naive_dense
from marks import first
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
    arrays = {name: value for name, value in vars(trees).items() if name not in ("feature_gain", "cover")}
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
@pytest.mark.parametrize("n_threads", first(1, [3, 1]))
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


# --- dense scores, leaves of rows, sets of categories


def random_trees(rng, n_trees, n_features, n_labels, categorical, *, dense, n_sets=6):
    """Flat arrays of random trees; splits of categorical features are sets."""
    feature, threshold, missing_left, child, offsets, indptr, labels = [], [], [], [], [0], [0], []
    for _ in range(n_trees):
        n_inner = int(rng.integers(0, 12))
        inner = np.zeros(2 * n_inner + 1, bool)
        waiting, made = [0], 0
        for v in range(2 * n_inner + 1):  # level order: the j-th inner node has children 2j + 1, 2j + 2
            if (
                v in waiting
                and made < n_inner
                and (rng.random() < 0.7 or len(waiting) == 1 or v == max(waiting))
            ):
                inner[v] = True
                waiting += [2 * made + 1, 2 * made + 2]
                made += 1
            waiting = [w for w in waiting if w != v]
        rank = 0
        for v in range(2 * made + 1):
            if inner[v]:
                f = int(rng.integers(n_features))
                feature.append(f)
                threshold.append(rng.integers(n_sets) if categorical[f] else np.round(rng.normal(), 1))
                child.append(2 * rank + 1)
                rank += 1
            else:
                feature.append(-1)
                threshold.append(0)
                child.append(len(indptr) - 1)
                size = n_labels if dense else int(rng.integers(0, n_labels + 1))
                labels += np.sort(rng.choice(n_labels, size, replace=False)).tolist()
                indptr.append(indptr[-1] + size)
            missing_left.append(rng.integers(2))
        offsets.append(len(feature))
    return Trees(
        np.array(offsets, np.int64), np.array(feature, np.int32), np.array(threshold, np.float32),
        np.array(missing_left, np.uint8), np.array(child, np.int32), np.array(indptr, np.int64),
        np.array([] if dense else labels, np.uint16), rng.normal(size=indptr[-1]).astype(np.float32),
        np.empty(0, np.float32), np.zeros(n_features), np.empty(0, np.uint32),
        np.array(categorical, np.uint8), rng.integers(0, 256, (n_sets, 32)).astype(np.uint8),
    )  # fmt: skip


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("categorical", [[0, 0, 0, 0], [1, 0, 0, 1], [1, 1, 1, 1]])
def test_dense_scores_and_leaves_are_the_twins(dense, missing, n_threads, categorical):
    rng = np.random.default_rng(sum(categorical) + 10 * dense)
    n, n_labels = 135, 5
    trees = random_trees(rng, 9, 4, n_labels, categorical, dense=dense)
    predictor = make_predictor(trees, 4, n_labels)
    X = make_rows(n, 4, 3, missing)
    for f in np.flatnonzero(categorical):
        # known categories, and what is none: too high, negative, huge
        X[:, f] = rng.choice([*range(20), 254, 255, 256, 1e9, -1, -0.5, 3.4e38], n)
        if missing:
            X[rng.random(n) < 0.2, f] = np.nan
    base = rng.normal(size=n_labels).astype(np.float32)
    wanted, leaves = naive_dense.predict(X, trees, n_labels, base)
    out = np.repeat(base[None, :], n, axis=0)
    predictor.dense(X, 9, missing, out, n_threads)
    np.testing.assert_array_equal(out, wanted)
    found = np.full((n, 9), -7, np.int32)
    predictor.apply(X, 9, missing, found, n_threads)
    np.testing.assert_array_equal(found, leaves)
    csr = sp.csr_matrix(X)
    parts = csr.indptr.astype(np.int64), csr.indices, csr.data
    again = np.repeat(base[None, :], n, axis=0)
    predictor.dense_csr(*parts, 9, missing, again, n_threads)
    np.testing.assert_array_equal(again, wanted)
    found_csr = np.empty_like(found)
    predictor.apply_csr(*parts, 9, missing, found_csr, n_threads)
    np.testing.assert_array_equal(found_csr, leaves)
    few = np.empty((n, 4), np.int32)
    predictor.apply(X, 4, missing, few, n_threads)
    np.testing.assert_array_equal(few, leaves[:, :4])


def test_leaves_without_labels_have_dense_scores_only():
    trees = random_trees(np.random.default_rng(1), 3, 2, 4, [0, 0], dense=True)
    predictor, X = make_predictor(trees, 2, 4), np.zeros((3, 2), np.float32)
    with pytest.raises(ValueError, match="dense scores only"):
        predictor.scores(X, 3, False, 1)
    with pytest.raises(ValueError, match="dense scores only"):
        predictor.topk(X, 3, False, np.empty((3, 1), np.int32), np.empty((3, 1), np.float32), 1)


@pytest.mark.parametrize("shape", [(2, 4), (4, 4), (3, 3), (3, 5)])
def test_room_that_does_not_fit_is_refused(shape):
    trees = random_trees(np.random.default_rng(1), 4, 2, 4, [0, 0], dense=True)
    predictor, X = make_predictor(trees, 2, 4), np.zeros((3, 2), np.float32)
    with pytest.raises(ValueError, match="out"):
        predictor.dense(X, 4, False, np.empty(shape, np.float32), 1)
    with pytest.raises(ValueError, match="out"):
        predictor.apply(X, 4, False, np.empty(shape, np.int32), 1)


def hostile(**change):
    """A sound tree with a split of categories, and what is to be wrong with it."""
    given = {
        "tree_offsets": np.array([0, 3]), "feature": np.array([1, -1, -1], np.int32),
        "threshold": np.array([1, 0, 0], np.float32), "missing_left": np.zeros(3, np.uint8),
        "child": np.array([1, 0, 1], np.int32), "leaf_indptr": np.array([0, 2, 4]),
        "leaf_labels": np.empty(0, np.uint16), "leaf_values": np.ones(4, np.float32),
        "value_scale": np.empty(0, np.float32), "categorical": np.array([0, 1], np.uint8),
        "sets": np.zeros((2, 32), np.uint8), "n_features": 2, "n_labels": 2,
    }  # fmt: skip
    return _kernels.Predictor(**(given | change))


@pytest.mark.parametrize(("change", "match"), [
    ({"threshold": np.array([2, 0, 0], np.float32)}, "no such set"),
    ({"threshold": np.array([-1, 0, 0], np.float32)}, "no such set"),
    ({"threshold": np.array([0.5, 0, 0], np.float32)}, "no such set"),
    ({"threshold": np.array([np.inf, 0, 0], np.float32)}, "no such set"),
    ({"threshold": np.array([np.nan, 0, 0], np.float32)}, "threshold"),
    ({"sets": np.zeros((2, 31), np.uint8)}, "sets"),
    ({"sets": np.zeros((0, 32), np.uint8)}, "no such set"),
    ({"categorical": np.array([1], np.uint8)}, "categorical"),
    ({"leaf_indptr": np.array([0, 1, 4])}, "a value per label"),
    ({"n_labels": 3}, "a value per label"),
    ({"leaf_values": np.ones(5, np.float32)}, "leaf_indptr"),
    ({"leaf_values": np.array([1, np.nan, 1, 1], np.float32)}, "finite"),
])  # fmt: skip
def test_models_that_lie_about_sets_or_dense_leaves_are_refused(change, match):
    hostile()
    with pytest.raises(ValueError, match=match):
        hostile(**change)
