"""Splits by gradients and hessians of all outputs, against brute force over every split and every set."""

import numpy as np
import pytest

import naive_dense
from stumps import KINDS, find_splits

FEATURES, BINS, N = 4, 6, 48


def make(kind, d, seed, *, missing=False, n=N, features=FEATURES, n_bins=BINS):
    """Random bins, and columns such as the kind has; hessians of a matrix are sums of v vᵀ."""
    rng = np.random.default_rng(seed)
    bins = rng.integers(0, n_bins + missing, (n, features))
    g = rng.integers(-300, 300, (n, d))
    if kind == "count":
        columns = g
    elif kind == "shared":
        columns = np.hstack((g, rng.integers(0, 90, (n, 1))))
    elif kind == "diagonal":
        columns = np.hstack((g, rng.integers(0, 90, (n, d))))
    else:
        v = rng.integers(-9, 9, (n, d, 1))
        matrix = v * v.transpose(0, 2, 1)
        rows, across = np.tril_indices(d)
        columns = np.hstack((g, matrix[:, rows, across]))
    return bins, columns, [n_bins] * features


def scoring_of(kind, d, seed, **options):
    rng = np.random.default_rng(seed + 1000)
    weight, lambda_ = rng.uniform(0.1, 3, d), rng.uniform(1, 40, d)
    if kind == "matrix":  # a quadratic form has one scale
        weight = np.full(d, weight[0])
    return naive_dense.Scoring(d, kind, weight=weight, lambda_=lambda_, l2=2.5, **options)


def assert_best(found, rows, bins, columns, missing_bin, scoring, min_samples=1, features=range(FEATURES),
                **constraint):  # fmt: skip
    """The split is there, its gain is right, and no other is better."""
    directions, free = constraint.pop("directions", None), np.full(scoring.d, np.inf)
    if directions is not None:
        constraint |= {"low": -free, "high": free}
    splits = {}
    for f in features:
        own = {"direction": directions[f], **constraint} if directions is not None else {}
        for (split, missing_left), value in naive_dense.all_splits(
            bins, columns, rows, f, missing_bin[f], min_samples, scoring, **own
        ).items():
            splits[f, split, missing_left] = value
    if not splits:
        assert found is None
        return None
    f = found["feature"]
    # where no row is without a value, missing ones go the way of most
    seen = found["missing_left"] and bool((bins[:, f] == missing_bin[f]).any())
    key = (f, found["bin"], seen)
    assert key in splits
    gain, n_left = splits[key]
    best = max(value for value, _ in splits.values())
    tolerance = 1e-9 * (1 + abs(best)) + 1e-9 * scoring.worth(
        [(naive_dense.sums_of(columns, rows), len(rows))]
    )
    assert found["gain"] == pytest.approx(gain, abs=tolerance)
    assert gain >= best - tolerance
    assert found["left"] == n_left
    return key


NODES = [list(range(N)), list(range(0, N, 3)), list(range(5)), [7]]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("d", [1, 3, 8, 11])
@pytest.mark.parametrize("kind", KINDS)
def test_every_hessian_finds_the_best_split(kind, d, missing, seed):
    if kind == "matrix" and d == 1:
        pytest.skip("one output has no matrix")
    bins, columns, missing_bin = make(kind, d, seed, missing=missing)
    scoring = scoring_of(kind, d, seed)
    min_samples = (1, 3, 8, 20)[seed]
    found = find_splits(bins, columns, NODES, missing_bin, scoring, min_samples=min_samples)
    for k, rows in enumerate(NODES):
        assert_best(found[k], rows, bins, columns, missing_bin, scoring, min_samples)
    assert not any(split and split["set"].any() for split in found)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("top", [1, 2, 5, 7, 9])
@pytest.mark.parametrize("kind", ["count", "shared", "diagonal"])
def test_top_outputs_of_each_side_or_of_both(kind, top, shared, seed):
    d = 7
    bins, columns, missing_bin = make(kind, d, seed, missing=seed == 2)
    scoring = scoring_of(kind, d, seed, top=top, shared=shared)
    found = find_splits(bins, columns, NODES, missing_bin, scoring, min_samples=2)
    for k, rows in enumerate(NODES):
        assert_best(found[k], rows, bins, columns, missing_bin, scoring, 2)


