"""SparseGBDTClassifier: boosting with at most k labels a leaf (GBDT-SPARSE)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from sparseleaf import memory
from sparseleaf._arrays import effective_n_jobs
from sparseleaf.binning import EXACT_BINS, bin_features
from sparseleaf.boosting.builder import ExactTrees, Growth, HistogramTrees, Trees
from sparseleaf.boosting.freeze import concatenate_trees
from sparseleaf.boosting.leaves import LeafRule
from sparseleaf.boosting.loop import Booster, Recipe
from sparseleaf.boosting.reducers import make_reducer
from sparseleaf.boosting.statistics import SparseResiduals
from sparseleaf.callbacks import Callback, EarlyStopping
from sparseleaf.checkpoint import EVERY, Checkpoint
from sparseleaf.data.rows import RowsInfo
from sparseleaf.data.targets import encode_targets, join_forms
from sparseleaf.engine.part import SparsePart, agree_on_cuts, agree_on_empty_rows, agree_on_rows
from sparseleaf.engine.shards import check_layout, make_engine
from sparseleaf.engine.sparse import SparseShard
from sparseleaf.estimators.base import ModelClassifier, refuse_nan
from sparseleaf.estimators.declarations import SPARSE
from sparseleaf.estimators.naming import named
from sparseleaf.estimators.parameters import Table, documented, most_leaves, renamed_argument
from sparseleaf.estimators.reranking import RerankMixin
from sparseleaf.estimators.resuming import describe_names_of, describe_watched, kept_projection
from sparseleaf.estimators.training import TrainingRun, no_metric
from sparseleaf.estimators.validation import EvalSet, eval_names, eval_sets
from sparseleaf.metrics import ndcg_at_k, precision_at_k
from sparseleaf.model import AxisScorer, Model, Role, in_order, with_short_values
from sparseleaf.objectives import SparseObjective, sparse_objective
from sparseleaf.progress import phase, reporting, say, training_progress
from sparseleaf.projection import choose_keep_raw, choose_projection
from sparseleaf.rerank.fit import Reranking

if TYPE_CHECKING:
    import scipy.sparse as sp

    from sparseleaf._arrays import Array, Features
    from sparseleaf.binning import Cuts
    from sparseleaf.boosting.tree import FlatTree, LeafVectors
    from sparseleaf.engine.shards import Shards
    from sparseleaf.projection import Projection


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

        def check() -> dict[str, Any]:
            self._check()
            check_layout(layout)
            return {"layout": layout}

        with (
            make_engine(engine).open(self, {"X": X, "y": y}, layout, check) as shards,
            reporting(self.verbose * shards.leads),
        ):
            return self._train(shards, eval_set, callbacks, (checkpoint, checkpoint_every))

    def _part(self, X: Any, y: Any) -> SparsePart:
        """Rows, checked."""
        X = self._validate_features(X, reset=True)
        if y is None:  # in scikit-learn's words
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        targets = encode_targets(y, X.shape[0])
        return SparsePart(X, self._feature_names(), targets, effective_n_jobs(self.n_jobs))

    def _train(
        self,
        shards: Shards,
        eval_set: EvalSet,
        callbacks: Sequence[Callback],
        checkpoint: tuple[str | os.PathLike[str] | None, int],
    ) -> Self:
        params = self._settings()
        n_jobs, seed = effective_n_jobs(self.n_jobs), shards.once(self._seed)
        rows = agree_on_rows(shards)
        self._know_features(rows)
        found = shards.gather("describe_targets")
        targets = join_forms([form for form, _ in found])
        shards.call("relabel", targets)
        watches = shards.once(lambda: eval_names(len(eval_sets(eval_set))))
        if self.early_stopping_rounds is not None and not watches:
            raise ValueError(
                f"early_stopping_rounds={self.early_stopping_rounds} requires a validation set, eval_set=(X, y)."
            )
        kind = choose_projection(params.projection, rows, params.projection_dim)
        keep_raw = choose_keep_raw(params.keep_raw, kind, rows)
        without_nan = kind is not None or self.rerank is not None
        if without_nan:
            refuse_nan(rows)
        watched = shards.first(lambda: self._eval_rows(eval_set, targets, without_nan=without_nan)) or []
        n_entries = sum(n for _, n in found)
        share = len(found)
        estimated = self._estimate(
            rows.n_rows // share, rows.n_features, targets.n_labels, n_entries // share, kind, keep_raw
        )
        memory.require(estimated, "Fewer rows, projection_dim or max_bins, or a projection, need less.")
        keeper = Checkpoint.shared(
            shards,
            self,
            *checkpoint,
            seed,
            lambda prints: prints | describe_names_of(targets.names) | describe_watched(watched),
        )
        seed = keeper.seed
        sizes = f"{rows.n_rows:,} rows, {rows.n_features:,} features, {targets.n_labels:,} labels"
        seen = (
            "raw features" + " (values are missing)" * rows.nan
            if kind is None
            else kind + " beside raw features" * keep_raw
        )
        told = self.verbose * shards.leads
        say(f"{sizes}; trees on {seen}; {estimated}", told)
        label_counts = shards.sum("label_counts")
        empty = agree_on_empty_rows(shards, rows, label_counts)
        reranking = None
        if self.rerank is not None:
            reranking = Reranking.plan(
                params, *self._all_rows(shards), seed, watched[-1] if watched else None
            )
            shards.call("keep_rows", *reranking.tree_rows())
        projection = None if kind is None else kept_projection(keeper, rows.n_features, keep_raw)
        if kind is not None:
            with phase(f"projection {kind}"):
                if projection is None:
                    fitted = shards.exchange("components", kind, self.projection_dim, keep_raw, seed, told)
                    projection = fitted[0]
                    keeper.keep("projection", {"components": projection.components}, {})
                shards.call("project", projection)

        with phase("binning"):
            training = _Training(self, shards, rows, projection, keeper, n_jobs)
        for name, (X, Y) in zip(watches, watched, strict=False):  # the first rank alone has the rows
            training.watch(name, X, Y)
        stopper = (
            None
            if self.early_stopping_rounds is None
            else EarlyStopping(f"{watches[-1]} {params.eval_metric}", self.early_stopping_rounds)
        )
        run = training.run
        n_trees = run.take_up(self.n_trees, len(training.label_ids), training.replay, stopper)
        keeper.tell(len(run.grown), run.n_rounds >= n_trees, told)
        with training_progress(n_trees, told) as shown:
            run.run(n_trees, training.measure if watches else no_metric, [*shown, *callbacks], stopper)
        trees = with_short_values(
            concatenate_trees(run.grown, training.label_ids, training.cuts.n_features, targets.n_labels)
        )
        model = Model(
            stages=in_order([projection, AxisScorer(trees, targets.n_labels), empty]),
            method=self.method,
            n_features=rows.n_features,
            n_labels=targets.n_labels,
            label_names=targets.names,
            target_kind=targets.kind,
            label_counts=label_counts,
            n_train_rows=rows.n_rows,
            parameters=self._saved_parameters(seed),
            history=run.history,
            feature_names=self._feature_names(),
        )
        if reranking is not None:
            stage = reranking.choose(model, n_jobs)
            threshold = reranking.threshold(model.with_stage(Role.RERANKER, stage), n_jobs)
            reranker = reranking.refit(stage, model, n_jobs)
            model = replace(model.with_stage(Role.RERANKER, reranker), threshold=threshold)
        self._adopt(model)
        self.interrupted_ = run.interrupted or (reranking is not None and reranking.interrupted)
        return self

    def _all_rows(self, shards: Shards) -> tuple[Features, sp.csr_matrix]:
        """Features and labels of all rows, for what wants them in one place."""
        if shards.n_shards > 1:
            raise ValueError(
                f"rerank={self.rerank!r}: not while training in several places; wanted rerank=None, and"
                " fit_rerank afterwards."
            )
        found: tuple[Features, sp.csr_matrix] = shards.gather("rows")[0]
        return found

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


class _Training:
    """One run of :meth:`SparseGBDTClassifier.fit`: the parts put together, and what has been trained so far."""

    def __init__(
        self,
        estimator: SparseGBDTClassifier,
        shards: Shards,
        rows: RowsInfo,
        projection: Projection | None,
        checkpoint: Checkpoint,
        n_jobs: int,
    ) -> None:
        seed = checkpoint.seed
        self._params = params = estimator._settings()
        self._shards = shards
        self._n_rows = rows.n_rows
        self._projection = projection
        self._n_jobs = n_jobs
        exact = params.split == "exact"
        if exact and shards.layout == "rows" and shards.n_shards > 1:
            raise ValueError("split='exact' wants all rows of a feature in one place: layout='features'.")
        self._bin_type: type[np.unsignedinteger[Any]] = np.uint32 if exact else np.uint8
        self._loss = sparse_objective(params.loss).code
        max_bins = EXACT_BINS if exact else params.max_bins
        self.cuts: Cuts = agree_on_cuts(shards, max_bins, seed, rows.n_rows)
        self.label_counts: Array = shards.sum("label_counts")
        shards.call("make_shard", self.cuts, self._bin_type, self._loss)

        # most frequent first: what is used most lies together in memory, and labels never seen take no room
        order = np.argsort(-self.label_counts, kind="stable")
        self.label_ids = order[: int(np.count_nonzero(self.label_counts))].astype(np.int32)
        self._rank_of = np.full(len(order), -1, np.int64)
        self._rank_of[self.label_ids] = np.arange(len(self.label_ids))
        shards.call("start", self._rank_of, len(self.label_ids))
        has_missing = (shards.sum("missing_features") > 0).astype(np.uint8)

        self.run = TrainingRun(self._make_booster(exact, seed, has_missing), checkpoint)
        self._watched: list[tuple[str, SparseShard, sp.csr_matrix]] = []

    def watch(self, name: str, X: Features, Y: sp.csr_matrix) -> None:
        """Measure on these rows after every tree."""
        shard = self._shard(self._columns(X), Y)
        shard.start(np.full(Y.shape[1], -1, np.int64), len(self.label_ids))  # scores only, truth is in Y
        self._watched.append((name, shard, Y))

    def replay(self, tree: FlatTree, vectors: LeafVectors) -> None:
        """Add a tree of a checkpoint to all scores."""
        self._shards.follow_tree(tree, vectors)
        for _, shard, _ in self._watched:
            shard.follow(tree, vectors)

    def measure(self, tree: FlatTree, vectors: LeafVectors) -> dict[str, float] | None:
        """The metric on the watched rows, with the new tree."""
        return self._shards.once(lambda: self._measure(tree, vectors))

    def _measure(self, tree: FlatTree, vectors: LeafVectors) -> dict[str, float]:
        kind, _, k = self._params.eval_metric.partition("@")
        metric = precision_at_k if kind == "precision" else ndcg_at_k
        measured = {}
        for name, shard, Y in self._watched:
            shard.follow(tree, vectors)
            best = shard.topk(int(k), self.label_ids)
            measured[f"{name} {self._params.eval_metric}"] = metric(Y, best, int(k))
        return measured

    def _columns(self, X: Features) -> list[Features]:
        return [X] if self._projection is None else self._projection.parts(X, self._n_jobs)

    def _shard(self, columns: list[Features], targets: sp.csr_matrix) -> SparseShard:
        bins = bin_features(columns, self.cuts, self._bin_type, self._n_jobs)
        return SparseShard(bins, self.cuts.missing_bins, targets, self._loss, self._n_jobs)

    def _make_booster(self, exact: bool, seed: int, has_missing: Array) -> Booster:
        params = self._params
        growth = Growth(
            params.growth, params.max_leaves, params.max_depth, params.min_samples_leaf, params.min_gain
        )
        n_labels = max(1, len(self.label_ids))
        trees: Trees
        if exact:
            reducer = None
            trees = ExactTrees(growth, params.leaf_labels, params.exact_step, params.l2, self._n_rows)
        else:
            name = "none" if params.split == "full" else params.sketch
            reducer = make_reducer(name, params.sketch_dim, n_labels)
            trees = HistogramTrees(
                growth,
                np.diff(self.cuts.offsets) + 1 + has_missing,
                has_missing,
                np.zeros(self.cuts.n_features, np.uint8),
                self._n_rows,
                params.l2,
                params.histogram_mb << 20,
                most_leaves(params, self._n_rows),
            )
        recipe = Recipe(
            trees=trees,
            cuts=self.cuts,
            statistics=SparseResiduals(
                reducer,
                LeafRule(params.leaf_labels, params.leaf_min_gain, params.l2, params.learning_rate),
                params.l2,
                n_rows=self._n_rows,
                seed=seed,
            ),
            n_features=self.cuts.n_features,
            subsample=params.subsample,
            colsample_bytree=params.colsample_bytree,
            colsample_bynode=params.colsample_bynode,
            seed=seed,
        )
        return Booster(self._shards, recipe)
