"""sparseleaf: decision trees with sparse vector leaves, for targets with very many outputs.

Names are loaded when they are first used: scikit-learn takes a second to import, and ``sparseleaf --help``
should not have to wait for it.
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
        MultiGBDTClassifier,
        MultiGBDTRegressor,
        SketchForestClassifier,
        SparseGBDTClassifier,
    )
    from sparseleaf.memory import MemoryEstimate, RoutedEstimate
    from sparseleaf.model import ModelFileError

    __version__: str

__all__ = [
    "BlendClassifier",
    "GBDTRanker",
    "LdSMClassifier",
    "MemoryEstimate",
    "ModelFileError",
    "MultiGBDTClassifier",
    "MultiGBDTRegressor",
    "RoutedEstimate",
    "SketchForestClassifier",
    "SparseGBDTClassifier",
    "__version__",
    "estimate_memory",
    "load",
]

_HOMES = {
    "BlendClassifier": "sparseleaf.estimators",
    "GBDTRanker": "sparseleaf.estimators",
    "LdSMClassifier": "sparseleaf.estimators",
    "MemoryEstimate": "sparseleaf.memory",
    "ModelFileError": "sparseleaf.model",
    "MultiGBDTClassifier": "sparseleaf.estimators",
    "MultiGBDTRegressor": "sparseleaf.estimators",
    "RoutedEstimate": "sparseleaf.memory",
    "SketchForestClassifier": "sparseleaf.estimators",
    "SparseGBDTClassifier": "sparseleaf.estimators",
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


def load(path: str | os.PathLike[str], *, n_jobs: int | None = None) -> Any:
    """Load a saved model as a fitted estimator.

    The file is memory-mapped, if it is not small, and checked in full; one that is broken, hostile or from a newer
    version raises :class:`ModelFileError`.

    Parameters
    ----------
    path : path-like
        Model file, local or a URL that fsspec knows.
    n_jobs : int or None, default=None
        Threads of a call to ``predict`` and the like; None, 0 or -1 for all cores. A server that answers requests in
        threads of its own wants 1.

    Returns
    -------
    Fitted estimator of the class that was saved.

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
    from sparseleaf.estimators.declarations import N_JOBS
    from sparseleaf.model import ModelFileError, load_model

    N_JOBS.require("load", n_jobs)
    model = load_model(path)
    estimator = ESTIMATORS.get(model.method, {}).get(task_of(model.target_kind))
    if estimator is None:
        raise ModelFileError(f"{os.fspath(path)!r}: unknown method {model.method!r}; update sparseleaf.")
    try:
        loaded = estimator.from_model(model)
    except (ValueError, TypeError) as error:
        raise ModelFileError(f"{os.fspath(path)!r} is not a sound model file: {error}") from None
    for one in (loaded, *getattr(loaded, "estimators_", ())):
        one.n_jobs = n_jobs
    return loaded


def estimate_memory(X: Any, y: Any = None, *, Y: Any = None, **parameters: Any) -> MemoryEstimate:
    """Bytes that training :class:`SparseGBDTClassifier` with these parameters would take beyond X and y.

    Parameters are those of the constructor, and the advanced ones by their own names. Every estimator has a method of
    this name.

    Parameters
    ----------
    X : array-like or sparse matrix, shape (n_rows, n_features)
    y : labels
        In any form that ``fit`` takes.
    **parameters
        Of :class:`SparseGBDTClassifier`.
    Y : labels, deprecated
        The former name of ``y``.

    Returns
    -------
    MemoryEstimate

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
