"""Re-ranking by naive Bayes over the discriminative features of each label: one pass over the rows, no iterations.

In: a row's best labels and their scores from the trees. Out: these and the labels with a discriminative feature in the
row, with new scores from 0 to 1. Features are binary: zero or not. With q the rate of a feature among all rows and p
that among a label's rows, smoothed towards q, a feature that is present adds log(p / q) to the evidence for the label,
and one that is absent log((1 - p) / (1 - q)). A label has the few features whose rate among its rows exceeds q most
significantly: features depend on each other, and sums over many are overconfident.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from sparseleaf import _kernels
from sparseleaf._arrays import csr_parts
from sparseleaf._threads import in_threads
from sparseleaf._vectors import PackedVectors
from sparseleaf.model.candidates import PLACES, true_candidates
from sparseleaf.model.registry import register
from sparseleaf.rerank.stage import DEFAULT_WEIGHT, ListedReranker
from sparseleaf.rerank.weighing import Ranked

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.model.source import StageSource
    from sparseleaf.rerank.rows import TrainingRows
    from sparseleaf.rerank.validation import Validation

FEATURES = (4, 8, 16, 32)
"""How many features of a label may count."""

POWERS = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5)
"""Factors of a label's log prior that are tried: above 1, since frequent labels have discriminative features beyond the
few that are kept."""

DEFAULTS = (8, 1.5)
"""Features and power where there are no rows to choose them on."""

WEIGHTS = (0.0, 0.15, 0.3, 0.45, 0.6, 0.75, 0.9, 1.0)
"""Shares of the trees that are tried."""

SMOOTHING = 2.0
"""Rows with the rates of all rows that are added to every label's."""

FLOOR = 0.01
"""Of the row's best score, which every candidate has from the trees: their logarithm is mixed."""

MOST_ADDED = 100
"""Candidates of a row by its features, those of highest evidence."""

BLOCK_LABELS = 2048


@dataclass(frozen=True)
class DiscriminativeFeatures:
    """Discriminative features of every label, the most significant first.

    Attributes
    ----------
    features : int32 array, shape (n_labels, most)
        -1 is none.
    weights, absent : float32 arrays, shape (n_labels, most)
        What is added by the feature, and what by its absence, as if all were absent first.
    log_shares : float32 array, shape (n_labels,)
        Logarithm of the share of rows that have the label.
    n_features : int
    """

    features: Array
    weights: Array
    absent: Array
    log_shares: Array
    n_features: int

    cross_validated: ClassVar[bool] = False

    @classmethod
    def fit(cls, X: Features, Y: sp.csr_matrix, n_jobs: int, most: int = max(FEATURES)) -> Self:
        """Those of the labels of these rows."""
        X = sp.csr_matrix(X, dtype=np.float32)
        # rows are counted in float64: float32 ends at 2²⁴, from where on nothing depends on one row more
        there = sp.csr_matrix(((X.data != 0).astype(np.float64), X.indices, X.indptr), shape=X.shape)
        n_rows, n_features = X.shape
        by_label = sp.csr_matrix(Y.T, dtype=np.float64)
        rows_of = np.diff(by_label.indptr).astype(np.float64)
        shares = np.bincount(X.indices, weights=there.data, minlength=n_features) / max(1, n_rows)
        features = np.empty((len(rows_of), most), np.int32)
        weights, absent = (np.empty((len(rows_of), most), np.float32) for _ in range(2))

        def fit_block(begin: int) -> None:
            block = slice(begin, begin + BLOCK_LABELS)
            both = sp.csr_matrix(by_label[block] @ there, dtype=np.float32)
            both.eliminate_zeros()
            common = np.empty_like(weights[block])
            _kernels.select_telling(*csr_parts(both), rows_of[block], shares, features[block], common, 1)
            held = features[block] >= 0
            q = np.where(held, shares[features[block]], 0.5)
            p = np.where(held, (common + SMOOTHING * q) / (rows_of[block, None] + SMOOTHING), 0.5)
            lacking = np.log1p(-p) - np.log1p(-q)
            weights[block] = np.log(p / q) - lacking
            features[block][weights[block] <= 0] = -1  # no evidence but rounding
            absent[block] = np.where(features[block] >= 0, lacking, 0)

        in_threads(fit_block, range(0, len(rows_of), BLOCK_LABELS), n_jobs)
        return cls(
            features,
            weights,
            absent,
            np.log((rows_of + 0.5) / (n_rows + 1)).astype(np.float32),
            n_features,
        )

    def tuned(self, validation: Validation, weight: float | None) -> BayesReranker:
        """The stage whose number of features, power and weight are best; ``weight`` fixes the last."""
        if not len(validation):
            return self.stage(*DEFAULTS, DEFAULT_WEIGHT if weight is None else weight)
        X, Y, n_jobs, found = validation.X, validation.Y, validation.n_jobs, validation.found(PLACES)

        def prepare(most: int) -> tuple[Any, ...]:
            stage = self.stage(most, DEFAULTS[1], 0.0)
            starts, labels, trees, evidence = stage.candidates(X, *found, n_jobs)
            bare = evidence - np.float32(stage.power) * self.log_shares[labels]
            return stage, labels, trees, bare, Ranked(starts, true_candidates(starts, labels, Y), 1)

        def values(tried: tuple[Any, ...]) -> list[tuple[float, BayesReranker]]:
            (stage, labels, trees, bare, ranked), power = tried
            evidence = bare + np.float32(power) * self.log_shares[labels]
            stages = [
                replace(stage, power=power, weight=share)
                for share in (WEIGHTS if weight is None else (weight,))
            ]
            return [(ranked.worth(stage.margins(trees, evidence)), stage) for stage in stages]

        tried = itertools.product(in_threads(prepare, FEATURES, n_jobs), POWERS)
        valued = itertools.chain.from_iterable(in_threads(values, tried, n_jobs))
        _, stage = max(valued, key=lambda one: one[0])  # the first of equals
        starts, labels, trees, evidence = stage.candidates(X, *found, n_jobs)
        truth = true_candidates(starts, labels, Y)
        return replace(stage, platt=fit_platt(stage.margins(trees, evidence), truth))

    def stage(self, most: int, power: float, weight: float) -> BayesReranker:
        """With the first ``most`` of them."""
        held = self.features[:, :most] >= 0
        indptr = np.concatenate(([0], np.cumsum(held.sum(axis=1))))
        by_label = sp.csr_matrix(
            (self.weights[:, :most][held], self.features[:, :most][held], indptr),
            shape=(len(self.features), self.n_features),
        )
        by_label.sort_indices()
        absent = self.absent[:, :most].sum(axis=1, dtype=np.float32)
        return BayesReranker(
            PackedVectors.of(by_label), absent, self.log_shares, most, power, weight, (1.0, 0.0)
        )


