"""Explanations of predictions: the public result of ``explain``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np

from sparseleaf.model.attribution import Attribution, Pairs

if TYPE_CHECKING:
    import scipy.sparse as sp

    from sparseleaf._arrays import Array
    from sparseleaf.model.model import Model

SHOWN = 10
"""Number of features per label in text and HTML."""


class Neighbour(NamedTuple):
    """A training row that carries the label.

    Attributes
    ----------
    row : int
        Number of the training row, from 0.
    similarity : float
        Cosine similarity, from 0 to 1.
    title : str or None
        Its title, if known.

    Examples
    --------
    >>> from sparseleaf import SketchForestClassifier
    >>> from sparseleaf.data import make_xc
    >>> X, Y = make_xc(500, 100, 50, labels_per_row=3)
    >>> clf = SketchForestClassifier(n_trees=5, rerank="linear").fit(X, Y)
    >>> clf.explain(X[:1])[0][0].neighbours[0].row
    0
    """

    row: int
    similarity: float
    title: str | None


@dataclass(frozen=True)
class LabelExplanation:
    """Why a label has its score.

    Attributes
    ----------
    label : object
        The label.
    score : float
        Its score: ``base + contributions.sum()``.
    prediction : float or None
        The probability, or the prediction on the scale of the targets, if it differs from the score.
    base : float
        The part of the score that is due to no feature.
    features : ndarray of int
        Numbers of the features that contribute, by decreasing size of their contributions.
    feature_names : list of str
        Their names.
    values : ndarray of float32
        Their values in the row.
    contributions : ndarray of float64
        What they add to the score.
    components : dict of str to float
        The score by score component, such as trees or cosine; they add up to the score, too.
    neighbours : list of Neighbour
        Similar training rows that carry the label, the most similar first.

    Examples
    --------
    >>> from sparseleaf import SketchForestClassifier
    >>> from sparseleaf.data import make_xc
    >>> X, Y = make_xc(500, 100, 50, labels_per_row=3)
    >>> clf = SketchForestClassifier(n_trees=5, rerank="linear").fit(X, Y)
    >>> best = clf.explain(X[:1])[0][0]
    >>> sorted(best.components)
    ['cosine', 'margin', 'trees', 'votes']
    >>> len(best.features) == len(best.contributions)
    True
    """

    label: Any
    score: float
    prediction: float | None
    base: float
    features: Array
    feature_names: list[str]
    values: Array
    contributions: Array
    components: dict[str, float]
    neighbours: list[Neighbour]

    def to_dict(self, n_features: int | None = None) -> dict[str, Any]:
        """JSON values, with at most ``n_features`` features."""
        some = slice(n_features)
        listed = zip(
            self.features[some].tolist(),
            self.feature_names[some],
            self.values[some].tolist(),
            self.contributions[some].tolist(),
            strict=True,
        )
        return {
            "label": self.label,
            "score": self.score,
            "prediction": self.prediction,
            "base": self.base,
            "features": [
                {"feature": feature, "name": name, "value": _json(value), "contribution": contribution}
                for feature, name, value, contribution in listed
            ],
            "other_features": float(self.contributions[len(self.features[some]) :].sum()),
            "components": self.components,
            "neighbours": [neighbour._asdict() for neighbour in self.neighbours],
        }

    def to_text(self, n_features: int = SHOWN) -> str:
        """Plain text."""
        from sparseleaf.model.explanation_text import label_text

        return label_text(self, n_features)

    def __str__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        from sparseleaf.model.explanation_html import document, label_html

        return document(label_html(self, SHOWN))


@dataclass(frozen=True)
class RowExplanation(Sequence[LabelExplanation]):
    """The explained labels of a row, in order.

    Attributes
    ----------
    row : int
        Number of the row.
    labels : list of LabelExplanation
        Its labels, the best first.

    Examples
    --------
    >>> from sparseleaf import SketchForestClassifier
    >>> from sparseleaf.data import make_xc
    >>> X, Y = make_xc(500, 100, 50, labels_per_row=3)
    >>> clf = SketchForestClassifier(n_trees=5, rerank="linear").fit(X, Y)
    >>> [row.row for row in clf.explain(X[:2], k=3)]
    [0, 1]
    """

    row: int
    labels: list[LabelExplanation]

    def __len__(self) -> int:
        return len(self.labels)

    @overload
    def __getitem__(self, item: int) -> LabelExplanation: ...
    @overload
    def __getitem__(self, item: slice) -> list[LabelExplanation]: ...
    def __getitem__(self, item: int | slice) -> Any:
        return self.labels[item]

    def to_dict(self, n_features: int | None = None) -> dict[str, Any]:
        """JSON values, with at most ``n_features`` features per label."""
        return {"row": self.row, "labels": [one.to_dict(n_features) for one in self.labels]}

    def to_text(self, n_features: int = SHOWN) -> str:
        """Plain text."""
        from sparseleaf.model.explanation_text import row_text

        return row_text(self, n_features)

    def __str__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        from sparseleaf.model.explanation_html import document, row_html

        return document(row_html(self, SHOWN))


@dataclass(frozen=True)
class Names:
    """Names for what an explanation has by number.

    Attributes
    ----------
    model : Model
        Its names are used where there are no others.
    feature_names, titles : sequences of str, or None
    """

    model: Model
    feature_names: Sequence[Any] | Array | None = None
    titles: Sequence[Any] | Array | None = None

    def label(self, number: int) -> Any:
        """Name of a label, or its number."""
        names = self.model.label_names
        return number if names is None else _plain(names[number])

    def features(self, columns: Array) -> list[str]:
        """Names of features."""
        if self.feature_names is not None:
            return [str(self.feature_names[column]) for column in columns.tolist()]
        known = self.model.names_of(columns)
        return [f"feature {column}" for column in columns.tolist()] if known is None else known

    def title(self, row: int) -> str | None:
        """Title of a training row, if known."""
        if self.titles is None:
            return self.model.title_of(row)
        title = self.titles[row]
        return None if title is None else str(title)


class Explanation(Sequence[RowExplanation]):
    """Why rows have their labels: the result of ``explain``.

    A sequence with a :class:`RowExplanation` per row, which is a sequence with a :class:`LabelExplanation` per label:
    ``explanation[i][j]`` explains the j-th label of row i. ``print`` shows plain text, notebooks show HTML.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    pairs : Pairs
        The explained labels of the rows.
    scores : ndarray of float32
        Their scores.
    predictions : ndarray or None
        Probabilities, or predictions on the scale of the targets, where these differ from the scores.
    attribution : Attribution
        Contributions to the scores.
    X : csr_matrix
        Features of the rows.
    names : Names
        Names of labels, features and training rows.
    n_neighbours : int
        Maximum number of similar training rows per label.

    Attributes
    ----------
    contributions : csr_matrix of float64, shape (n_pairs, n_features)
        Contributions of all features to the score of every explained label, in order of row and label.
    base : ndarray of float64, shape (n_pairs,)
        ``base + contributions.sum(axis=1)`` equals ``scores``.
    scores : ndarray of float32, shape (n_pairs,)
        Scores.
    rows, labels : ndarrays of int, shape (n_pairs,)
        Row number and label number of the pairs.

    Examples
    --------
    >>> import numpy as np
    >>> from sparseleaf import SketchForestClassifier
    >>> from sparseleaf.data import make_xc
    >>> X, Y = make_xc(500, 100, 50, labels_per_row=3)
    >>> clf = SketchForestClassifier(n_trees=5, rerank="cosine").fit(X, Y)
    >>> explanation = clf.explain(X[:2], k=3)
    >>> len(explanation), len(explanation[0])
    (2, 3)
    >>> best = explanation[0][0]
    >>> bool(np.isclose(best.base + best.contributions.sum(), best.score, atol=1e-5))
    True
    """

    def __init__(
        self,
        n_rows: int,
        pairs: Pairs,
        scores: Array,
        predictions: Array | None,
        attribution: Attribution,
        X: sp.csr_matrix,
        names: Names,
        n_neighbours: int,
    ) -> None:
        self.rows, self.labels, self.scores = pairs.rows, pairs.labels, scores
        self.base, self.contributions = attribution.base, attribution.terms.matrix
        self._starts, self._attribution, self._X = pairs.starts(n_rows), attribution, X
        self._predictions, self._names, self._n_neighbours = predictions, names, n_neighbours

    def __len__(self) -> int:
        return len(self._starts) - 1

    @overload
    def __getitem__(self, item: int) -> RowExplanation: ...
    @overload
    def __getitem__(self, item: slice) -> list[RowExplanation]: ...
    def __getitem__(self, item: int | slice) -> Any:
        if isinstance(item, slice):
            return [self[row] for row in range(*item.indices(len(self)))]
        row = range(len(self))[item]
        pairs = range(self._starts[row], self._starts[row + 1])
        return RowExplanation(row, [self._label(row, pair) for pair in pairs])

    def __iter__(self) -> Iterator[RowExplanation]:
        return (self[row] for row in range(len(self)))

    def _label(self, row: int, pair: int) -> LabelExplanation:
        matrix, names = self.contributions, self._names
        entries = slice(matrix.indptr[pair], matrix.indptr[pair + 1])
        features, contributions = matrix.indices[entries], matrix.data[entries]
        order = np.argsort(-np.abs(contributions), kind="stable")
        order = order[contributions[order] != 0]
        features, contributions = features[order], contributions[order]
        similar = self._attribution.similar
        rows, cosines = similar.of(pair) if similar is not None else (np.empty(0, int), np.empty(0))
        some = slice(self._n_neighbours)
        return LabelExplanation(
            names.label(int(self.labels[pair])),
            float(self.scores[pair]),
            None if self._predictions is None else float(self._predictions[pair]),
            float(self.base[pair]),
            features,
            names.features(features),
            self._values(row, features),
            contributions,
            {
                name: float(values[pair])
                for name, values in self._attribution.components.items()
                if values[pair] != 0
            },
            [
                Neighbour(other, cosine, names.title(other))
                for other, cosine in zip(rows[some].tolist(), cosines[some].tolist(), strict=True)
            ],
        )

    def _values(self, row: int, features: Array) -> Array:
        """Values of features of a row; 0 if they are not stored."""
        entries = slice(self._X.indptr[row], self._X.indptr[row + 1])
        stored, data = self._X.indices[entries], self._X.data[entries]
        values = np.zeros(len(features), np.float32)
        if len(stored):
            place = np.searchsorted(stored, features).clip(max=len(stored) - 1)
            values = np.where(stored[place] == features, data[place], np.float32(0))
        return values

    def to_dict(self, n_features: int | None = None) -> dict[str, Any]:
        """JSON values.

        Parameters
        ----------
        n_features : int, optional
            Maximum number of features per label, those of largest contribution; ``other_features`` is the sum of the
            others. By default all.

        Returns
        -------
        values : dict
            ``{"rows": [{"row", "labels": [{"label", "score", ...}]}]}``.
        """
        return {"rows": [row.to_dict(n_features) for row in self]}

    def to_text(self, n_features: int = SHOWN) -> str:
        """Plain text.

        Parameters
        ----------
        n_features : int, default=10
            Maximum number of features per label.

        Returns
        -------
        text : str
        """
        return "\n".join(row.to_text(n_features) for row in self)

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        return f"<Explanation of {len(self.rows)} labels of {len(self)} rows>"

    def _repr_html_(self) -> str:
        from sparseleaf.model.explanation_html import document, row_html

        return document("".join(row_html(row, SHOWN) for row in self))


def _plain(value: Any) -> Any:
    """A Python value for a numpy one."""
    return value.item() if isinstance(value, np.generic) else value


def _json(value: float) -> float | None:
    """A number as JSON has it: no NaN."""
    return value if np.isfinite(value) else None
