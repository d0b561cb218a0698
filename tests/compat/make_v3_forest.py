"""Makes forest-v3.safetensors and forest-v3-dense.safetensors, as make_v1.py made the first ones.

python tests/compat/make_v3_forest.py
"""

import json
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import sparseleaf
from sparseleaf import SketchForestClassifier

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
    flags = sp.csr_matrix((X > 0).astype(np.float32))
    votes = SketchForestClassifier(n_trees=3, arity=3, n_neighbors=5, neighbor_weight=0.5, rerank_weight=0.5)
    make("forest-v3", votes, flags, names, other)
    make(
        "forest-v3-dense", SketchForestClassifier(n_trees=2, arity=2, rerank=None), X, sp.csr_matrix(Y), other
    )


if __name__ == "__main__":
    main()