def test_top_and_shared_top_choose_different_splits():
    """Left and right want different outputs: free sides (Algorithm 3) like split 0, shared ones (4) like split 1."""
    bins = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    g = np.array([[10, 0], [10, 0], [0, 10], [0, 10]]) + np.array([[6, 0], [-6, 0], [6, 0], [-6, 0]])
    both = {}
    for shared in (False, True):
        scoring = naive_dense.Scoring(2, "count", l2=0.0, top=1, shared=shared)
        (found,) = find_splits(bins, g, [[0, 1, 2, 3]], [2, 2], scoring)
        both[shared] = (int(found["feature"]), float(found["gain"]))
    # by hand: feature 0 parts (20, 0) from (0, 20): free 200 + 200, shared max(200 + 0, 0 + 200) = 200;
    # feature 1 parts (22, 10) from (-2, 10): free 242 + 50, shared max(242 + 2, 50 + 50) = 244; the node: 100
    assert both == {False: (0, 300.0), True: (1, 144.0)}


def test_ties_among_outputs_at_the_edge_of_the_top_count_once():
    bins, g = np.array([[0], [1]]), np.array([[5, 5, 5], [-5, 5, -5]])
    scoring = naive_dense.Scoring(3, "count", l2=0.0, top=2)
    (found,) = find_splits(bins, g, [[0, 1]], [2], scoring)
    assert found["gain"] == 50 + 50 - 50  # the node has one output of 100 / 2


def test_matrix_without_hessian_is_harmless():
    """Rows whose hessians all rounded to 0: one unit on the diagonal, no NaN."""
    bins, columns = np.array([[0], [0], [1], [1]]), np.zeros((4, 5), int)
    columns[:, :2] = [[3, 1], [3, 1], [-3, 1], [-3, 1]]
    scoring = naive_dense.Scoring(2, "matrix", lambda_=[1.0, 1.0])
    (found,) = find_splits(bins, columns, [[0, 1, 2, 3]], [2], scoring)
    # 36 + 4 on each side, less 0 + 16
    assert found["gain"] == pytest.approx(64)


def test_the_matrix_sees_what_the_diagonal_does_not():
    columns = np.array([[4, 4, 5, 4, 5], [4, -4, 5, 4, 5], [-4, -4, 5, 4, 5], [-4, 4, 5, 4, 5]])
    bins = np.array([[0, 0], [0, 1], [1, 1], [1, 0]])
    scoring = naive_dense.Scoring(2, "matrix", lambda_=[1.0, 1.0])
    (found,) = find_splits(bins, columns, [[0, 1, 2, 3]], [2, 2], scoring)
    assert found["gain"] == pytest.approx(naive_dense.gain_of_side(columns, [0, 1, 2, 3], [0, 1], scoring))
    g, h = np.array([8.0, 0.0]), np.array([[11.0, 8.0], [8.0, 11.0]])
    assert found["gain"] == pytest.approx(2 * g @ np.linalg.inv(h) @ g)  # by hand; the node has G = 0


# --- monotone constraints


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", ["count", "shared", "diagonal"])
def test_constraints_forbid_splits_and_bound_the_leaves(kind, seed):
    d = 3
    rng = np.random.default_rng(seed)
    bins, columns, missing_bin = make(kind, d, seed, missing=seed % 2 == 1)
    scoring = scoring_of(kind, d, seed)
    scoring.step = rng.uniform(0.5, 2, d)
    directions = rng.choice([-1, 0, 0, 1], (FEATURES, d)).astype(np.int8)
    found = find_splits(bins, columns, NODES, missing_bin, scoring, directions=directions, min_samples=2)
    some = 0
    for k, rows in enumerate(NODES):
        key = assert_best(found[k], rows, bins, columns, missing_bin, scoring, 2, directions=directions)
        if key is None:
            continue
        some += 1
        f, split, missing_left = key
        gone = bins[rows, f] == missing_bin[f]
        goes = np.where(gone, missing_left, bins[rows, f] <= split)
        sides = [np.array(rows)[goes], np.array(rows)[~goes]]
        values = [
            scoring.values(naive_dense.sums_of(columns, side), len(side), -np.inf, np.inf) for side in sides
        ]
        middle, bounds = (values[0] + values[1]) / 2, found[k]["bounds"]
        up, down = directions[f] > 0, directions[f] < 0
        wanted_low = [np.where(down, middle, -np.inf), np.where(up, middle, -np.inf)]
        wanted_high = [np.where(up, middle, np.inf), np.where(down, middle, np.inf)]
        np.testing.assert_allclose(bounds.low, wanted_low, rtol=1e-12)
        np.testing.assert_allclose(bounds.high, wanted_high, rtol=1e-12)
        assert ((values[1] - values[0]) * directions[f] >= 0).all()
    assert some, "a case in which every split is forbidden proves nothing"