@register("bayes")
@dataclass(frozen=True)
class BayesReranker(ListedReranker):
    """The stage.

    Attributes
    ----------
    log_odds : PackedVectors, shape (n_labels, n_features)
        Logarithm of the odds ratio of every feature, above 0; what is rounded to 0 is no feature of the label.
    absent : float32 array, shape (n_labels,)
        What is said where none of a label's features is there.
    log_shares : float32 array, shape (n_labels,)
        Logarithm of the share of rows that have the label.
    most : int
        Features that a label may have.
    power : float
        How often the share of rows counts.
    weight : float
        β, the trees' share: with t their score by the row's best and e the evidence, all of the above added up, a
        candidate's margin is β log(t + 0.01) + (1 - β) e.
    platt : (float, float)
        a and b: the score is 1 / (1 + exp(-(a · margin + b))).
    """

    log_odds: PackedVectors
    absent: Array
    log_shares: Array
    most: int
    power: float
    weight: float
    platt: tuple[float, float]

    kind: ClassVar[str] = "bayes"

    def __getstate__(self) -> dict[str, Any]:
        # the compiled part is made again where it is needed
        return {name: value for name, value in vars(self).items() if name != "kernel"}

    @cached_property
    def kernel(self) -> _kernels.TellingIndex:
        """The compiled part; making it checks every index and number."""
        by_label = self.log_odds.unpacked()
        there = by_label.data != 0
        label = np.repeat(np.arange(self.n_labels), np.diff(by_label.indptr))[there]
        features, place = _numbered(by_label.indices[there], self.log_odds.width)
        postings = sp.csr_matrix(
            (by_label.data[there], (place, label)), shape=(len(features), self.n_labels), dtype=np.float32
        )
        return _kernels.TellingIndex(
            features,
            *csr_parts(postings),
            self.absent + np.float32(self.power) * self.log_shares,
            self.log_odds.width,
        )

    @property
    def n_labels(self) -> int:
        """See :class:`~sparseleaf.rerank.stage.ListedReranker`."""
        return len(self.absent)

    def candidates(
        self, X: Features, labels: Array, scores: Array, n_jobs: int
    ) -> tuple[Array, Array, Array, Array]:
        """The union of the trees' labels and those of highest evidence, rising by label within a row.

        Returns starts (n_rows + 1), labels, logarithms of the trees' scores, evidence.
        """
        starts, joined, relative, evidence = self.kernel.join(
            *csr_parts(sp.csr_matrix(X, dtype=np.float32)),
            np.ascontiguousarray(labels, np.int32),
            np.ascontiguousarray(scores, np.float32),
            MOST_ADDED,
            n_jobs,
        )
        return starts, joined, np.log(relative + np.float32(FLOOR)), evidence

    def margins(self, trees: Array, evidence: Array) -> Array:
        """The margins of candidates."""
        mixed: Array = np.float32(self.weight) * trees + (1 - np.float32(self.weight)) * evidence
        return mixed

    def ranked_candidates(
        self, X: Features, labels: Array, scores: Array, n_jobs: int
    ) -> tuple[Array, Array, Array]:
        """See :class:`~sparseleaf.rerank.stage.ListedReranker`."""
        starts, joined, trees, evidence = self.candidates(X, labels, scores, n_jobs)
        return starts, joined, self.margins(trees, evidence)

    def scores_of(self, margins: Array) -> Array:
        """See :class:`~sparseleaf.rerank.stage.ListedReranker`."""
        a, b = self.platt
        # never quite 0, which is the score of all other labels
        scores: Array = np.maximum(expit(np.float32(a) * margins + np.float32(b)), np.float32(1e-30))
        return scores

    # --- fitting

    @classmethod
    def untuned(cls, kind: str, rows: TrainingRows) -> DiscriminativeFeatures:
        """See :class:`~sparseleaf.rerank.stage.Reranker`."""
        return DiscriminativeFeatures.fit(rows.X, rows.Y, rows.n_jobs)

    def refit(self, rows: TrainingRows) -> BayesReranker:
        """See :class:`~sparseleaf.rerank.stage.Reranker`."""
        again = DiscriminativeFeatures.fit(rows.X, rows.Y, rows.n_jobs, self.most)
        return replace(again.stage(self.most, self.power, self.weight), platt=self.platt)

    # --- tensors of the model file

    def tensors(self, compact: bool) -> dict[str, Array]:
        """See :class:`~sparseleaf.rerank.stage.Reranker`."""
        return {
            "settings": np.array([self.weight, self.most, self.power, *self.platt], np.float32),
            "absent": self.absent,
            "log_shares": self.log_shares,
            **self.log_odds.tensors(compact),
        }

    @classmethod
    def from_tensors(cls, source: StageSource) -> Self:
        """From tensors; ValueError where they are not sound."""
        settings = source.take("settings", ("F32",), 1)
        if len(settings) != 5 or not np.isfinite(settings).all():
            raise ValueError("settings: wanted five finite numbers")
        weight, most, power, slope, offset = settings.tolist()
        if not (0 <= weight <= 1 and most >= 1 and power >= 0 and slope > 0):
            raise ValueError(
                "settings: wanted a weight from 0 to 1, a number of features, a power and a slope"
            )
        absent, log_shares = source.take("absent", ("F32",), 1), source.take("log_shares", ("F32",), 1)
        if len(absent) != source.n_labels or len(log_shares) != source.n_labels:
            raise ValueError(f"absent and log_shares must have a number for each of {source.n_labels} labels")
        log_odds = PackedVectors.from_tensors(source, source.n_labels, source.n_features)
        _ = log_odds.kernel  # checks that indices exist
        stage = cls(log_odds, absent, log_shares, int(most), power, weight, (slope, offset))
        _ = stage.kernel  # checks that indices exist and numbers are finite
        return stage


def _numbered(features: Array, width: int) -> tuple[Array, Array]:
    """The distinct features, rising, and which of them each is."""
    if width > 4 * len(features) or features.max(initial=0) >= width:
        return np.unique(features, return_inverse=True)
    there = np.zeros(width, bool)
    there[features] = True
    return np.flatnonzero(there).astype(features.dtype), (np.cumsum(there) - 1)[features]


def fit_platt(margins: Array, truth: Array) -> tuple[float, float]:
    """Slope and offset of Platt's scaling; (1, 0) where all candidates are true, or none."""
    if truth.all() or not truth.any():
        return 1.0, 0.0
    # in float32 the line search of scikit-learn 1.6 may not converge, and warns
    columns = margins[:, None].astype(np.float64)
    fitted = LogisticRegression(solver="newton-cholesky").fit(columns, truth.astype(np.float64))
    # four digits: the last ones depend on the BLAS
    slope, offset = (float(f"{number:.4g}") for number in (fitted.coef_[0, 0], fitted.intercept_[0]))
    # a higher margin must stay a higher score
    return (slope, offset) if slope > 0 else (1.0, 0.0)
