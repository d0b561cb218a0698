"""
SketchForest and its re-ranking stages
======================================

The sketch forest on a made-up set with many labels: what the stages of re-ranking add to the trees.
"""

from sparseleaf import SketchForestClassifier
from sparseleaf.data import make_xc
from sparseleaf.metrics import evaluate, propensities

X, Y = make_xc(4_000, 2_000, 1_000, labels_per_row=3, nnz_per_row=30, seed=1, n_topics=50)
X_train, Y_train, X_test, Y_test = X[:3_200], Y[:3_200], X[3_200:], Y[3_200:]

stages = {
    "trees": {"rerank": None},
    "and centroids": {"rerank": "cosine"},
    "linear models, neighbours": {"rerank": "linear"},
}
for name, settings in stages.items():
    clf = SketchForestClassifier(n_trees=20, **settings).fit(X_train, Y_train)
    labels, _ = clf.predict_topk(X_test, k=5)
    found = evaluate(Y_test, labels, propensities(Y_train))
    print(
        f"{name:27}"
        + "  ".join(f"{metric} {found[metric]:.3f}" for metric in ("precision@1", "precision@5", "psp@1"))
    )

bagged = SketchForestClassifier(n_trees=20, bootstrap=True).fit(X_train, Y_train)
print(f"precision@1 of rows by trees that have not seen them: {bagged.oob_score_:.3f}")
