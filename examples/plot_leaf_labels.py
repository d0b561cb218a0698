"""
Labels per leaf and learning curves
===================================

Precision on a validation set after every tree, for several ``leaf_labels``: a leaf that stores few labels makes a small
model, and needs more trees.
"""

import matplotlib.pyplot as plt

from sparseleaf import SparseGBDTClassifier
from sparseleaf.data import make_xc

X, Y = make_xc(2_000, 200, 150, labels_per_row=4, nnz_per_row=30, seed=1)
train, valid = slice(0, 1_600), slice(1_600, None)

# %%
# ``history_`` has the metric after every tree.
fig, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for leaf_labels in (1, 5, 20, None):
    clf = SparseGBDTClassifier(
        n_trees=30, learning_rate=0.3, leaf_labels=leaf_labels, eval_metric="precision@3"
    )
    clf.fit(X[train], Y[train], eval_set=(X[valid], Y[valid]))
    curve = clf.history_["valid precision@3"]
    name = "all labels" if leaf_labels is None else f"{leaf_labels} labels per leaf"
    axes.plot(range(1, len(curve) + 1), curve, label=name)
    print(f"{name:20} precision@3 {curve[-1]:.3f}")
axes.set(xlabel="trees", ylabel="precision@3 on the validation set")
axes.legend()
