"""Rows that another thread changes during training, and batches that should not take many times their size."""

import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from marks import first
from sparseleaf import LdSMClassifier, SketchForestClassifier
from sparseleaf.data import load_mapped, make_xc, save_mapped
from sparseleaf.estimators.base import ModelEstimator

CHANGE_ROWS = """
import sys
import numpy as np
import sparseleaf
from sparseleaf.data import make_xc

kind = getattr(sparseleaf, sys.argv[1])
X, Y = make_xc(600, 80, 40)
if sys.argv[2] == "int64":
    X.indptr, Y.indptr = X.indptr.astype(np.int64), Y.indptr.astype(np.int64)
wanted = kind(n_trees=6, n_jobs=1).fit(X, Y).predict_topk(X, 5)
rows = X.copy()

def change(state):
    for array in (X.indices, Y.indices, X.indptr, Y.indptr):
        array[:] = 2**31 - 1

clf = kind(n_trees=6, n_jobs=1).fit(X, Y, callbacks=[change])
assert X.indices[0] == 2**31 - 1
assert all(np.array_equal(a, b) for a, b in zip(clf.predict_topk(rows, 5), wanted))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "indptr"), first(1, [("SketchForestClassifier", "int64"), ("LdSMClassifier", "int32")])
)
def test_indices_that_change_during_fit_change_nothing(kind, indptr):
    ended = subprocess.run(
        [sys.executable, "-c", CHANGE_ROWS, kind, indptr], capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == 0, ended.stderr[-2000:]


def test_mapped_rows_are_not_copied(tmp_path):
    X, Y = make_xc(300, 50, 20)
    save_mapped(tmp_path, X, Y)
    mapped = load_mapped(tmp_path)
    clf = LdSMClassifier(n_trees=1)
    copied = clf.estimate_memory(X, Y).rows - clf.estimate_memory(*mapped).rows
    assert copied == X.indices.nbytes + X.indptr.nbytes
    assert np.array_equal(clf.fit(*mapped).predict_topk(X)[1], clf.fit(X, Y).predict_topk(X)[1])


@pytest.mark.parametrize("rerank", first(1, [None, "centroid", "cosine", "linear", "boosted", "bayes"]))
@pytest.mark.parametrize("kind", [LdSMClassifier, SketchForestClassifier])
def test_dense_batches_do_not_take_many_times_their_memory(kind, rerank, monkeypatch):
    monkeypatch.setattr("sparseleaf._arrays.DENSE_BLOCK", 2**15)
    rng = np.random.default_rng(0)
    few = rng.random((60, 2000)).astype(np.float32)
    clf = kind(n_trees=1, rerank=rerank, n_jobs=1).fit(few, sp.csr_matrix(few[:, :4] > 0.6))
    batch = rng.random((300, 2000)).astype(np.float32)
    for method in (clf.predict_topk, clf.decision_function):
        tracemalloc.start()
        method(batch)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 2 * batch.nbytes, method.__name__


@pytest.mark.parametrize("dense", [False, True])
def test_rows_of_float64_are_served_as_quickly(monkeypatch, dense):
    X, Y = make_xc(200, 60, 20)
    clf = SketchForestClassifier(n_trees=2).fit(X, Y)
    X = X.toarray() if dense else X
    wanted = clf.predict_topk(X)

    def refuse(*_, **__):
        raise AssertionError("the full check")

    wide = X.astype(np.float64)
    with monkeypatch.context() as patched:
        patched.setattr(ModelEstimator, "_validate_features", refuse)
        for rows in (wide, wide[:1]):
            found = clf.predict_topk(rows)
            assert all(np.array_equal(a, b[: len(a)]) for a, b in zip(found, wanted, strict=True))
    values = wide if dense else wide.data
    values.flat[0] = 1e300
    with np.errstate(over="ignore"), pytest.raises(ValueError, match=r"infinity|too large"):
        clf.predict_topk(wide)
