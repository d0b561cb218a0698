"""Smoke test of an installed wheel, without pytest and without extras: `python tests/wheel.py`.

Every public module is imported, each estimator is fitted, saved and loaded, and the command line trains its demo.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import sparseleaf
from sparseleaf.data import load_xc, make_xc, save_xc

MODULES = ("callbacks", "data", "estimators", "metrics", "model", "plotting", "ranking", "report")


def check(folder: Path) -> None:
    """Fail with an exception where something does not work."""
    for name in MODULES:
        importlib.import_module(f"sparseleaf.{name}")
    X, Y = make_xc(300, 50, 40, labels_per_row=3, nnz_per_row=8)
    save_xc(folder / "data.txt", X, Y)
    X, Y = load_xc(folder / "data.txt")
    for estimator in (
        sparseleaf.SparseGBDTClassifier(n_trees=3),
        sparseleaf.LdSMClassifier(n_trees=2),
        sparseleaf.SketchForestClassifier(n_trees=2, rerank=None),
    ):
        estimator.fit(X, Y).save(folder / "model.safetensors")
        loaded = sparseleaf.load(folder / "model.safetensors")
        for fitted, stored in zip(estimator.predict_topk(X, k=3), loaded.predict_topk(X, k=3), strict=True):
            np.testing.assert_array_equal(fitted, stored)
    report = estimator.report(X, Y)  # its page is package data
    report.save(folder / "report.html")
    values = X.toarray()
    sparseleaf.MultiGBDTRegressor(n_trees=3).fit(values, values[:, :3]).predict(values)
    sparseleaf.MultiGBDTClassifier(n_trees=3).fit(values, np.arange(300) % 5).predict_proba(values)
    sparseleaf.GBDTRanker(n_trees=3).fit(values, np.arange(300) % 3, qid=np.arange(300) // 10).predict(values)
    subprocess.run([sys.executable, "-m", "sparseleaf", "demo"], cwd=folder, check=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        check(Path(name))
    print(f"sparseleaf {sparseleaf.__version__} works with Python {sys.version.split()[0]}")
