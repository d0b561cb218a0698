"""A callback that logs a training to an MLflow run: parameters, metrics after every tree, importances, the model."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import mlflow
from mlflow.entities import Metric, Param, RunTag
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

import sparseleaf
from sparseleaf._warnings import warn
from sparseleaf.callbacks import TrainingCallback, TrainingState
from sparseleaf.integrations.mlflow.flavour import log_model

SECONDS_BETWEEN_REQUESTS = 2.0
"""Metrics of several trees are sent together, so that a remote tracking server does not slow training down."""

BATCH = 500
"""Metrics per request; MLflow accepts 1,000."""

N_IMPORTANCES = 100
"""Number of features in ``feature_importance.json``, those of highest importance."""


class MLflowCallback(TrainingCallback):
    """Callback of ``fit`` that logs the training to the active MLflow run, or to a new one.

    Logged are the parameters of the estimator; the metrics on the validation sets after every tree, with the number of
    trees as step; ``best_iteration`` and ``training_seconds``; and the artifact ``feature_importance.json``.

    A tracking server that cannot be reached raises an error before training; if it fails later, the training continues
    with a warning.

    Parameters
    ----------
    log_model : bool, default=False
        Whether to log the model, too.
    name : str, default="model"
        Name of the model.
    registered_model_name : str, optional
        Also register the model under this name.
    tags : dict of str to str, optional
        Tags of the run.

    Attributes
    ----------
    run_id : str or None
        Id of the run of the latest training.
    """

    run_id: str | None = None

    def __init__(
        self,
        *,
        log_model: bool = False,
        name: str = "model",
        registered_model_name: str | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        self.log_model, self.name, self.registered_model_name = log_model, name, registered_model_name
        self.tags = dict(tags or {})
        self._metrics: _Metrics | None = None

    def __call__(self, state: TrainingState) -> None:
        """Log the metrics; see :data:`~sparseleaf.callbacks.Callback`."""
        if self._metrics is not None:
            self._metrics.add(state.history, state.tree)

    @contextmanager
    def training(self, estimator: Any) -> Iterator[None]:
        """Log to the run while the training lasts."""
        with self._run() as run_id:
            self.run_id = run_id
            client = MlflowClient()
            tags = {"estimator_class": type(estimator).__name__, "sparseleaf_version": sparseleaf.__version__}
            client.log_batch(
                run_id,
                params=[Param(key, value) for key, value in parameters_of(estimator).items()],
                tags=[RunTag(key, str(value)) for key, value in (tags | self.tags).items()],
            )
            self._metrics, began = _Metrics(client, run_id), time.perf_counter()
            try:
                yield
            finally:
                seconds, metrics, self._metrics = time.perf_counter() - began, self._metrics, None
                metrics.send()
            metrics.add(estimator.history_, estimator.best_iteration_)
            metrics.finish(seconds, estimator.best_iteration_)
            with warning_of("The model"):
                client.log_dict(run_id, _importances(estimator), "feature_importance.json")
                if self.log_model:
                    log_model(estimator, self.name, registered_model_name=self.registered_model_name)

    @contextmanager
    def _run(self) -> Iterator[str]:
        """Id of the active run, or of a new one, which ends with the context."""
        active = mlflow.active_run()
        if active is not None:
            yield active.info.run_id
            return
        with mlflow.start_run() as run:
            yield run.info.run_id


class _Metrics:
    """Metrics of a run, sent in batches."""

    def __init__(self, client: MlflowClient, run_id: str) -> None:
        self._client, self._run_id = client, run_id
        self._waiting: list[Metric] = []
        self._first_step: dict[str, int] = {}
        self._n_logged: dict[str, int] = {}
        self._sent_at = time.monotonic()

    def add(self, history: Mapping[str, Sequence[float]], n_trees: int) -> None:
        """Add what is new in the history; trees of a resumed training are new as well."""
        now = _now()
        for name, values in history.items():
            # a training that continues another model has no metrics of its trees
            step = self._first_step.setdefault(name, max(0, n_trees - len(values)) + 1)
            first = self._n_logged.get(name, 0)
            self._waiting += [
                Metric(metric_name(name), value, now, step + number)
                for number, value in enumerate(values[first:], first)
            ]
            self._n_logged[name] = len(values)
        if time.monotonic() - self._sent_at > SECONDS_BETWEEN_REQUESTS:
            self.send()

    def finish(self, seconds: float, n_trees: int) -> None:
        """Send the last metrics."""
        self._waiting.append(Metric("training_seconds", seconds, _now(), 0))
        self._waiting.append(Metric("best_iteration", n_trees, _now(), 0))
        self.send()

    def send(self) -> None:
        """Send all that is waiting; a warning if that fails."""
        waiting, self._waiting, self._sent_at = self._waiting, [], time.monotonic()
        with warning_of("Metrics"):
            for begin in range(0, len(waiting), BATCH):
                self._client.log_batch(self._run_id, metrics=waiting[begin : begin + BATCH])


@contextmanager
def warning_of(what: str) -> Iterator[None]:
    """Errors of MLflow as warnings: they must not destroy what was trained."""
    try:
        yield
    except (MlflowException, OSError) as error:
        warn(f"{what} could not be logged to MLflow: {error}")


def metric_name(name: str) -> str:
    """The name of a metric in the form that MLflow allows: ``valid-precision_at_1`` for "valid precision@1"."""
    return name.replace(" ", "-").replace("@", "_at_")


def parameters_of(estimator: Any) -> dict[str, str]:
    """Parameters of an estimator as text, with those of its vectorizer."""
    return {
        name: getattr(value, "__name__", None) or str(value)
        for name, value in estimator.get_params(deep=True).items()
        if not hasattr(value, "get_params")
    }


def _importances(estimator: Any) -> dict[str, float]:
    """The highest importances by name of the feature, or by its number."""
    columns, values = estimator.nonzero_importances()
    best = (-values).argsort(kind="stable")[:N_IMPORTANCES]
    names = _column_names(estimator)
    return {
        str(column if names is None else names[column]): value
        for column, value in zip(columns[best].tolist(), values[best].tolist(), strict=True)
        if value > 0
    }


def _column_names(estimator: Any) -> Any:
    """Names of the columns that the trees split on, if they are features with names."""
    model = estimator.model_
    if model.n_columns != model.n_features:
        return None  # projected
    if model.vectorizer is not None:
        return estimator.vectorizer_.get_feature_names_out()
    return model.feature_names


def _now() -> int:
    return int(time.time() * 1000)
