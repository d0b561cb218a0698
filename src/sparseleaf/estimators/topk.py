"""The best labels of every row as arrays, with scores or probabilities: for the command line, the server and MLflow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sparseleaf.data.targets import decode as names_of
from sparseleaf.model.calibrator import all_entries
from sparseleaf.model.candidates import topk_of

if TYPE_CHECKING:
    from sparseleaf._arrays import Array


def topk(classifier: Any, X: Any, k: int, *, probabilities: bool = False) -> tuple[Array, Array]:
    """The k best labels of every row, with scores or probabilities.

    Raises
    ------
    ValueError
        If the model has no probabilities, or X is invalid.
    """
    if not probabilities:
        labels, scores = classifier.predict_topk(X, k=k)
        return labels, scores
    try:
        likely = classifier.predict_proba(X, k)
    except AttributeError as error:  # no calibrator
        raise ValueError(str(error)) from None
    return _ranked(classifier, likely if sp.issparse(likely) else all_entries(likely), k)


def decoded(classifier: Any, X: Any, decode: str | None) -> tuple[Array, Array]:
    """The labels of every row that a decoder returns, in the form of :func:`topk`."""
    chosen = classifier._decoded(X, decode)
    return _ranked(classifier, chosen, max(1, int(np.diff(chosen.indptr).max())))


def _ranked(classifier: Any, scores: sp.csr_matrix, k: int) -> tuple[Array, Array]:
    ids, values = topk_of(scores.indptr, scores.indices, scores.data, k)
    return names_of(ids, classifier.model_.label_names), values
