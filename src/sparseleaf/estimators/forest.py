"""SketchForestClassifier: a forest with sketched labels and centroid routers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp

from sparseleaf._arrays import effective_n_jobs
from sparseleaf._warnings import warn
from sparseleaf.estimators.declarations import FOREST
from sparseleaf.estimators.naming import named
from sparseleaf.estimators.parameters import Table, documented
from sparseleaf.estimators.routed import RoutedClassifier
from sparseleaf.memory import RoutedEstimate, estimate_forest
from sparseleaf.metrics import precision_at_k
from sparseleaf.model import Rows
from sparseleaf.model.routed import BEST_ONLY
from sparseleaf.progress import phase
from sparseleaf.routed.ensemble import FrozenTree, join_trees
from sparseleaf.routed.forest import (
    SAMPLE_ROWS,
    WEIGHTS_PER_ROW,
    FeatureView,
    ForestRule,
    SketchForest,
    bag,
)

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.model.routed import RoutedTrees
    from sparseleaf.training.routed import RowsSize

OOB_BLOCK = 4096
OOB_RANKS = (1, 3, 5)


@documented
@named
class SketchForestClassifier(RoutedClassifier):
    """A forest that routes on sparse features as they are, for targets with very many labels.

    In every node the rows' labels are hashed into a few columns and the rows parted by balanced k-means over these
    sketches; the router between the parts is the difference of their mean rows, cut to its largest weights, in 8
    bits. One pass over a node's rows makes its router, whatever the number of labels. A leaf holds, for every label,
    the share of its rows that have it; the forest averages.

    Sparse rows count as vectors of length 1, and features that are merely there or not by rarity (tf-idf); dense
    features by their deviation.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    model_ : Model
    classes_ : array, shape (n_labels,)
        Label names, or 0, 1, ….
    history_ : dict of str to list of float
        precision@1 after every tree, where there was a validation set: ``"valid precision@1"``, or
        ``"valid_0 precision@1"``, ``"valid_1 precision@1"``, … where there were several.
    oob_score_ : float
        precision@1 of every row by the trees that have not seen it; with ``bootstrap`` only. NaN where there are none.
    oob_precision_ : tuple of float
        precision@1, @3 and @5 in the same way.
    rerank_weight_ : float or None
        The weight in use.
    interrupted_ : bool
        Whether Ctrl-C ended ``fit`` early, which keeps the trees grown so far.
    n_features_in_ : int

    Examples
    --------
    >>> from sparseleaf import SketchForestClassifier
    >>> from sparseleaf.data import make_xc
    >>> X, Y = make_xc(500, 100, 50, labels_per_row=3)
    >>> clf = SketchForestClassifier(n_trees=5, rerank="cosine").fit(X, Y)
    >>> labels, scores = clf.predict_topk(X, k=3)
    >>> labels.shape
    (500, 3)
    """

    method: ClassVar[str] = "forest"
    parameter_table: ClassVar[Table] = FOREST
    send_above: ClassVar[float] = BEST_ONLY
    small_routers: ClassVar[bool] = True

    def __init__(
        self,
        n_trees: int = 50,
        arity: int = 4,
        min_samples_leaf: int = 2,
        *,
        max_depth: int | None = None,
        label_weight: float = 0.0,
        router_weights: int = 300,
        max_features: float = 1.0,
        bootstrap: bool = False,
        leaf_labels: int | None = 100,
        rerank: str | None = "auto",
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: int = 0,
        advanced: Mapping[str, Any] | None = None,
        **former: Any,
    ) -> None:
        self.n_trees = n_trees
        self.arity = arity
        self.min_samples_leaf = min_samples_leaf
        self.max_depth = max_depth
        self.label_weight = label_weight
        self.router_weights = router_weights
        self.max_features = max_features
        self.bootstrap = bootstrap
        self.leaf_labels = leaf_labels
        self.rerank = rerank
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.advanced = advanced
        if former:
            self._take_former(former)

    # --- inside

    def _estimate(self, size: RowsSize, abreast: int, n_jobs: int) -> RoutedEstimate:
        params = self._settings()
        return estimate_forest(
            size.n_rows,
            size.n_features,
            size.n_label_entries,
            dense=not size.sparse,
            arity=params.arity,
            min_samples_leaf=params.min_samples_leaf,
            max_depth=params.max_depth,
            sketch_dim=params.sketch_dim,
            sample_rows=SAMPLE_ROWS,
            router_weights=params.router_weights,
            weights_per_row=WEIGHTS_PER_ROW,
            leaf_labels=params.leaf_labels,
            n_trees=params.n_trees,
            abreast=abreast,
            n_jobs=n_jobs,
        )

    def _trees(
        self,
        X: Features,
        Y: sp.csr_matrix,
        seen: Array,
        seed: int,
        n_jobs: int,
        view: FeatureView,
        first: int,
        end: int,
    ) -> Iterator[FrozenTree]:
        params = self._settings()
        rule = ForestRule(
            params.arity,
            params.min_samples_leaf,
            params.max_depth,
            params.sketch_dim,
            params.label_weight,
            params.router_weights,
            params.max_features,
        )
        forest = SketchForest(X, Y, view, rule, n_jobs)

        def root(tree: int) -> Array:
            return bag(seen, seed, tree) if params.bootstrap else seen

        return forest.trees(root, end, seed, first)

    def _view_of(self, X: Features) -> FeatureView:
        return FeatureView.of(X)

    def _join(self, trees: Sequence[FrozenTree], view: FeatureView) -> RoutedTrees:
        return join_trees(
            trees,
            self.send_above,
            self.leaf_labels,
            feature_weights=view.weights,
            unit_rows=view.unit_rows,
        )

    def _finish(self, X: Features, Y: sp.csr_matrix, seen: Array) -> bool:
        if not self.bootstrap:
            return True
        self.oob_precision_ = (float("nan"),) * len(OOB_RANKS)
        self.oob_score_ = float("nan")
        try:
            with phase("out-of-bag score"):
                self._score_out_of_bag(X, Y, seen)
        except KeyboardInterrupt:
            warn("interrupted: the model has no out-of-bag score")
            return False
        return True

    def _score_out_of_bag(self, X: Features, Y: sp.csr_matrix, seen: Array) -> None:
        """Every row by the trees whose bags it was not in; rows held out are in all leaves and do not count."""
        model, seed, n_jobs = (
            self.model_,
            self.model_.parameters["random_state"],
            effective_n_jobs(self.n_jobs),
        )
        in_bag = np.ones((X.shape[0], model.n_trees), bool)
        in_bag[seen] = False
        for tree in range(model.n_trees):
            in_bag[bag(seen, seed, tree), tree] = True
        trees = model.trees
        leaf_vectors = sp.csr_matrix(
            (trees.leaf_values.astype(np.float32), trees.leaf_labels.astype(np.int32), trees.leaf_indptr),
            shape=(len(trees.leaf_indptr) - 1, model.n_labels),
        )
        sums, judged = np.zeros(len(OOB_RANKS)), 0
        for begin in range(0, X.shape[0], OOB_BLOCK):
            block = slice(begin, min(X.shape[0], begin + OOB_BLOCK))
            reached = model.scorer.leaves(Rows(X[block], None, n_jobs))  # one leaf in every tree
            reached.data = (~in_bag[block]).astype(np.float32).ravel()
            rows = np.flatnonzero(~in_bag[block].all(axis=1))
            if len(rows):
                scores = sp.csr_matrix(reached[rows] @ leaf_vectors)
                sums += len(rows) * np.array([precision_at_k(Y[block][rows], scores, k) for k in OOB_RANKS])
                judged += len(rows)
        self.oob_precision_ = tuple((sums / judged).tolist() if judged else [float("nan")] * len(OOB_RANKS))
        self.oob_score_ = self.oob_precision_[0]
