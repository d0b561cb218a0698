"""BlendClassifier: several classifiers of the library as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from sparseleaf._arrays import effective_n_jobs
from sparseleaf.data.targets import encode_known
from sparseleaf.estimators.base import ModelClassifier
from sparseleaf.estimators.declarations import BLEND
from sparseleaf.estimators.naming import named
from sparseleaf.estimators.parameters import Table, documented
from sparseleaf.estimators.reranking import RerankMixin
from sparseleaf.model import Model, Rows, blend_models
from sparseleaf.model.candidates import true_candidates
from sparseleaf.model.threshold import best_threshold
from sparseleaf.progress import phase
from sparseleaf.rerank.fit import all_but, held_out_rows
from sparseleaf.rerank.weighing import choose_shares

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features

AUTO = "auto"


@documented
@named
class BlendClassifier(ModelClassifier):
    """The weighted mean of several classifiers, over the union of their best labels, as one model in one file.

    What a classifier says of a label is its score by the best score that it has for the row, so that classifiers with
    different units can be mixed.

    Parameters
    ----------
    estimators : sequence of classifiers
        Of this library.
    {parameters}

    Attributes
    ----------
    model_ : Model
    estimators_ : list of fitted classifiers
    weights_ : float32 array, shape (n_estimators,)
        Adding up to 1.
    classes_ : array, shape (n_labels,)
    n_features_in_ : int

    Examples
    --------
    >>> from sparseleaf import BlendClassifier, LdSMClassifier, SparseGBDTClassifier
    >>> from sparseleaf.data import make_xc
    >>> X, Y = make_xc(500, 100, 50, labels_per_row=3)
    >>> members = [SparseGBDTClassifier(n_trees=5), LdSMClassifier(n_trees=3, max_nodes=50)]
    >>> blend = BlendClassifier(members).fit(X, Y)
    >>> len(blend.weights_)
    2
    """

    method: ClassVar[str] = "blend"
    parameter_table: ClassVar[Table] = BLEND
    scorer_kind: ClassVar[str] = "blend"
    composite: ClassVar[bool] = True

    def __init__(
        self,
        estimators: Sequence[Any] = (),
        weights: Any = AUTO,
        prefit: bool = False,
        n_jobs: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.estimators = estimators
        self.weights = weights
        self.prefit = prefit
        self.n_jobs = n_jobs
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = False
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Train the classifiers and choose the weights; where they are fitted already, choose the weights.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n_rows, n_features)
        y : sparse or dense 0/1 matrix, lists of label names, or one class a row

        Returns
        -------
        self
        """
        self._check_parameters()
        _check_members(self.estimators)
        weights = self._given_weights()
        X = self._validate_features(X, reset=True)
        if y is None:  # in scikit-learn's words
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        if not (sp.issparse(y) or hasattr(y, "iloc") or isinstance(y, list | tuple)):
            y = np.asarray(y)
        check_consistent_length(X, y)
        seed = self._seed()
        if self.prefit:
            fitted = list(self.estimators)
            for one in fitted:
                check_is_fitted(one, "model_")
            judges = (X, y)
        else:
            held = np.empty(0, np.int64) if weights is not None else held_out_rows(X.shape[0], seed)
            seen = all_but(X.shape[0], held)
            fitted = [clone(one).fit(X[seen], _some(y, seen)) for one in self.estimators]
            judges = (X[held], _some(y, held))
        threshold = None
        if weights is None:
            with phase("weights of the classifiers"):
                weights = self._chosen_weights(fitted, *judges)
                threshold = self._chosen_threshold(fitted, weights, *judges)
            if not self.prefit:
                fitted = [clone(one).fit(X, y) for one in self.estimators]
        self._adopt_members(fitted, weights, seed, threshold)
        return self

    @classmethod
    def from_model(cls, model: Model) -> Self:
        """A fitted blend around a model, with its members as estimators."""
        from sparseleaf.estimators import ESTIMATORS, task_of

        blend = super().from_model(model)
        members = []
        for member in model.scorer.members:
            kind = ESTIMATORS.get(member.method, {}).get(task_of(member.target_kind))
            if kind is None or not issubclass(kind, RerankMixin):
                raise ValueError(f"a member of unknown method {member.method!r}; update sparseleaf.")
            members.append(kind.from_model(member))
        blend.estimators = members
        blend.estimators_ = members
        return blend

    # --- inside

    def _adopt(self, model: Model) -> None:
        super()._adopt(model)
        self.weights_ = model.scorer.weights

    def _adopt_members(
        self, fitted: list[Any], weights: Array, seed: int, threshold: float | None = None
    ) -> None:
        parameters = {"weights": weights.tolist(), "prefit": True, "random_state": seed}
        self._adopt(replace(self._blended(fitted, weights, parameters), threshold=threshold))
        self.estimators_ = fitted

    def _given_weights(self) -> Array | None:
        """Weights of the user's, adding up to 1; None where they are to be chosen."""
        if isinstance(self.weights, str):
            return None
        count = len(self.estimators)
        weights = np.full(count, 1 / count) if self.weights is None else np.asarray(self.weights, float)
        if weights.shape != (count,) or not (np.isfinite(weights).all() and (weights >= 0).all()):
            raise ValueError(f"weights: found {self.weights!r:.80}; wanted {count} numbers from 0.")
        if weights.sum() <= 0:
            raise ValueError("weights: all are 0; wanted one above 0.")
        whole: Array = weights / weights.sum()
        return whole

    def _chosen_weights(self, fitted: list[Any], X: Features, y: Any) -> Array:
        count = len(fitted)
        model = self._blended(fitted, np.full(count, 1 / count), {})
        if X.shape[0] == 0:
            alike: Array = model.scorer.weights
            return alike
        truth = encode_known(y, X.shape[0], model.known_labels)
        sizes, hits, components = [], [], []
        rows = Rows(X, None, effective_n_jobs(self.n_jobs))
        for block, starts, labels, scores in model.scorer.components(rows):
            sizes.append(np.diff(starts))
            hits.append(true_candidates(starts, labels, truth[block]))
            components.append(scores)
        starts = np.concatenate(([0], np.cumsum(np.concatenate(sizes))))
        return choose_shares(np.concatenate(components), starts, np.concatenate(hits))

    def _chosen_threshold(self, fitted: list[Any], weights: Array, X: Features, y: Any) -> float | None:
        if X.shape[0] == 0:
            return None
        model = self._blended(fitted, weights, {})
        truth = encode_known(y, X.shape[0], model.known_labels)
        return best_threshold(model.scores(X, None, effective_n_jobs(self.n_jobs)), truth)

    def _blended(self, fitted: list[Any], weights: Array, parameters: dict[str, Any]) -> Model:
        try:
            models = [one.model_ for one in fitted]
            return blend_models(models, weights, parameters, self._feature_names())
        except ValueError as error:
            raise ValueError(f"estimators: {error}.") from None


