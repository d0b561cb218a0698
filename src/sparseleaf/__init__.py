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


def load(path: str | os.PathLike[str]) -> Any:
    """Load a saved model as a fitted estimator.

    The file is memory-mapped and checked in full; one that is broken, hostile or from a newer version raises
    :class:`ModelFileError`.
    """
    from sparseleaf.estimators import ESTIMATORS, task_of
    from sparseleaf.model import ModelFileError, load_model

    model = load_model(path)
    estimator = ESTIMATORS.get(model.method, {}).get(task_of(model.target_kind))
    if estimator is None:
        raise ModelFileError(f"{os.fspath(path)!r}: unknown method {model.method!r}; update sparseleaf.")
    try:
        return estimator.from_model(model)
    except (ValueError, TypeError) as error:
        raise ModelFileError(f"{os.fspath(path)!r} is not a sound model file: {error}") from None


def estimate_memory(X: Any, Y: Any, **parameters: Any) -> MemoryEstimate:
    """Bytes that training :class:`SparseGBDTClassifier` with these parameters would take beyond X and Y."""
    from sparseleaf.estimators import SparseGBDTClassifier

    return SparseGBDTClassifier(**parameters).estimate_memory(X, Y)
