"""Makes the files of version 5, the first with stages: one for every kind of stage.

python tests/compat/make_v5.py
"""

import json
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import sparseleaf
from sparseleaf import (
    BlendClassifier,
    LdSMClassifier,
    MultiGBDTClassifier,
    MultiGBDTRegressor,
    SketchForestClassifier,
    SparseGBDTClassifier,
)

HERE = Path(__file__).parent
NAMES = np.array(["ash", "birch", "chestnut", "dogwood", "elm", "fir", "ginkgo", "h\u00e2sel"], object)


def make(name, estimator, other):
    path = HERE / f"{name}.safetensors"
    estimator.save(path)
    loaded = sparseleaf.load(path)
    model = loaded.model_
    expected = {"X": other.tolist(), "stages": [stage.kind for stage in model.stages], "link": model.link}
    if hasattr(loaded, "predict_topk"):
        labels, scores = loaded.predict_topk(other, 4)
        expected |= {
            "labels": labels.tolist(),
            "scores": [[None if np.isneginf(s) else float(s) for s in row] for row in scores],
        }
    else:
        expected["predict"] = loaded.predict(other).tolist()
    path.with_suffix(".json").write_text(json.dumps(expected) + "\n")


def main():
    rng = np.random.default_rng(51)
    X = (np.round(rng.normal(size=(200, 6)), 2) * (rng.random((200, 6)) < 0.2)).astype(np.float32)
    Y = X @ rng.normal(size=(6, len(NAMES))) > 0.5
    other = (np.round(rng.normal(size=(12, 6)), 2) * (rng.random((12, 6)) < 0.4)).astype(np.float32)
    other[0] = 0  # gets the prior
    rows, matrix = sp.csr_matrix(X), sp.csr_matrix(Y)
    names = [NAMES[np.flatnonzero(row)].tolist() for row in Y]
    small = {"n_trees": 2, "random_state": 0}
    ldsm = LdSMClassifier(**small, max_nodes=10)
    sparse = SparseGBDTClassifier(**small, max_depth=2, projection="random", projection_dim=3)
    for kind in ("centroid", "cosine"):
        make(f"v5-{kind}", ldsm.set_params(rerank=kind).fit(rows, names), other)
    for kind in ("log", "linear", "boosted"):
        make(f"v5-{kind}", sparse.set_params(rerank=kind).fit(rows, matrix), other)
    make("v5-bayes", SketchForestClassifier(**small, rerank="bayes").fit(rows, names), other)
    members = [ldsm.set_params(rerank=None), sparse.set_params(rerank="linear")]
    make("v5-blend", BlendClassifier(members, weights=[1, 3]).fit(rows, names), other)
    dense = {**small, "max_depth": 2}
    make("v5-logistic", MultiGBDTClassifier(**dense).fit(rows, matrix), other)
    make("v5-softmax", MultiGBDTClassifier(**dense).fit(X, NAMES[Y.argmax(axis=1)].astype(str)), other)
    make("v5-log-link", MultiGBDTRegressor(**dense, loss="poisson").fit(X, np.round(np.abs(X[:, :2]))), other)


if __name__ == "__main__":
    main()
