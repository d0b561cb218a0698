"""SparseGBDTClassifier: gradient boosting with at most k labels per leaf (GBDT-SPARSE)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Self

from sparseleaf import memory
from sparseleaf._arrays import effective_n_jobs
from sparseleaf._settings import most_leaves
from sparseleaf.callbacks import Callback
from sparseleaf.checkpoint import EVERY
from sparseleaf.data.label_info import LabelInfo
from sparseleaf.data.rows import RowsInfo
from sparseleaf.data.targets import encode_targets
from sparseleaf.data.weights import check_sample_weight
from sparseleaf.distributed.launch import check_layout
from sparseleaf.estimators.base import ModelClassifier
from sparseleaf.estimators.declarations import SPARSE
from sparseleaf.estimators.naming import named
from sparseleaf.estimators.parameters import Table, documented, renamed_argument
from sparseleaf.estimators.probabilities import SparseProbabilitiesMixin
from sparseleaf.estimators.reranking import RerankMixin, check_label_info
from sparseleaf.estimators.texts import are_texts
from sparseleaf.estimators.updating import UpdateMixin, check_how
from sparseleaf.features import TextVectorizer
from sparseleaf.objectives import SparseObjective, sparse_objective
from sparseleaf.projection import choose_keep_raw, choose_projection
from sparseleaf.training.more_trees import add_sparse_trees
from sparseleaf.training.partition import SparsePartition
from sparseleaf.training.refresh import refresh
from sparseleaf.training.sparse import SparseEnsemble
from sparseleaf.training.trainer import Trainer
from sparseleaf.training.validation import EvalSet


@documented
@named
class SparseGBDTClassifier(UpdateMixin, RerankMixin, SparseProbabilitiesMixin, ModelClassifier):
    """Gradient boosted trees with sparse vector leaves for extreme multi-label classification (GBDT-SPARSE).

    Every tree predicts all labels. Splits are searched on a sketch of the residuals, so the cost of the search does not
    depend on the number of labels. Leaf values are computed from the full residuals, and a leaf stores the
    ``leaf_labels`` labels with the largest sums. Memory use does not grow with rows × labels.

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
        ``eval_metric`` after every tree for each validation set: ``"valid precision@1"`` for a single set,
        ``"valid_0 precision@1"``, ``"valid_1 precision@1"``, … for several.
    best_iteration_ : int
        Number of trees in the model.
    projection_kind_ : str or None
        The projection in use.
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
        calibrate: str | None = "auto",
        class_weight: Any = None,
        early_stopping_rounds: int | None = None,
        eval_metric: str = SparseObjective.default_metric,
        vectorizer: TextVectorizer | None = None,
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
        self.calibrate = calibrate
        self.class_weight = class_weight
        self.early_stopping_rounds = early_stopping_rounds
        self.eval_metric = eval_metric
        self.vectorizer = vectorizer
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
        sample_weight: Any = None,
        eval_set: EvalSet = None,
        callbacks: Sequence[Callback] | None = (),
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int = EVERY,
        engine: Any = "local",
        layout: str = "rows",
        label_info: LabelInfo | None = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features), or texts
            Features. NaN is a missing value; it is not allowed with a projection or re-ranking. A list of texts, or
            records, is converted by ``vectorizer``.
        y : sparse or dense 0/1 matrix, lists of label names, or one class per row
            Targets.
        sample_weight : array-like of shape (n_rows,), optional
            Weights of the rows in the loss. Rows of weight 0 are left out.
        eval_set : tuple (X, y) or list of such tuples, optional
            Validation sets. ``eval_metric`` is computed on each after every tree and stored in ``history_``. Early
            stopping and ``rerank_weight="auto"`` use the last one.
        callbacks : sequence of callables, or None, default=()
            Called after every tree with a :class:`~sparseleaf.callbacks.TrainingState`. Training stops when one of them
            returns True. None excludes this training from autologging, too.
        checkpoint : path-like, optional
            Checkpoint file: a local path or an fsspec URL. If it exists, training resumes from it; the model is
            byte-identical to that of an uninterrupted run.
        checkpoint_every : int, default=10
            Number of trees between two checkpoints.
        engine : {"local", "mpi", "dask"}, mpi4py communicator or Dask client, default="local"
            Where to train. With MPI, every rank calls ``fit`` with its partition of the rows, and the ``eval_set`` of
            rank 0 is used. The model is byte-identical to the one trained on all rows in a single process.
        layout : {"rows", "features"}, default="rows"
            How the training data is partitioned across workers: by rows or by features.
        label_info : LabelInfo, optional
            Names and hierarchy of the labels, as evidence for the re-ranker: see :class:`~sparseleaf.data.LabelInfo`.
            Its labels can be suggested even if no row has them. Requires texts, and ``rerank`` "boosted" or "auto",
            which then means "boosted".

        Returns
        -------
        self : object
            Fitted estimator.
        """

        def prepare() -> tuple[SparseEnsemble, dict[str, Any]]:
            self._check()
            check_layout(layout)
            ensemble = SparseEnsemble(self, eval_set, layout, label_info=label_info)
            return ensemble, {"layout": layout}

        check_label_info(label_info, self.rerank, engine)
        texts = are_texts(X, self.vectorizer)
        X, engine = self._vectorised(X, y, engine)
        X, y, label_info = self._with_labels(X, y, label_info, texts=texts)
        rows = {"X": X, "y": y, "sample_weight": sample_weight}
        Trainer(self, callbacks, (checkpoint, checkpoint_every)).fit(engine, rows, prepare)
        return self

    def update(
        self, X: Any, y: Any, *, how: str = "leaves", n_trees: int | None = None, forget: float = 0.0
    ) -> Self:
        """Update the fitted model with new rows, which may have new labels. The trees are not regrown.

        The re-ranker and the prior of empty rows are updated as well; the projection, mixing weights and the threshold
        are kept. Before the update, the model is evaluated on the new rows: see ``drift_``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features)
            Features of the new rows, as in ``fit``. Zero rows change nothing.
        y : sparse or dense 0/1 matrix, lists of label names, or one class per row
            Targets, in the form passed to ``fit``. Labels that the model does not have are added after its labels.
        how : {"leaves", "trees"}, default="leaves"
            "leaves" refreshes the leaf values by the residuals of the new rows, tree by tree. "trees" adds trees that
            are boosted on the new rows.
        n_trees : int, optional
            Number of trees to add with "trees". By default ``n_trees`` of the estimator, times the fraction of the rows
            that are new.
        forget : float, default=0.0
            Forgetting factor in [0, 1) with "leaves": the evidence of earlier rows is weighted by 1 - ``forget``.

        Returns
        -------
        self : object
            The estimator with the updated model.
        """
        check_how(how, n_trees, forget)
        boosted = refresh if how == "leaves" else partial(add_sparse_trees, self, n_trees)
        return self._update(X, y, forget, boosted)

    def _partition(self, X: Any, y: Any, sample_weight: Any = None) -> SparsePartition:
        """Validate the rows of one worker."""
        X = self._validate_features(X, reset=True)
        if y is None:  # scikit-learn's message
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        n_jobs = effective_n_jobs(self.n_jobs)
        targets = encode_targets(y, X.shape[0], n_jobs)
        weights = check_sample_weight(sample_weight, X.shape[0])
        return SparsePartition(X, self._feature_names(), targets, n_jobs, weights)

    def estimate_memory(
        self, X: Any, y: Any = None, *, sample_weight: Any = None, Y: Any = None
    ) -> memory.MemoryEstimate:
        """Estimate the memory that :meth:`fit` needs in addition to X and y, without training.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features), or texts
            Features.
        y : sparse or dense 0/1 matrix, lists of label names, or one class per row
            Targets.
        sample_weight : array-like of shape (n_rows,), optional
            Weights of the rows; they take a column of the histograms.
        Y : deprecated
            Former name of ``y``.

        Returns
        -------
        estimate : MemoryEstimate
            Estimated memory in bytes, by purpose.
        """
        y = renamed_argument("y", y, "Y", Y)
        self._check()
        X = self._fit_vectorizer(X)[0] if are_texts(X, self.vectorizer) else X
        X = type(self)()._validate_features(X, reset=True)
        rows, targets = RowsInfo.of(X), encode_targets(y, X.shape[0])
        params = self._settings()
        kind = choose_projection(params.projection, rows, params.projection_dim)
        keep_raw = choose_keep_raw(params.keep_raw, kind, rows)
        weights = check_sample_weight(sample_weight, rows.n_rows)
        return self._estimate(
            rows.n_rows,
            rows.n_features,
            targets.n_labels,
            targets.matrix.nnz,
            kind,
            keep_raw,
            weighted=weights is not None or params.class_weight is not None,
        )

    # --- inside

    def _check(self) -> None:
        sparse_objective(self.loss)  # with a hint for dense losses
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
        *,
        weighted: bool = False,
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
            weighted=weighted,
        )
