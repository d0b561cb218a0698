"""
LdSM and its diagnostics
========================

``LdSMClassifier`` with and without re-ranking, and how well the nodes of its trees were split.
"""

import matplotlib.pyplot as plt

from sparseleaf import LdSMClassifier
from sparseleaf.data import make_xc
from sparseleaf.metrics import evaluate, propensities
from sparseleaf.routed.diagnostics import level_summary
from sparseleaf.routed.plotting import plot_levels

X, Y = make_xc(4_000, 2_000, 1_000, labels_per_row=3, nnz_per_row=30, seed=1, n_topics=50)
X_train, Y_train, X_test, Y_test = X[:3_200], Y[:3_200], X[3_200:], Y[3_200:]

for rerank in (None, "log"):
    clf = LdSMClassifier(n_trees=10, max_nodes=500, rerank=rerank).fit(X_train, Y_train)
    labels, _ = clf.predict_topk(X_test, k=5)
    values = evaluate(Y_test, labels, propensities(Y_train))
    print(
        f"rerank={rerank!s:5} "
        + "  ".join(f"{name} {values[name]:.3f}" for name in ("precision@1", "precision@5", "psp@1"))
    )
print(f"weight of the trees in the re-ranked score, chosen on a validation set: {clf.rerank_weight_}")

# %%
# ``split_records_`` has one record per split: the objective J after every epoch, balance and purity.
print("depths:", clf.model_.trees.depths().tolist())
print("level  splits   rows      J   balance  purity")
for level in level_summary(clf.split_records_)[:6]:
    print(
        f"{level.depth:5} {level.n_splits:7} {level.n_rows:6.0f} {level.objective:6.2f}"
        f" {level.balance:9.2f} {level.purity:7.2f}"
    )

# %%
# Balance and purity by level (definitions 1 and 2 of the paper).
fig, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
plot_levels(clf.split_records_, ax=ax)
