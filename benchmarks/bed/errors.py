"""The error of predictions by kind of dataset; lower is better."""

from __future__ import annotations

from typing import Any

import numpy as np

NAMES = {
    "regression": "aRRMSE",
    "multiclass": "error rate",
    "multilabel": "1 − average precision",
    "ranking": "1 − NDCG@5",
}


def error(kind: str, split: Any, predicted: Any) -> float:
    """Regression: RMSE relative to that of the outputs' training means, averaged over the outputs. Classes: fraction of
    wrong ones. Labels: 1 − average precision over all (row, label) pairs, of probabilities. Ranking: 1 − NDCG@5.
    """
    if kind == "regression":
        rmse = np.sqrt(np.mean((split.Y_test - predicted) ** 2, axis=0))
        return float(np.mean(rmse / np.sqrt(np.mean((split.Y_test - split.Y.mean(axis=0)) ** 2, axis=0))))
    if kind == "multiclass":
        return float(np.mean(split.Y_test != predicted))
    if kind == "multilabel":
        from sklearn.metrics import average_precision_score

        return 1 - float(average_precision_score(split.Y_test, predicted, average="micro"))
    from sparseleaf.ranking import mean_of, ndcg

    return 1 - mean_of(ndcg(split.Y_test, predicted, group=split.group_test, k=5))
