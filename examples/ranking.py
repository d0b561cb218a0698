"""
Learning to rank
================

Three ranking losses on the same queries, with early stopping on validation queries, and the ranked lists of the best
model.
"""

import matplotlib.pyplot as plt
import numpy as np

from sparseleaf import GBDTRanker
from sparseleaf.ranking import evaluate

rng = np.random.default_rng(0)
n_queries, n_documents = 300, 15
qid = np.repeat(np.arange(n_queries), n_documents)
X = rng.normal(size=(len(qid), 10)).astype(np.float32)
relevance = X[:, 0] + np.abs(X[:, 1]) + X[:, 2] * X[:, 3] + 0.7 * rng.normal(size=len(qid))
grades = np.digitize(relevance, [0.5, 1.5, 2.5, 3.5])  # 0 (irrelevant) to 4 (perfect)
train, valid, test = qid < 150, (qid >= 150) & (qid < 200), qid >= 200

# %%
# Every tree is grown on 70 % of the queries.
fig, ax = plt.subplots(figsize=(6.5, 3.5), layout="constrained")
rankers = {}
for loss, learning_rate in {"lambdamart": 0.1, "gbrank": 0.3, "smoothdcg": 0.1}.items():
    ranker = GBDTRanker(
        n_trees=300,
        loss=loss,
        learning_rate=learning_rate,
        subsample=0.7,
        early_stopping_rounds=30,
        advanced={"subsample_by": "query"},
    )
    ranker.fit(X[train], grades[train], qid=qid[train], eval_set=(X[valid], grades[valid], qid[valid]))
    metrics = evaluate(grades[test], ranker.predict(X[test]), qid[test])
    print(f"{loss:10} {ranker.best_iteration_:3} trees", *(f"{name} {v:.3f}" for name, v in metrics.items()))
    curve = ranker.history_["valid ndcg@5"]
    ax.plot(range(1, len(curve) + 1), curve, label=loss)
    rankers[max(curve)] = ranker
ax.set(xlabel="trees", ylabel="NDCG@5 on the validation queries")
ax.legend()

# %%
# Grades of the five best documents of three queries, from the model with the highest validation NDCG@5.
best = rankers[max(rankers)]
print(best.loss)
for query, rows in best.rank(X[test], qid[test])[:3]:
    print(f"query {query}: rows {rows[:5].tolist()}, grades {grades[test][rows][:5].tolist()}")
