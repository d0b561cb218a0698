"""SketchForestClassifier: a forest with label sketches and centroid routers."""

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
from sparseleaf.features import TextVectorizer
from sparseleaf.memory import RoutedEstimate, estimate_forest
from sparseleaf.metrics import precision_at_k
from sparseleaf.model import Rows
from sparseleaf.model.routed import BEST_ONLY
from sparseleaf.progress import phase
from sparseleaf.rerank.fit import adds_candidates
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
    from sparseleaf.data.weights import TrainingWeights
    from sparseleaf.model.routed import RoutedTrees
    from sparseleaf.training.routed import RowsSize

AUTO = "auto"

FEW_TREES, MANY_TREES = 10, 50
"""Number of trees chosen by "auto"."""

RARE_ROWS = 20
"""Mean number of rows per label below which few trees suffice: leaves rarely have the right label, and the re-ranker's
neighbours and linear models determine the ranking."""

OOB_BLOCK = 4096
OOB_RANKS = (1, 3, 5)


@documented
@named
class SketchForestClassifier(RoutedClassifier):
    """Forest of trees with linear routers on sparse features, for extreme multi-label classification.

    A node hashes the labels of its rows into a sketch of ``sketch_dim`` columns and clusters the rows by balanced
    k-means on the sketch. Its router is a linear classifier between the clusters: the difference of the mean feature
    vectors, truncated to the ``router_weights`` largest weights and quantised to 8 bits. The cost does not depend on
    the number of labels. A leaf stores label frequencies, and the forest averages them over the trees.

    Sparse rows are normalised to unit length, and binary features are weighted by inverse document frequency (tf-idf).
    Dense features are standardised by their standard deviation.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    model_ : Model
        The trained model.
    classes_ : ndarray of shape (n_labels,)
        Label names, or 0, 1, … if labels have no names.
    history_ : dict of str to list of float
        precision@1 after every tree for each validation set: ``"valid precision@1"`` for a single set,
        ``"valid_0 precision@1"``, ``"valid_1 precision@1"``, … for several.
    oob_score_ : float
        Out-of-bag precision@1, with ``bootstrap=True`` only; NaN if no row is out of bag.
    oob_precision_ : tuple of float
        Out-of-bag precision@1, @3 and @5.
    rerank_weight_ : float or None
        Weight of the tree score in the re-ranked score.
    threshold_ : float or ndarray of shape (n_labels,)
        Minimum score of the labels that :meth:`predict` returns, or minimum probability of each.
    interrupted_ : bool
        Whether ``fit`` was stopped early by Ctrl-C; the model has the trees grown until then.
    vectorizer_ : TextVectorizer or None
        Fitted vectorizer; None if X was features.
    n_features_in_ : int
        Number of features seen in ``fit``.

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
    preferred_held_out: ClassVar[int] = (
        1_000  # a re-ranker loses more by fewer rows than the routers by these
    )

    def __init__(
        self,
        n_trees: int | str = "auto",
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
        calibrate: str | None = "auto",
        class_weight: Any = None,
        vectorizer: TextVectorizer | None = None,
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
        self.calibrate = calibrate
        self.class_weight = class_weight
        self.vectorizer = vectorizer
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.advanced = advanced
        if former:
            self._take_former(former)

    # --- inside

    def _estimate(self, size: RowsSize, n_parallel: int, n_jobs: int) -> RoutedEstimate:
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
            n_trees=self._most_trees(),
            n_parallel=n_parallel,
            n_jobs=n_jobs,
        )

    def _trees(
        self,
        X: Features,
        Y: sp.csr_matrix,
        weights: TrainingWeights,
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
        forest = SketchForest(X, Y, weights, view, rule, n_jobs)

        def root(tree: int) -> Array:
            return bag(seen, seed, tree) if params.bootstrap else seen

        return forest.trees(root, end, seed, first)

    def _most_trees(self) -> int:
        return MANY_TREES if self.n_trees == AUTO else super()._most_trees()

    def _n_trees(self, Y: sp.csr_matrix) -> int:
        if self.n_trees != AUTO:
            return super()._n_trees(Y)
        n_labels = np.count_nonzero(np.bincount(Y.indices))
        rare = Y.nnz < RARE_ROWS * n_labels
        return FEW_TREES if rare and adds_candidates(self.rerank) else MANY_TREES

    def _view_of(self, X: Features, weights: TrainingWeights) -> FeatureView:
        return FeatureView.of(X, weights)

    def _join(
        self, trees: Sequence[FrozenTree], view: FeatureView, label_weights: Array | None
    ) -> RoutedTrees:
        return join_trees(
            trees,
            self.send_above,
            self.leaf_labels,
            feature_weights=view.weights,
            unit_rows=view.unit_rows,
            label_weights=label_weights,
            n_jobs=effective_n_jobs(self.n_jobs),
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
            warn("Training was interrupted; the out-of-bag score was not computed.")
            return False
        return True

    def _score_out_of_bag(self, X: Features, Y: sp.csr_matrix, seen: Array) -> None:
        """Precision of every row on the trees whose bootstrap sample does not contain it; held-out rows are skipped."""
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
        sums, n_scored = np.zeros(len(OOB_RANKS)), 0
        for begin in range(0, X.shape[0], OOB_BLOCK):
            block = slice(begin, min(X.shape[0], begin + OOB_BLOCK))
            reached = model.scorer.leaves(Rows(X[block], None, n_jobs))  # one leaf in every tree
            reached.data = (~in_bag[block]).astype(np.float32).ravel()
            rows = np.flatnonzero(~in_bag[block].all(axis=1))
            if len(rows):
                scores = sp.csr_matrix(reached[rows] @ leaf_vectors)
                sums += len(rows) * np.array([precision_at_k(Y[block][rows], scores, k) for k in OOB_RANKS])
                n_scored += len(rows)
        self.oob_precision_ = tuple(
            (sums / n_scored).tolist() if n_scored else [float("nan")] * len(OOB_RANKS)
        )
        self.oob_score_ = self.oob_precision_[0]
