"""Partitions of several workers agree on what one with all rows would have."""

import numpy as np
import pytest
import scipy.sparse as sp

from sparseleaf import _kernels
from sparseleaf._arrays import even_ranges
from sparseleaf.binning import SAMPLE_ROWS, find_thresholds
from sparseleaf.data.rows import RowsInfo, join_info
from sparseleaf.data.targets import Targets, encode_targets, join_forms, relabelled
from sparseleaf.distributed.communicator import LocalCommunicator
from sparseleaf.projection import fit_projection
from sparseleaf.training.leaves import LeafRule
from sparseleaf.training.partition import (
    PROJECTION_ROWS,
    Partition,
    SparsePartition,
    find_common_thresholds,
    fit_common_projection,
)
from workers import run_workers


@pytest.mark.parametrize("n", [1, 2, 3, 7])
@pytest.mark.parametrize("weights", [[1, 1, 1, 1, 1], [0, 0, 9, 0], [5], [], [1, 2, 3, 4, 5, 6, 7, 8]])
def test_ranges_follow_each_other_and_are_even(weights, n):
    found = even_ranges(np.array(weights, float), n)
    assert len(found) == n
    assert [index for first, end in found for index in range(first, end)] == list(range(len(weights)))
    sums = [sum(weights[first:end]) for first, end in found]
    assert max(sums) <= sum(weights) / n + max(weights, default=0)


@pytest.mark.parametrize("k", [None, 1, 3])
@pytest.mark.parametrize("min_gain", [0.0, 0.5])
@pytest.mark.parametrize("weighted", ["none", "rows", "labels", "both"])
def test_leaf_vectors_of_sums_are_those_of_the_kernel(k, min_gain, weighted):
    rng = np.random.default_rng(1)
    n_rows, n_labels = 2000, 9  # so that threads share the last leaf
    Y = sp.csr_matrix(rng.random((n_rows, n_labels)) < 0.4)
    scores = rng.normal(size=Y.nnz).astype(np.float32).round(1)  # ties, and sums of exactly 0
    truth = np.where(rng.random(Y.nnz) < 0.5, 1 << 31, 0).astype(np.uint32)
    indptr = Y.indptr.astype(np.int64)
    block = (indptr[:-1], indptr[1:], Y.indices.astype(np.uint32) | truth, scores)
    rows = rng.permutation(n_rows).astype(np.int32)
    starts, ends = np.array([0, 50, 50, 120]), np.array([50, 50, 120, n_rows])
    rule = LeafRule(k, min_gain, 1.5, 0.3)
    of_rows = rng.integers(1, 9, n_rows).astype(np.float32) / 4 if weighted in ("rows", "both") else None
    of_labels = rng.uniform(0.2, 5, n_labels).astype(np.float32) if weighted in ("labels", "both") else None
    none = np.empty(0, np.float32)
    weights = _kernels.LossWeights(
        none if of_rows is None else of_rows, none if of_labels is None else of_labels
    )
    each = np.ones(n_rows) if of_rows is None else of_rows
    totals = np.array([each[rows[a:b]].sum() for a, b in zip(starts, ends, strict=True)], np.float64)
    wanted = rule.vectors([block], rows, starts, ends, n_labels, 0, 1, weights, totals)
    pieces = []
    for half in (rows < 77, rows >= 77):  # rows of two shards
        own = [rows[a:b][half[a:b]] for a, b in zip(starts, ends, strict=True)]
        borders = np.cumsum([0, *map(len, own)])
        pieces.append(
            _kernels.leaf_label_sums(
                [block], np.concatenate(own), borders[:-1], borders[1:], n_labels, 0, 2, weights
            )
        )
    found = rule.vectors_of_sums(pieces, totals, n_labels, 2, weights)
    for name in ("indptr", "labels", "values"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))
    assert found.values.dtype == np.float32


@pytest.mark.parametrize(
    ("piece", "message"),
    [
        (([0, 1], [5], [7]), "one row per leaf"),
        (([0, 1, 0], [], []), "must not decrease"),
        (([0, 1, 3], [5, 0], [7, 7]), "number of sums"),
        (([0, 1, 2], [5, 9], [7, 7]), "below n_labels"),
    ],
)
def test_broken_sums_are_refused(piece, message):
    indptr, labels, sums = piece
    arrays = np.array(indptr, np.int64), np.array(labels, np.uint32), np.array(sums, np.int64)
    none = np.empty(0, np.int64)
    with pytest.raises(ValueError, match=message):
        _kernels.leaf_vectors_of_sums([(*arrays, none)], np.array([3.0, 4.0]), 9, -1, 1.0, 0.0, 0.1, 1)


