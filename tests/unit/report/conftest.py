"""A small multi-label problem, and a fitted model of it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from sparseleaf import SparseGBDTClassifier
from sparseleaf.data import make_xc


@pytest.fixture(scope="package")
def problem():
    X, Y = make_xc(700, 60, 25, labels_per_row=3, nnz_per_row=12)
    clf = SparseGBDTClassifier(n_trees=15, projection=None)
    clf.fit(X[:400], Y[:400], eval_set=(X[400:500], Y[400:500]))
    X, Y = X[500:], Y[500:]
    report = clf.report(X, Y, n_examples=8, latency=False)
    return SimpleNamespace(clf=clf, X=X, Y=Y, report=report, data=report.data)
