"""Model bytes do not depend on how the BLAS adds up.

OpenBLAS has kernels for many processors, of which the environment can choose one; another BLAS ignores that, and the
test then compares equals.
"""

import os
import subprocess
import sys

import numpy as np
import pytest

from sparseleaf._arrays import on_grid

TRAIN = """
import hashlib, sys, warnings
from pathlib import Path
import numpy as np
from sparseleaf import MultiGBDTClassifier, SparseGBDTClassifier
from sparseleaf.data import make_xc

warnings.simplefilter("ignore")
X, Y = make_xc(500, 100, 30, nnz_per_row=20, labels_per_row=3)
wide, labels = make_xc(500, 2500, 30, nnz_per_row=30, labels_per_row=3)
trees = {"n_trees": 2, "n_jobs": 1}
for name, rows, targets, settings in (
    ("LEML", X, Y, {"projection": "leml"}),
    ("LEML, dense", X.toarray(), Y, {"projection": "leml"}),
    ("LEML, alternating", wide, labels, {"projection": "leml"}),
    ("PCA", X, Y, {"projection": "pca"}),
    ("PCA, dense", X.toarray(), Y, {"projection": "pca"}),
    ("naive Bayes", X, Y, {"projection": None, "rerank": "bayes"}),
    ("linear models", X, Y, {"projection": None, "rerank": "linear"}),
):
    model = SparseGBDTClassifier(**trees, projection_dim=12).set_params(**settings).fit(rows, targets)
    model.save(sys.argv[1])
    print(name, hashlib.sha256(Path(sys.argv[1]).read_bytes()).hexdigest())
dense = np.asarray(wide[:, :8].toarray())
model = MultiGBDTClassifier(n_trees=5, hessian="exact", n_jobs=1).fit(dense, np.arange(500) % 3)
model.save(sys.argv[1])
print("exact Hessian", hashlib.sha256(Path(sys.argv[1]).read_bytes()).hexdigest())
"""


@pytest.mark.slow
def test_models_are_the_same_for_other_kernels_of_the_blas(tmp_path):
    found = {}
    for core in ("Prescott", "Haswell", "SkylakeX"):
        environment = {**os.environ, "OPENBLAS_CORETYPE": core}
        command = [sys.executable, "-c", TRAIN, tmp_path / "model"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode < 0:
            continue  # this processor has not the instructions of that one
        assert done.returncode == 0, done.stderr
        found[core] = done.stdout.splitlines()
    assert len(found["Prescott"]) == 8
    for lines in found.values():
        assert lines == found["Prescott"]


def test_a_grid_takes_the_last_bits_and_little_else():
    rng = np.random.default_rng(0)
    columns = rng.normal(size=(50, 4)) * [1e-9, 1.0, 3.0, 1e12]
    other = columns * (1 + 1e-14 * rng.normal(size=columns.shape))
    np.testing.assert_array_equal(on_grid(columns), on_grid(other))
    assert (np.abs(on_grid(columns) - columns).max(axis=0) <= np.abs(columns).max(axis=0) * 2.0**-17).all()
    np.testing.assert_array_equal(on_grid(np.zeros((3, 2))), np.zeros((3, 2)))
