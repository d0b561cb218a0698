"""Attributions: what the features of a row contribute to the score of a label.

Every stage after the features explains its own scores (:meth:`~sparseleaf.model.stage.Scores.explain`) in terms of the
stage before it. Contributions and base add up to the score of each pair of a row and a label.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

if TYPE_CHECKING:
    from sparseleaf._arrays import Array

CANCELLED = 1e-6
"""Contributions whose sum is below this fraction of their sizes have cancelled, but for rounding errors."""


@dataclass(frozen=True)
class Pairs:
    """Pairs of a row and a label.

    Attributes
    ----------
    rows : int64 array, shape (n_pairs,)
        Increasing.
    labels : int32 array, shape (n_pairs,)
    """

    rows: Array
    labels: Array

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def of_topk(cls, labels: Array) -> Pairs:
        """The labels of every row, an array (n_rows, k) with -1 for none."""
        return cls(np.nonzero(labels >= 0)[0].astype(np.int64), labels[labels >= 0].astype(np.int32))

    @classmethod
    def product(cls, n_rows: int, labels: Array) -> Pairs:
        """All these labels for every row."""
        rows = np.repeat(np.arange(n_rows, dtype=np.int64), len(labels))
        return cls(rows, np.tile(labels.astype(np.int32), n_rows))

    def starts(self, n_rows: int) -> Array:
        """The first pair of every row, and the number of pairs."""
        return np.searchsorted(self.rows, np.arange(n_rows + 1)).astype(np.int64)

    def some(self, chosen: Array) -> Pairs:
        """The pairs selected by a mask."""
        return Pairs(self.rows[chosen], self.labels[chosen])


@dataclass(frozen=True)
class SimilarRows:
    """Training rows similar to the row of a pair, with its label; nearest first.

    Attributes
    ----------
    starts : int64 array, shape (n_pairs + 1,)
    rows : int32 array
    similarities : float32 array
    """

    starts: Array
    rows: Array
    similarities: Array

    @classmethod
    def of_mask(cls, chosen: Array, rows: Array, similarities: Array) -> SimilarRows:
        """The chosen ones of arrays (n_pairs, n)."""
        starts = np.concatenate(([0], np.cumsum(chosen.sum(axis=1), dtype=np.int64)))
        return cls(starts, rows[chosen], similarities[chosen])

    @classmethod
    def stacked(cls, parts: Sequence[SimilarRows]) -> SimilarRows:
        """Those of consecutive pairs."""
        sizes = np.concatenate([np.diff(part.starts) for part in parts])
        return cls(
            np.concatenate(([0], np.cumsum(sizes))),
            np.concatenate([part.rows for part in parts]),
            np.concatenate([part.similarities for part in parts]),
        )

    def placed(self, where: Array) -> SimilarRows:
        """For all pairs, of which these are selected by a mask."""
        sizes = np.zeros(len(where), np.int64)
        sizes[where] = np.diff(self.starts)
        return replace(self, starts=np.concatenate(([0], np.cumsum(sizes))))

    def of(self, pair: int) -> tuple[Array, Array]:
        """Rows and similarities of one pair."""
        some = slice(self.starts[pair], self.starts[pair + 1])
        return self.rows[some], self.similarities[some]


@dataclass(frozen=True)
class Terms:
    """Numbers of features, in the form of a CSR matrix; scipy's class takes longer to make than a row to explain.

    Attributes
    ----------
    indptr : int array, shape (n_pairs + 1,)
    indices : int array
    data : float64 array
    n_features : int
    """

    indptr: Array
    indices: Array
    data: Array
    n_features: int

    @classmethod
    def of(cls, matrix: sp.csr_matrix) -> Terms:
        """Those of a CSR matrix."""
        return cls(matrix.indptr, matrix.indices, matrix.data, matrix.shape[1])

    @property
    def matrix(self) -> sp.csr_matrix:
        """As a CSR matrix."""
        shape = (len(self.indptr) - 1, self.n_features)
        return sp.csr_matrix((self.data, self.indices, self.indptr), shape=shape)

    def sums(self, values: Array) -> Array:
        """Σ of ``values``, one per number, for every pair, in their order."""
        n_pairs = len(self.indptr) - 1
        return np.bincount(np.repeat(np.arange(n_pairs), np.diff(self.indptr)), values, n_pairs)

    def times(self, factors: Array) -> Terms:
        """Multiply by a factor per pair."""
        return replace(self, data=self.data * np.repeat(factors, np.diff(self.indptr)))

    def __add__(self, other: Terms) -> Terms:
        if np.array_equal(self.indptr, other.indptr) and np.array_equal(self.indices, other.indices):
            return replace(self, data=self.data + other.data)
        return Terms.of(sp.csr_matrix(self.matrix + other.matrix))


@dataclass(frozen=True)
class Attribution:
    """Contributions to the scores of pairs.

    Attributes
    ----------
    base : float64 array, shape (n_pairs,)
        The part of the score that is due to no feature.
    terms : Terms
        Contributions of the features.
    components : dict of str to float64 array, shape (n_pairs,)
        The same scores by score component; they, too, add up to the score.
    similar : SimilarRows or None
        If the model has neighbours.
    """

    base: Array
    terms: Terms
    components: Mapping[str, Array]
    similar: SimilarRows | None = None

    @cached_property
    def sums(self) -> Array:
        """Sum of the contributions of every pair."""
        return self.terms.sums(self.terms.data)

    @property
    def scores(self) -> Array:
        """Sum of base and contributions."""
        scores: Array = self.base + self.sums
        return scores

    def through(self, base: Array, scores: Array) -> Attribution:
        """After a link function that maps the old base to ``base`` and the old score to ``scores``.

        Contributions are scaled by the slope of the secant between the two points, (``scores`` - ``base``) / (old score
        - old base), so that they add up to the new score. Contributions that cancel each other become 0.
        """
        sizes = self.terms.sums(np.abs(self.terms.data))
        scaled = np.abs(self.sums) > CANCELLED * sizes
        with np.errstate(over="ignore", invalid="ignore"):
            slope = np.divide(scores - base, self.sums, out=np.zeros(len(scores)), where=scaled)
        usable = np.isfinite(slope)
        slope = np.where(usable, slope, 0.0)
        return replace(
            self.scaled(slope), base=np.where(scaled & usable, base, scores).astype(np.float64), components={}
        )

    def scaled(self, factors: Array | float) -> Attribution:
        """Multiply everything by a factor, or one per pair."""
        factors = np.broadcast_to(np.asarray(factors, np.float64), self.base.shape)
        return replace(
            self,
            base=self.base * factors,
            terms=self.terms.times(factors),
            components={name: values * factors for name, values in self.components.items()},
        )

    def named(self, components: Mapping[str, Array] | str) -> Attribution:
        """With these components, or the whole score as a single one."""
        if isinstance(components, str):
            components = {components: self.scores}
        return replace(self, components=components)

    def placed(self, where: Array, base: Array | float = 0.0, component: str = "") -> Attribution:
        """For all pairs, of which these are selected by a mask; the others have only a base, and that component."""
        if where.all():
            return self
        n_pairs = len(where)
        sizes, bases = np.zeros(n_pairs, np.int64), np.array(np.broadcast_to(base, n_pairs), np.float64)
        sizes[where] = np.diff(self.terms.indptr)
        components = {}
        for name, values in self.components.items():
            components[name] = np.zeros(n_pairs)
            components[name][where] = values
        if component:
            components[component] = components.get(component, 0.0) + np.where(where, 0.0, bases)
        bases[where] = self.base
        indptr = np.concatenate(([0], np.cumsum(sizes)))
        return Attribution(
            bases,
            replace(self.terms, indptr=indptr),
            components,
            None if self.similar is None else self.similar.placed(where),
        )


def nothing(n_pairs: int, n_features: int, base: Array | float = 0.0) -> Attribution:
    """An attribution without contributions."""
    bases = np.array(np.broadcast_to(base, n_pairs), np.float64)
    indptr, indices = np.zeros(n_pairs + 1, np.int64), np.empty(0, np.int32)
    return Attribution(bases, Terms(indptr, indices, np.empty(0), n_features), {})


def added(parts: Sequence[Attribution]) -> Attribution:
    """The sum of attributions of the same pairs."""
    first = parts[0]
    base, terms, components, similar = first.base, first.terms, dict(first.components), first.similar
    for part in parts[1:]:
        base = base + part.base
        terms = terms + part.terms
        for name, values in part.components.items():
            components[name] = components.get(name, 0.0) + values
        similar = part.similar if similar is None else similar
    return Attribution(base, terms, components, similar)


def stacked(parts: Sequence[Attribution]) -> Attribution:
    """One after the other: attributions of the pairs of consecutive blocks of rows."""
    names = dict.fromkeys(name for part in parts for name in part.components)
    components = {
        name: np.concatenate([part.components.get(name, np.zeros(len(part.base))) for part in parts])
        for name in names
    }
    similar = [part.similar for part in parts if part.similar is not None]
    if len(parts) == 1:
        return parts[0]
    return Attribution(
        np.concatenate([part.base for part in parts]),
        Terms.of(sp.vstack([part.terms.matrix for part in parts], "csr")),
        components,
        SimilarRows.stacked(similar) if similar else None,
    )


def secant_components(base: Array, parts: Mapping[str, Array], scores: Array) -> dict[str, Array]:
    """Components of a score that is a link function of Σ ``parts`` and a constant, which alone would give ``base``.

    As in :meth:`Attribution.through`, the parts are scaled to add up to the score. What cancels is part of the base.
    """
    total = np.sum(list(parts.values()), axis=0)
    sizes = np.sum([np.abs(values) for values in parts.values()], axis=0)
    scaled = np.abs(total) > CANCELLED * sizes
    slope = np.divide(scores - base, total, out=np.zeros(len(scores)), where=scaled)
    components = {name: values * slope for name, values in parts.items()}
    return components | {"base": np.where(scaled, base, scores).astype(np.float64)}


def tiled(pairs: Pairs, rows: sp.csr_matrix) -> Terms:
    """A number, not yet set, for every entry of its row, for every pair."""
    sizes = np.diff(rows.indptr)[pairs.rows]
    indptr = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
    indices = rows.indices[tiled_entries(pairs, rows)]
    return Terms(indptr, indices, np.empty(len(indices)), rows.shape[1])


def tiled_entries(pairs: Pairs, rows: sp.csr_matrix) -> Array:
    """Positions of the entries of its row for every pair."""
    sizes = np.diff(rows.indptr)[pairs.rows]
    before = np.cumsum(sizes, dtype=np.int64) - sizes
    entries: Array = np.arange(sizes.sum()) + np.repeat(rows.indptr[pairs.rows] - before, sizes)
    return entries
