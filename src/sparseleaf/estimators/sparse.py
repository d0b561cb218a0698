"""SparseGBDTClassifier: boosting with at most k labels a leaf (GBDT-SPARSE)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from sparseleaf import memory
from sparseleaf._arrays import effective_n_jobs
from sparseleaf._settings import most_leaves
from sparseleaf.callbacks import Callback
from sparseleaf.checkpoint import EVERY
from sparseleaf.data.rows import RowsInfo
from sparseleaf.data.targets import encode_targets
from sparseleaf.distributed.launch import check_layout
from sparseleaf.estimators.base import ModelClassifier
from sparseleaf.estimators.declarations import SPARSE
from sparseleaf.estimators.naming import named
from sparseleaf.estimators.parameters import Table, documented, renamed_argument
from sparseleaf.estimators.reranking import RerankMixin
from sparseleaf.objectives import SparseObjective, sparse_objective
from sparseleaf.projection import choose_keep_raw, choose_projection
from sparseleaf.training.partition import SparsePartition
from sparseleaf.training.sparse import SparseEnsemble
from sparseleaf.training.trainer import Trainer
from sparseleaf.training.validation import EvalSet

if TYPE_CHECKING:
    pass


@documented
@named
class SparseGBDTClassifier(RerankMixin, ModelClassifier):
    """Gradient boosted trees with sparse vector leaves, for targets with very many labels.

    One tree serves all labels. A tree's structure is chosen on a sketch of the residuals, so that its cost does
    not depend on the number of labels; its leaves hold the ``leaf_labels`` labels that matter most, from exact
    sums of the full residuals. Nothing takes rows × labels of memory.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    model_ : Model
    classes_ : array, shape (n_labels,)
        Label names, or 0, 1, ….
    history_ : dict of str to list of float
        ``eval_metric`` after every tree, where there was a validation set: ``"valid precision@1"``, or
        ``"valid_0 precision@1"``, ``"valid_1 precision@1"``, … where there were several.
    best_iteration_ : int
        Trees in the model.
    projection_kind_ : str or None
        What ``projection="auto"`` chose.
    interrupted_ : bool
        Whether Ctrl-C ended ``fit`` early, which keeps the trees grown so far.
    n_features_in_ : int

    Examples
    --------
    >>> from sparseleaf import SparseGBDTClassifier
    >>> from sparseleaf.data import make_xc
    >>> X, Y = make_xc(500, 50, 100, labels_per_row=3)
    >>> clf = SparseGBDTClassifier(n_trees=5).fit(X, Y)
    >>> labels, scores = clf.predict_topk(X, k=3)
    >>> labels.shape
    (500, 3)
    """

    method: ClassVar[str] = "gbdt-sparse"
    parameter_table: ClassVar[Table] = SPARSE

    def __init__(
        self,
        n_trees: int = 100,
        learning_rate: float = 0.1,
        leaf_labels: int | None = 50,
        *,
        loss: str = "squared",
        max_depth: int | None = 10,
        max_leaves: int | None = None,
        min_samples_leaf: int = 10,
        l2: float = 1.0,
        max_bins: int = 64,
        subsample: float = 1.0,
        colsample_bytree: float = 1.0,
        projection: str | None = "auto",
        projection_dim: int = 100,
        rerank: str | None = None,
        early_stopping_rounds: int | None = None,
        eval_metric: str = SparseObjective.default_metric,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: int = 0,
        advanced: Mapping[str, Any] | None = None,
        **former: Any,
    ) -> None:
        self.n_trees = n_trees
        self.learning_rate = learning_rate
        self.leaf_labels = leaf_labels
        self.loss = loss
        self.max_depth = max_depth
        self.max_leaves = max_leaves
        self.min_samples_leaf = min_samples_leaf
        self.l2 = l2
        self.max_bins = max_bins
        self.subsample = subsample
        self.colsample_bytree = colsample_bytree
        self.projection = projection
        self.projection_dim = projection_dim
        self.rerank = rerank
        self.early_stopping_rounds = early_stopping_rounds
        self.eval_metric = eval_metric
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.advanced = advanced
        if former:
            self._take_former(former)

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        eval_set: EvalSet = None,
        callbacks: Sequence[Callback] = (),
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int = EVERY,
        engine: Any = "local",
        layout: str = "rows",
    ) -> Self:
        """Train.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n_rows, n_features)
            NaN is a missing value (not with a projection or re-ranking).
        y : sparse or dense 0/1 matrix, lists of label names, or one class a row
        eval_set : (X, y) or list of such tuples, optional
            Validation sets, on which ``eval_metric`` is measured after every tree: see ``history_``. Early stopping
            looks at the last one, on which ``rerank_weight="auto"`` is chosen too.
        callbacks : sequence of callables
            Called with a :class:`~sparseleaf.callbacks.TrainingState` after every tree; True stops the training.
        checkpoint : path, optional
            File that keeps the trees so far: where it is there, training goes on from it, to the same bytes as if it
            had never stopped. Local, or a URL that fsspec knows.
        checkpoint_every : int, default=10
            Trees between two writings.
        engine : {"local", "mpi", "dask"}, mpi4py communicator or Dask client, default="local"
            Where training runs. With MPI every rank calls ``fit`` with rows of its own, and ``eval_set`` is that of
            the first rank. The model is the same, to the byte, as that of all rows in one process.
        layout : {"rows", "features"}, default="rows"
            With several workers: whether each holds some of the rows, or all rows of some of the features.

        Returns
        -------
        self
        """

        def prepare() -> tuple[SparseEnsemble, dict[str, Any]]:
            self._check()
            check_layout(layout)
            return SparseEnsemble(self, eval_set, layout), {"layout": layout}

        Trainer(self, callbacks, (checkpoint, checkpoint_every)).fit(engine, {"X": X, "y": y}, prepare)
        return self

    def _partition(self, X: Any, y: Any) -> SparsePartition:
        """Rows, checked."""
        X = self._validate_features(X, reset=True)
        if y is None:  # in scikit-learn's words
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        targets = encode_targets(y, X.shape[0])
        return SparsePartition(X, self._feature_names(), targets, effective_n_jobs(self.n_jobs))

    def estimate_memory(self, X: Any, y: Any = None, *, Y: Any = None) -> memory.MemoryEstimate:
        """Bytes that :meth:`fit` would take beyond X and y; nothing is trained. ``Y`` is the former name of ``y``."""
        y = renamed_argument("y", y, "Y", Y)
        self._check()
        X = type(self)()._validate_features(X, reset=True)
        rows, targets = RowsInfo.of(X), encode_targets(y, X.shape[0])
        params = self._settings()
        kind = choose_projection(params.projection, rows, params.projection_dim)
        keep_raw = choose_keep_raw(params.keep_raw, kind, rows)
        return self._estimate(
            rows.n_rows, rows.n_features, targets.n_labels, targets.matrix.nnz, kind, keep_raw
        )

    # --- inside

    def _check(self) -> None:
        sparse_objective(self.loss)  # says why a dense loss is refused
        self._check_parameters()
        effective_n_jobs(self.n_jobs)

    def _estimate(
        self,
        n_rows: int,
        width: int,
        n_labels: int,
        n_entries: int,
        projection: str | None,
        keep_raw: bool,
    ) -> memory.MemoryEstimate:
        params = self._settings()
        all_labels = params.split == "full" or params.sketch == "none"
        projected = 0 if projection is None else min(params.projection_dim, width)
        return memory.estimate(
            n_rows,
            width if projection is None else projected + width * keep_raw,
            n_labels,
            n_entries,
            input_features=width,
            projected=projected,
            max_bins=params.max_bins,
            sketch_width=n_labels if all_labels else params.sketch_dim,
            exact=params.split == "exact",
            n_trees=params.n_trees,
            leaf_labels=params.leaf_labels,
            max_leaves=most_leaves(params, n_rows),
            histogram_budget=params.histogram_mb << 20,
        )
