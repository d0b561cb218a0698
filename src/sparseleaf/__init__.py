"""sparseleaf: tree ensembles with sparse vector leaves for multi-label, multi-output and ranking problems.

Public names are imported lazily: importing scikit-learn takes a second, which ``sparseleaf --help`` does not need.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sparseleaf.estimators import (
        BlendClassifier,
        GBDTRanker,
        LdSMClassifier,
        MultiForestClassifier,
        MultiForestRegressor,
        MultiGBDTClassifier,
        MultiGBDTRegressor,
        SketchForestClassifier,
        SparseGBDTClassifier,
    )
    from sparseleaf.features import TextVectorizer
    from sparseleaf.memory import MemoryEstimate, RoutedEstimate
    from sparseleaf.model import ModelFileError
    from sparseleaf.model.drift import Drift
    from sparseleaf.model.explanation import Explanation, LabelExplanation, Neighbour, RowExplanation
    from sparseleaf.tuning import tune

    __version__: str

__all__ = [
    "BlendClassifier",
    "Drift",
    "Explanation",
    "GBDTRanker",
    "LabelExplanation",
    "LdSMClassifier",
    "MemoryEstimate",
    "ModelFileError",
    "MultiForestClassifier",
    "MultiForestRegressor",
    "MultiGBDTClassifier",
    "MultiGBDTRegressor",
    "Neighbour",
    "RoutedEstimate",
    "RowExplanation",
    "SketchForestClassifier",
    "SparseGBDTClassifier",
    "TextVectorizer",
    "__version__",
    "estimate_memory",
    "load",
    "tune",
]

_HOMES = {
    "BlendClassifier": "sparseleaf.estimators",
    "Drift": "sparseleaf.model.drift",
    "Explanation": "sparseleaf.model.explanation",
    "GBDTRanker": "sparseleaf.estimators",
    "LabelExplanation": "sparseleaf.model.explanation",
    "LdSMClassifier": "sparseleaf.estimators",
    "MemoryEstimate": "sparseleaf.memory",
    "ModelFileError": "sparseleaf.model",
    "MultiForestClassifier": "sparseleaf.estimators",
    "MultiForestRegressor": "sparseleaf.estimators",
    "MultiGBDTClassifier": "sparseleaf.estimators",
    "MultiGBDTRegressor": "sparseleaf.estimators",
    "Neighbour": "sparseleaf.model.explanation",
    "RoutedEstimate": "sparseleaf.memory",
    "RowExplanation": "sparseleaf.model.explanation",
    "SketchForestClassifier": "sparseleaf.estimators",
    "SparseGBDTClassifier": "sparseleaf.estimators",
    "TextVectorizer": "sparseleaf.features",
    "tune": "sparseleaf.tuning",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("sparseleaf")
    elif name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module 'sparseleaf' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def load(path: str | os.PathLike[str], *, n_jobs: int | None = None, device: str = "cpu") -> Any:
    """Load a saved model as a fitted estimator.

    The file is fully validated, and memory-mapped unless it is small.

    Parameters
    ----------
    path : path-like
        Model file: a local path or an fsspec URL.
    n_jobs : int or None, default=None
        Number of threads used for prediction; None, 0 or -1 for all cores. Use 1 in a server that handles requests in
        several threads.
    device : {"cpu", "cuda"}, default="cpu"
        "cuda" predicts large batches of dense rows on an NVIDIA GPU, with the same scores: models of
        :class:`MultiGBDTRegressor`, :class:`MultiGBDTClassifier` and :class:`GBDTRanker`.

    Returns
    -------
    estimator : fitted estimator
        An instance of the class that was saved.

    Raises
    ------
    ModelFileError
        If the file is corrupt or was written by a newer version.

    Examples
    --------
    >>> import sparseleaf
    >>> from sparseleaf.data import make_xc
    >>> X, Y = make_xc(200, 60, 10)
    >>> sparseleaf.SparseGBDTClassifier(n_trees=2).fit(X, Y).save("model.safetensors")
    >>> model = sparseleaf.load("model.safetensors", n_jobs=1)
    >>> type(model).__name__
    'SparseGBDTClassifier'
    """
    from sparseleaf.estimators import ESTIMATORS, task_of
    from sparseleaf.estimators.declarations import DEVICE, N_JOBS
    from sparseleaf.model import ModelFileError, load_model

    N_JOBS.require("load", n_jobs)
    DEVICE.require("load", device)
    model = load_model(path)
    estimator = ESTIMATORS.get(model.method, {}).get(task_of(model.target_kind))
    if estimator is None:
        raise ModelFileError(f"{os.fspath(path)!r}: unknown method {model.method!r}; update sparseleaf.")
    try:
        loaded = estimator.from_model(model)
    except (ValueError, TypeError) as error:
        raise ModelFileError(f"{os.fspath(path)!r} is not a valid model file: {error}") from None
    for one in (loaded, *getattr(loaded, "estimators_", ())):
        one.n_jobs = n_jobs
    if device != DEVICE.default:
        if DEVICE.name not in loaded.parameter_table or not loaded.dense_scores:
            raise ValueError(
                f"device={device!r} requires a model of MultiGBDTRegressor, MultiGBDTClassifier or GBDTRanker. Got one"
                f" of {type(loaded).__name__}, which predicts on the CPU."
            )
        loaded.set_params(advanced__device=device)
    return loaded


def estimate_memory(X: Any, y: Any = None, *, Y: Any = None, **parameters: Any) -> MemoryEstimate:
    """Estimate the memory needed to train :class:`SparseGBDTClassifier`, in addition to X and y.

    Nothing is trained. Every other estimator has a method of the same name.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_rows, n_features)
        Features.
    y : sparse or dense 0/1 matrix, lists of label names, or one class per row
        Targets, in any form that ``fit`` accepts.
    **parameters
        Parameters of :class:`SparseGBDTClassifier`, including the advanced ones.
    Y : deprecated
        Former name of ``y``.

    Returns
    -------
    estimate : MemoryEstimate
        Estimated memory in bytes, by purpose.

    Examples
    --------
    >>> import sparseleaf
    >>> from sparseleaf.data import make_xc
    >>> X, Y = make_xc(1_000, 50, 200)
    >>> estimate = sparseleaf.estimate_memory(X, Y, n_trees=10)
    >>> estimate.total > estimate.certain
    True
    """
    from sparseleaf.estimators import SparseGBDTClassifier

    return SparseGBDTClassifier.from_settings(parameters).estimate_memory(X, y, Y=Y)
