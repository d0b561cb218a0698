"""
Ranking
=======

Rank documents: three losses on the same queries, early stopping, and a ranked list in the end.
"""

import numpy as np

from sparseleaf import GBDTRanker
from sparseleaf.ranking import evaluate

rng = np.random.default_rng(0)
n_queries, documents = 300, 15
qid = np.repeat(np.arange(n_queries), documents)
X = rng.normal(size=(len(qid), 10)).astype(np.float32)
worth = X[:, 0] + np.abs(X[:, 1]) + X[:, 2] * X[:, 3] + 0.7 * rng.normal(size=len(qid))
grades = np.digitize(worth, [0.5, 1.5, 2.5, 3.5])  # 0, irrelevant, to 4, perfect

train, valid, test = qid < 150, (qid >= 150) & (qid < 200), qid >= 200
best = None
for loss, rate in {"lambdamart": 0.1, "gbrank": 0.3, "smoothdcg": 0.1}.items():
    ranker = GBDTRanker(n_trees=300, loss=loss, learning_rate=rate, early_stopping_rounds=30)
    ranker.set_params(
        subsample=0.7, advanced__subsample_by="query"
    )  # every tree sees 70 % of the queries, whole
    ranker.fit(X[train], grades[train], qid=qid[train], eval_set=(X[valid], grades[valid], qid[valid]))
    found = evaluate(grades[test], ranker.predict(X[test]), qid[test])
    print(
        f"{loss:10s} {ranker.best_iteration_:3d} trees",
        *(f"{name} {value:.3f}" for name, value in found.items()),
    )
    if best is None or max(ranker.history_["valid ndcg@5"]) > max(best.history_["valid ndcg@5"]):
        best = ranker

print(
    f"\n{best.loss} was best on the validation queries. The first documents of three queries, and their grades:"
)
for query, rows in best.rank(X[test], qid[test])[:3]:
    print(f"query {query}: rows {rows[:5].tolist()}, grades {grades[test][rows][:5].tolist()}")
