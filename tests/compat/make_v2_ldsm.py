"""Makes ldsm-v2.safetensors and gbdt-sparse-v2-rerank.safetensors, as make_v1.py made the first ones.

python tests/compat/make_v2_ldsm.py
"""

import json
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import sparseleaf
from sparseleaf import LdSMClassifier, SparseGBDTClassifier

HERE = Path(__file__).parent
NAMES = np.array(["ash", "birch", "chestnut", "dogwood", "elm", "fir", "ginkgo", "h\u00e2sel"], object)


def make(name, clf, rows, targets, other):
    clf.fit(rows, targets, eval_set=(rows, targets)).save(HERE / f"{name}.safetensors")
    clf = sparseleaf.load(HERE / f"{name}.safetensors")
    labels, scores = clf.predict_topk(other, 4)
    predicted = clf.predict(other)
    expected = {
        "X": other.tolist(),
        "labels": labels.tolist(),
        "scores": [[None if np.isneginf(s) else float(s) for s in row] for row in scores],
        "predict": predicted if isinstance(predicted, list) else predicted.toarray().tolist(),
        "n_trees": clf.model_.n_trees,
        "parameters": clf.model_.parameters,
    }
    (HERE / f"{name}.json").write_text(json.dumps(expected) + "\n")


def main():
    rng = np.random.default_rng(21)
    X = (np.round(rng.normal(size=(150, 6)), 2) * (rng.random((150, 6)) < 0.7)).astype(np.float32)
    Y = X @ rng.normal(size=(6, len(NAMES))) > 2
    other = np.round(rng.normal(size=(12, 6)), 2).astype(np.float32)
    names = [NAMES[np.flatnonzero(row)].tolist() for row in Y]
    make("ldsm-v2", LdSMClassifier(n_trees=3, max_nodes=16, rerank="log"), sp.csr_matrix(X), names, other)
    make("ldsm-v2-arity", LdSMClassifier(n_trees=2, arity=3, max_nodes=16), X, sp.csr_matrix(Y), other)
    boosted = SparseGBDTClassifier(n_trees=4, max_depth=3, min_samples_leaf=4, leaf_labels=3, rerank="cosine")
    make("gbdt-sparse-v2-rerank", boosted, X, sp.csr_matrix(Y), other)


if __name__ == "__main__":
    main()
