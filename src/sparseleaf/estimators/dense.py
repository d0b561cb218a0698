"""What boosted trees with dense losses share (GBDT-MO, ranking): training, and what can be asked of a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.utils import check_array

from sparseleaf import memory
from sparseleaf._arrays import effective_n_jobs
from sparseleaf._settings import most_leaves
from sparseleaf.data.categories import encode_categories, find_categories
from sparseleaf.data.checks import check_values
from sparseleaf.distributed.launch import check_layout
from sparseleaf.estimators.base import CUSTOM, ModelEstimator, saved
from sparseleaf.estimators.evaluation import make_metric
from sparseleaf.estimators.texts import are_texts
from sparseleaf.model import Model, Role, Rows, with_float_values
from sparseleaf.training.auto import AUTO, AUTO_VALUES, AutoValue, Bagging, resolve
from sparseleaf.training.dense import DenseEnsemble, Problem, ValidationSet
from sparseleaf.training.dense_partition import DensePartition
from sparseleaf.training.dense_targets import KnownTargets, weighted
from sparseleaf.training.fold_forest import forest_memory
from sparseleaf.training.resuming import describe_init_model
from sparseleaf.training.rounds import Rounds, n_rounds
from sparseleaf.training.search_plan import SearchPlan
from sparseleaf.training.sharing import separate_bagging, with_separate_trees
from sparseleaf.training.validation import EvalSet, check_each, eval_sets

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf._settings import Settings
    from sparseleaf.features import TextStage
    from sparseleaf.links import Link
    from sparseleaf.model.calibrator import Calibrator
    from sparseleaf.model.drift import Drift
    from sparseleaf.objectives.dense import DenseObjective
    from sparseleaf.objectives.queries import Queries
    from sparseleaf.objectives.targets import DenseTargets, TargetForm


class DenseGBDT(ModelEstimator):
    """Base of gradient boosted trees with dense losses, and of forests; not public."""

    dense_scores: ClassVar[bool] = True
    eval_set_form: ClassVar[str] = "(X, y)"
    auto_values: ClassVar[Mapping[str, AutoValue]] = AUTO_VALUES
    predicts_labels: ClassVar[bool] = False
    """Whether outputs are labels; rows without features then get the label prior."""
    default_threshold: ClassVar[float] = 0.0
    """Score from which a label has a probability of at least 0.5."""

    loss: Any
    categorical_features: Any
    monotone_constraints: Any
    eval_metric: Any
    warm_start: bool
    verbose: int
    drift_: Drift
    _known_before: KnownTargets | None = None
    """Targets of the model to continue training from, whose classes new rows may lack."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags

    def _prepare(
        self, eval_set: EvalSet, init_model: ModelEstimator | Model | None, layout: str
    ) -> tuple[DenseEnsemble, dict[str, Any]]:
        """See :data:`~sparseleaf.training.trainer.Prepare`."""
        self._check()
        check_layout(layout)
        before = self._before(init_model)
        ensemble = DenseEnsemble(self, eval_set, layout, before, counts_init_trees=init_model is None)
        return ensemble, {"layout": layout} | describe_init_model(before)

    def _partition(self, X: Any, y: Any, sample_weight: Any = None) -> DensePartition:
        """Validate the rows of one worker, before workers agree on categories."""
        if y is None:  # scikit-learn's message
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        X, categories = self._raw_features(X)
        # features are validated before targets; other workers may have other categories
        checked = self._encode_features(X, categories)
        known, targets = self._encode(y, checked[0].shape[0], self._known_before)
        targets = weighted(targets, sample_weight)
        n_jobs = effective_n_jobs(self.n_jobs)
        return DensePartition(X, categories, self._encode_features, known, targets, n_jobs, checked)

    def _loss_of_rows(self, loss: DenseObjective) -> Callable[[Queries | None], DenseObjective]:
        """Factory of the loss of a partition, given its queries."""
        return _Same(loss)

    def estimate_memory(self, X: Any, y: Any) -> memory.MemoryEstimate:
        """Estimate the memory that :meth:`fit` needs in addition to X and y, without training.

        Parameters
        ----------
        X : {array-like, DataFrame, sparse matrix} of shape (n_rows, n_features), or texts
            Features.
        y : array-like, DataFrame or sparse matrix
            Targets, as in :meth:`fit`.

        Returns
        -------
        estimate : MemoryEstimate
            Estimated memory in bytes, by purpose.
        """
        self._check()
        X = self._fit_vectorizer(X)[0] if are_texts(X, self.vectorizer) else X
        probe = type(self)(categorical_features=self.categorical_features)
        raw, categories = probe._raw_features(X)
        features, _ = probe._encode_features(raw, categories)
        known, targets = self._encode(y, features.shape[0], None)
        return self._estimate_rows(features.shape[0], features.shape[1], known.kind, targets.form)

    def _estimate_rows(
        self, n_rows: int, n_features: int, kind: str, form: TargetForm
    ) -> memory.MemoryEstimate:
        loss = self._dense_loss(kind)
        params, bagging = resolve(
            self._settings(),
            self.auto_values,
            n_rows,
            form.n_outputs,
            continues=self.warm_start,
            constant_hessian=loss.constant_hessian,
            measurable=loss.measurable,
            mixes=loss.mixing is not None,
            haste=loss.haste,
        )
        search = SearchPlan(params, loss, form, None)
        return self._estimate(n_rows, n_rows, n_features, form, search, params, bagging)

    # --- prediction

    def apply(self, X: Any) -> Array:
        """Leaf indices of the rows.

        Parameters
        ----------
        X : {array-like, DataFrame, sparse matrix} of shape (n_rows, n_features), or texts
            Features.

        Returns
        -------
        leaves : ndarray of int32, shape (n_rows, n_trees)
            Index of the leaf that each row reaches in each tree, numbered per tree.
        """
        model = self._model()
        scorer = model.scorer
        leaves = scorer.leaves(Rows(self._features(X), None, effective_n_jobs(self.n_jobs)))
        is_leaf = scorer.trees.feature < 0
        first = np.concatenate(([0], np.cumsum(is_leaf)))[scorer.trees.tree_offsets[:-1]]
        within: Array = (leaves - first).astype(np.int32)
        return within

    @property
    def output_importances_(self) -> Array:
        """Importance of each feature for each output, shape (n_features, n_outputs); columns sum to 1.

        The importance of a split is Σ over its children of rows · (mean of the child − mean of the node)², where the
        mean of a node is that of the leaf values below it, weighted by training rows.
        """
        from sparseleaf.model.importance import output_importances

        return output_importances(self._model())

    def _scores(self, X: Any, n_trees: int | None = None) -> Array:
        model = self._model()
        return model.outputs(self._features(X), n_trees, effective_n_jobs(self.n_jobs), self._device)

    def _stages(self, X: Any, every: int) -> Iterator[Array]:
        if every < 1:
            raise ValueError(f"The 'every' parameter must be an int >= 1. Got {every!r} instead.")
        model = self._model()
        features = self._features(X)
        rounds = Rounds.of(model)
        for used in sorted({*range(every, rounds.count + 1, every), rounds.count}):
            yield self._scores(features, rounds.n_trees(used))

    # --- inside

    def _adopt(self, model: Model) -> None:
        super()._adopt(model)
        self.best_iteration_ = n_rounds(model)
        self.n_outputs_ = model.n_labels

    def _check(self) -> None:
        for name in ("loss", "eval_metric"):
            value = getattr(self, name, None)
            if isinstance(value, str) and value == CUSTOM:
                raise ValueError(
                    f"{name}={CUSTOM!r} stands for a callable that was not stored in the model file; set {name!r}"
                    " again."
                )
        self._check_parameters()
        effective_n_jobs(self.n_jobs)

    def _eval_calibrator(self, eval_set: EvalSet) -> Calibrator | None:
        """The calibrator fitted to the last validation set, if any."""
        return None

    def _dense_loss(self, kind: str) -> DenseObjective:
        raise NotImplementedError

    def _link(self, loss: DenseObjective, kind: str) -> Link:
        """Link function from raw scores to predictions, for targets of this kind."""
        return loss.link

    def _encode(self, y: Any, n_rows: int, known: KnownTargets | None) -> tuple[KnownTargets, DenseTargets]:
        """Encode targets as numbers; ``known`` describes the training targets, for validation sets."""
        raise NotImplementedError

    def _before(self, init_model: ModelEstimator | Model | None) -> Model | None:
        if init_model is not None:
            if not isinstance(init_model, Model | ModelEstimator):
                raise ValueError(
                    "The 'init_model' parameter must be a fitted estimator or a Model (use sparseleaf.load for a file)."
                    f" Got {init_model!r:.60} instead."
                )
            model = init_model if isinstance(init_model, Model) else init_model._model()
            if model.base_score is None:
                raise ValueError(
                    f"The 'init_model' parameter must be a model with dense scores. Got {model.method!r} instead."
                )
        elif self.warm_start and hasattr(self, "model_"):
            model = self.model_
        else:
            return None
        params = self._settings()
        for name in ("loss", "averaged"):
            value, trained = saved(getattr(params, name, None)), model.parameters.get(name)
            if model.method != self.method or trained != value:
                raise ValueError(
                    f"Continued training (init_model, warm_start) requires {name}={trained!r} of {model.method!r}, as"
                    " in"
                    f" the model. Got {name}={value!r} of {self.method!r} instead."
                )
        per_output = model.parameters.get("tree_per_output") is True
        if params.tree_per_output not in (AUTO, per_output):
            raise ValueError(
                f"Continued training (init_model, warm_start) requires tree_per_output={per_output}, as in the model."
                f" Got {params.tree_per_output} instead."
            )
        scorer = model.scorer
        return model.with_stage(Role.SCORER, replace(scorer, trees=with_float_values(scorer.trees)))

    def _init_vectorizer(self, init_model: ModelEstimator | Model | None) -> TextStage | None:
        """The vectorizer of the model to continue training from, if any."""
        before = self if init_model is None and self.warm_start else init_model
        model = getattr(before, "model_", before)
        return model.vectorizer if isinstance(model, Model) else None

    def _raw_features(self, X: Any) -> tuple[Any, dict[int, list[Any]]]:
        """The features unchanged, and their categories."""
        check_values(X, "X")
        if hasattr(X, "shape") and len(X.shape) == 2:
            return X, find_categories(X, self.categorical_features)
        return self._listed(X)

    def _encode_features(self, X: Any, categories: dict[int, list[Any]]) -> tuple[Features, list[str] | None]:
        """Validated features with encoded categories, and the column names."""
        checked = self._validate_features(encode_categories(X, categories), reset=True)
        return checked, self._feature_names()

    def _listed(self, X: Any) -> tuple[Any, dict[int, list[Any]]]:
        """X that is not a matrix: validated by scikit-learn first, then categories by position."""
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
        """Whether column names differ from those in training; scikit-learn's check then raises."""
        known = getattr(self, "feature_names_in_", None)
        return known is not None and hasattr(X, "columns") and list(X.columns) != list(known)

    def _features(self, X: Any) -> Features:
        return self._validate_features(X, reset=False) if self.model_.categories else super()._features(X)

    def _validation_sets(self, eval_set: EvalSet, problem: Problem) -> list[ValidationSet]:
        return check_each(
            eval_sets(eval_set, self.eval_set_form), lambda *rows: self._eval_rows(problem, *rows)
        )

    def _eval_rows(self, problem: Problem, X: Any, y: Any) -> ValidationSet:
        X = self._eval_features(X, problem.categories)
        _, targets = self._encode(y, X.shape[0], problem.known)
        lowest = float(np.nanmin(targets.values, initial=np.inf))
        problem.loss.target_range.check(problem.loss.name, lowest)
        if not targets.any_known:
            raise ValueError("y must have at least one value that is not NaN.")
        metric = make_metric(self._settings().eval_metric, problem.loss, targets, self.default_threshold)
        return ValidationSet(X, targets, metric)

    def _eval_features(self, X: Any, categories: dict[int, list[Any]]) -> Features:
        X = self._as_features(X)
        check_values(X, "X")
        encoded = encode_categories(X, categories) if categories else X
        return ModelEstimator._validate_features(self, encoded, reset=False)

    def _directions(self, n_outputs: int, categories: dict[int, list[Any]]) -> Array | None:
        """Monotonic constraints as an int8 array (n_features, n_outputs); None if there are none."""
        constraints = self.monotone_constraints
        if constraints is None:
            return None
        subject = "The 'monotone_constraints' parameter"
        n_features = self.n_features_in_
        if isinstance(constraints, dict):
            names = list(getattr(self, "feature_names_in_", []))
            matrix = np.zeros((n_features, n_outputs))
            for name, value in constraints.items():
                at = names.index(name) if name in names else name
                if isinstance(at, str) and at.isdecimal():
                    at = int(at)
                if isinstance(at, bool) or not isinstance(at, int | np.integer) or not 0 <= at < n_features:
                    raise ValueError(f"{subject} must have features of X as keys. Got {name!r} instead.")
                numbers = _as_numbers(value)
                if numbers.shape not in ((), (n_outputs,)):
                    raise ValueError(
                        f"{subject} must have one number, or one per output ({n_outputs}), for feature {name!r}. Got"
                        f" {value!r:.80} instead."
                    )
                matrix[at] = numbers
        else:
            matrix = _as_numbers(constraints)
            matrix = np.repeat(matrix[:, None], n_outputs, axis=1) if matrix.ndim == 1 else matrix
        if matrix.shape != (n_features, n_outputs):
            raise ValueError(
                f"{subject} must have shape ({n_features},) or ({n_features}, {n_outputs}): one number per feature (and"
                f" output). Got shape {np.shape(constraints)} instead."
            )
        wrong = matrix[~np.isin(matrix, (-1, 0, 1))]
        if len(wrong):
            raise ValueError(f"{subject} must have only the values -1, 0 and 1. Got {wrong[0]:g} instead.")
        unordered = [feature for feature in categories if matrix[feature].any()]
        if unordered:
            raise ValueError(f"{subject} must be 0 for feature {unordered[0]}, which is categorical.")
        return matrix.astype(np.int8) if matrix.any() else None

    def _estimate(
        self,
        n_rows: int,
        n_here: int,
        n_features: int,
        form: TargetForm,
        search: SearchPlan,
        params: Settings,
        bagging: Bagging,
    ) -> memory.MemoryEstimate:
        """Memory of a worker with ``n_here`` of the rows."""
        n_outputs = form.n_outputs
        estimated = memory.estimate_dense(
            n_here,
            n_features,
            n_outputs,
            hessian_columns=(0, 1, n_outputs, n_outputs * (n_outputs + 1) // 2)[search.hessian],
            width=search.width,
            sketch_width=search.sketch,
            max_bins=params.max_bins,
            n_trees=params.n_trees * params.n_models * (n_outputs if params.tree_per_output else 1),
            n_models=params.n_models,
            leaf_outputs=1 if params.tree_per_output else params.leaf_labels,
            max_leaves=most_leaves(params, n_rows),
            histogram_budget=params.histogram_mb << 20,
        )
        if bagging.n_forest_trees:
            n_jobs = effective_n_jobs(self.n_jobs)
            estimated = estimated + forest_memory(n_rows, n_features, form, bagging, n_jobs)
        if not bagging.compares_sharing:
            return estimated
        params = with_separate_trees(params)
        search = SearchPlan(params, search.loss, form, search.directions)
        separate = self._estimate(n_rows, n_here, n_features, form, search, params, separate_bagging(bagging))
        return max(estimated, separate, key=lambda one: one.total)


def _as_numbers(constraints: Any) -> Array:
    try:
        return np.asarray(constraints, np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            "The 'monotone_constraints' parameter must be -1, 0 or 1 for each feature (and output). Got"
            f" {constraints!r:.80} instead."
        ) from None


@dataclass(frozen=True)
class _Same:
    """A loss that does not depend on queries."""

    loss: DenseObjective

    def __call__(self, queries: Queries | None) -> DenseObjective:
        return self.loss
