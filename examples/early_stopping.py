"""
Early stopping and callbacks
============================

Stop when a validation set stops getting better; watch the training; draw what happened.
"""

from sparseleaf import SparseGBDTClassifier
from sparseleaf.callbacks import TrainingState
from sparseleaf.data import make_xc
from sparseleaf.metrics import precision_at_k
from sparseleaf.plotting import draw_learning_curve

X, Y = make_xc(2_500, 300, 200, labels_per_row=4, nnz_per_row=30, seed=1)
X_train, Y_train = X[:2_000], Y[:2_000]
X_valid, Y_valid = X[2_000:], Y[2_000:]


def watch(state: TrainingState) -> bool:
    """Say a word every 20 trees; True would stop the training."""
    if state.tree % 20 == 0:
        precision = state.history["valid precision@3"][-1]
        print(f"{state.tree} trees, {state.seconds:.1f} s, precision@3 {precision:.3f}")
    return False


clf = SparseGBDTClassifier(
    n_trees=300, learning_rate=0.3, eval_metric="precision@3", early_stopping_rounds=10
)
clf.fit(X_train, Y_train, eval_set=(X_valid, Y_valid), callbacks=[watch])

print(f"\n{clf.best_iteration_} trees were best and are kept:")
print(draw_learning_curve(clf.history_, height=8))

# the same curve can be had later, for any rows
for n_trees, (labels, _) in enumerate(clf.staged_predict_topk(X_valid, k=3), start=1):
    if n_trees in (1, clf.best_iteration_):
        print(f"precision@3 with {n_trees} trees: {precision_at_k(Y_valid, labels, 3):.3f}")
