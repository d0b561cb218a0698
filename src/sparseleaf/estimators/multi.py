"""What the boosted trees with dense losses share (GBDT-MO): training, and what can be asked of a model."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.utils import check_array

from sparseleaf import memory
from sparseleaf._arrays import effective_n_jobs
from sparseleaf.boosting.dense_losses import TargetForm
from sparseleaf.boosting.freeze import concatenate_trees
from sparseleaf.callbacks import Callback, EarlyStopping
from sparseleaf.checkpoint import EVERY, Checkpoint
from sparseleaf.data.categories import encode_categories, find_categories, join_categories
from sparseleaf.data.checks import check_values
from sparseleaf.engine.part import agree_on_prior, agree_on_rows
from sparseleaf.engine.shards import check_layout, make_engine
from sparseleaf.estimators.base import CUSTOM, ModelEstimator, saved
from sparseleaf.estimators.evaluation import make_metric
from sparseleaf.estimators.multi_part import DensePart, agree_on_base, count_queries
from sparseleaf.estimators.multi_targets import KnownTargets, join_known, weighted
from sparseleaf.estimators.multi_training import MultiTraining, Problem, SearchPlan, Watched
from sparseleaf.estimators.parameters import most_leaves
from sparseleaf.estimators.resuming import describe_before, describe_problem
from sparseleaf.estimators.training import no_metric
from sparseleaf.estimators.validation import EvalSet, check_each, eval_names, eval_sets
from sparseleaf.model import (
    AxisScorer,
    Model,
    Role,
    Rows,
    in_order,
    join_trees,
    with_float_values,
)
from sparseleaf.objectives import DenseObjective
from sparseleaf.progress import phase, reporting, say, training_progress

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.boosting.dense_losses import DenseTargets, Loss
    from sparseleaf.boosting.ranking_losses import Queries
    from sparseleaf.engine.shards import Shards
    from sparseleaf.estimators.multi_part import DenseInfo
    from sparseleaf.links import Link


class MultiGBDT(ModelEstimator):
    """What the regressor and the classifier share; not public."""

    dense_scores: ClassVar[bool] = True
    eval_set_form: ClassVar[str] = "(X, y)"
    predicts_labels: ClassVar[bool] = False
    """Whether outputs are labels, of which a row without features gets the prior."""

    def __init__(
        self,
        n_trees: int = 100,
        learning_rate: float = 0.1,
        loss: Any = "auto",
        *,
        leaf_labels: int | None = None,
        max_depth: int | None = None,
        max_leaves: int | None = 31,
        min_samples_leaf: int = 20,
        l2: float = 1.0,
        max_bins: int = 255,
        subsample: float = 1.0,
        colsample_bytree: float = 1.0,
        categorical_features: Any = "auto",
        monotone_constraints: Any = None,
        early_stopping_rounds: int | None = None,
        eval_metric: Any = DenseObjective.default_metric,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: int = 0,
        advanced: Mapping[str, Any] | None = None,
        **former: Any,
    ) -> None:
        self.n_trees = n_trees
        self.learning_rate = learning_rate
        self.loss = loss
        self.leaf_labels = leaf_labels
        self.max_depth = max_depth
        self.max_leaves = max_leaves
        self.min_samples_leaf = min_samples_leaf
        self.l2 = l2
        self.max_bins = max_bins
        self.subsample = subsample
        self.colsample_bytree = colsample_bytree
        self.categorical_features = categorical_features
        self.monotone_constraints = monotone_constraints
        self.early_stopping_rounds = early_stopping_rounds
        self.eval_metric = eval_metric
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.advanced = advanced
        if former:
            self._take_former(former)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.target_tags.multi_output = True
        return tags

    # --- training

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        eval_set: EvalSet = None,
        callbacks: Sequence[Callback] = (),
        init_model: ModelEstimator | Model | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int = EVERY,
        engine: Any = "local",
        layout: str = "rows",
    ) -> Self:
        """Train.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix, shape (n_rows, n_features)
            NaN is a missing value; trees learn which way it goes.
        y : array-like, DataFrame or sparse matrix
            Numbers for the regressor, (n_rows,) or (n_rows, n_outputs), NaN where unknown. For the classifier one
            class a row, a 0/1 matrix (NaN where unknown) or lists of label names.
        sample_weight : array-like, shape (n_rows,) or (n_rows, n_outputs), optional
        eval_set : (X, y) or list of such tuples, optional
            Validation sets, on which ``eval_metric`` is measured after every tree: see ``history_``. Early stopping
            looks at the last one.
        callbacks : sequence of callables
            Called with a :class:`~sparseleaf.callbacks.TrainingState` after every tree; True stops the training.
        init_model : fitted estimator or Model, optional
            Go on from its trees with ``n_trees`` more, on these rows.
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
        rows = {"X": X, "y": y, "sample_weight": sample_weight}
        check = partial(self._check_arguments, layout, init_model)
        with (
            make_engine(engine).open(self, rows, layout, check) as shards,
            reporting(self.verbose * shards.leads),
        ):
            return self._train(
                shards,
                eval_set,
                callbacks,
                self._before(init_model),
                (checkpoint, checkpoint_every),
                counts_before=init_model is None,
            )

    def _part(self, X: Any, y: Any, sample_weight: Any = None) -> DensePart:
        """Rows, as far as they can be checked before all parts agree on categories."""
        if y is None:  # in scikit-learn's words
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        X, categories = self._raw_features(X)
        # what is wrong with the features is said first; other parts may have other categories
        checked = self._encode_features(X, categories)
        known, targets = self._encode(y, checked[0].shape[0], None)
        targets = weighted(targets, sample_weight)
        n_jobs = effective_n_jobs(self.n_jobs)
        return DensePart(X, categories, self._encode_features, known, targets, n_jobs, checked)

    def _train(
        self,
        shards: Shards,
        eval_set: EvalSet,
        callbacks: Sequence[Callback],
        before: Model | None,
        checkpoint: tuple[str | os.PathLike[str] | None, int],
        *,
        counts_before: bool,
    ) -> Self:
        """Grow the trees; ``counts_before``: those that are there are among the ``n_trees``."""
        params = self._settings()
        n_jobs, seed = effective_n_jobs(self.n_jobs), shards.once(self._seed)
        found: list[DenseInfo] = shards.gather("describe_targets")
        categories = (
            join_categories([part.categories for part in found]) if before is None else before.categories
        )
        shards.gather("encode_features", categories)
        rows = agree_on_rows(shards)
        self._know_features(rows)
        known = join_known([part.known for part in found])
        form = TargetForm(
            known.n_outputs,
            any(part.form.has_unknown for part in found),
            max(part.form.weight_columns for part in found),
        )
        shards.call("relabel", known, form.has_unknown)
        loss = self._dense_loss(known.kind)
        loss.target_range.check(loss.name, min(part.lowest for part in found))
        shards.call("number_queries", count_queries([part.query_ids for part in found]))
        problem = Problem(rows, categories, known, form, loss)
        watches = shards.once(lambda: eval_names(len(eval_sets(eval_set, self.eval_set_form))))
        if self.early_stopping_rounds is not None and not watches:
            raise ValueError(
                f"early_stopping_rounds={self.early_stopping_rounds} requires a validation set,"
                f" eval_set={self.eval_set_form}."
            )
        watched = shards.first(lambda: self._watched(eval_set, problem)) or []
        problem = replace(problem, watched=dict(zip(watches, watched, strict=False)))
        if before is not None:
            _require_same(before, rows.n_features, known)
        directions = self._directions(form.n_outputs, categories)
        plan = SearchPlan(params, loss, form, directions)
        estimated = self._estimate(rows.n_rows // len(found), rows.n_features, form.n_outputs, plan)
        memory.require(estimated, "Fewer rows or outputs, or less max_bins, need less.")
        keeper = Checkpoint.shared(
            shards, self, *checkpoint, seed, lambda prints: prints | describe_problem(problem, before)
        )
        seed = keeper.seed
        text = (
            f"{rows.n_rows:,} rows, {rows.n_features:,} features, {form.n_outputs:,} outputs;"
            f" loss {loss.name}, split {plan.split}; {estimated}"
        )
        shards.once(lambda: say(text, self.verbose))
        empty = agree_on_prior(shards, rows, known.counts) if self.predicts_labels else None
        start = agree_on_base(shards, loss, rows.n_rows) if before is None else before.base_score
        assert start is not None
        with phase("binning"):
            training = MultiTraining(self, shards, plan, problem, start, before, keeper, n_jobs)
        stopper = None
        if self.early_stopping_rounds is not None:
            name, higher = shards.once(lambda: _named(watched[-1]))
            stopper = EarlyStopping(
                f"{watches[-1]} {name}", self.early_stopping_rounds, higher_is_better=higher
            )
        per_round = form.n_outputs if params.tree_per_output else 1
        n_rounds = self.n_trees
        if before is not None and counts_before:
            n_rounds -= before.n_trees // per_round
            if n_rounds < 0:
                raise ValueError(
                    f"n_trees={self.n_trees}: with warm_start, wanted at least the"
                    f" {before.n_trees // per_round} that are there."
                )
        run = training.run
        n_rounds = run.take_up(n_rounds, form.n_outputs, training.replay, stopper)
        told = self.verbose * shards.leads
        keeper.tell(len(run.grown), run.n_rounds >= n_rounds, told)
        with training_progress(self.n_trees, told) as shown:
            run.run(n_rounds, training.measure if watches else no_metric, [*shown, *callbacks], stopper)
        trees = concatenate_trees(
            run.grown,
            np.arange(form.n_outputs),
            rows.n_features,
            form.n_outputs,
            categorical=training.categorical,
            all_labels=plan.all_outputs,
            gain=None if before is None else before.trees.feature_gain,
        )
        history = run.history
        if before is not None:
            trees = join_trees(before.trees, trees)
            history = {
                name: [*before.history.get(name, []), *values] for name, values in run.history.items()
            } or before.history
        self._adopt(
            Model(
                stages=in_order([AxisScorer(trees, form.n_outputs, start), empty]),
                method=self.method,
                n_features=rows.n_features,
                n_labels=form.n_outputs,
                label_names=known.names,
                target_kind=known.kind,
                label_counts=known.counts,
                n_train_rows=rows.n_rows,
                parameters=self._saved_parameters(seed),
                history=history,
                feature_names=self._feature_names(),
                categories=categories,
                link=self._link(loss, known.kind).name,
            )
        )
        self.interrupted_ = run.interrupted
        return self

    def _loss_of_rows(self, loss: Loss) -> Callable[[Queries | None], Loss]:
        """The loss of a part's rows, given their queries."""
        return _Same(loss)

    def estimate_memory(self, X: Any, y: Any) -> memory.MemoryEstimate:
        """Bytes that :meth:`fit` would take beyond X and y; nothing is trained."""
        self._check()
        probe = type(self)(categorical_features=self.categorical_features)
        raw, categories = probe._raw_features(X)
        features, _ = probe._encode_features(raw, categories)
        known, targets = self._encode(y, features.shape[0], None)
        plan = SearchPlan(self._settings(), self._dense_loss(known.kind), targets.form, None)
        return self._estimate(features.shape[0], features.shape[1], targets.n_outputs, plan)

    # --- prediction

    def apply(self, X: Any) -> Array:
        """The leaf that every row comes to in every tree, int32 (n_rows, n_trees), counted within the tree."""
        model = self._model()
        scorer = model.scorer
        leaves = scorer.leaves(Rows(self._features(X), None, effective_n_jobs(self.n_jobs)))
        is_leaf = scorer.trees.feature < 0
        first = np.concatenate(([0], np.cumsum(is_leaf)))[scorer.trees.tree_offsets[:-1]]
        within: Array = (leaves - first).astype(np.int32)
        return within

    @property
    def output_importances_(self) -> Array:
        """How much cuts on each feature move each output, (n_features, n_outputs); columns add up to 1.

        A cut counts with Σ rows · (mean below the child − mean below the node)², where means are those of the leaf
        values by training rows.
        """
        from sparseleaf.model.importance import output_importances

        return output_importances(self._model())

    def _scores(self, X: Any, n_trees: int | None = None) -> Array:
        model = self._model()
        return model.outputs(self._features(X), n_trees, effective_n_jobs(self.n_jobs))

    def _stages(self, X: Any, every: int) -> Iterator[Array]:
        if every < 1:
            raise ValueError(f"every: found {every!r}; wanted an int of at least 1.")
        model = self._model()
        features = self._features(X)
        per_round = model.n_labels if self._settings().tree_per_output else 1
        n_rounds = model.n_trees // per_round
        for used in sorted({*range(every, n_rounds + 1, every), n_rounds}):
            yield self._scores(features, used * per_round)

    # --- inside

    def _adopt(self, model: Model) -> None:
        super()._adopt(model)
        per_round = model.n_labels if model.parameters.get("tree_per_output") else 1
        self.best_iteration_ = model.n_trees // max(per_round, 1)
        self.n_outputs_ = model.n_labels

    def _check(self) -> None:
        for name in ("loss", "eval_metric"):
            value = getattr(self, name)
            if isinstance(value, str) and value == CUSTOM:
                raise ValueError(
                    f"{name}={CUSTOM!r} stands for a function that a model file cannot hold; give it again."
                )
        self._check_parameters()
        effective_n_jobs(self.n_jobs)

    def _check_arguments(self, layout: str, init_model: ModelEstimator | Model | None) -> dict[str, Any]:
        """See :data:`~sparseleaf.engine.shards.Check`."""
        self._check()
        check_layout(layout)
        return {"layout": layout} | describe_before(self._before(init_model))

    def _dense_loss(self, kind: str) -> Loss:
        raise NotImplementedError

    def _link(self, loss: Loss, kind: str) -> Link:
        """How predictions are made of scores, for targets of this kind."""
        return loss.link

    def _encode(self, y: Any, n_rows: int, known: KnownTargets | None) -> tuple[KnownTargets, DenseTargets]:
        """Targets as numbers; ``known`` are those of training, which others must fit."""
        raise NotImplementedError

    def _before(self, init_model: ModelEstimator | Model | None) -> Model | None:
        if init_model is not None:
            if not isinstance(init_model, Model | ModelEstimator):
                raise ValueError(
                    f"init_model: found {init_model!r:.60}; wanted a fitted estimator or its model"
                    " (sparseleaf.load reads a file)."
                )
            model = init_model if isinstance(init_model, Model) else init_model._model()
            if model.base_score is None:
                raise ValueError(f"init_model: found one of {model.method!r}; wanted one with dense scores.")
        elif self.warm_start and hasattr(self, "model_"):
            model = self.model_
        else:
            return None
        params = self._settings()
        for name in ("loss", "averaged"):
            own = saved(getattr(params, name, None))
            if model.method != self.method or model.parameters.get(name) != own:
                raise ValueError(
                    f"init_model or warm_start: found {name}={own!r} of {self.method!r}; the model has"
                    f" {model.parameters.get(name)!r} of {model.method!r}."
                )
        alone = bool(model.parameters.get("tree_per_output"))
        if alone != params.tree_per_output:
            raise ValueError(
                f"init_model or warm_start: found tree_per_output={params.tree_per_output}; the model has {alone}."
            )
        scorer = model.scorer
        return model.with_stage(Role.SCORER, replace(scorer, trees=with_float_values(scorer.trees)))

    def _raw_features(self, X: Any) -> tuple[Any, dict[int, list[Any]]]:
        """Features as they are, and their categories."""
        check_values(X, "X")
        if hasattr(X, "shape") and len(X.shape) == 2:
            return X, find_categories(X, self.categorical_features)
        return self._listed(X)

    def _encode_features(self, X: Any, categories: dict[int, list[Any]]) -> tuple[Features, list[str] | None]:
        """Checked features with categories as numbers, and the names of their columns."""
        checked = self._validate_features(encode_categories(X, categories), reset=True)
        return checked, self._feature_names()

    def _listed(self, X: Any) -> tuple[Any, dict[int, list[Any]]]:
        """Rows that are no matrix: scikit-learn's check speaks first; then categories by position."""
        if self.categorical_features is None or isinstance(self.categorical_features, str):
            return X, {}
        X = check_array(X, dtype=None, ensure_all_finite=False)
        return X, find_categories(X, self.categorical_features)

    def _validate_features(self, X: Any, *, reset: bool) -> Features:
        if not reset and hasattr(self, "model_") and self.model_.categories:
            check_values(X, "X")
            if not (hasattr(X, "shape") and len(X.shape) == 2):
                X = check_array(X, dtype=None, ensure_all_finite=False)
            if X.shape[1] == self.model_.n_features and not self._other_names(X):
                X = encode_categories(X, self.model_.categories)
        return super()._validate_features(X, reset=reset)

    def _other_names(self, X: Any) -> bool:
        """Whether columns have other names than in training, which scikit-learn's check will say."""
        known = getattr(self, "feature_names_in_", None)
        return known is not None and hasattr(X, "columns") and list(X.columns) != list(known)

    def _features(self, X: Any) -> Features:
        return self._validate_features(X, reset=False) if self.model_.categories else super()._features(X)

    def _watched(self, eval_set: EvalSet, problem: Problem) -> list[Watched]:
        return check_each(
            eval_sets(eval_set, self.eval_set_form), lambda *rows: self._eval_rows(problem, *rows)
        )

    def _eval_rows(self, problem: Problem, X: Any, y: Any) -> Watched:
        X = self._eval_features(X, problem.categories)
        _, targets = self._encode(y, X.shape[0], problem.known)
        lowest = float(np.nanmin(targets.values, initial=np.inf))
        problem.loss.target_range.check(problem.loss.name, lowest)
        if not targets.any_known:
            raise ValueError("y: found no target that is known; wanted at least one.")
        return Watched(X, targets, make_metric(self._settings().eval_metric, problem.loss, targets))

    def _eval_features(self, X: Any, categories: dict[int, list[Any]]) -> Features:
        check_values(X, "X")
        encoded = encode_categories(X, categories) if categories else X
        return ModelEstimator._validate_features(self, encoded, reset=False)

    def _directions(self, n_outputs: int, categories: dict[int, list[Any]]) -> Array | None:
        """Constraints as an int8 array (n_features, n_outputs); None where there are none."""
        given = self.monotone_constraints
        if given is None:
            return None
        said = "The 'monotone_constraints' parameter"
        n_features = self.n_features_in_
        if isinstance(given, dict):
            names = list(getattr(self, "feature_names_in_", []))
            matrix = np.zeros((n_features, n_outputs))
            for name, value in given.items():
                at = names.index(name) if name in names else name
                if isinstance(at, str) and at.isdecimal():
                    at = int(at)
                if isinstance(at, bool) or not isinstance(at, int | np.integer) or not 0 <= at < n_features:
                    raise ValueError(f"{said} has feature {name!r}, which X does not have.")
                numbers = _as_numbers(value)
                if numbers.shape not in ((), (n_outputs,)):
                    raise ValueError(
                        f"{said} must have one number, or one per output ({n_outputs}), for feature {name!r}. Got"
                        f" {value!r:.80} instead."
                    )
                matrix[at] = numbers
        else:
            matrix = _as_numbers(given)
            matrix = np.repeat(matrix[:, None], n_outputs, axis=1) if matrix.ndim == 1 else matrix
        if matrix.shape != (n_features, n_outputs):
            raise ValueError(
                f"{said} must have shape ({n_features},) or ({n_features}, {n_outputs}): one number per feature (and"
                f" output). Got shape {np.shape(given)} instead."
            )
        wrong = matrix[~np.isin(matrix, (-1, 0, 1))]
        if len(wrong):
            raise ValueError(f"{said} must have only the values -1, 0 and 1. Got {wrong[0]:g} instead.")
        unordered = [feature for feature in categories if matrix[feature].any()]
        if unordered:
            raise ValueError(f"{said} must be 0 for feature {unordered[0]}, whose categories have no order.")
        return matrix.astype(np.int8) if matrix.any() else None

    def _estimate(
        self, n_rows: int, n_features: int, n_outputs: int, plan: SearchPlan
    ) -> memory.MemoryEstimate:
        params = self._settings()
        return memory.estimate_dense(
            n_rows,
            n_features,
            n_outputs,
            curvature_columns=(0, 1, n_outputs, n_outputs * (n_outputs + 1) // 2)[plan.curvature],
            width=plan.width,
            reduced=plan.sketch,
            max_bins=params.max_bins,
            n_trees=params.n_trees * (n_outputs if params.tree_per_output else 1),
            leaf_outputs=1 if params.tree_per_output else params.leaf_labels,
            max_leaves=most_leaves(params, n_rows),
            histogram_budget=params.histogram_mb << 20,
        )


def _as_numbers(constraints: Any) -> Array:
    try:
        return np.asarray(constraints, np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            "The 'monotone_constraints' parameter must be -1, 0 or 1 for each feature (and output). Got"
            f" {constraints!r:.80} instead."
        ) from None


def _named(watched: Watched) -> tuple[str, bool]:
    return watched.metric.name, watched.metric.higher_is_better


@dataclass(frozen=True)
class _Same:
    """A loss that does not depend on queries."""

    loss: Loss

    def __call__(self, queries: Queries | None) -> Loss:
        return self.loss


def _require_same(before: Model, n_features: int, known: KnownTargets) -> None:
    """Refuse to go on from a model of other features or outputs."""
    if before.n_features != n_features or before.n_labels != known.n_outputs:
        raise ValueError(
            f"init_model or warm_start: found {n_features} features and {known.n_outputs} outputs; the model has"
            f" {before.n_features} and {before.n_labels}."
        )
    names = [None if found is None else found.tolist() for found in (before.label_names, known.names)]
    if before.target_kind != known.kind or names[0] != names[1]:
        raise ValueError(
            "init_model or warm_start: found other classes or kind of targets than the model has."
        )
