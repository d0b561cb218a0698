"""sparseleaf: decision trees with sparse vector leaves, for targets with very many outputs."""

from __future__ import annotations

import os
from importlib.metadata import version as _version
from typing import Any

from sparseleaf.estimators import ESTIMATORS, SparseGBDTClassifier
from sparseleaf.memory import MemoryEstimate
from sparseleaf.model import ModelFileError, load_model

__version__ = _version("sparseleaf")

__all__ = [
    "MemoryEstimate",
    "ModelFileError",
    "SparseGBDTClassifier",
    "__version__",
    "estimate_memory",
    "load",
]


def load(path: str | os.PathLike[str]) -> SparseGBDTClassifier:
    """Load a saved model as a fitted estimator.

    The file is memory-mapped and checked in full; one that is broken, hostile or from a newer version raises
    :class:`ModelFileError`.
    """
    model = load_model(path)
    if model.method not in ESTIMATORS:
        raise ModelFileError(f"{os.fspath(path)!r}: unknown method {model.method!r}; update sparseleaf.")
    try:
        return ESTIMATORS[model.method].from_model(model)
    except (ValueError, TypeError) as error:
        raise ModelFileError(f"{os.fspath(path)!r} is not a sound model file: {error}") from None


def estimate_memory(X: Any, Y: Any, **parameters: Any) -> MemoryEstimate:
    """Bytes that training :class:`SparseGBDTClassifier` with these parameters would take beyond X and Y."""
    return SparseGBDTClassifier(**parameters).estimate_memory(X, Y)
