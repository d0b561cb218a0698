"""Similar rows that carry a label, among rows that are passed to ``explain``: exact cosines of the features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import is_classifier
from sklearn.preprocessing import normalize

from sparseleaf.data.targets import encode_known
from sparseleaf.model.attribution import SimilarRows

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.model.attribution import Pairs

EXPECTED = "The 'training' parameter must be a tuple (X, y) of rows with labels"


@dataclass(frozen=True)
class LabelledRows:
    """Rows with labels.

    Attributes
    ----------
    rows : csr_matrix, shape (n_rows, n_features)
        Of unit length.
    carriers : csc_matrix, shape (n_rows, n_labels)
        The rows of every label.
    """

    rows: sp.csr_matrix
    carriers: sp.csc_matrix

    @classmethod
    def of(cls, estimator: Any, training: Any) -> LabelledRows:
        """From an argument (X, y) in the form of ``fit``; ValueError if it is not valid."""
        if isinstance(training, cls):
            return training
        if not is_classifier(estimator):
            raise ValueError("The 'training' parameter must be None unless the estimator is a classifier.")
        if not isinstance(training, tuple | list) or len(training) != 2:
            raise ValueError(f"{EXPECTED}. Got {training!r:.60} instead.")
        X = estimator._features(training[0])
        Y = encode_known(training[1], X.shape[0], estimator.model_.known_labels)
        return cls(_unit(X), sp.csc_matrix(Y))

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.rows.shape[0])

    def similar(self, X: Features, pairs: Pairs, most: int) -> SimilarRows:
        """The rows of positive cosine that carry the label of each pair, at most ``most``; ties in order of row."""
        queries = _unit(X)
        chosen: list[Array] = [np.empty(0, np.int32)] * len(pairs)
        cosines: list[Array] = [np.empty(0, np.float32)] * len(pairs)
        order = np.argsort(pairs.labels, kind="stable")
        labels, starts = np.unique(pairs.labels[order], return_index=True)
        for label, some in zip(labels.tolist(), np.split(order, starts[1:]), strict=True):
            carriers = self.carriers.indices[self.carriers.indptr[label] : self.carriers.indptr[label + 1]]
            products = (queries[pairs.rows[some]] @ self.rows[carriers].T).toarray()
            for pair, values in zip(some.tolist(), products, strict=True):
                best = np.argsort(-values, kind="stable")[:most]
                best = best[values[best] > 0]
                chosen[pair], cosines[pair] = carriers[best].astype(np.int32), values[best]
        sizes = [len(one) for one in chosen]
        return SimilarRows(
            np.concatenate(([0], np.cumsum(sizes, dtype=np.int64))),
            np.concatenate([np.empty(0, np.int32), *chosen]),
            np.concatenate([np.empty(0, np.float32), *cosines]),
        )


def _unit(X: Features) -> sp.csr_matrix:
    """Rows of unit length; missing values are 0."""
    rows = sp.csr_matrix(X, dtype=np.float32, copy=True)
    rows.data[np.isnan(rows.data)] = 0
    unit: sp.csr_matrix = normalize(rows, copy=False)
    return unit
