"""``sparseleaf train --mlflow``: the training is a run of an MLflow experiment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sparseleaf.integrations.mlflow import MLflowCallback


def tracker(experiment: str) -> MLflowCallback:
    """A callback that logs to a run of the experiment, on the server of MLflow's environment variables."""
    from sparseleaf.integrations.mlflow import MLflowCallback

    callback = MLflowCallback()
    import mlflow  # after the above, which names the extra if MLflow is missing

    mlflow.set_experiment(experiment)
    return callback


def log_model(run: MLflowCallback, estimator: Any) -> None:
    """Log the model to the run of the training, with what was added to it afterwards."""
    import mlflow

    from sparseleaf.integrations import mlflow as flavour
    from sparseleaf.integrations.mlflow.tracking import warning_of

    with warning_of("The model"), mlflow.start_run(run_id=run.run_id):
        flavour.log_model(estimator)