def test_without_a_direction_a_split_is_the_free_one():
    bins, columns, missing_bin = make("diagonal", 3, 1)
    scoring = scoring_of("diagonal", 3, 1)
    directions = np.zeros((FEATURES, 3), np.int8)
    (bounded,) = find_splits(bins, columns, NODES[:1], missing_bin, scoring, directions=directions)
    (plain,) = find_splits(bins, columns, NODES[:1], missing_bin, scoring)
    assert (bounded["feature"], bounded["bin"]) == (plain["feature"], plain["bin"])
    assert bounded["gain"] == pytest.approx(plain["gain"], rel=1e-9)


# --- categories


def left_of(found, rows, bins, missing_bin):
    f = found["feature"]
    chosen = {c for c in range(256) if naive_dense.in_set(found["set"], c)}
    missing = found["missing_left"]
    left = [
        row for row in rows if (missing if bins[row, f] == missing_bin[f] else int(bins[row, f]) in chosen)
    ]
    return left, chosen


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("kind", ["count", "shared", "diagonal", "matrix"])
@pytest.mark.parametrize("d", [1, 4])
def test_the_gain_of_a_set_is_that_of_its_rows(kind, d, missing, seed):
    if kind == "matrix" and d == 1:
        pytest.skip("one output has no matrix")
    bins, columns, missing_bin = make(kind, d, seed, missing=missing, features=2)
    scoring = scoring_of(kind, d, seed)
    found = find_splits(bins, columns, NODES[:2], missing_bin, scoring, categorical=[1, 1], min_samples=3)
    for split, rows in zip(found, NODES, strict=False):
        left, chosen = left_of(split, rows, bins, missing_bin)
        assert chosen <= set(range(BINS))
        assert chosen <= set(bins[rows, split["feature"]].tolist()), "a category without rows stays right"
        assert split["left"] == len(left)
        assert sorted(split["rows"][0].tolist()) == left
        assert 3 <= len(left) <= len(rows) - 3
        assert split["gain"] == pytest.approx(
            naive_dense.gain_of_side(columns, rows, left, scoring), rel=1e-8
        )


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("missing", [0, 6])
@pytest.mark.parametrize("kind", ["count", "diagonal"])
def test_with_one_output_the_best_of_all_sets_is_found(kind, missing, seed):
    """Categories of the same weight: smoothing then leaves their order alone, and some prefix of it is the best set."""
    rng = np.random.default_rng(seed)
    each, n_categories = 5, 8
    bins = np.concatenate(
        (np.repeat(np.arange(n_categories), each), np.full(missing, n_categories))
    )[:, None]  # fmt: skip
    columns = (
        rng.integers(-100, 100, (len(bins), 1))
        + 40 * rng.integers(-3, 3, n_categories + 1)[bins[:, 0]][:, None]
    )
    if kind == "diagonal":
        columns = np.hstack((columns, np.full((len(bins), 1), 7)))
    scoring = naive_dense.Scoring(1, kind, lambda_=[3.0], l2=1.5)
    rows = list(range(len(bins)))
    (found,) = find_splits(bins, columns, [rows], [n_categories], scoring, categorical=[1])
    best = naive_dense.all_subsets(bins, columns, rows, 0, n_categories, 1, scoring)
    assert found["gain"] == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_with_categories_of_any_size_the_set_is_the_best_prefix_of_the_smoothed_order(seed):
    """Ten average rows are added to each category before they are put in order; then every prefix is tried."""
    rng = np.random.default_rng(seed)
    bins = rng.choice(9, 60, p=rng.dirichlet(np.ones(9)))[:, None]
    columns = rng.integers(-100, 100, (60, 1))
    scoring = naive_dense.Scoring(1, "count", l2=1.0)
    rows = list(range(60))
    (found,) = find_splits(bins, columns, [rows], [9], scoring, categorical=[1])
    present = sorted(set(bins[:, 0].tolist()))
    order = sorted(present, key=lambda c: columns[bins[:, 0] == c].sum() / ((bins == c).sum() + 10))
    gains = [
        naive_dense.gain_of_side(columns, rows, np.flatnonzero(np.isin(bins[:, 0], order[:i])).tolist(), scoring)
        for i in range(1, len(order))
    ]  # fmt: skip
    assert found["gain"] == pytest.approx(max(gains), rel=1e-9)
    assert max(gains) <= naive_dense.all_subsets(bins, columns, rows, 0, 9, 1, scoring) * (1 + 1e-12)


