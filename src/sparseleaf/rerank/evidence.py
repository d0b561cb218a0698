"""Evidence for candidate labels besides the trees: centroids, linear models and nearest training rows.

Candidates are the trees' best labels, the labels of the row's neighbours, and with side information those whose names
occur in the row. Each has a row of numbers, from which
:mod:`~sparseleaf.rerank.linear` and :mod:`~sparseleaf.rerank.boosted` compute new scores.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from scipy.special import expit

from sparseleaf import _kernels
from sparseleaf._steps import UNSIGNED, narrow
from sparseleaf._strings import PackedStrings
from sparseleaf._vectors import PackedLists
from sparseleaf._warnings import warn
from sparseleaf.data.weights import NO_WEIGHTS
from sparseleaf.model.attribution import Attribution, Pairs, Terms, nothing
from sparseleaf.model.candidates import BLOCK_ROWS, PLACES, find_pairs, look_up
from sparseleaf.model.importance import mixed_importances, normalised_rows
from sparseleaf.model.source import prefixed
from sparseleaf.progress import phase
from sparseleaf.rerank.centroids import CentroidReranker, weighted
from sparseleaf.rerank.examples import Examples
from sparseleaf.rerank.mixing import Ranked
from sparseleaf.rerank.models import LinearModels
from sparseleaf.rerank.neighbours import Neighbours
from sparseleaf.rerank.side import SideEvidence, no_proposals
from sparseleaf.rerank.stage import ListedReranker

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.data.weights import TrainingWeights
    from sparseleaf.model import Model
    from sparseleaf.model.source import StageSource
    from sparseleaf.model.stage import Scores
    from sparseleaf.model.update import NewRows
    from sparseleaf.rerank.validation import Validation

COLUMNS = ("score", "relative score", "log place", "votes", "sharp votes", "relative votes", "nearest", "voters",
           "cosine", "margin", "log rows")  # fmt: skip
"""Columns of evidence. The kernel computes the first eight: the trees' score, absolute and relative to the row's best,
and its log rank; over the neighbours with the label, with cosines c, Σ c, Σ c³, the latter relative to the row's
largest, the largest c, and their number. Then the cosine with the label's centroid, the margin of its linear model, and
the log of its number of training rows."""

COMPONENTS = ("trees", "cosine", "margin", "votes")
"""Score components of the linear mix, each from 0 to 1."""

SOURCES = (
    "trees",
    "trees",
    "trees",
    "votes",
    "votes",
    "votes",
    "votes",
    "votes",
    "cosine",
    "margin",
    "label rows",
)
"""The score component that each of the columns measures."""

STEEPNESS = 3.0
"""The component of a margin m is 1 / (1 + exp(-3 m))."""

TREE_PLACES = 30
"""Number of candidates from the trees; neighbours add about a hundred."""

NO_LISTS = PackedLists(np.zeros(1, np.int64), np.empty(0, np.uint8), 0)
"""Labels of neighbours if there is no index."""


@dataclass(frozen=True)
class Candidates:
    """Candidates of some rows, labels increasing within a row.

    Attributes
    ----------
    starts : int64 array, shape (n_rows + 1,)
    labels : int32 array, shape (n_candidates,)
    table : float32 array, shape (n_candidates, columns)
        The ``COLUMNS``, followed by those of side information.
    """

    starts: Array
    labels: Array
    table: Array

    def rows(self, chosen: Array) -> Candidates:
        """Candidates of the rows selected by a mask."""
        sizes = np.diff(self.starts)
        kept = np.repeat(chosen, sizes)
        starts = np.concatenate((self.starts[:1], np.cumsum(sizes[chosen], dtype=np.int64)))
        return Candidates(starts, self.labels[kept], self.table[kept])

    def components(self) -> Array:
        """The four score components of every candidate: (n_candidates, 4)."""
        columns = dict(zip(COLUMNS, self.table[:, : len(COLUMNS)].T, strict=True))
        return np.stack(
            [
                np.clip(columns["relative score"], 0, 1),
                np.clip(columns["cosine"], 0, 1),
                expit(np.float32(STEEPNESS) * columns["margin"]),
                columns["relative votes"],
            ],
            axis=1,
        )


class Query(NamedTuple):
    """Normalised rows, and their neighbours: training rows (-1 for none) and cosines, both (n_rows, n_neighbours)."""

    rows: sp.csr_matrix
    nearest: Array
    cosines: Array


@dataclass(frozen=True)
class Evidence:
    """Centroids, linear models and neighbours.

    Attributes
    ----------
    centroids : CentroidReranker
        With weight 0: only the cosine.
    models : LinearModels or None
        None while they are being trained.
    neighbours : Neighbours or None
    label_counts : int array, shape (n_labels,)
        Training rows of every label.
    places : int
        Number of candidates from the trees.
    side : SideEvidence or None
        Names and hierarchy of the labels.
    """

    centroids: CentroidReranker
    models: LinearModels | None
    neighbours: Neighbours | None
    label_counts: Array
    places: int = TREE_PLACES
    side: SideEvidence | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of evidence."""
        return COLUMNS + (() if self.side is None else self.side.columns)

    @property
    def sources(self) -> tuple[str, ...]:
        """The score component that each of the columns measures."""
        return SOURCES + (() if self.side is None else self.side.sources)

    def without_side(self) -> Evidence:
        """Without side information, for a stage that cannot learn its weight; a warning says so."""
        if self.side is None:
            return self
        warn(
            "label_info is not used: learning from it takes at least 50 rows or an eval_set, with true candidates."
        )
        return replace(self, side=None)

    def unit_rows(self, X: Features) -> sp.csr_matrix:
        """Weighted and normalised rows."""
        rows = weighted(
            sp.csr_matrix(X, dtype=np.float64), self.centroids.feature_weights
        )  # float64: squares must not overflow
        # as scikit-learn's normalize, whose checks take longer than a row
        lengths = np.sqrt(Terms.of(rows).sums(np.square(rows.data)))
        lengths[lengths == 0] = 1.0
        data = (rows.data / np.repeat(lengths, np.diff(rows.indptr))).astype(np.float32)
        return sp.csr_matrix((data, rows.indices, rows.indptr), shape=rows.shape)

    def query(self, X: Features, n_jobs: int, exclude: Array | None = None) -> Query:
        """Normalised rows and their neighbours.

        ``exclude`` are the indexed rows that are no neighbours: the rows themselves.
        """
        rows = self.unit_rows(X)
        if self.neighbours is not None:
            return Query(rows, *self.neighbours.nearest(rows, exclude, n_jobs))
        nobody = (rows.shape[0], 0)
        return Query(rows, np.empty(nobody, np.int32), np.empty(nobody, np.float32))

    def candidates(
        self,
        X: Features,
        labels: Array,
        scores: Array,
        n_jobs: int,
        exclude: Array | None = None,
        query: Query | None = None,
    ) -> Candidates:
        """Candidates from the trees' (labels, scores), both (n_rows, places), -1 for none.

        ``query`` is what :meth:`query` returns, if it is known.
        """
        rows, nearest, cosines = self.query(X, n_jobs, exclude) if query is None else query
        lists = NO_LISTS if self.neighbours is None else self.neighbours.labels
        named = no_proposals(rows.shape[0]) if self.side is None else self.side.propose(rows, n_jobs)
        starts, joined, flat = _kernels.join_candidates(
            np.ascontiguousarray(labels, np.int32),
            np.ascontiguousarray(scores, np.float32),
            nearest,
            cosines,
            lists.kernel,
            named,
            len(self.columns),
            n_jobs,
        )
        table = flat.reshape(-1, len(self.columns))
        if self.models is not None:
            cosine = self.centroids.rescored(X, starts, joined, np.zeros(len(joined)), n_jobs)
            table[:, COLUMNS.index("cosine")] = cosine
            table[:, COLUMNS.index("margin")] = self.models.margins(rows, starts, joined, n_jobs)
            table[:, COLUMNS.index("log rows")] = np.log1p(
                self.label_counts[joined],
                dtype=np.float64,  # files store counts in narrow types
            )
        candidates = Candidates(starts, joined, table)
        if self.models is not None and self.side is not None:
            components = candidates.components().mean(axis=1, dtype=np.float32)
            self.side.fill(rows, starts, joined, named, components, table, n_jobs)
        return candidates

    def promise(self, candidates: Candidates) -> Array:
        """How likely candidates are at first sight: their mean score component, names included."""
        promise: Array = candidates.components().mean(axis=1)
        if self.side is not None and self.side.names is not None:
            named = candidates.table[:, len(COLUMNS) :]
            promise = promise + self.side.names.shares(named) / len(COMPONENTS)
        return promise

    def explain(self, before: Scores, pairs: Pairs, listed: Array, query: Query) -> dict[str, Attribution]:
        """What the features of the rows add to the numbers that score components of pairs are made of.

        These are the trees' score of the pairs that are ``listed`` among its candidates, the cosine with the centroid,
        the margin of the linear model, Σ cosine³ over the neighbours with the label, how much of its name is found, and
        the mean margin of the parts of its names.
        """
        assert self.models is not None
        X, n_jobs = before.rows.X, before.rows.n_jobs
        votes = nothing(len(pairs), query.rows.shape[1])
        if self.neighbours is not None:
            votes = self.neighbours.explain(*query, pairs, n_jobs)
        parts = {
            "trees": before.explain_candidates(pairs.some(listed)).placed(listed),
            "cosine": self.centroids.cosines(X, pairs, n_jobs),
            "margin": self.models.explain(query.rows, pairs, n_jobs),
            "votes": votes,
        }
        if self.side is not None and self.side.names is not None:
            parts["names"] = self.side.names.explain(query.rows, pairs, n_jobs)
        if self.side is not None and self.side.parts is not None:
            parts["name parts"] = self.side.parts.explain(query.rows, pairs, n_jobs)
        return parts

    def label_importances(
        self, labels: Array, before: sp.csr_matrix, weights: dict[str, float]
    ) -> sp.csr_matrix:
        """Importances of features by the weights of score components; votes have no weights of features."""
        assert self.models is not None
        factors = self.centroids.feature_weights
        models = normalised_rows(weighted(self.models.weights.unpacked()[labels], factors))
        parts = {
            "trees": before,
            "cosine": self.centroids.centroid_importances(labels),
            "margin": models,
        }
        return mixed_importances([(weights[name], part) for name, part in parts.items()])

    # --- fitting

    @classmethod
    def fit(
        cls,
        X: Features,
        Y: sp.csr_matrix,
        trees: Model,
        seed: int,
        n_jobs: int,
        weights: TrainingWeights = NO_WEIGHTS,
        side: SideEvidence | None = None,
    ) -> Self:
        """Fit centroids, neighbours and linear models; the latter on the candidates of all other parts and the trees.

        The trees may have been trained on the rows: only their false candidates are used.
        """
        return cls.fit_both(X, Y, np.empty(0, np.int64), trees, seed, n_jobs, weights, side)[1]

    @classmethod
    def fit_both(
        cls,
        X: Features,
        Y: sp.csr_matrix,
        held_out: Array,
        trees: Model,
        seed: int,
        n_jobs: int,
        weights: TrainingWeights = NO_WEIGHTS,
        side: SideEvidence | None = None,
    ) -> tuple[Self | None, Self]:
        """Evidence without the held-out rows, None if there are none, and with all rows.

        Candidates are computed once, and linear models of all rows start from those without the held-out ones.
        """
        whole, rows = cls._blind(X, Y, weights, side=side)
        held = np.zeros(X.shape[0], bool)
        held[held_out] = True
        examples = Examples(rows, Y, *whole._proposed(X, trees, 0, n_jobs), held, weights)
        before, after = LinearModels.fit(examples, seed, n_jobs)
        side_before, side_after = (None, None) if side is None else side.trained(examples, seed, n_jobs)
        whole = replace(whole, models=after, side=side_after)
        if before is None:
            return None, whole
        weights = weights.take(~held)
        seen, _ = cls._blind(X[~held], Y[~held], weights, whole.centroids.feature_weights, side_before)
        return replace(seen, models=before), whole

    @classmethod
    def _blind(
        cls,
        X: Features,
        Y: sp.csr_matrix,
        weights: TrainingWeights,
        feature_weights: Array | None = None,
        side: SideEvidence | None = None,
    ) -> tuple[Self, sp.csr_matrix]:
        """Evidence without linear models, and the unit rows."""
        centroids = CentroidReranker.fit(X, Y, "cosine", 0.0, None, feature_weights, weights)
        blind = cls(centroids, None, None, np.bincount(Y.indices, minlength=Y.shape[1]), side=side)
        rows = blind.unit_rows(X)
        return replace(blind, neighbours=Neighbours.fit(rows, Y)), rows

    def _proposed(self, X: Features, trees: Model, first: int, n_jobs: int) -> tuple[Array, Array]:
        """Starts and labels of the candidates of rows that are indexed from number ``first`` on."""
        starts, labels = [np.zeros(1, np.int64)], [np.empty(0, np.int32)]
        with phase("candidates", X.shape[0]) as advance:
            for begin in range(0, X.shape[0], BLOCK_ROWS):
                block = slice(begin, begin + BLOCK_ROWS)
                best = trees.candidates(X[block], self.places, None, n_jobs)
                block_rows = np.arange(begin, min(begin + BLOCK_ROWS, X.shape[0]))
                candidates = self.candidates(X[block], *best, n_jobs, first + block_rows)
                starts.append(candidates.starts[1:] + starts[-1][-1])
                labels.append(candidates.labels)
                advance(begin + len(block_rows), "")
        return np.concatenate(starts), np.concatenate(labels)

    def updated(self, new: NewRows) -> Evidence:
        """Centroids, neighbours and linear models with new rows."""
        assert self.models is not None
        rows, first, neighbours = self.unit_rows(new.X), 0, self.neighbours
        if neighbours is not None:
            first = neighbours.labels.n_lists - neighbours.n_dropped(new.keep)
            neighbours = neighbours.updated(rows, new.Y, new.keep)
        counts = new.old_counts + new.counts
        blind = replace(
            self,
            centroids=self.centroids.updated(new),
            models=None,
            neighbours=neighbours,
            label_counts=counts,
            side=None if self.side is None else self.side.with_labels(new.n_labels),
        )
        examples = Examples(rows, new.Y, *blind._proposed(new.X, new.trees, first, new.n_jobs))
        if neighbours is not None:
            fresh = new.old_counts[new.Y.indices] == 0
            examples = examples.with_negatives(neighbours, first, fresh, new.n_jobs)
        return replace(
            blind,
            models=self.models.updated(examples, new.seed, new.n_jobs),
            side=None if blind.side is None else blind.side.updated(examples, new.seed, new.n_jobs),
        )

    # --- tensors of the model file

    def tensors(self, compact: bool) -> dict[str, Array]:
        """Tensors by name; without ``compact``, vector entries are float32."""
        assert self.models is not None
        tensors = {"label_counts": narrow(self.label_counts), "places": np.array([self.places], np.uint32)}
        tensors |= prefixed("centroids", self.centroids.tensors(compact))
        tensors |= prefixed("models", self.models.tensors(compact))
        if self.neighbours is not None:
            tensors |= prefixed("neighbours", self.neighbours.tensors(compact))
        return tensors if self.side is None else tensors | prefixed("side", self.side.tensors(compact))

    @classmethod
    def from_tensors(cls, source: StageSource) -> Self:
        """From tensors; ValueError if they are invalid."""
        counts = source.take("label_counts", (*UNSIGNED, "U64"), 1)
        if len(counts) != source.n_labels:
            raise ValueError(f"label_counts must have one entry for each of {source.n_labels} labels")
        centroids = CentroidReranker.from_tensors(source.part("centroids", kind="cosine"))
        neighbours = None
        if source.has("neighbours.sizes"):
            neighbours = Neighbours.from_tensors(source.part("neighbours"))
        models = LinearModels.from_tensors(source.part("models"))
        places = source.count("places", PLACES)
        side = SideEvidence.from_tensors(source.part("side"))
        return cls(replace(centroids, weight=0.0), models, neighbours, counts, places, side)


