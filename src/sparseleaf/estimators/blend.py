"""BlendClassifier: weighted mean of several classifiers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from sparseleaf._arrays import effective_n_jobs
from sparseleaf.data.rows import take_rows
from sparseleaf.data.targets import ONE_CLASS_PER_ROW, encode_known
from sparseleaf.estimators.base import ModelClassifier
from sparseleaf.estimators.declarations import BLEND
from sparseleaf.estimators.naming import named
from sparseleaf.estimators.parameters import Table, documented
from sparseleaf.estimators.probabilities import SparseProbabilitiesMixin
from sparseleaf.estimators.reranking import RerankMixin
from sparseleaf.estimators.updating import UpdateMixin
from sparseleaf.features import TextVectorizer
from sparseleaf.model import Model, Role, Rows, blend_models
from sparseleaf.model.candidates import true_candidates
from sparseleaf.model.threshold import best_threshold
from sparseleaf.progress import phase
from sparseleaf.rerank.fit import all_but, held_out_rows
from sparseleaf.rerank.mixing import choose_weights
from sparseleaf.training.calibrating import check_calibrate

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.model.calibrator import Calibrator

AUTO = "auto"


@documented
@named
class BlendClassifier(UpdateMixin, SparseProbabilitiesMixin, ModelClassifier):
    """Weighted mean of the scores of several classifiers, saved as one model.

    Candidates are the union of the best labels of all classifiers. The scores of each classifier are divided by its
    highest score for the row, so that classifiers with different scales can be combined.

    Parameters
    ----------
    estimators : sequence of classifiers
        Multi-label classifiers of sparseleaf.
    {parameters}

    Attributes
    ----------
    model_ : Model
        The combined model.
    estimators_ : list of classifiers
        Fitted classifiers.
    weights_ : ndarray of float32, shape (n_estimators,)
        Weights of the classifiers; they sum to 1.
    classes_ : ndarray of shape (n_labels,)
        Label names, or 0, 1, … if labels have no names.
    threshold_ : float
        Minimum score of the labels that :meth:`predict` returns.
    vectorizer_ : TextVectorizer or None
        Fitted vectorizer; None if X was features.
    n_features_in_ : int
        Number of features seen in ``fit``.

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

    estimators_: list[Any]

    def __init__(
        self,
        estimators: Sequence[Any] = (),
        weights: Any = AUTO,
        prefit: bool = False,
        calibrate: str | None = "auto",
        vectorizer: TextVectorizer | None = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
        decode: str = "threshold",
    ) -> None:
        self.estimators = estimators
        self.weights = weights
        self.prefit = prefit
        self.calibrate = calibrate
        self.vectorizer = vectorizer
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.decode = decode

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = False
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the classifiers and select the weights; with ``prefit=True``, only select the weights.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features), or texts
            Features, without NaN.
        y : sparse or dense 0/1 matrix, lists of label names, or one class per row
            Targets.

        Returns
        -------
        self : object
            Fitted estimator.
        """
        self._check_parameters()
        _check_members(self.estimators, prefit=self.prefit)
        weights = self._fixed_weights()
        X = self._validate_features(self._shared_features(X, y), reset=True)
        if y is None:  # scikit-learn's message
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        if not (sp.issparse(y) or hasattr(y, "iloc") or isinstance(y, list | tuple)):
            y = np.asarray(y)
        check_consistent_length(X, y)
        seed = self._seed()
        if self.prefit:
            fitted = list(self.estimators)
            validation = (X, y)
        else:
            needed = weights is None or self.calibrate not in (None, AUTO)
            held = held_out_rows(X.shape[0], seed) if needed else np.empty(0, np.int64)
            seen = all_but(X.shape[0], held)
            fitted = [one.fit(X[seen], take_rows(y, seen)) for one in self._clones()]
            validation = (X[held], take_rows(y, held))
        threshold = calibrator = None
        if weights is None:
            with phase("weights of the classifiers"):
                weights = self._chosen_weights(fitted, *validation)
                threshold = self._chosen_threshold(fitted, weights, *validation)
        if validation[0].shape[0]:
            calibrator = self._chosen_calibrator(fitted, weights, *validation)
        if not self.prefit and validation[0].shape[0]:
            fitted = [one.fit(X, y) for one in self._clones()]
        self._adopt_members(fitted, weights, seed, threshold, calibrator)
        return self

    @classmethod
    def from_model(cls, model: Model) -> Self:
        """Create a fitted blend from a model."""
        from sparseleaf.estimators import ESTIMATORS, task_of

        blend = super().from_model(model)
        members = []
        for member in model.scorer.members:
            kind = ESTIMATORS.get(member.method, {}).get(task_of(member.target_kind))
            if kind is None or not issubclass(kind, RerankMixin):
                raise ValueError(f"unknown method {member.method!r} of a classifier; update sparseleaf.")
            members.append(kind.from_model(member.with_stage(Role.VECTORIZER, model.vectorizer)))
        blend.estimators = members
        blend.estimators_ = members
        return blend

    # --- inside

    def _shared_features(self, X: Any, y: Any) -> Any:
        """Features for all classifiers, which share a vectorizer; sets ``vectorizer_``."""
        if not self.prefit:
            return self._vectorised(X, y, "local")[0]
        for one in self.estimators:
            check_is_fitted(one, "model_")
        self.vectorizer_ = self.estimators[0].vectorizer_
        return self._as_features(X)

    def _clones(self) -> list[Any]:
        """Classifiers to fit, with the fitted vectorizer of the blend."""
        return [clone(one).set_params(vectorizer=self.vectorizer_) for one in self.estimators]

    def _adopt(self, model: Model) -> None:
        super()._adopt(model)
        self.weights_ = model.scorer.weights

    def _adopt_update(self, model: Model) -> None:
        super()._adopt_update(model)
        pairs = zip(self.estimators_, model.scorer.members, strict=True)
        self.estimators_ = [type(one).from_model(member) for one, member in pairs]

    def _adopt_members(
        self,
        fitted: list[Any],
        weights: Array,
        seed: int,
        threshold: float | None = None,
        calibrator: Calibrator | None = None,
    ) -> None:
        parameters = {
            "weights": weights.tolist(),
            "prefit": True,
            "calibrate": self.calibrate,
            "random_state": seed,
            "decode": self.decode,
        }
        model = replace(self._blended(fitted, weights, parameters), threshold=threshold)
        self._adopt(model.with_stage(Role.CALIBRATOR, calibrator))
        self.estimators_ = fitted

    def _fixed_weights(self) -> Array | None:
        """User-defined weights, normalised to sum to 1; None if they are selected on a validation set."""
        if isinstance(self.weights, str):
            return None
        count = len(self.estimators)
        weights = np.full(count, 1 / count) if self.weights is None else np.asarray(self.weights, float)
        if weights.shape != (count,) or not (np.isfinite(weights).all() and (weights >= 0).all()):
            raise ValueError(
                f"The 'weights' parameter must be {count} numbers >= 0. Got {self.weights!r:.80} instead."
            )
        if weights.sum() <= 0:
            raise ValueError("The 'weights' parameter must have at least one value above 0.")
        normalised: Array = weights / weights.sum()
        return normalised

    def _chosen_weights(self, fitted: list[Any], X: Features, y: Any) -> Array:
        count = len(fitted)
        model = self._blended(fitted, np.full(count, 1 / count), {})
        if X.shape[0] == 0:
            uniform: Array = model.scorer.weights
            return uniform
        truth = encode_known(y, X.shape[0], model.known_labels)
        sizes, hits, components = [], [], []
        rows = Rows(X, None, effective_n_jobs(self.n_jobs))
        for block, starts, labels, scores in model.scorer.components(rows):
            sizes.append(np.diff(starts))
            hits.append(true_candidates(starts, labels, truth[block]))
            components.append(scores)
        starts = np.concatenate(([0], np.cumsum(np.concatenate(sizes))))
        return choose_weights(np.concatenate(components), starts, np.concatenate(hits))

    def _chosen_threshold(self, fitted: list[Any], weights: Array, X: Features, y: Any) -> float | None:
        if X.shape[0] == 0:
            return None
        model = self._blended(fitted, weights, {})
        truth = encode_known(y, X.shape[0], model.known_labels)
        return best_threshold(model.scores(X, None, effective_n_jobs(self.n_jobs)), truth)

    def _chosen_calibrator(self, fitted: list[Any], weights: Array, X: Features, y: Any) -> Calibrator | None:
        model = self._blended(fitted, weights, {})
        check_calibrate(self.calibrate, model.target_kind)
        if self.calibrate is None or model.target_kind in ONE_CLASS_PER_ROW:
            return None
        with phase("calibration"):
            truth = encode_known(y, X.shape[0], model.known_labels)
            return self._calibrator(model, X, truth, self.calibrate)

    def _blended(self, fitted: list[Any], weights: Array, parameters: dict[str, Any]) -> Model:
        try:
            models = [one.model_ for one in fitted]
            return blend_models(models, weights, parameters, self._feature_names())
        except ValueError as error:
            raise ValueError(f"The 'estimators' parameter is not valid: {error}.") from None


def blend_fitted(blend: BlendClassifier) -> BlendClassifier:
    """Combine fitted classifiers with fixed weights, which needs no data."""
    _check_members(blend.estimators, prefit=True)
    weights = blend._fixed_weights()
    assert weights is not None
    first = blend.estimators[0]
    blend.n_features_in_ = first.n_features_in_
    if hasattr(first, "feature_names_in_"):
        blend.feature_names_in_ = first.feature_names_in_
    blend._adopt_members(list(blend.estimators), weights, blend._seed())
    return blend


def _check_members(estimators: Any, *, prefit: bool) -> None:
    if isinstance(estimators, str) or not isinstance(estimators, Sequence) or not len(estimators):
        raise ValueError(
            f"The 'estimators' parameter must be a non-empty list of classifiers. Got {estimators!r:.80} instead."
        )
    for number, one in enumerate(estimators, start=1):
        if not isinstance(one, RerankMixin):  # all classifiers except BlendClassifier
            raise ValueError(
                "The 'estimators' parameter must be a list of classifiers of sparseleaf other than BlendClassifier. Got"
                f" {type(one).__name__} as item {number} of {len(estimators)} instead."
            )
        if not prefit and one.vectorizer is not None:
            raise ValueError(
                "The 'estimators' parameter must be classifiers with vectorizer=None, since the classifiers of a blend"
                " share its vectorizer; pass it to BlendClassifier."
            )
