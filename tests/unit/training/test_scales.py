"""Scales of columns with few rows and, by lowering the largest sum, with as many as 10⁹."""

import numpy as np
import pytest

from sparseleaf.training import scales
from sparseleaf.training.columns import int16_scales
from sparseleaf.training.scales import ScaleFitter

N = 5000


class Columns:
    """Numbers that are quantised, and how often."""

    def __init__(self, values):
        self.values, self.looks, self.keys = values, 0, set()
        self.largest = int16_scales(np.abs(values).max(axis=0))

    def quantise(self, scale, key):
        self.looks += 1
        self.keys.add(key)
        scaled = np.abs(self.values * scale)
        if key is None:
            self.integers = np.rint(scaled).astype(np.int64)
        else:
            draws = np.random.default_rng(key % 2**32).random(scaled.shape)
            self.integers = np.floor(scaled + draws).astype(np.int64)
        return self.integers.sum(axis=0)


def fit(fitter, values, tree, groups=()):
    columns = Columns(values)
    return fitter.fit(columns.quantise, columns.largest, groups, tree), columns


def sets():
    rng = np.random.default_rng(0)
    few = np.where(rng.random((N, 3)) < 0.01, 1.0, 1e-3)
    return [rng.random((N, 3)), np.ones((N, 3)), few, rng.normal(size=(N, 3)) ** 9, few, np.ones((N, 3)), few]


@pytest.mark.parametrize("rows", [N, 10**6, 10**7, 10**8, 10**9])
def test_scales_are_the_largest_that_fit_whatever_the_trees_before(rows, monkeypatch):
    """As many levels as so many rows would have: the largest sum is lowered by as much as rows are fewer."""
    most = (2**31 - 1) * N // rows
    monkeypatch.setattr(scales, "LARGEST_SUM", most)
    fitter = ScaleFitter(N, 0)
    for tree, values in enumerate(sets()):
        found, columns = fit(fitter, values, tree)
        assert (columns.integers.sum(axis=0) <= most).all()
        fresh, _ = fit(ScaleFitter(N, 0), values, tree)
        np.testing.assert_array_equal(found, fresh)
        assert (None in columns.keys) == (rows <= 2**24)
        assert columns.looks <= 3 or rows <= 2**24
        # twice the scale would not fit, but for what rounding adds
        doubled, halvings = 2 * np.abs(values * found).sum(axis=0), np.log2(columns.largest / found)
        near = 4 * np.sqrt(N) if rows > 2**24 else N / 2
        assert ((doubled > most - near) | (halvings == 0)).all()


@pytest.mark.parametrize("levels", [3, 200])
def test_a_group_has_one_scale(levels, monkeypatch):
    monkeypatch.setattr(scales, "LARGEST_SUM", levels * N)
    values = np.random.default_rng(0).random((N, 5)) * [1, 0.1, 1e-4, 1, 1]
    columns = Columns(values)
    columns.largest[:] = columns.largest.min()
    found = ScaleFitter(N, 0).fit(columns.quantise, columns.largest, [slice(0, 3), slice(3, None)], 0)
    assert len(set(found[:3])) == len(set(found[3:])) == 1
    assert (columns.integers.sum(axis=0) <= levels * N).all()


def test_trees_and_seeds_draw_differently(monkeypatch):
    monkeypatch.setattr(scales, "LARGEST_SUM", 3 * N)
    keys = [fit(ScaleFitter(N, seed), sets()[0], tree)[1].keys for seed in (0, 1) for tree in (0, 1)]
    assert len(set.union(*keys)) == 4


@pytest.mark.parametrize(("n", "key_is_none"), [(1, True), (2**24 - 1, True), (2**24, False), (10**9, False)])
def test_up_to_sixteen_million_rows_are_rounded_to_nearest(n, key_is_none):
    columns = Columns(np.ones((1, 1)))
    ScaleFitter(n, 0).fit(columns.quantise, columns.largest, (), 0)
    assert (columns.keys == {None}) == key_is_none
