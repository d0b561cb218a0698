"""The flavour ``sparseleaf`` of MLflow models: our model file, a signature, requirements, and ``pyfunc`` scoring."""

from __future__ import annotations

import importlib
import os
import tempfile
from pathlib import Path
from typing import Any

import mlflow.artifacts
import mlflow.pyfunc
from mlflow.exceptions import MlflowException
from mlflow.models import Model, ModelSignature, infer_signature
from mlflow.types.schema import ParamSchema, ParamSpec
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

import sparseleaf
from sparseleaf.estimators.base import ModelEstimator
from sparseleaf.integrations.mlflow.scoring import PARAMETERS, Scorer

FLAVOR_NAME = "sparseleaf"
LOADER = "sparseleaf.integrations.mlflow"
FILE = "model.safetensors"


def get_default_pip_requirements() -> list[str]:
    """Requirements of a model, if none are passed: this version of sparseleaf.

    Returns
    -------
    requirements : list of str
        MLflow adds itself.
    """
    return [f"sparseleaf=={sparseleaf.__version__}"]


def save_model(
    estimator: Any,
    path: str | os.PathLike[str],
    *,
    mlflow_model: Model | None = None,
    signature: ModelSignature | None = None,
    input_example: Any = None,
    pip_requirements: Any = None,
    extra_pip_requirements: Any = None,
    conda_env: Any = None,
    code_paths: list[str] | None = None,
    metadata: dict[str, Any] | None = None,
) -> None:
    """Save an estimator as an MLflow model. The model file is that of ``estimator.save``: no pickle.

    Parameters
    ----------
    estimator : fitted estimator
    path : path-like
        Directory to create.
    mlflow_model : mlflow.models.Model, optional
        The model to add the flavour to.
    signature : ModelSignature, optional
        By default inferred from ``input_example``; without one, it has the parameters of scoring only, so that inputs
        may have any form.
    input_example : DataFrame, array, sparse matrix or list of texts, optional
        A few rows.
    pip_requirements, extra_pip_requirements, conda_env, code_paths, metadata : optional
        As in MLflow's own flavours.
    """
    if not isinstance(estimator, ModelEstimator):
        raise TypeError(
            f"The 'estimator' parameter must be an estimator of sparseleaf. Got {type(estimator).__name__} instead."
        )
    check_is_fitted(estimator, "model_")
    described = Model() if mlflow_model is None else mlflow_model
    # set here rather than passed to MLflow, which would ask for an input example
    described.signature = signature or _signature(estimator, input_example)
    described.add_flavor(
        FLAVOR_NAME,
        sparseleaf_version=sparseleaf.__version__,
        data=f"data/{FILE}",
        model_class=type(estimator).__name__,
    )
    if pip_requirements is None and conda_env is None:
        pip_requirements = get_default_pip_requirements() + list(extra_pip_requirements or [])
        extra_pip_requirements = None
    with tempfile.TemporaryDirectory() as folder:
        estimator.save(Path(folder) / FILE)
        mlflow.pyfunc.save_model(
            os.fspath(path),
            loader_module=LOADER,
            data_path=str(Path(folder) / FILE),
            mlflow_model=described,
            input_example=input_example,
            pip_requirements=pip_requirements,
            extra_pip_requirements=extra_pip_requirements,
            conda_env=conda_env,
            code_paths=code_paths,
            metadata=metadata,
        )


def log_model(
    estimator: Any, name: str = "model", *, registered_model_name: str | None = None, **options: Any
) -> Any:
    """Log an estimator as an MLflow model, in the active run or in a new one.

    Parameters
    ----------
    estimator : fitted estimator
    name : str, default="model"
        Name of the model.
    registered_model_name : str, optional
        Also register the model under this name.
    **options
        Further options of :func:`save_model`, and of ``mlflow.models.Model.log``, such as ``tags`` and ``step``.

    Returns
    -------
    info : mlflow.models.model.ModelInfo
        ``info.model_uri`` is what :func:`load_model` and ``mlflow.pyfunc.load_model`` take.
    """
    return Model.log(
        artifact_path=None,
        name=name,
        flavor=importlib.import_module(LOADER),
        registered_model_name=registered_model_name,
        estimator=estimator,
        **options,
    )


def load_model(model_uri: str, dst_path: str | None = None, *, n_jobs: int | None = None) -> Any:
    """Load an estimator from an MLflow model.

    Parameters
    ----------
    model_uri : str
        Such as ``models:/tags/1``, ``runs:/<run id>/model`` or a local path.
    dst_path : str, optional
        Existing directory to download the model to, by default a temporary one.
    n_jobs : int or None, default=None
        Number of threads used for prediction; None for all cores.

    Returns
    -------
    estimator : fitted estimator
        An instance of the class that was saved.
    """
    path = Path(mlflow.artifacts.download_artifacts(artifact_uri=model_uri, dst_path=dst_path))
    flavours = Model.load(str(path)).flavors
    if FLAVOR_NAME not in flavours:
        raise MlflowException.invalid_parameter_value(
            f"{model_uri!r} does not have the flavour {FLAVOR_NAME!r}. It has: {', '.join(sorted(flavours))}."
        )
    return sparseleaf.load(path / flavours[FLAVOR_NAME]["data"], n_jobs=n_jobs)


def _signature(estimator: Any, input_example: Any) -> ModelSignature | None:
    """The signature of an example, or that of the parameters."""
    parameters = PARAMETERS if is_classifier(estimator) else None
    if input_example is not None:
        if isinstance(input_example, tuple):  # with parameters
            input_example, parameters = input_example[0], (parameters or {}) | input_example[1]
        predictions = Scorer(estimator).predict(input_example, parameters)
        return infer_signature(input_example, predictions, parameters)
    if parameters is None:
        return None
    types = {int: "long", bool: "boolean", str: "string"}
    return ModelSignature(
        params=ParamSchema([ParamSpec(name, types[type(value)], value) for name, value in parameters.items()])
    )
