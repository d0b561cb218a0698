"""
Multi-label classification
==========================

Train on a synthetic dataset with 500 labels, predict the best labels of each row, evaluate, save and load.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import sparseleaf
from sparseleaf import SparseGBDTClassifier
from sparseleaf.data import make_xc
from sparseleaf.metrics import evaluate, precision_at_k, propensities

# %%
# The data: 2,500 rows with 300 sparse features and about 5 of 500 labels each, as two CSR matrices.
X, Y = make_xc(2_500, 300, 500, labels_per_row=5, nnz_per_row=30)
X_train, Y_train, X_test, Y_test = X[:2_000], Y[:2_000], X[2_000:], Y[2_000:]

clf = SparseGBDTClassifier(n_trees=30, learning_rate=0.2, leaf_labels=20).fit(X_train, Y_train)

# %%
# ``predict_topk`` returns the best labels with their scores.
labels, scores = clf.predict_topk(X_test, k=5)
best = zip(labels[0], scores[0], strict=True)
print("first test row: ", ", ".join(f"label {label} {score:.2f}" for label, score in best))
print("its true labels:", Y_test[0].indices.tolist())

# %%
# Precision, nDCG and their propensity-scored versions.
for name, value in evaluate(Y_test, labels, propensities(Y_train)).items():
    print(f"{name:11} {value:.3f}")

# %%
# Precision after every tree.
fig, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
staged = [labels for labels, _ in clf.staged_predict_topk(X_test, k=5)]
for k in (1, 3, 5):
    ax.plot(range(1, 31), [precision_at_k(Y_test, after, k) for after in staged], label=f"P@{k}")
ax.set(xlabel="trees", ylabel="precision on the test set", ylim=(0, None))
ax.legend()

# %%
# One file holds the whole model. The loaded model makes the same predictions.
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "model.safetensors"
    clf.save(path)
    loaded = sparseleaf.load(path)
    print(f"{path.stat().st_size / 1e6:.2f} MB; same predictions:", end=" ")
    print((loaded.predict_topk(X_test, k=5)[0] == labels).all())
