"""LdSMClassifier: logarithmic-depth multi-label trees with learned linear routers (LdSM)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import scipy.sparse as sp

from sparseleaf.estimators.declarations import LDSM
from sparseleaf.estimators.naming import named
from sparseleaf.estimators.parameters import Table, documented
from sparseleaf.estimators.routed import RoutedClassifier
from sparseleaf.features import TextVectorizer
from sparseleaf.memory import RoutedEstimate, estimate_ldsm
from sparseleaf.routed.ensemble import FrozenTree, SplitRecord, freeze_tree
from sparseleaf.routed.growth import Histogram, grow_trees, shuffled_rows
from sparseleaf.routed.ldsm import COPY_ENTRIES, SEND_ABOVE, LdsmRule, LdsmSplitter, label_histogram

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.data.weights import TrainingWeights
    from sparseleaf.model import Model
    from sparseleaf.model.empty import EmptyRows
    from sparseleaf.rerank.stage import Reranker
    from sparseleaf.training.routed import RowsSize


@documented
@named
class LdSMClassifier(RoutedClassifier):
    """Trees of logarithmic depth with linear routers on the raw features, for extreme multi-label classification.

    A node sends a row to every child whose router has a positive margin, possibly to several. Routers are trained
    online to minimise the objective J, which rewards balanced children and labels that stay together and penalises rows
    sent to several children. A leaf stores label frequencies; the score of a label is their mean over the leaves that
    the row reaches and over the trees.

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
    split_records_ : list of lists of SplitRecord
        Split quality of each node, per tree; see :mod:`sparseleaf.routed.diagnostics`. Not stored in the model file.
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
    >>> from sparseleaf import LdSMClassifier
    >>> from sparseleaf.data import make_xc
    >>> X, Y = make_xc(500, 100, 50, labels_per_row=3)
    >>> clf = LdSMClassifier(n_trees=3, max_nodes=50).fit(X, Y)
    >>> labels, scores = clf.predict_topk(X, k=3)
    >>> labels.shape
    (500, 3)
    """

    method: ClassVar[str] = "ldsm"
    send_above: ClassVar[float] = SEND_ABOVE
    parameter_table: ClassVar[Table] = LDSM

    def __init__(
        self,
        n_trees: int = 10,
        arity: int = 2,
        max_nodes: int = 1000,
        *,
        epochs: int = 20,
        tol: float = 0.002,
        learning_rate: float = 0.1,
        lambda_1: float = 2.0,
        lambda_2: float = 1.0,
        min_samples_leaf: int = 1,
        prune: float = 0.01,
        leaf_labels: int | None = 100,
        rerank: str | None = None,
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
        self.max_nodes = max_nodes
        self.epochs = epochs
        self.tol = tol
        self.learning_rate = learning_rate
        self.lambda_1 = lambda_1
        self.lambda_2 = lambda_2
        self.min_samples_leaf = min_samples_leaf
        self.prune = prune
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

    @property
    def _default_threshold(self) -> float:
        """Scores of a row sum to 1: a label that half the rows of a leaf have scores 0.5 / labels per row."""
        model = self.model_
        per_row = model.label_counts.sum() / max(1, model.n_train_rows)
        return float(0.5 / max(1.0, per_row))

    def _prior_scale(self, model: Model) -> float:
        """Scores of empty rows are on the scale of the leaves: see :meth:`_empty_rows`."""
        per_row = model.label_counts.sum() / max(1, model.n_train_rows)
        return 1.0 if model.rescored else float(max(1.0, per_row))

    def _empty_rows(
        self, X: Features, Y: sp.csr_matrix, weights: TrainingWeights, stage: Reranker | None
    ) -> EmptyRows | None:
        empty = super()._empty_rows(X, Y, weights, stage)
        if empty is None or stage is not None:
            return empty
        return empty.divided(max(1.0, Y.nnz / max(1, Y.shape[0])))  # on the scale of the leaves

    def _estimate(self, size: RowsSize, n_parallel: int, n_jobs: int) -> RoutedEstimate:
        params = self._settings()
        return estimate_ldsm(
            size.n_rows,
            size.n_features,
            size.n_labels,
            size.n_entries,
            size.n_label_entries,
            dense=not size.sparse,
            copy_entries=COPY_ENTRIES,
            arity=params.arity,
            max_nodes=params.max_nodes,
            min_samples_leaf=params.min_samples_leaf,
            leaf_labels=params.leaf_labels,
            n_trees=params.n_trees,
            n_parallel=n_parallel,
            n_jobs=n_jobs,
        )

    def _adopt_trees(self, trees: Sequence[FrozenTree]) -> None:
        self.split_records_: list[list[SplitRecord]] = [tree.splits for tree in trees]

    def _trees(
        self,
        X: Features,
        Y: sp.csr_matrix,
        weights: TrainingWeights,
        seen: Array,
        seed: int,
        n_jobs: int,
        view: None,
        first: int,
        end: int,
    ) -> Iterator[FrozenTree]:
        params = self._settings()
        rule = LdsmRule(
            params.arity,
            params.epochs,
            params.learning_rate,
            params.lambda_1,
            params.lambda_2,
            params.tol,
            params.prune,
            params.min_samples_leaf,
        )
        splitter = LdsmSplitter(X, Y, weights, rule, n_jobs)
        whole = len(seen) == X.shape[0]
        histogram = label_histogram(*((Y, weights) if whole else (Y[seen], weights.take(seen))))

        def root(tree: int) -> tuple[Array, Histogram]:
            return seen[shuffled_rows(len(seen), seed, tree)], histogram

        for tree in grow_trees(splitter, root, end, params.max_nodes, seed, n_jobs, first):
            yield freeze_tree(tree, Y.shape[1])
