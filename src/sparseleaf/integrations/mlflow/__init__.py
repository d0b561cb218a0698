"""MLflow: a flavour of models with ``pyfunc`` scoring, and tracking of trainings. Requires the extra ``mlflow``."""

try:
    import mlflow.pyfunc  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"sparseleaf.integrations.mlflow requires the extra 'mlflow': pip install 'sparseleaf[mlflow]' ({error})."
    ) from None

from sparseleaf.integrations.mlflow.autologging import autolog
from sparseleaf.integrations.mlflow.flavour import (
    FLAVOR_NAME,
    get_default_pip_requirements,
    load_model,
    log_model,
    save_model,
)
from sparseleaf.integrations.mlflow.scoring import load_scorer
from sparseleaf.integrations.mlflow.tracking import MLflowCallback

__all__ = [
    "FLAVOR_NAME",
    "MLflowCallback",
    "autolog",
    "get_default_pip_requirements",
    "load_model",
    "log_model",
    "save_model",
]

_load_pyfunc = load_scorer  # the name by which MLflow loads a model for pyfunc scoring