def blend_fitted(blend: BlendClassifier) -> BlendClassifier:
    """Make a blend of fitted classifiers with given weights, which needs no rows."""
    _check_members(blend.estimators)
    weights = blend._given_weights()
    assert weights is not None
    first = blend.estimators[0]
    blend.n_features_in_ = first.n_features_in_
    if hasattr(first, "feature_names_in_"):
        blend.feature_names_in_ = first.feature_names_in_
    blend._adopt_members(list(blend.estimators), weights, blend._seed())
    return blend


def _check_members(estimators: Any) -> None:
    if isinstance(estimators, str) or not isinstance(estimators, Sequence) or not len(estimators):
        raise ValueError(
            f"The 'estimators' parameter must be a non-empty list of classifiers. Got {estimators!r:.80} instead."
        )
    for number, one in enumerate(estimators, start=1):
        if not isinstance(one, RerankMixin):  # which every classifier but a blend is
            raise ValueError(
                "The 'estimators' parameter must be a list of classifiers of sparseleaf other than BlendClassifier. Got"
                f" {type(one).__name__} as item {number} of {len(estimators)} instead."
            )


def _some(y: Any, rows: Array) -> Any:
    """Targets of some rows, in their own form."""
    if hasattr(y, "iloc"):
        return y.iloc[rows]
    if sp.issparse(y) or isinstance(y, np.ndarray):
        return (sp.csr_matrix(y) if sp.issparse(y) else y)[rows]
    return [y[row] for row in rows.tolist()]