def test_several_outputs_on_one_line_are_put_in_its_order():
    """Mean steps of all categories on a line: the first principal direction is that line, so the best set is found."""
    rng = np.random.default_rng(3)
    along = rng.permutation(np.arange(-8, 9, 2))  # 9 categories
    direction = np.array([3, -1, 2])
    bins = np.repeat(np.arange(9), 4)[:, None]
    columns = along[bins[:, 0]][:, None] * direction[None, :] * 10
    scoring = naive_dense.Scoring(3, "count", l2=1.0)
    rows = list(range(36))
    (found,) = find_splits(bins, columns, [rows], [9], scoring, categorical=[1])
    best = naive_dense.all_subsets(bins, columns, rows, 0, 9, 1, scoring)
    assert found["gain"] == pytest.approx(best, rel=1e-9)
    chosen = left_of(found, rows, bins, [9])[1]
    assert chosen in ({c for c in range(9) if along[c] < 0}, {c for c in range(9) if along[c] > 0},
                      {c for c in range(9) if along[c] <= 0}, {c for c in range(9) if along[c] >= 0})  # fmt: skip


def test_categories_against_missing_rows_alone_is_a_split():
    bins = np.array([[0], [1], [2], [2], [0], [1]])
    columns = np.array([[9], [9], [-9], [-9], [9], [9]])
    (found,) = find_splits(
        bins, columns, [list(range(6))], [2], naive_dense.Scoring(1, "count"), categorical=[1]
    )
    left, chosen = left_of(found, list(range(6)), bins, [2])
    assert (left, chosen) in (([0, 1, 4, 5], {0, 1}), ([2, 3], set()))
    assert found["gain"] == pytest.approx(36**2 / 4 + 18**2 / 2 - 18**2 / 6)


def test_255_categories_fit_and_more_bins_than_bits_are_refused():
    bins = np.arange(256)[:, None]
    columns = np.where(bins % 3 == 0, 5, -5)
    scoring = naive_dense.Scoring(1, "count", l2=1.0)
    (found,) = find_splits(
        bins, columns, [list(range(256))], [255], scoring, categorical=[1]
    )  # bin 255 is missing
    chosen = left_of(found, list(range(256)), bins, [255])[1]
    wanted = {c for c in range(255) if c % 3 == 0}
    assert chosen in (wanted, set(range(255)) - wanted)
    with pytest.raises(ValueError, match="categorical"):
        find_splits(
            np.arange(258)[:, None] % 257,
            columns[:1].repeat(258, 0),
            [[0, 1]],
            [257],
            scoring,
            categorical=[1],
        )


def test_ordered_and_unordered_features_compete():
    bins = np.array([[0, 0], [1, 1], [2, 2], [3, 3]] * 3)
    columns = np.array([[5], [-5], [5], [-5]] * 3)
    scoring = naive_dense.Scoring(1, "count")
    for categorical in ([1, 0], [0, 1]):
        (found,) = find_splits(bins, columns, [list(range(12))], [4, 4], scoring, categorical=categorical)
        assert found["feature"] == categorical.index(1)
        chosen = left_of(found, list(range(12)), bins, [4, 4])[1]
        assert chosen in ({0, 2}, {1, 3})


# --- threads, hostile arrays


@pytest.mark.parametrize("options", [
    {"kind": "diagonal"}, {"kind": "matrix"}, {"kind": "shared"},
    {"kind": "diagonal", "top": 2}, {"kind": "count", "top": 2, "shared": True},
])  # fmt: skip
def test_threads_do_not_change_a_bit(options):
    kind, options = options["kind"], {k: v for k, v in options.items() if k != "kind"}
    bins, columns, missing_bin = make(kind, 5, 9, missing=True, features=7)
    scoring = scoring_of(kind, 5, 9, **options)
    nodes = [list(range(k, N)) for k in range(0, 40, 7)]
    results = [
        find_splits(bins, columns, nodes, missing_bin, scoring, categorical=[0, 1] * 3 + [0], n_threads=n)
        for n in (1, 2, 4)
    ]
    for other in results[1:]:
        for found, wanted in zip(other, results[0], strict=True):
            for name in ("gain", "feature", "bin", "missing_left", "left"):
                assert found[name] == wanted[name]
            assert found["set"].tobytes() == wanted["set"].tobytes()
