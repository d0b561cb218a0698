"""LdSMClassifier: logarithmic-depth trees with learned linear routers (LdSM)."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from sparseleaf._arrays import effective_n_jobs
from sparseleaf.callbacks import Callback, TrainingState
from sparseleaf.checkpoint import EVERY, Checkpoint
from sparseleaf.data.targets import encode_targets
from sparseleaf.engine.trees import tree_workers
from sparseleaf.estimators.parameters import Parameter, check_parameters
from sparseleaf.estimators.reranking import RERANK_PARAMETERS
from sparseleaf.estimators.resuming import describe_targets, describe_watched
from sparseleaf.estimators.routed import RoutedClassifier
from sparseleaf.metrics import precision_at_k
from sparseleaf.model import RoutedModel
from sparseleaf.progress import say, training_progress
from sparseleaf.rerank.fit import Reranking, all_but
from sparseleaf.routed.ensemble import (
    FrozenTree,
    SplitRecord,
    all_leaf_counts,
    freeze_tree,
    join_trees,
    with_leaves,
)
from sparseleaf.routed.growth import Histogram, grow_trees, shuffled_rows
from sparseleaf.routed.ldsm import SEND_ABOVE, LdsmRule, LdsmSplitter, label_histogram
from sparseleaf.routed.packing import pack_routed, unpack_routed

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.data.targets import Targets
    from sparseleaf.engine.trees import TreeWorkers

MOST_CHILDREN = 16

PARAMETERS: dict[str, Parameter] = {
    "n_trees": Parameter("int", "Number of trees.", low=1),
    "arity": Parameter("int", "Children of a node.", low=2, high=MOST_CHILDREN, symbol="M"),
    "max_nodes": Parameter("int", "Nodes of a tree, leaves included.", low=1, symbol="T_max"),
    "epochs": Parameter("int", "Passes over a node's rows, at most.", low=1, symbol="E"),
    "tol": Parameter(
        "float", "A node's passes end when one changes J by less than this; 0 makes them all.", low=0
    ),
    "learning_rate": Parameter("float", "Step of the routers' updates.", low=0, low_open=True),
    "lambda_1": Parameter("float", "Weight of class integrity in J.", low=0, symbol="λ1"),
    "lambda_2": Parameter("float", "Weight of the multi-way penalty in J.", low=0, symbol="λ2"),
    "min_samples_leaf": Parameter("int", "Rows a leaf must have.", low=1),
    "prune": Parameter(
        "float",
        "Routers drop features that move margins by less than this and a quarter of what their strongest does.",
        low=0,
    ),
    "leaf_labels": Parameter(
        "int", "Labels a leaf keeps, the most frequent; None keeps all.", low=1, none=True
    ),
    **RERANK_PARAMETERS,
    "n_jobs": Parameter(
        "int", "Threads; None or -1 for all cores. The model does not depend on it.", none=True
    ),
    "random_state": Parameter("seed", "Seed of all random draws."),
    "verbose": Parameter("int", "0 silent, 1 a progress bar on a terminal, 2 a line a tree.", low=0),
}


class LdSMClassifier(RoutedClassifier):
    """Trees of logarithmic depth with linear routers on the raw features, for targets with very many labels.

    A node sends a row to those of its children whose router says so, maybe to several. Routers are trained online:
    each row is wanted where the objective J is least, which asks for balanced children, for labels that stay
    together, and for few rows that go to several. A leaf holds its rows' labels by share; a row's scores are the
    mean of its leaves, and of the trees.

    Parameters
    ----------
    n_trees : int, default=10
        Number of trees.
    arity : int, default=2
        Children of a node (M), at most 16.
    max_nodes : int, default=1000
        Nodes of a tree, leaves included (T_max).
    epochs : int, default=20
        Passes over a node's rows, at most (E).
    tol : float, default=0.002
        A node's passes end when one of them changes J by less than this.
    learning_rate : float, default=0.1
        Step of the routers' updates.
    lambda_1, lambda_2 : float, default=2.0, 1.0
        Weights of class integrity and of the multi-way penalty in J, as the paper names them.
    min_samples_leaf : int, default=1
        Rows a leaf must have.
    prune : float, default=0.01
        Routers drop features that move a margin, at their largest value, by less than this (rows go where margins are
        at least 0.5), and by less than a quarter of what the node's strongest feature does.
    leaf_labels : int or None, default=100
        Labels a leaf keeps, the most frequent; None keeps all.
    rerank : {"centroid", "cosine", "log"} or None, default=None
        Scores the trees' candidates anew by how close a row is to the labels' mean rows: see
        :mod:`sparseleaf.rerank`.
    rerank_weight : float or "auto", default="auto"
        Share of the trees in the mix (β). "auto" is chosen on the validation set, or else on a tenth of the training
        rows, at most 4,000: routers then do not see these, leaves and centroids do.
    rerank_scale : float or None, default=None
        How sharply closeness falls (γ).
    n_jobs : int or None, default=None
        Threads; None for all cores. The model is the same, to the byte, for any number.
    random_state : int, RandomState or None, default=0
        Seed of all random draws.
    verbose : int, default=0
        0 is silent, 1 shows a progress bar on a terminal, 2 prints a line a tree.

    Attributes
    ----------
    model_ : RoutedModel
    classes_ : array, shape (n_labels,)
        Label names, or 0, 1, ….
    history_ : dict of str to list of float
        P@1 after every tree, in percent, where there was a validation set.
    split_records_ : list of lists of SplitRecord
        How well each node was split, tree by tree; see :mod:`sparseleaf.routed.diagnostics`. Not in the model file.
    rerank_weight_ : float or None
        The weight in use.
    n_features_in_ : int
    """

    method: ClassVar[str] = "ldsm"
    parameter_table: ClassVar[dict[str, Parameter]] = PARAMETERS

    def __init__(
        self,
        n_trees: int = 10,
        arity: int = 2,
        max_nodes: int = 1000,
        epochs: int = 20,
        tol: float = 0.002,
        learning_rate: float = 0.1,
        lambda_1: float = 2.0,
        lambda_2: float = 1.0,
        min_samples_leaf: int = 1,
        prune: float = 0.01,
        leaf_labels: int | None = 100,
        rerank: str | None = None,
        rerank_weight: float | str = "auto",
        rerank_scale: float | None = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: int = 0,
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
        self.rerank_weight = rerank_weight
        self.rerank_scale = rerank_scale
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        eval_set: tuple[Any, Any] | None = None,
        callbacks: Sequence[Callback] = (),
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int = EVERY,
        engine: Any = "local",
    ) -> Self:
        """Train.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n_rows, n_features)
            A sparse matrix may be memory-mapped: see :func:`sparseleaf.data.load_mapped`.
        y : sparse or dense 0/1 matrix, lists of label names, or one class a row
        eval_set : (X, Y), optional
            Validation rows: P@1 is measured on them after every tree.
        callbacks : sequence of callables
            Called with a :class:`~sparseleaf.callbacks.TrainingState` after every tree; True stops the training.
        checkpoint : path, optional
            File that keeps the trees so far: where it is there, training goes on from it, to the same bytes as if it
            had never stopped. Local, or a URL that fsspec knows.
        checkpoint_every : int, default=10
            Trees between two writings.
        engine : {"local", "mpi", "dask"}, mpi4py communicator or Dask client, default="local"
            Who grows the trees, each of which takes all rows. With MPI every rank calls ``fit`` with rows of its own,
            and all of them are sent to all; X and y are then sparse matrices, arrays or lists.

        Returns
        -------
        self
        """
        with tree_workers(engine) as workers:
            kept = checkpoint, checkpoint_every
            return self._train(workers, *workers.rows(X, y), eval_set, callbacks, kept)

    def _train(
        self,
        workers: TreeWorkers,
        X: Any,
        y: Any,
        eval_set: tuple[Any, Any] | None,
        callbacks: Sequence[Callback],
        checkpoint: tuple[str | os.PathLike[str] | None, int],
    ) -> Self:
        check_parameters(type(self).__name__, self.get_params(deep=False), self.parameter_table)
        n_jobs = effective_n_jobs(self.n_jobs)
        seed = self._seed()
        X = self._validate_features(X, reset=True)
        if y is None:  # in scikit-learn's words
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        targets = encode_targets(y, X.shape[0])
        watched = None if eval_set is None else self._eval_rows(eval_set, targets)
        prints = partial(describe_targets, X, targets)
        keeper = workers.once(
            lambda: Checkpoint.open(self, *checkpoint, seed, lambda: prints() | describe_watched(watched))
        )
        if not workers.leads:
            keeper = keeper.without_file()
        seed = keeper.seed
        told = self.verbose * workers.leads
        say(f"{X.shape[0]:,} rows, {X.shape[1]:,} features, {targets.n_labels:,} labels", told)

        reranking = Reranking.plan(self, X, targets.matrix, seed, watched)
        held = reranking.held
        watch = None if watched is None else _Watch(*watched, self._joined_model, X.shape[1], targets, n_jobs)
        with training_progress(self.n_trees, told) as shown:
            grown = self._grow(workers, X, targets.matrix, held, keeper, n_jobs, watch, [*shown, *callbacks])

        model = self._joined_model(grown, X.shape[1], targets)
        stage = reranking.finish(model, n_jobs)
        if len(held):  # routers have not seen these rows, leaves shall
            more = model.leaves(X[held], n_jobs).T @ targets.matrix[held]
            counts = sp.csr_matrix(all_leaf_counts(grown) + more)
            model = replace(model, trees=with_leaves(model.trees, counts, self.leaf_labels))
        self._adopt(
            replace(
                model,
                label_counts=np.bincount(targets.matrix.indices, minlength=targets.n_labels),
                n_train_rows=X.shape[0],
                parameters=self._saved_parameters(seed),
                history={} if watch is None else {"valid P@1": watch.values},
                rerank=stage,
                feature_names=self._feature_names(),
            )
        )
        self.split_records_: list[list[SplitRecord]] = [tree.splits for tree in grown]
        return self

    # --- inside

    def _grow(
        self,
        workers: TreeWorkers,
        X: Features,
        Y: sp.csr_matrix,
        held: Array,
        checkpoint: Checkpoint,
        n_jobs: int,
        watch: _Watch | None,
        callbacks: Sequence[Callback],
    ) -> list[FrozenTree]:
        """Grow the trees, on from those of the checkpoint; Ctrl-C keeps those that are complete."""
        began = time.perf_counter()
        with checkpoint.refusing():
            kept = unpack_routed(checkpoint.part("trees"), self.arity, X.shape[1], Y.shape[1])
        trees = kept[: self.n_trees]
        checkpoint.tell(len(trees), len(trees) >= self.n_trees, self.verbose)
        written = len(kept)

        def write() -> None:
            nonlocal written
            if len(trees) > written and checkpoint.keep("trees", pack_routed(trees), {}):
                written = len(trees)

        if watch is not None:
            for tree in trees:
                watch.add(tree)
        try:
            for tree in workers.trees(self, (X, Y, held, checkpoint.seed), n_jobs, len(trees)):
                if watch is not None:
                    watch.add(tree)
                trees.append(tree)
                state = TrainingState(
                    len(trees),
                    self.n_trees,
                    tree.leaf_counts.shape[0],
                    tree.leaf_counts.nnz,
                    time.perf_counter() - began,
                    {} if watch is None else {"valid P@1": watch.values},
                )
                stop = [callback(state) for callback in callbacks]  # all are called
                if any(stop):
                    break
                if len(trees) % checkpoint.every == 0:
                    write()
        except KeyboardInterrupt:
            if not trees:
                raise
            if watch is not None:
                del watch.values[len(trees) :]
            warnings.warn(f"interrupted: the model has the {len(trees)} trees grown so far", stacklevel=4)
        write()
        return trees

    def _trees(
        self, X: Features, Y: sp.csr_matrix, held: Array, seed: int, n_jobs: int, first: int
    ) -> Iterator[FrozenTree]:
        rule = LdsmRule(
            self.arity,
            self.epochs,
            self.learning_rate,
            self.lambda_1,
            self.lambda_2,
            self.tol,
            self.prune,
            self.min_samples_leaf,
        )
        splitter = LdsmSplitter(X, Y, rule, n_jobs)
        seen = all_but(X.shape[0], held).astype(np.int32)
        histogram = label_histogram(Y[seen] if len(held) else Y)

        def root(tree: int) -> tuple[Array, Histogram]:
            return seen[shuffled_rows(len(seen), seed, tree)], histogram

        for tree in grow_trees(splitter, root, self.n_trees, self.max_nodes, seed, n_jobs, first):
            yield freeze_tree(tree, Y.shape[1])

    def _joined_model(self, trees: Sequence[FrozenTree], n_features: int, targets: Targets) -> RoutedModel:
        """A model that can predict; what it does not need for that is left empty."""
        return RoutedModel(
            method=self.method,
            n_features=n_features,
            n_labels=targets.n_labels,
            trees=join_trees(trees, SEND_ABOVE, self.leaf_labels),
            projection=None,
            label_names=targets.names,
            target_kind=targets.kind,
            label_counts=np.empty(0, np.int64),
            n_train_rows=0,
            parameters={},
            history={},
        )


class _Watch:
    """P@1 on validation rows, after every tree."""

    def __init__(
        self,
        X: Features,
        Y: sp.csr_matrix,
        model_of: Callable[[Sequence[FrozenTree], int, Targets], RoutedModel],
        n_features: int,
        targets: Targets,
        n_jobs: int,
    ) -> None:
        self.values: list[float] = []
        self._X, self._Y, self._n_jobs = X, Y, n_jobs
        self._model_of: Callable[[FrozenTree], RoutedModel] = lambda tree: model_of(
            [tree], n_features, targets
        )
        self._sum = sp.csr_matrix(Y.shape, dtype=np.float32)

    def add(self, tree: FrozenTree) -> None:
        """Measure with one more tree."""
        scores = self._model_of(tree).tree_scores(self._X, None, self._n_jobs)
        # labels that training never saw have no score
        scores = sp.csr_matrix((scores.data, scores.indices, scores.indptr), self._Y.shape)
        self._sum = sp.csr_matrix(self._sum + scores)
        self.values.append(100.0 * precision_at_k(self._Y, self._sum, 1))
