"""What 32-bit numbers cannot count is refused in words, and does not wrap around."""

import numpy as np
import pytest
import scipy.sparse as sp

from sparseleaf import (
    LdSMClassifier,
    MultiGBDTRegressor,
    SketchForestClassifier,
    SparseGBDTClassifier,
    _arrays,
)
from sparseleaf.data import make_xc, save_xc
from sparseleaf.data.rows import RowsInfo
from sparseleaf.data.targets import encode_targets
from sparseleaf.distributed.communicator import LocalCommunicator
from sparseleaf.model import join_trees
from sparseleaf.ranking import make_queries
from sparseleaf.training.builder import Growth, HistogramTrees
from sparseleaf.training.partition import Partition, describe_rows

WIDE = 2**31
CLASSIFIERS = [SparseGBDTClassifier, SketchForestClassifier, LdSMClassifier]


def one_column_in(n_columns, n_rows=4):
    """All rows have the last of very many columns."""
    indices = np.full(n_rows, n_columns - 1, np.int64)
    return sp.csr_matrix((np.ones(n_rows), indices, np.arange(n_rows + 1)), shape=(n_rows, n_columns))


@pytest.mark.parametrize("kind", [*CLASSIFIERS, MultiGBDTRegressor])
def test_features(kind):
    with pytest.raises(
        ValueError, match=r"X: the number of features must be at most 2,147,483,647 .* Got 2,147,483,648"
    ):
        kind(n_trees=1).fit(one_column_in(WIDE), [[1], [0], [1], [1]])


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_labels(kind):
    with pytest.raises(
        ValueError, match=r"Y: the number of labels must be at most 2,147,483,647 .* Got 2,147,483,648"
    ):
        kind(n_trees=1).fit(np.eye(4), one_column_in(WIDE))


def test_columns_below_the_limit_are_taken():
    assert encode_targets(one_column_in(WIDE - 1)).matrix.indices.tolist() == [WIDE - 2] * 4


def test_columns_of_files(tmp_path):
    for X, Y, what in (
        (one_column_in(WIDE), np.eye(4), "features"),
        (np.eye(4), one_column_in(WIDE), "labels"),
    ):
        with pytest.raises(ValueError, match=f"number of {what} must be at most .* Got 2,147,483,648"):
            save_xc(tmp_path / "set.txt", X, Y)
    assert not list(tmp_path.iterdir())


class Others(LocalCommunicator):
    """One of the workers of a cluster, none of which has many rows."""

    def __init__(self, n_rows):
        super().__init__()
        self._n_rows = n_rows

    def allgather(self, value):
        if isinstance(value, RowsInfo):
            return [RowsInfo(n, 3, sparse=False, nan=False) for n in self._n_rows]
        return self._n_rows


def test_rows_of_all_workers():
    part = Partition(np.zeros((5, 3), np.float32), None, 1)
    assert describe_rows(Others([2**30, 2**30 - 1]), part).n_rows == 2**31 - 1
    with pytest.raises(ValueError, match=r"X: the number of rows in all parts must be at most"):
        describe_rows(Others([2**30, 2**30]), part)


def test_bins_of_all_features():
    none, growth = np.zeros(2, np.uint8), Growth("depth-wise", None, None, 1, 0.0)
    with pytest.raises(ValueError, match=r"max_bins: the number of bins of all features must be at most"):
        HistogramTrees(growth, np.full(2, 2**30, np.int32), none, none, 9, 1.0, 1 << 20, 9)


def test_documents_of_all_queries():
    with pytest.raises(ValueError, match=r"X: the number of rows must be at most .* Got 2,147,483,648"):
        make_queries(WIDE, group=[WIDE])


X, Y = make_xc(60, 20, 5, nnz_per_row=5, seed=1)


@pytest.mark.parametrize("kind", [*CLASSIFIERS, MultiGBDTRegressor])
def test_rows_of_a_process(kind, monkeypatch):
    """With a smaller limit: so many rows take a lot of memory."""
    y = Y.toarray() if kind is MultiGBDTRegressor else Y
    fitted = kind(n_trees=1).fit(X, y)
    monkeypatch.setattr(_arrays, "LARGEST_COUNT", 59)
    monkeypatch.setattr("sparseleaf.estimators.base.LARGEST_COUNT", 59)
    with pytest.raises(
        ValueError, match=r"X: the number of rows in one process must be at most 59 .* Got 60"
    ):
        kind(n_trees=1).fit(X, y)
    with pytest.raises(ValueError, match="X: the number of rows in one process must be at most"):
        fitted.predict(X.astype(np.float64))


@pytest.mark.parametrize("kind", [*CLASSIFIERS, MultiGBDTRegressor])
def test_nodes_of_all_trees(kind, monkeypatch):
    def lower_the_limit(state):
        monkeypatch.setattr(_arrays, "LARGEST_COUNT", 2)

    y = Y.toarray() if kind is MultiGBDTRegressor else Y
    with pytest.raises(ValueError, match=r"n_trees: the number of nodes of all trees must be at most 2 "):
        kind(n_trees=3).fit(X, y, callbacks=[lower_the_limit])


def test_nodes_of_trees_and_those_before_them(monkeypatch):
    trees = MultiGBDTRegressor(n_trees=2).fit(X, Y.toarray()).model_.trees
    monkeypatch.setattr(_arrays, "LARGEST_COUNT", 2 * len(trees.feature))
    join_trees(trees, trees)
    monkeypatch.setattr(_arrays, "LARGEST_COUNT", 2 * len(trees.feature) - 1)
    with pytest.raises(ValueError, match=r"n_trees: the number of nodes of all trees must be at most"):
        join_trees(trees, trees)
