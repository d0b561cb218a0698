"""
Re-ranking and blending
=======================

Re-ranking that learns, and two classifiers as one model.
"""

import tempfile
from pathlib import Path

import sparseleaf
from sparseleaf import BlendClassifier, LdSMClassifier, SparseGBDTClassifier
from sparseleaf.data import make_xc
from sparseleaf.metrics import precision_at_k

X, Y = make_xc(2500, 400, 300, labels_per_row=3, nnz_per_row=30, seed=2)
train, test = slice(0, 2000), slice(2000, None)


def show(name, clf):
    """Print P@1, P@3 and P@5 on the test rows."""
    labels, _ = clf.predict_topk(X[test], 5)
    print(f"{name:24s}", *(f"P@{k} {100 * precision_at_k(Y[test], labels, k):.1f}" for k in (1, 3, 5)))


trees = LdSMClassifier(n_trees=5, max_nodes=200)
show("LdSM", trees.fit(X[train], Y[train]))
learned = LdSMClassifier(n_trees=5, max_nodes=200, rerank="linear").fit(X[train], Y[train])
show("LdSM, linear", learned)

blend = BlendClassifier([learned, SparseGBDTClassifier(n_trees=40)]).fit(X[train], Y[train])
show("blended with boosting", blend)
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "blend.safetensors"
    blend.save(path)
    print("weights", sparseleaf.load(path).weights_.round(2).tolist())
