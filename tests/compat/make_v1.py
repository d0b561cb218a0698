"""Makes gbdt-sparse-v1.safetensors and what it predicts: kept for the record, run once for a format version.

    python tests/compat/make_v1.py

The file holds names, a projection, missing-value directions and a history, so that every part of the format
is read for ever. `gbdt-sparse-v1.json` holds the rows and what the model says of them.
"""

import json
from pathlib import Path

import numpy as np

import sparseleaf
from sparseleaf import SparseGBDTClassifier

HERE = Path(__file__).parent
NAMES = np.array(["ash", "birch", "chestnut", "dogwood", "elm", "fir", "ginkgo", "hâsel"], object)


def make(name, rows, targets, other, **parameters):
    clf = SparseGBDTClassifier(
        n_trees=6,
        learning_rate=0.4,
        leaf_labels=3,
        max_depth=3,
        min_samples_leaf=4,
        max_bins=16,
        **parameters,
    )
    clf.fit(rows, targets, eval_set=(rows, targets))
    clf.save(HERE / f"{name}.safetensors")
    clf = sparseleaf.load(HERE / f"{name}.safetensors")  # a compact file holds leaf values in 16 bits
    labels, scores = clf.predict_topk(other, 4)
    expected = {
        "X": [[None if np.isnan(x) else float(x) for x in row] for row in other.tolist()],
        "labels": labels.tolist(),
        "scores": [[None if np.isneginf(s) else float(s) for s in row] for row in scores],
        "predict": clf.predict(other),
        "n_trees": clf.model_.n_trees,
        "parameters": clf.model_.parameters,
    }
    if not isinstance(expected["predict"], list):
        expected["predict"] = expected["predict"].toarray().tolist()
    (HERE / f"{name}.json").write_text(json.dumps(expected) + "\n")


def main():
    import scipy.sparse as sp

    rng = np.random.default_rng(20)
    X = np.round(rng.normal(size=(150, 6)), 2).astype(np.float32)
    Y = X @ rng.normal(size=(6, len(NAMES))) > 2
    other = np.round(rng.normal(size=(12, 6)), 2).astype(np.float32)
    names = [NAMES[np.flatnonzero(row)].tolist() for row in Y]
    make("gbdt-sparse-v1", X, names, other, projection="random", projection_dim=4)
    X[rng.random(X.shape) < 0.2] = np.nan
    other[rng.random(other.shape) < 0.3] = np.nan
    make("gbdt-sparse-v1-missing", X, sp.csr_matrix(Y), other)


if __name__ == "__main__":
    main()
