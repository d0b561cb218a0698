"""Monotone constraints of MultiGBDT."""

import numpy as np
import pytest

from multi_models import make, reg, same_trees

pd = pytest.importorskip("pandas")


@pytest.mark.parametrize("given", [
    [1, 0, -1, 0], np.array([1, 0, -1, 0]), {0: 1, 2: -1}, {"0": 1, "2": -1},
    [[1, 1, 1], [0, 0, 0], [-1, -1, -1], [0, 0, 0]], {0: [1, 1, 1], 2: -1},
])  # fmt: skip
def test_forms_of_constraints(given):
    X, Y = make(seed=2)
    wanted = reg(monotone_constraints=[1, 0, -1, 0]).fit(X, Y)
    same_trees(wanted, reg(monotone_constraints=given).fit(X, Y))
    assert not np.array_equal(wanted.predict(X), reg().fit(X, Y).predict(X)), "the constraints must bind"


def test_constraints_by_name():
    X, Y = make(seed=2)
    frame = pd.DataFrame(X, columns=list("abcd"))
    same_trees(
        reg(monotone_constraints=[1, 0, -1, 0]).fit(X, Y),
        reg(monotone_constraints={"a": 1, "c": -1}).fit(frame, Y),
    )


def test_no_constraint_is_none():
    X, Y = make()
    same_trees(reg(monotone_constraints=[0, 0, 0, 0]).fit(X, Y), reg().fit(X, Y))


def test_a_tree_for_each_output_takes_that_outputs_constraints():
    X, Y = make(seed=2)
    matrix = np.array([[1, -1, 0], [0, 0, 1], [0, 0, 0], [-1, 0, 0]])
    together = reg(monotone_constraints=matrix, tree_per_output=True).fit(X, Y)
    for j in range(3):
        alone = reg(monotone_constraints=matrix[:, j]).fit(X, Y[:, j])
        np.testing.assert_array_equal(together.predict(X)[:, j], alone.predict(X))


@pytest.mark.parametrize(("given", "match"), [
    ("auto", "must be a sequence, a dict keyed by feature or None. Got 'auto' instead"),
    ([1, 0], r"must have shape \(4,\) or \(4, 3\).* Got shape \(2,\) instead"),
    ([[1, 0]] * 4, r"must have shape .* Got shape \(4, 2\) instead"),
    ([2, 0, 0, 0], "must have only the values -1, 0 and 1. Got 2 instead"),
    ({0: -0.5}, "must have only the values -1, 0 and 1. Got -0.5 instead"),
    ([np.nan, 0, 0, 0], "must have only the values -1, 0 and 1. Got nan instead"),
    ({"q": 1}, "must have features of X as keys. Got 'q' instead"),
    ({4: 1}, "must have features of X as keys. Got 4"),
    ({-1: 1}, "must have features of X as keys. Got -1"),
    ({0: [1, 0]}, r"one per output \(3\), for feature 0. Got \[1, 0\] instead"),
    (["up", 0, 0, 0], "must be -1, 0 or 1 for each feature"),
    ([[1], [1, 2], 0, 0], "must be -1, 0 or 1 for each feature"),
])  # fmt: skip
def test_constraints_that_make_no_sense_are_refused(given, match):
    X, Y = make()
    with pytest.raises(ValueError, match=f"The 'monotone_constraints' parameter.* {match}"):
        reg(monotone_constraints=given).fit(X, Y)


def test_categories_have_no_direction():
    X, Y = make(categories=1)
    with pytest.raises(ValueError, match="must be 0 for feature 0, which is categorical"):
        reg(monotone_constraints=[1, 0, 0, 0], categorical_features=[0]).fit(X, Y)
