"""More boosted trees on new rows: warm start from a model."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from sparseleaf.checkpoint import EVERY
from sparseleaf.model import Role, join_trees, with_short_values
from sparseleaf.training.sparse import SparseEnsemble
from sparseleaf.training.trainer import Trainer

if TYPE_CHECKING:
    from sparseleaf.estimators.sparse import SparseGBDTClassifier
    from sparseleaf.model import AxisScorer, Trees
    from sparseleaf.model.update import NewRows


def n_more_trees(n_trees: int, new: NewRows) -> int:
    """Default number of trees: that of the estimator, times the fraction of the rows that are new."""
    return max(1, round(n_trees * new.n_rows / max(1, new.n_rows + new.before.n_train_rows)))


def add_sparse_trees(
    estimator: SparseGBDTClassifier, n_trees: int | None, scorer: AxisScorer, new: NewRows
) -> AxisScorer:
    """Boost the residuals of the new rows; new labels are in the leaves of new trees."""
    extra = clone(estimator).set_params(
        n_trees=n_more_trees(estimator.n_trees, new) if n_trees is None else n_trees,
        rerank=None,
        calibrate=None,
        early_stopping_rounds=None,
        vectorizer=None,
        random_state=new.seed,
    )
    init_model = new.before.with_stage(Role.RERANKER, None)

    def prepare() -> tuple[SparseEnsemble, dict[str, Any]]:
        return SparseEnsemble(extra, None, "rows", init_model), {"layout": "rows"}

    Trainer(extra, None, (None, EVERY)).fit("local", {"X": new.X, "y": new.Y}, prepare)
    if extra.interrupted_:
        raise KeyboardInterrupt
    trees = _joined(scorer.trees, extra.model_.trees)
    return replace(scorer, trees=with_short_values(trees), n_labels=new.n_labels)


def _joined(first: Trees, more: Trees) -> Trees:
    if not len(first.cover):  # a file of an earlier version
        more = replace(more, cover=np.empty(0, np.uint32))
    first = replace(first, leaf_labels=first.leaf_labels.astype(more.leaf_labels.dtype))
    return join_trees(first, replace(more, feature_gain=first.feature_gain + more.feature_gain))
