"""Updating a fitted classifier with new rows and labels: ``update``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp

from sparseleaf._arrays import effective_n_jobs
from sparseleaf.data.rows import refuse_nan
from sparseleaf.data.targets import encode_update
from sparseleaf.estimators.base import ModelEstimator
from sparseleaf.estimators.texts import are_texts
from sparseleaf.model.drift import Drift, measure_drift, record_of
from sparseleaf.model.update import NewRows, updated_model
from sparseleaf.progress import phase, reporting
from sparseleaf.training.refresh import refresh

if TYPE_CHECKING:
    from sparseleaf._arrays import Features
    from sparseleaf.data.targets import Targets
    from sparseleaf.model import Model

HOW = ("leaves", "trees")
"""How boosted trees are updated."""


class UpdateMixin(ModelEstimator):
    """A classifier that can be updated with new rows.

    Attributes
    ----------
    drift_ : Drift
        How well the model fitted the new rows before the last update.
    """

    drift_: Drift

    def update(self, X: Any, y: Any, *, forget: float = 0.0) -> Self:
        """Update the fitted model with new rows, which may have new labels. The trees are not regrown.

        Label frequencies of the leaves, the re-ranker and the prior of empty rows are updated; routers, feature
        weights, mixing weights and the threshold are kept. The result does not depend on ``n_jobs``. Before the
        update, the model is evaluated on the new rows: see ``drift_``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features)
            Features of the new rows, as in ``fit``. Zero rows change nothing.
        y : sparse or dense 0/1 matrix, lists of label names, or one class per row
            Targets, in the form passed to ``fit``. Labels that the model does not have are added after its labels: by
            name, or as additional columns of a matrix without names.
        forget : float, default=0.0
            Forgetting factor in [0, 1): the evidence of earlier rows is weighted by 1 - ``forget``, and this fraction
            of the nearest-neighbour index, its oldest rows, is dropped.

        Returns
        -------
        self : object
            The estimator with the updated model.
        """
        return self._update(X, y, forget, refresh)

    def _update(self, X: Any, y: Any, forget: float, boosted: Callable[[Any, NewRows], Any]) -> Self:
        model = self._model()
        check_forget(forget)
        if y is None:  # scikit-learn's message
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        if model.parameters.get("class_weight") is not None:
            raise ValueError(
                "update is not supported for a model with class_weight, whose scores are not label frequencies. Fit it"
                " again."
            )
        if n_rows_of(X) == 0:
            return self
        features = self._features(X)
        if model.rerank is not None:
            refuse_nan(features)
        targets = encode_update(y, features.shape[0], model.known_labels)
        new = new_rows(self, features, targets, forget, boosted)
        if are_texts(X, self.vectorizer_):
            new = replace(new, unknown_words=model.vectorizer.unknown_words(X, new.n_jobs))
        self._apply_update(new)
        return self

    def _apply_update(self, new: NewRows) -> None:
        with reporting(getattr(self, "verbose", 0)):
            with phase("measuring drift"):
                drift = measure_drift(new)
            with phase("updating"):
                updated = updated_model(new)
        record = record_of(drift, new.before)
        self._adopt_update(replace(updated, updates=(*new.before.updates, record)))
        self.drift_ = drift

    def _adopt_update(self, model: Model) -> None:
        """Set the attributes of the updated estimator."""
        self._adopt(model)


def new_rows(
    estimator: ModelEstimator,
    X: Features,
    targets: Targets,
    forget: float,
    boosted: Callable[[Any, NewRows], Any],
) -> NewRows:
    """New rows of a fitted estimator."""
    model = estimator._model()
    return NewRows(
        X=X,
        Y=targets.matrix,
        names=targets.names,
        keep=1.0 - forget,
        before=model,
        seed=int(model.parameters.get("random_state") or 0),
        n_jobs=effective_n_jobs(estimator.n_jobs),
        boosted=boosted,
    )


def check_how(how: object, n_trees: object, forget: float) -> None:
    """Raise ValueError for invalid arguments of an update of boosted trees."""
    check_forget(forget)
    if how not in HOW:
        raise ValueError(
            f"The 'how' parameter must be one of {{{', '.join(map(repr, HOW))}}}. Got {how!r} instead."
        )
    whole = isinstance(n_trees, int | np.integer) and not isinstance(n_trees, bool)
    if n_trees is not None and not (whole and n_trees >= 1):  # type: ignore[operator]
        raise ValueError(f"The 'n_trees' parameter must be an int >= 1 or None. Got {n_trees!r} instead.")
    if how == "leaves" and n_trees is not None:
        raise ValueError(f"The 'n_trees' parameter must be None for how='leaves'. Got {n_trees!r} instead.")
    if how == "trees" and forget:
        raise ValueError(f"The 'forget' parameter must be 0 for how='trees'. Got {forget!r} instead.")


def check_forget(forget: object) -> None:
    """Raise ValueError unless ``forget`` is in [0, 1)."""
    number = isinstance(forget, float | int | np.floating | np.integer) and not isinstance(forget, bool)
    if not (number and 0 <= forget < 1):  # type: ignore[operator]
        raise ValueError(
            f"The 'forget' parameter must be a float in the range [0, 1). Got {forget!r} instead."
        )


def n_rows_of(X: Any) -> int:
    """Number of rows of anything row-like; 1 if unknown, so that it is validated."""
    if sp.issparse(X) or hasattr(X, "shape"):
        return int(X.shape[0]) if len(X.shape) else 1
    return len(X) if hasattr(X, "__len__") else 1
