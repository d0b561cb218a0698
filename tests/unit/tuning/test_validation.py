"""Splits: disjoint, by row or by query, stratified by class, and chosen by the number of rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import KFold

from sparseleaf.tuning.problem import make_problem
from sparseleaf.tuning.validation import make_validation


def problem(n, y=None, qid=None):
    return make_problem(
        np.zeros((n, 2)), np.linspace(0, 1, n) if y is None else y, qid, None, "auto", None, None
    )


def check_partition(splits, n):
    for split in splits:
        assert len(np.intersect1d(split.train, split.valid)) == 0
        assert len(split.train) + len(split.valid) == n


@pytest.mark.parametrize(("n", "n_splits"), [(100, 10), (499, 10), (500, 5), (4999, 5), (5000, 1)])
def test_the_number_of_rows_decides(n, n_splits):
    splits = make_validation(problem(n), None, 0).splits
    assert len(splits) == n_splits
    check_partition(splits, n)
    if n_splits > 1:
        each = np.bincount(np.concatenate([split.valid for split in splits]), minlength=n)
        assert (each == n_splits // 5).all()
    else:
        assert len(splits[0].valid) == n // 5


def test_one_split_of_a_large_set_is_limited():
    (split,) = make_validation(problem(600_000), None, 0).splits
    assert len(split.valid) == 50_000


def test_queries_are_not_divided():
    qid = np.random.default_rng(0).integers(0, 30, 200)
    splits = make_validation(problem(200, np.arange(200) % 3, qid), 4, 0).splits
    check_partition(splits, 200)
    for split in splits:
        assert not set(qid[split.train]) & set(qid[split.valid])


def test_classes_are_in_every_training_part():
    y = np.array(["a"] * 50 + ["b"] * 2 + ["c"] + ["d"] * 10)
    splits = make_validation(problem(len(y), y), 5, 0).splits
    for split in splits:
        assert set(y[split.train]) == set("abcd")
        assert 9 <= (y[split.valid] == "a").sum() <= 11
        assert (y[split.valid] == "d").sum() == 2
    assert not any("c" in y[split.valid] for split in splits)


def test_splits_of_the_user():
    splitter = KFold(3)
    splits = make_validation(problem(30), splitter, 0).splits
    for split, (train, valid) in zip(splits, splitter.split(np.zeros(30)), strict=True):
        assert np.array_equal(split.train, train)
        assert np.array_equal(split.valid, valid)
    (one,) = make_validation(problem(30), [(range(20), range(20, 30))], 0).splits
    assert one.valid.tolist() == list(range(20, 30))


@pytest.mark.parametrize(
    ("cv", "message"),
    [
        (1, "must be from 2 to the number of rows, 30. Got 1"),
        (31, "must be from 2"),
        ("five", "must be an int >= 2, a splitter"),
        ([([0, 1], [1, 2])], "both training and validation"),
        ([([0, 1], [30])], "row numbers from 0 to 29"),
        ([([0, 1], [])], "row numbers from 0 to 29"),
    ],
)
def test_invalid_splits(cv, message):
    with pytest.raises(ValueError, match=message):
        make_validation(problem(30), cv, 0)


def test_only_single_rows_of_classes():
    with pytest.raises(ValueError, match="requires validation rows"):
        make_validation(problem(3, np.array(list("abc"))), 2, 0)