BORDERS = ((0, 10), (10, 300), (300, 500))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("sampled", [False, True])
def test_thresholds_of_partitions_are_those_of_all_rows(sparse, sampled, monkeypatch):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(500, 5)).astype(np.float32).round(1)
    X = sp.csr_matrix(X * (rng.random(X.shape) < 0.5)) if sparse else X
    assert SAMPLE_ROWS == 200_000
    if sampled:
        for module in ("sparseleaf.binning", "sparseleaf.training.partition"):
            monkeypatch.setattr(f"{module}.SAMPLE_ROWS", 100)
    wanted = find_thresholds([X[:, :2], X[:, 2:]], 8, 3, 1)

    def work(comm):
        part = Partition(X[slice(*BORDERS[comm.rank])], None, 1)
        assert part.number_rows(comm) == 500
        return find_common_thresholds(comm, part, [part.features[:, :2], part.features[:, 2:]], 8, 3)

    for found in run_workers(3, work):
        assert found.offsets.tolist() == wanted.offsets.tolist()
        assert found.values.tobytes() == wanted.values.tobytes()


@pytest.mark.parametrize(("kind", "most"), [("leml", None), ("leml", 120), ("pca", 120), ("random", 120)])
def test_a_projection_is_fitted_on_the_same_rows_by_any_number_of_workers(kind, most, monkeypatch):
    rng = np.random.default_rng(4)
    X = sp.csr_matrix(rng.normal(size=(500, 12)) * (rng.random((500, 12)) < 0.4), dtype=np.float32)
    targets = encode_targets(sp.csr_matrix(rng.random((500, 6)) < 0.3))
    assert PROJECTION_ROWS == 1 << 17
    if most is not None:
        monkeypatch.setattr("sparseleaf.training.partition.PROJECTION_ROWS", most)

    def work(comm):
        own = slice(*BORDERS[comm.rank]) if comm.size > 1 else slice(None)
        part = SparsePartition(X[own], None, Targets(targets.matrix[own], None, targets.kind), 1)
        part.number_rows(comm)
        found = fit_common_projection(comm, part, kind, 3, keep_raw=False, seed=5, verbose=0)
        return found.components.tobytes()

    wanted = work(LocalCommunicator())
    assert run_workers(3, work) == [wanted] * 3
    whole = fit_projection(kind, X, targets.matrix, 3, keep_raw=False, seed=5, n_jobs=1)
    assert (wanted == whole.components.tobytes()) == (most is None or kind == "random")


@pytest.mark.parametrize("Y", [
    [["a", "c"], ["b"], [], ["c", "d"], ["a"]],
    np.array(["x", "y", "x", "z", "y"]),
    np.array([3, 1, 3, 3, 2]),
    sp.csr_matrix(np.eye(5)),
    np.eye(5, dtype=int),
], ids=["lists", "names", "numbers", "sparse", "dense"])  # fmt: skip
def test_targets_of_parts_are_those_of_all_rows(Y):
    whole = encode_targets(Y)
    parts = [encode_targets(Y[a:b]) for a, b in ((0, 2), (2, 3), (3, 5))]
    form = join_forms([part.form() for part in parts])
    joined = sp.vstack([relabelled(part, form).matrix for part in parts])
    assert (joined != whole.matrix).nnz == 0
    assert form.kind == whole.kind
    assert (form.names is None) == (whole.names is None)
    if whole.names is not None:
        assert form.names.tolist() == whole.names.tolist()


@pytest.mark.parametrize(("other", "match"), [
    (RowsInfo(5, 4, False, False), "must have 3 features, as partition 0. Got 4 in partition 1"),
    (RowsInfo(5, 3, True, False), "must be sparse, or all dense; partition 1"),
    (RowsInfo(5, 3, False, False, ["a", "b", "c"]), "same column names; partition 1"),
])  # fmt: skip
def test_parts_that_do_not_agree_are_named(other, match):
    with pytest.raises(ValueError, match=match):
        join_info([RowsInfo(5, 3, False, True), other])


def test_targets_that_do_not_agree_are_named():
    forms = [encode_targets(Y).form() for Y in (sp.csr_matrix((2, 3)), sp.csr_matrix((2, 4)), [["a"]])]
    with pytest.raises(ValueError, match=r"must have 3 labels, as partition 0. Got 4 in partition 1"):
        join_forms(forms[:2])
    with pytest.raises(ValueError, match="must have the same form"):
        join_forms(forms)
