"""
Weights of rows and labels
==========================

Rare labels are found more often if they weigh more; ``class_weight="balanced"`` chooses the weights. What is gained in
recall of rare labels (psp) is paid for in precision of the first label.
"""

import matplotlib.pyplot as plt
import numpy as np

from sparseleaf import SparseGBDTClassifier
from sparseleaf.data import make_xc
from sparseleaf.metrics import evaluate, propensities

X, Y = make_xc(3_000, 200, 60, labels_per_row=2, nnz_per_row=20, noise=0.3)
X_train, Y_train, X_test, Y_test = X[:2_400], Y[:2_400], X[2_400:], Y[2_400:]

# %%
# Between equal weights and "balanced": powers of the balanced weights.
counts = np.asarray(Y_train.sum(axis=0)).ravel()
balanced = counts.sum() / (len(counts) * np.maximum(counts, 1))
powers = [0.0, 0.25, 0.5, 0.75, 1.0]
results = []
for power in powers:
    clf = SparseGBDTClassifier(n_trees=30, learning_rate=0.3, class_weight=balanced**power)
    clf.fit(X_train, Y_train)
    results.append(evaluate(Y_test, clf.predict_topk(X_test, k=5), propensities(Y_train)))

# %%
# Row weights: the second half of the rows counts twice. A weight of 0 would leave a row out.
recent = np.where(np.arange(X_train.shape[0]) >= 1_200, 2.0, 1.0)
clf = SparseGBDTClassifier(n_trees=30, learning_rate=0.3).fit(X_train, Y_train, sample_weight=recent)
print(f"precision@1 with row weights: {clf.score(X_test, Y_test):.3f}")

# %%
fig, ax = plt.subplots(figsize=(5, 3), layout="constrained")
for name in ("precision@1", "psp@1", "psp@5"):
    ax.plot(powers, [scores[name] for scores in results], marker="o", label=name)
ax.set(xlabel="power of the balanced label weights", ylabel="score")
ax.legend()
