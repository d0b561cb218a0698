import numpy as np
import pytest

import naive
from smalldata import LOSSES, blocks_of, make_state
from sparseleaf.training.sketches import SKETCHES, make_sketch

N, L, WIDTH = 64, 50, 8


def fill(sketch, truth, scores, stored, *, seed=1, tree=0, norms=None, loss="squared"):
    out = np.empty((len(truth), sketch.width), np.float32)
    plan = sketch.plan(seed, tree, norms)
    plan.fill(blocks_of(truth, scores, stored), truth.shape[1], LOSSES[loss], out, 1)
    return out


@pytest.mark.parametrize("name", SKETCHES)
def test_plans_depend_on_seed_and_tree_alone(name):
    state = make_state(N, L, seed=1)
    sketch = make_sketch(name, WIDTH, L)
    norms = naive.column_norms(naive.residuals(*state[:2], "squared")) if sketch.needs_norms else None
    first = fill(sketch, *state, norms=norms)
    np.testing.assert_array_equal(first, fill(sketch, *state, norms=norms))
    same = [
        np.array_equal(first, fill(sketch, *state, norms=norms, **other))
        for other in ({"seed": 2}, {"tree": 1})
    ]
    assert same == ([True, True] if name in ("top-outputs", "none") else [False, False])


def test_top_outputs_are_the_labels_of_largest_norm():
    truth, scores, stored = make_state(N, L, seed=2)
    values = naive.residuals(truth, scores, "squared")
    norms = naive.column_norms(values)
    norms[[4, 9]] = norms.max() + 1  # a tie: the lower label first
    out = fill(make_sketch("top-outputs", 3, L), truth, scores, stored, norms=norms)
    third = int(np.argsort(-norms, kind="stable")[2])
    np.testing.assert_array_equal(out, values[:, [4, 9, third]])


def test_top_outputs_wider_than_the_labels_leave_columns_empty():
    truth, scores, stored = make_state(N, 3, seed=2)
    out = fill(make_sketch("top-outputs", 5, 3), truth, scores, stored, norms=np.array([1, 3, 2]))
    np.testing.assert_array_equal(out[:, :3], naive.residuals(truth, scores, "squared")[:, [1, 2, 0]])
    assert not out[:, 3:].any()


@pytest.mark.parametrize("name", ["count-sketch", "random-projection", "sampling"])
def test_inner_products_are_kept_on_average(name):
    truth, scores, stored = make_state(5, L, seed=3)
    values = naive.residuals(truth, scores, "squared").astype(np.float64)
    norms = naive.column_norms(values)
    sketch = make_sketch(name, WIDTH, L)
    grams = []
    for tree in range(1500):
        out = fill(sketch, truth, scores, stored, tree=tree, norms=norms).astype(np.float64)
        grams.append(out @ out.T)
    error = np.std(grams, axis=0) / np.sqrt(len(grams))
    assert (np.abs(np.mean(grams, axis=0) - values @ values.T) < 5 * error + 1e-6).all()


def test_none_is_all_labels():
    truth, scores, stored = make_state(N, L, seed=4)
    out = fill(make_sketch("none", WIDTH, L), truth, scores, stored, loss="squared_hinge")
    np.testing.assert_array_equal(out, naive.residuals(truth, scores, "squared_hinge"))


@pytest.mark.parametrize("norms", [np.zeros(4, np.int64), np.zeros(0, np.int64)])
@pytest.mark.parametrize("name", ["top-outputs", "sampling"])
def test_nothing_left_to_learn_is_no_error(name, norms):
    blank = np.zeros((3, max(1, len(norms))), np.float32)
    out = fill(make_sketch(name, WIDTH, 1), blank.astype(bool), blank, blank.astype(bool), norms=norms)
    assert not out.any()
