"""The result of :func:`sparseleaf.tune`."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import optuna
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class TuneResult:
    """Result of :func:`sparseleaf.tune`.

    Attributes
    ----------
    best_estimator_ : estimator
        Estimator with the best parameters, fitted to all rows; a :class:`~sparseleaf.BlendClassifier` if ``blended``.
    best_method : str
        Method of the best trial.
    best_params : dict
        Parameters of the best trial that ``tune`` chose, by name. Those of the text vectorizer are
        ``vectorizer__name``.
    best_score : float
        Metric of the best trial on the validation rows; that of the blend if ``blended``.
    default_score : float
        Metric of the first trial, which has the default parameters.
    metric : str
        Name of the metric.
    higher_is_better : bool
        Whether a higher metric is better.
    validation : str
        How trials were validated.
    trials : list of dict
        All trials in the order in which they started: number, method, state, value, n_trees, params, seconds,
        rungs and error.
    importances : dict of str to float
        Importance of the parameters of the best method for the metric (fANOVA), which sum to 1; empty with fewer than
        four trials.
    study : optuna.Study
        The study.
    blended : bool
        Whether the model is a blend of several trials, which was better than the best of them.
    interrupted : bool
        Whether Ctrl-C ended the search.

    Examples
    --------
    >>> import numpy as np
    >>> import sparseleaf
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> result = sparseleaf.tune(X, X[:, :2] ** 2, method="gbdt-mo", n_trials=2, cv=2, params={"n_trees": 5})
    >>> type(result.best_estimator_).__name__, result.best_score <= result.default_score
    ('MultiGBDTRegressor', True)
    """

    best_estimator_: Any
    best_method: str
    best_params: dict[str, Any]
    best_score: float
    default_score: float
    metric: str
    higher_is_better: bool
    validation: str
    trials: list[dict[str, Any]] = field(repr=False)
    importances: dict[str, float] = field(repr=False)
    study: optuna.Study = field(repr=False)
    blended: bool = False
    interrupted: bool = False

    def as_dict(self) -> dict[str, Any]:
        """The result without the estimator and the study, for JSON.

        Returns
        -------
        values : dict
        """
        names = ("best_method", "best_params", "best_score", "default_score", "metric", "higher_is_better")
        more = ("validation", "blended", "interrupted", "importances", "trials")
        return {name: getattr(self, name) for name in (*names, *more)}

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Plot the optimisation history and the importances of the parameters.

        Parameters
        ----------
        path : path-like, optional
            File to save the figure to: ``.png``, ``.svg`` or ``.pdf``.

        Returns
        -------
        figure : matplotlib.figure.Figure
        """
        from sparseleaf.plotting import plot_tuning

        return plot_tuning(self, path)
