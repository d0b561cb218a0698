"""
Multi-label classification
==========================

Train on a made-up set, look at the best labels, measure, save and load.
"""

import tempfile
from pathlib import Path

import sparseleaf
from sparseleaf import SparseGBDTClassifier
from sparseleaf.data import make_xc
from sparseleaf.metrics import evaluate, propensities

# 2,500 rows with 300 features; each has about 5 of 500 labels
X, Y = make_xc(2_500, 300, 500, labels_per_row=5, nnz_per_row=30)
X_train, Y_train, X_test, Y_test = X[:2_000], Y[:2_000], X[2_000:], Y[2_000:]

clf = SparseGBDTClassifier(n_trees=30, learning_rate=0.2, leaf_labels=20).fit(X_train, Y_train)

labels, scores = clf.predict_topk(X_test, k=5)
best = zip(labels[0], scores[0], strict=True)
print("first test row: ", ", ".join(f"label {label} {score:.2f}" for label, score in best))
print("its true labels:", Y_test[0].indices.tolist())

for name, value in evaluate(Y_test, labels, propensities(Y_train)).items():
    print(f"{name:11} {value:.3f}")

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "model.safetensors"
    clf.save(path)
    again = sparseleaf.load(path)
    print(f"{path.stat().st_size / 1e6:.2f} MB on disk; the same predictions:", end=" ")
    print((again.predict_topk(X_test, k=5)[0] == labels).all())
