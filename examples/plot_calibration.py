"""
Probabilities and thresholds
============================

Scores rank labels; they are not probabilities. A calibrator maps them to probabilities without changing the ranking.
Probabilities then decide the number of labels per row.
"""

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp

from sparseleaf import SketchForestClassifier
from sparseleaf.data import make_xc
from sparseleaf.metrics import expected_calibration_error, f1_score, recall_score
from sparseleaf.plotting import plot_reliability

X, Y = make_xc(4_000, 600, 120, labels_per_row=3, nnz_per_row=25, seed=3)
train, valid, test = slice(0, 2_400), slice(2_400, 3_000), slice(3_000, 4_000)

# %%
# With a re-ranker, ``fit`` holds out some rows. The calibrator is fitted on these.
clf = SketchForestClassifier(n_trees=20, rerank="linear").fit(X[train], Y[train])
probabilities = clf.predict_proba(X[test], k=5)

# %%
# The scores of the same labels, to compare with.
labels, scores = clf.predict_topk(X[test], k=5)
rows = np.repeat(np.arange(len(labels)), 5)
raw = sp.csr_matrix((np.clip(scores, 0, 1).ravel(), (rows, labels.ravel())), shape=Y[test].shape)
fig, ax = plt.subplots(figsize=(4.8, 4.4), layout="constrained")
plot_reliability(Y[test], raw, label="scores", ax=ax)
plot_reliability(Y[test], probabilities, label="probabilities", ax=ax)

# %%
print(f"calibration error of scores        {expected_calibration_error(Y[test], raw):.3f}")
print(f"calibration error of probabilities {expected_calibration_error(Y[test], probabilities):.3f}")

# %%
# Label sets: a fixed number of labels, a fixed probability, and the number of labels with the highest expected F1. For
# rare labels, weight probabilities by inverse frequency.
for decode in ("top:5", "threshold:0.5", "expected_f1", "macro_recall@5"):
    predicted = clf.predict(X[test], decode=decode)
    print(
        f"{decode:15} micro-F1 {f1_score(Y[test], predicted):.3f}"
        f"  macro-F1 {f1_score(Y[test], predicted, 'macro'):.3f}"
        f"  macro-recall {recall_score(Y[test], predicted, 'macro'):.3f}"
        f"  labels per row {predicted.nnz / predicted.shape[0]:.1f}"
    )

# %%
# Thresholds chosen on validation rows are stored in the model, and ``predict`` uses them.
for target, per_label in (("f1", False), ("macro-f1", True), ("precision:0.8", False)):
    clf.set_threshold(X[valid], Y[valid], target=target, per_label=per_label)
    predicted = clf.predict(X[test])
    print(
        f"{target:14} micro-F1 {f1_score(Y[test], predicted):.3f}"
        f"  macro-F1 {f1_score(Y[test], predicted, 'macro'):.3f}"
        f"  labels per row {predicted.nnz / predicted.shape[0]:.1f}"
    )