class EvidenceReranker(ListedReranker):
    """Base class of re-rankers that score evidence.

    Attributes
    ----------
    evidence : Evidence
    """

    evidence: Evidence

    @abstractmethod
    def score(self, candidates: Candidates, n_jobs: int) -> Array:
        """Scores of candidates, from 0 to 1."""

    @abstractmethod
    def explain_scores(
        self, parts: dict[str, Attribution], candidates: Candidates, highest: Array, n_jobs: int
    ) -> Attribution:
        """Attribute the scores of pairs, whose evidence is ``candidates``, one each.

        ``parts`` is what :meth:`Evidence.explain` returns, ``highest`` the best score of the trees in the row.
        """

    def explain(self, before: Scores, labels: Array, scores: Array, pairs: Pairs) -> Attribution:
        """See :class:`Reranker`."""
        n_jobs = before.rows.n_jobs
        query = self.evidence.query(before.rows.X, n_jobs)
        everything = self.evidence.candidates(before.rows.X, labels, scores, n_jobs, query=query)
        there, place = find_pairs(everything.starts, everything.labels, pairs, self.n_labels)
        some, place = pairs.some(there), place[there]
        chosen = Candidates(np.arange(len(some) + 1), everything.labels[place], everything.table[place])
        parts = self.evidence.explain(before, some, look_up(labels, some)[0], query)
        highest = np.maximum(0, np.max(np.where(labels >= 0, scores, 0), axis=1, initial=0))[some.rows]
        return self.explain_scores(parts, chosen, highest.astype(np.float64), n_jobs).placed(there)

    @abstractmethod
    def component_weights(self) -> dict[str, float]:
        """Weights of the score components."""

    def label_importances(self, labels: Array, before: sp.csr_matrix, n_jobs: int) -> sp.csr_matrix:
        """See :class:`~sparseleaf.model.stage.Stage`."""
        return self.evidence.label_importances(labels, before, self.component_weights())

    @property
    def n_labels(self) -> int:
        """See :class:`Reranker`."""
        return len(self.evidence.label_counts)

    def updated(self, new: NewRows) -> Self:
        """The evidence with new rows; what combines it is kept."""
        return replace(self, evidence=self.evidence.updated(new))  # type: ignore[type-var]

    @property
    def places(self) -> int:
        """See :class:`Reranker`."""
        return self.evidence.places

    @property
    def known_features(self) -> Array | None:
        """See :class:`Reranker`; those that are similar to words of label names."""
        side = self.evidence.side
        if side is None or side.names is None:
            return None
        known: Array = np.diff(side.names.similar.indptr) > 0
        return known

    @property
    def indexed_rows(self) -> int | None:
        """See :class:`~sparseleaf.model.stage.Stage`."""
        index = self.evidence.neighbours
        return None if index is None else index.labels.n_lists

    def title_of(self, row: int) -> str | None:
        """See :class:`~sparseleaf.model.stage.Stage`."""
        index = self.evidence.neighbours
        # rows of an update have empty ones
        return None if index is None or index.titles is None else index.titles[row] or None

    def with_titles(self, titles: Sequence[str] | None) -> Self:
        """See :class:`~sparseleaf.model.stage.Stage`."""
        index = self.evidence.neighbours
        if index is None:
            return self
        titled = replace(index, titles=None if titles is None else PackedStrings.of(titles))
        again: Any = self
        return replace(again, evidence=replace(self.evidence, neighbours=titled))  # type: ignore[no-any-return]

    def ranked_candidates(
        self, X: Features, labels: Array, scores: Array, n_jobs: int
    ) -> tuple[Array, Array, Array]:
        """See :class:`ListedReranker`; margins are scores."""
        candidates = self.evidence.candidates(X, labels, scores, n_jobs)
        return candidates.starts, candidates.labels, self.score(candidates, n_jobs).astype(np.float32)

    def hits(self, validation: Validation) -> Array:
        """See :class:`Reranker`; from the table of candidates, computed once for all evidence re-rankers."""
        candidates, truth = validation.examples(self.evidence)
        ranked = Ranked(candidates.starts, truth, validation.n_jobs)
        return ranked.hits(self.score(candidates, validation.n_jobs))
