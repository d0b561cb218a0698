"""
Update a model with new rows and labels
=======================================

A forest is trained on records of the past. New records arrive in batches, and after half of them a new label appears.
``update`` adds them without retraining.
"""

import time

import matplotlib.pyplot as plt

from sparseleaf import SketchForestClassifier
from sparseleaf.data import make_xc
from sparseleaf.metrics import precision_at_k

X, Y = make_xc(5_000, 2_000, 500, labels_per_row=3, nnz_per_row=30, seed=1, n_topics=40)
X_test, Y_test = X[4_000:], Y[4_000:]
X, Y = X[:4_000], Y[:4_000]

# %%
# The first 2,000 records have only 400 of the 500 labels.
started = time.process_time()
clf = SketchForestClassifier(n_trees=20, rerank="linear").fit(X[:2_000], Y[:2_000, :400])
fit_seconds = time.process_time() - started


def precision(model):
    """Precision@1 on test rows with all labels."""
    return precision_at_k(Y_test, model.predict_topk(X_test, 1)[0], 1)


history = [(2_000, precision(clf))]
print(f"trained on 2,000 rows in {fit_seconds:.1f} s: precision@1 {history[0][1]:.3f}")

# %%
# Four batches of 500 rows. The first has the known labels, the others have new ones: wider matrices.
for begin in range(2_000, 4_000, 500):
    batch = slice(begin, begin + 500)
    width = 400 if begin == 2_000 else 500
    started = time.process_time()
    clf.update(X[batch], Y[batch, :width])
    seconds = time.process_time() - started
    history.append((begin + 500, precision(clf)))
    drift = clf.drift_
    print(
        f"updated in {seconds:.2f} s: precision@1 {history[-1][1]:.3f}; {drift.n_new_labels} new labels;"
        f" {drift.reasons or 'no reason to retrain'}"
    )

# %%
# A model that is retrained on all rows, for comparison.
whole = SketchForestClassifier(n_trees=20, rerank="linear").fit(X, Y)
fig, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
ax.plot(*zip(*history, strict=True), "o-", label="updated")
ax.axhline(precision(whole), linestyle="--", color="grey", label="retrained on all rows")
ax.set(xlabel="rows", ylabel="precision@1 on test rows")
ax.legend()
