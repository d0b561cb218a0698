"""
Re-ranking and blending
=======================

Add a learned re-ranking stage to a classifier, then blend it with another classifier into one model.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import sparseleaf
from sparseleaf import BlendClassifier, LdSMClassifier, SparseGBDTClassifier
from sparseleaf.data import make_xc
from sparseleaf.metrics import precision_at_k

X, Y = make_xc(2500, 400, 300, labels_per_row=3, nnz_per_row=30, seed=2)
train, test = slice(0, 2000), slice(2000, None)
results = {}


def evaluate(name, clf):
    """P@1, P@3 and P@5 on the test set."""
    labels, _ = clf.predict_topk(X[test], 5)
    results[name] = [100 * precision_at_k(Y[test], labels, k) for k in (1, 3, 5)]
    print(f"{name:24}", *(f"P@{k} {value:.1f}" for k, value in zip((1, 3, 5), results[name], strict=True)))


# %%
# The same trees, without and with re-ranking.
evaluate("LdSM", LdSMClassifier(n_trees=5, max_nodes=200).fit(X[train], Y[train]))
reranked = LdSMClassifier(n_trees=5, max_nodes=200, rerank="linear").fit(X[train], Y[train])
evaluate("LdSM, rerank='linear'", reranked)

# %%
# The blend trains both members and chooses their weights on a validation set that it holds out.
blend = BlendClassifier([reranked, SparseGBDTClassifier(n_trees=40)]).fit(X[train], Y[train])
evaluate("blend with boosted trees", blend)
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "blend.safetensors"
    blend.save(path)
    print("weights", sparseleaf.load(path).weights_.round(2).tolist())

# %%
fig, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
for name, values in results.items():
    ax.plot(["P@1", "P@3", "P@5"], values, "o-", label=name)
ax.set(ylabel="precision on the test set, %", ylim=(0, None))
ax.legend()
