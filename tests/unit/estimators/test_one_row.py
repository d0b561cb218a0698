"""A row alone has the answer that it has among others, and is refused in the same words."""

import pickle
import re

import numpy as np
import pytest
import scipy.sparse as sp

from sparseleaf import BlendClassifier, LdSMClassifier, SketchForestClassifier, SparseGBDTClassifier, _kernels
from sparseleaf.data import make_xc

X, Y = make_xc(700, 150, 60, labels_per_row=3, nnz_per_row=12, seed=5, n_topics=8)
KINDS = (None, "centroid", "cosine", "log", "linear", "boosted")
FOREST = SketchForestClassifier(n_trees=4, rerank=None)


def classifiers():
    for kind in KINDS:
        yield pytest.param(SketchForestClassifier(n_trees=4, rerank=kind), id=f"forest-{kind}")
        yield pytest.param(LdSMClassifier(n_trees=2, max_nodes=40, rerank=kind), id=f"ldsm-{kind}")
    yield pytest.param(SparseGBDTClassifier(n_trees=4, rerank="linear", projection=None), id="gbdt-linear")
    yield pytest.param(BlendClassifier([FOREST, LdSMClassifier(n_trees=2, max_nodes=40)]), id="blend")


@pytest.mark.parametrize("clf", list(classifiers()))
def test_a_row_alone_is_what_it_is_among_others(clf):
    clf.fit(X[:600], Y[:600])
    labels, scores = clf.predict_topk(X[600:], 7)
    again = pickle.loads(pickle.dumps(clf))  # what is prepared for rows is prepared again
    for i in (0, 3, 41, 99):
        row = X[600 + i]
        for rows in (row, row.toarray(), sp.csr_array(row), sp.csc_matrix(row, dtype=np.float64)):
            alone = again.predict_topk(rows, 7)
            assert np.array_equal(alone[0][0], labels[i])
            assert np.array_equal(alone[1][0], scores[i])


def broken(row, indices=None, data=None, indptr=None):
    rows = row.copy()
    for name, change in (("indices", indices), ("data", data), ("indptr", indptr)):
        if change is not None:
            getattr(rows, name)[0 if name != "indptr" else -1] = change
    return rows


BAD = {
    "NaN": lambda row: broken(row, data=np.nan),
    "inf": lambda row: broken(row, data=np.inf),
    "a column too far": lambda row: broken(row, indices=150),
    "a column below": lambda row: broken(row, indices=-1),
    "entries that are not there": lambda row: broken(row, indptr=99),
    "dense NaN": lambda row: broken(row, data=np.nan).toarray(),
    "dense inf": lambda row: broken(row, data=np.inf).toarray(),
    "few columns": lambda row: row[:, :149],
    "no rows": lambda row: row[:0],
    "one dimension": lambda row: row.toarray()[0],
    "words": lambda row: [["a"] * 150],
}


@pytest.mark.parametrize("kind", [None, "linear"])
@pytest.mark.parametrize("bad", list(BAD.values()), ids=list(BAD))
def test_a_bad_row_is_refused_in_the_words_of_the_full_check(kind, bad):
    clf = SketchForestClassifier(n_trees=2, rerank=kind).fit(X[:300], Y[:300])
    rows = bad(X[300])
    with pytest.raises(ValueError, match=r".") as full:
        clf._validate_features(rows, reset=False)
    with pytest.raises(ValueError, match=re.escape(str(full.value))):
        clf.predict_topk(rows, 5)


def test_rows_that_need_mending_are_mended():
    clf = SketchForestClassifier(n_trees=2).fit(X[:300], Y[:300])
    wanted = clf.predict_topk(X[300], 5)
    row = X[300]
    turned = sp.csr_matrix((row.data[::-1].copy(), row.indices[::-1].copy(), row.indptr), shape=row.shape)
    halves = sp.csr_matrix(
        (np.repeat(row.data / 2, 2), np.repeat(row.indices, 2), row.indptr * 2), shape=row.shape
    )
    strided = sp.csr_matrix(row)
    strided.data = np.repeat(row.data, 2)[::2]
    for rows in (turned, halves, strided):
        found = clf.predict_topk(rows, 5)
        assert all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True))
    assert turned.indices[0] == row.indices[-1]  # the caller's own are left as they are


def test_plain_rows_are_told_from_others():
    def plain(indptr, indices, data, n_features=4, kind=np.int64):
        return _kernels.plain_rows(
            np.array(indptr, kind), np.array(indices, np.int32), np.array(data, np.float32), n_features
        )

    assert plain([0, 2, 2, 3], [0, 3, 1], [1, 2, 3])
    assert plain([0, 2, 2, 3], [0, 3, 1], [1, 2, 3], kind=np.int32)
    assert plain([0], [], [])
    for bad in (
        ([], [], []),
        ([1, 2], [0, 1], [1, 2]),
        ([0, 2], [0], [1]),
        ([0, 2, 1, 2], [0, 1], [1, 2]),
        ([0, 5, 2], [0, 1], [1, 2]),
        ([0, 2], [1, 0], [1, 2]),
        ([0, 2], [1, 1], [1, 2]),
        ([0, 1], [4], [1]),
        ([0, 1], [-1], [1]),
        ([0, 1], [0], [np.nan]),
        ([0, 1], [0], [-np.inf]),
        ([0, 1], [0, 1], [1]),
    ):
        assert not plain(*bad)


@pytest.mark.parametrize("shape", [(0, 4), (1, 1), (3, 5), (300_000, 2)])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_finite_rows_are_told_from_others(shape, n_threads):
    X = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    X.flat[:2] = [3.4028235e38, 1e-45][: X.size]
    assert _kernels.plain_dense(X, False, n_threads)
    for value in (np.inf, -np.inf, np.nan):
        for place in {0, X.size // 2, X.size - 1} if X.size else ():
            other = X.copy()
            other.flat[place] = value
            assert not _kernels.plain_dense(other, False, n_threads)
            assert _kernels.plain_dense(other, True, n_threads) == np.isnan(value)
