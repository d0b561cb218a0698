"""
Labels per leaf: accuracy and model size
========================================

``leaf_labels`` limits the number of labels stored in a leaf. Few labels per leaf make a small model that needs more
trees.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

from sparseleaf import SparseGBDTClassifier
from sparseleaf.data import make_xc

X, Y = make_xc(2_000, 200, 150, labels_per_row=4, nnz_per_row=30, seed=1)
train, valid = slice(0, 1_600), slice(1_600, None)

# %%
# ``history_`` has the metric on the validation set after every tree.
fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for leaf_labels in (1, 5, 20, None):
    clf = SparseGBDTClassifier(
        n_trees=30, learning_rate=0.3, leaf_labels=leaf_labels, eval_metric="precision@3"
    )
    clf.fit(X[train], Y[train], eval_set=(X[valid], Y[valid]))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        clf.save(path)
        kilobytes = path.stat().st_size / 1_000
    curve = clf.history_["valid precision@3"]
    name = f"leaf_labels={leaf_labels}"
    ax.plot(range(1, len(curve) + 1), curve, label=f"{name} ({kilobytes:.0f} kB)")
    print(f"{name:17} precision@3 {curve[-1]:.3f}  {kilobytes:5.0f} kB")
ax.set(xlabel="trees", ylabel="precision@3 on the validation set")
ax.legend()
