"""What shards by rows and by features have in common with one that has everything."""

import numpy as np
import pytest
import scipy.sparse as sp

from sparseleaf import _kernels
from sparseleaf.binning import SAMPLE_ROWS, find_cuts, join_cuts
from sparseleaf.boosting.leaves import LeafRule
from sparseleaf.data.rows import RowsInfo, join_info
from sparseleaf.data.targets import encode_targets, join_forms, relabelled
from sparseleaf.engine import part as part_module
from sparseleaf.engine.part import Part
from sparseleaf.engine.shard import even_ranges


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
def test_leaf_vectors_of_sums_are_those_of_the_kernel(k, min_gain):
    rng = np.random.default_rng(1)
    n_rows, n_labels = 200, 9
    Y = sp.csr_matrix(rng.random((n_rows, n_labels)) < 0.4)
    scores = rng.normal(size=Y.nnz).astype(np.float32).round(1)  # ties, and sums of exactly 0
    truth = np.where(rng.random(Y.nnz) < 0.5, 1 << 31, 0).astype(np.uint32)
    block = (Y.indptr.astype(np.int64), Y.indices.astype(np.uint32) | truth, scores)
    rows = rng.permutation(n_rows).astype(np.int32)
    starts, ends = np.array([0, 50, 50, 120]), np.array([50, 50, 120, 200])
    rule = LeafRule(k, min_gain, 1.5, 0.3)
    wanted = rule.vectors([block], rows, starts, ends, n_labels, 0, 1)
    total = 0
    for half in (rows < 77, rows >= 77):  # rows of two shards
        own = [rows[a:b][half[a:b]] for a, b in zip(starts, ends, strict=True)]
        borders = np.cumsum([0, *map(len, own)])
        indptr, labels, sums = _kernels.leaf_label_sums(
            [block], np.concatenate(own), borders[:-1], borders[1:], n_labels, 0, 2
        )
        total = total + sp.csr_matrix((sums, labels.astype(np.int32), indptr), shape=(4, n_labels))
    found = rule.vectors_of_sums(total, ends - starts)
    for name in ("indptr", "labels", "values"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))
    assert found.values.dtype == np.float32


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("sampled", [False, True])
def test_cuts_of_parts_are_those_of_all_rows(sparse, sampled, monkeypatch):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(500, 5)).astype(np.float32).round(1)
    X = sp.csr_matrix(X * (rng.random(X.shape) < 0.5)) if sparse else X
    if sampled:
        for module in ("sparseleaf.binning", "sparseleaf.engine.part"):
            monkeypatch.setattr(f"{module}.SAMPLE_ROWS", 100)
    assert SAMPLE_ROWS == 200_000
    wanted = find_cuts([X], 8, 3, 1)
    parts = [Part(X[a:b], None, 1) for a, b in ((0, 10), (10, 300), (300, 500))]
    for place, part in enumerate(parts):
        part.take_place(place, 3)
        part.number_rows([10, 290, 200])
    last = None
    if sampled:
        hashes = np.concatenate([part.sample_hashes(3) for part in parts])
        last = int(np.sort(hashes)[part_module.SAMPLE_ROWS - 1])
    given = [part.feature_cuts_give(8, 3, last) for part in parts]
    found = join_cuts(
        [part.feature_cuts_take([pieces[i] for pieces in given], 8, 3, last) for i, part in enumerate(parts)]
    )
    assert found.offsets.tolist() == wanted.offsets.tolist()
    assert found.values.tobytes() == wanted.values.tobytes()


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
    (RowsInfo(5, 4, False, False), "found 4 features in part 1; wanted 3"),
    (RowsInfo(5, 3, True, False), "sparse and dense"),
    (RowsInfo(5, 3, False, False, ["a", "b", "c"]), "other column names in part 1"),
])  # fmt: skip
def test_parts_that_do_not_agree_are_named(other, match):
    with pytest.raises(ValueError, match=match):
        join_info([RowsInfo(5, 3, False, True), other])


def test_targets_that_do_not_agree_are_named():
    forms = [encode_targets(Y).form() for Y in (sp.csr_matrix((2, 3)), sp.csr_matrix((2, 4)), [["a"]])]
    with pytest.raises(ValueError, match="found 4 labels in part 1; wanted 3"):
        join_forms(forms[:2])
    with pytest.raises(ValueError, match="different kinds"):
        join_forms(forms)
