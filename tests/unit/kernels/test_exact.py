import numpy as np
import pytest

import naive
from smalldata import LOSSES, blocks_of, make_state
from stumps import find_exact_splits


def find(blocks, bins, nodes, missing_bin, n_labels, *, loss="squared", k=3, step=1, l2=1.0, min_samples=1,
         features=None, n_threads=2):  # fmt: skip
    features = range(bins.shape[1]) if features is None else features
    found = find_exact_splits(
        blocks, bins, nodes, missing_bin, n_labels, LOSSES[loss], k=k, step=float(step), l2=l2,
        min_samples=min_samples, features=features, n_threads=n_threads,
    )  # fmt: skip
    return [split and tuple(split[name] for name in ("gain", "feature", "bin", "left")) for split in found]


def assert_same(found, wanted):
    assert (found is None) == (wanted is None)
    if wanted is not None:
        assert found[1:] == wanted[1:]
        assert found[0] == pytest.approx(wanted[0], rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("k", [1, 3, None])
@pytest.mark.parametrize("step", [1, 3, 0.05, 0.5])
@pytest.mark.parametrize("missing", [False, True])
def test_best_split_is_the_twins(loss, k, step, missing):
    n, n_labels = 60, 10
    truth, scores, stored = make_state(n, n_labels, seed=2)
    fixed = naive.fixed_point(naive.residuals(truth, scores, loss))
    bins = np.random.default_rng(3).integers(0, 8 + missing, (n, 3))  # many ties in values
    nodes = [list(range(n)), list(range(0, n, 4)), [5, 1, 9]]
    for min_samples in (1, 5):
        found = find(
            blocks_of(truth, scores, stored, 16), bins, nodes, [8] * 3, n_labels, loss=loss, k=k, step=step,
            min_samples=min_samples,
        )  # fmt: skip
        for rows, split in zip(nodes, found, strict=True):
            wanted = naive.exact_split(bins, fixed, rows, range(3), [8] * 3, k, step, 1.0, min_samples)
            assert_same(split, wanted)


def test_missing_rows_are_right_and_values_against_missing_is_tried():
    truth = np.array([[1], [1], [0], [0]], bool)
    scores = np.array([[0], [0], [1], [1]], np.float32)
    bins = np.array([[0], [0], [1], [1]])  # bin 1 is "missing"
    (split,) = find(blocks_of(truth, scores), bins, [[0, 1, 2, 3]], [1], 1, step=0.9)
    assert split == (pytest.approx(2 * 4 / 3), 0, 0, 2)


def test_some_features_and_single_rows():
    truth, scores, stored = make_state(40, 6, seed=4)
    fixed = naive.fixed_point(naive.residuals(truth, scores, "squared"))
    bins = np.random.default_rng(5).integers(0, 5, (40, 4))
    blocks, rows = blocks_of(truth, scores, stored), list(range(40))
    found = find(blocks, bins, [rows, [7]], [5] * 4, 6, features=[0, 3])
    wanted = naive.exact_split(bins, fixed, rows, [0, 3], [5] * 4, 3, 1, 1.0, 1)
    assert_same(found[0], wanted)
    assert found[1] is None


def test_a_step_larger_than_any_node_only_leaves_the_split_before_missing():
    truth, scores, stored = make_state(40, 6, seed=4)
    bins = np.random.default_rng(5).integers(0, 5, (40, 2))
    for step in (41, 1e300):
        assert find(blocks_of(truth, scores, stored), bins, [list(range(40))], [5] * 2, 6, step=step) == [
            None
        ]


def test_threads_do_not_change_a_gain():
    truth, scores, stored = make_state(80, 20, seed=6)
    bins = np.random.default_rng(7).integers(0, 30, (80, 6))
    nodes = [list(range(80)), list(range(40))]
    blocks = blocks_of(truth, scores, stored)
    found = [find(blocks, bins, nodes, [30] * 6, 20, n_threads=n) for n in (1, 2, 4)]
    assert found[0] == found[1] == found[2]
