"""Makes the files of version 3 with learned re-ranking and a blend, as make_v2_ldsm.py made those of version 2.

python tests/compat/make_v3_rerank.py
"""

import json
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import sparseleaf
from sparseleaf import BlendClassifier, LdSMClassifier, SparseGBDTClassifier

HERE = Path(__file__).parent
NAMES = np.array(["ash", "birch", "chestnut", "dogwood", "elm", "fir", "ginkgo", "h\u00e2sel"], object)


def make(name, clf, other):
    clf.save(HERE / f"{name}.safetensors")
    clf = sparseleaf.load(HERE / f"{name}.safetensors")
    labels, scores = clf.predict_topk(other, 4)
    expected = {
        "X": other.tolist(),
        "labels": labels.tolist(),
        "scores": [[None if np.isneginf(s) else float(s) for s in row] for row in scores],
        "n_trees": clf.model_.n_trees,
    }
    (HERE / f"{name}.json").write_text(json.dumps(expected) + "\n")


def main():
    rng = np.random.default_rng(31)
    X = (np.round(rng.normal(size=(150, 6)), 2) * (rng.random((150, 6)) < 0.7)).astype(np.float32)
    Y = X @ rng.normal(size=(6, len(NAMES))) > 2
    other = np.round(rng.normal(size=(12, 6)), 2).astype(np.float32)
    names = [NAMES[np.flatnonzero(row)].tolist() for row in Y]
    ldsm = LdSMClassifier(n_trees=2, max_nodes=10)
    linear = LdSMClassifier(**ldsm.get_params() | {"rerank": "linear"}).fit(X, names)
    make("ldsm-v3-linear", linear, other)
    boosted = SparseGBDTClassifier(n_trees=3, max_depth=3, min_samples_leaf=4, leaf_labels=3, projection=None)
    make("sparse-v3-boosted", boosted.set_params(rerank="boosted").fit(X, sp.csr_matrix(Y)), other)
    blend = BlendClassifier([ldsm, boosted.set_params(rerank=None)]).fit(X, names)
    make("blend-v3", blend, other)


if __name__ == "__main__":
    main()
