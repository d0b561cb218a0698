"""``autolog``: every ``fit`` is logged to MLflow, as with ``mlflow.xgboost.autolog``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import mlflow

from sparseleaf.callbacks import ALWAYS
from sparseleaf.integrations.mlflow.tracking import MLflowCallback


class _Autologging(MLflowCallback):
    """The callback of every training. Several trainings in one run, as in a cross-validation, have nested runs."""

    def __init__(
        self, *, log_model: bool, registered_model_name: str | None, tags: Mapping[str, str] | None
    ) -> None:
        super().__init__(log_model=log_model, registered_model_name=registered_model_name, tags=tags)
        self._used: set[str] = set()

    @contextmanager
    def _run(self) -> Iterator[str]:
        active = mlflow.active_run()
        if active is not None and active.info.run_id in self._used:
            with mlflow.start_run(nested=True) as run:
                yield run.info.run_id
            return
        with super()._run() as run_id:
            self._used.add(run_id)
            yield run_id


def autolog(
    *,
    log_models: bool = True,
    registered_model_name: str | None = None,
    extra_tags: Mapping[str, str] | None = None,
    disable: bool = False,
) -> None:
    """Log every later ``fit`` to MLflow: parameters, metrics after every tree, importances, the model.

    A training is logged to the active run, or to a new one. Further trainings within the same run, such as those of a
    cross-validation, have nested runs. See :class:`MLflowCallback` for what is logged.

    Parameters
    ----------
    log_models : bool, default=True
        Whether to log the models.
    registered_model_name : str, optional
        Also register every model under this name, as a new version.
    extra_tags : dict of str to str, optional
        Tags of the runs.
    disable : bool, default=False
        Whether to stop logging.
    """
    ALWAYS[:] = [callback for callback in ALWAYS if not isinstance(callback, _Autologging)]
    if not disable:
        ALWAYS.append(
            _Autologging(log_model=log_models, registered_model_name=registered_model_name, tags=extra_tags)
        )
