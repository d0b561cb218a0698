"""
SketchForest and its re-ranking stages
======================================

How much each re-ranking stage adds to the trees of a ``SketchForestClassifier``, on a synthetic dataset with 1,000
labels.
"""

import matplotlib.pyplot as plt
import numpy as np

from sparseleaf import SketchForestClassifier
from sparseleaf.data import make_xc
from sparseleaf.metrics import evaluate, propensities

X, Y = make_xc(4_000, 2_000, 1_000, labels_per_row=3, nnz_per_row=30, seed=1, n_topics=50)
X_train, Y_train, X_test, Y_test = X[:3_200], Y[:3_200], X[3_200:], Y[3_200:]

# %%
# The same forest without re-ranking, with label centroids, and with linear classifiers and nearest neighbours.
metrics = ("precision@1", "precision@5", "psp@1")
stages = {"no re-ranking": None, "cosine": "cosine", "linear": "linear"}
results = {}
for name, rerank in stages.items():
    clf = SketchForestClassifier(n_trees=20, rerank=rerank).fit(X_train, Y_train)
    labels, _ = clf.predict_topk(X_test, k=5)
    values = evaluate(Y_test, labels, propensities(Y_train))
    results[name] = [values[metric] for metric in metrics]
    print(f"{name:15}" + "  ".join(f"{metric} {values[metric]:.3f}" for metric in metrics))

# %%
# PSP, which gives rare labels more weight, gains most.
fig, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
for i, (name, values) in enumerate(results.items()):
    bars = ax.bar(np.arange(len(metrics)) + 0.27 * (i - 1), values, width=0.25, label=name)
    ax.bar_label(bars, fmt="%.2f", fontsize=8)
ax.set_xticks(range(len(metrics)), metrics)
ax.set_ylim(0, 1.1)
ax.legend(title="rerank", ncols=3, loc="upper center")

# %%
# With ``bootstrap=True`` the out-of-bag score estimates precision@1 without a validation set.
bagged = SketchForestClassifier(n_trees=20, bootstrap=True).fit(X_train, Y_train)
print(f"out-of-bag precision@1: {bagged.oob_score_:.3f}")
