"""
Early stopping and callbacks
============================

Stop when the metric on a validation set no longer improves, follow training with a callback, plot the learning curve.
"""

import matplotlib.pyplot as plt

from sparseleaf import SparseGBDTClassifier
from sparseleaf.callbacks import TrainingState
from sparseleaf.data import make_xc
from sparseleaf.metrics import precision_at_k
from sparseleaf.plotting import plot_learning_curve

X, Y = make_xc(2_500, 300, 200, labels_per_row=4, nnz_per_row=30, seed=1)
X_train, Y_train = X[:2_000], Y[:2_000]
X_valid, Y_valid = X[2_000:], Y[2_000:]


# %%
# A callback is called after every tree; training ends when it returns True.
def report(state: TrainingState) -> bool:
    """Print the metric every 20 trees."""
    if state.tree % 20 == 0:
        precision = state.history["valid precision@3"][-1]
        print(f"{state.tree} trees, precision@3 {precision:.3f}")
    return False


clf = SparseGBDTClassifier(
    n_trees=300, learning_rate=0.3, eval_metric="precision@3", early_stopping_rounds=10
)
clf.fit(X_train, Y_train, eval_set=(X_valid, Y_valid), callbacks=[report])
print(f"best iteration: {clf.best_iteration_} trees")

# %%
# ``history_`` has the metric after every tree.
fig, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
plot_learning_curve(clf.history_, ax=ax)

# %%
# ``staged_predict_topk`` gives the predictions after 1, 2, 3, … trees, for any rows.
for n_trees, (labels, _) in enumerate(clf.staged_predict_topk(X_valid, k=3), start=1):
    if n_trees in (1, clf.best_iteration_):
        print(f"precision@3 with {n_trees} trees: {precision_at_k(Y_valid, labels, 3):.3f}")
