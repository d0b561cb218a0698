"""Re-ranking by naive Bayes over the discriminative features of each label, fitted in one pass over the rows.

Candidates are the trees' best labels and the labels with a discriminative feature in the row; scores are from 0 to 1.
Features are binary: zero or not. With q the rate of a feature among all rows and p its rate among a label's rows,
smoothed towards q, a present feature adds log(p / q) to the evidence for the label, an absent one
log((1 - p) / (1 - q)). A label uses only the few features whose rate among its rows exceeds q most significantly:
features are dependent, and sums over many are overconfident.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from scipy.special import expit

from sparseleaf import _kernels
from sparseleaf._arrays import csr_parts
from sparseleaf._steps import UNSIGNED, narrow
from sparseleaf._threads import in_threads
from sparseleaf._vectors import PackedVectors
from sparseleaf.data.weights import NO_WEIGHTS
from sparseleaf.model.attribution import Attribution, added, secant_components
from sparseleaf.model.candidates import PLACES, find_pairs, look_up, true_candidates
from sparseleaf.model.empty import feature_counts
from sparseleaf.model.importance import mixed_importances, normalised_rows
from sparseleaf.model.registry import register
from sparseleaf.rerank.logistic import fit_logistic
from sparseleaf.rerank.mixing import HIT_GAINS, total_gain
from sparseleaf.rerank.stage import DEFAULT_WEIGHT, ListedReranker
from sparseleaf.rerank.terms import product_terms

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.data.weights import TrainingWeights
    from sparseleaf.model.attribution import Pairs
    from sparseleaf.model.source import StageSource
    from sparseleaf.model.stage import Scores
    from sparseleaf.model.update import NewRows
    from sparseleaf.rerank.rows import TrainingRows
    from sparseleaf.rerank.validation import Validation

FEATURES = (4, 8, 16, 32)
"""Numbers of features per label to try."""

POWERS = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5)
"""Factors of the log prior to try: above 1, since frequent labels have more discriminative features than the few that
are kept."""

DEFAULTS = (8, 1.5)
"""Number of features and power without validation rows."""

WEIGHTS = (0.0, 0.15, 0.3, 0.45, 0.6, 0.75, 0.9, 1.0)
"""Weights of the trees to try."""

SMOOTHING = 2.0
"""Pseudo-rows with the overall rates, added to every label."""

FLOOR = 0.01
"""Added to the trees' scores, relative to the row's best, before taking logarithms."""

MAX_ADDED = 100
"""Maximum number of candidates added per row, those of highest evidence."""


@dataclass(frozen=True)
class DiscriminativeFeatures:
    """Discriminative features of every label, the most significant first.

    Attributes
    ----------
    features : int32 array, shape (n_labels, most)
        Padded with -1.
    weights, absent : float32 arrays, shape (n_labels, most)
        Evidence of absence, and what presence adds to it.
    log_priors : float32 array, shape (n_labels,)
        Log of the fraction of rows with the label.
    feature_counts : int64 array, shape (n_features,)
        Rows of every feature.
    """

    features: Array
    weights: Array
    absent: Array
    log_priors: Array
    feature_counts: Array

    cross_validated: ClassVar[bool] = False

    @classmethod
    def fit(
        cls,
        X: Features,
        Y: sp.csr_matrix,
        n_jobs: int,
        most: int = max(FEATURES),
        row_weights: TrainingWeights = NO_WEIGHTS,
    ) -> Self:
        """Select the discriminative features of every label."""
        X, by_label = sp.csr_matrix(X, dtype=np.float32), Y.tocsc()
        of_rows = np.empty(0) if row_weights.rows is None else row_weights.rows.astype(np.float64)

        def fill(rows_of: Array, rates: Array, selected: tuple[Array, Array, Array]) -> None:
            _kernels.fit_discriminative(
                *csr_parts(X),
                np.ascontiguousarray(by_label.indptr, np.int64),
                np.ascontiguousarray(by_label.indices, np.int32),
                of_rows,
                rows_of,
                rates,
                SMOOTHING,
                *selected,
                n_jobs,
            )

        return cls._filled(
            fill,
            row_weights.counts(Y).astype(np.float64),
            row_weights.total(X.shape[0]),
            _weighted_counts(X, row_weights, n_jobs),
            most,
            row_weights.labels,
        )

    @classmethod
    def of_counts(
        cls,
        common: sp.csr_matrix,
        rows_of: Array,
        n_rows: float,
        feature_counts: Array,
        n_jobs: int,
        most: int,
    ) -> Self:
        """Select the features from counts.

        Parameters
        ----------
        common : CSR matrix, shape (n_labels, n_features)
            Number of rows with both label and feature.
        rows_of : float64 array, shape (n_labels,)
            Rows of every label.
        n_rows : float
        feature_counts : float64 array, shape (n_features,)
            Rows of every feature.
        n_jobs, most : int
        """

        def fill(rows_of: Array, rates: Array, selected: tuple[Array, Array, Array]) -> None:
            _kernels.select_discriminative(*csr_parts(common), rows_of, rates, SMOOTHING, *selected, n_jobs)

        return cls._filled(fill, rows_of, n_rows, feature_counts, most, None)

    @classmethod
    def _filled(
        cls,
        fill: Callable[[Array, Array, tuple[Array, Array, Array]], None],
        rows_of: Array,
        n_rows: float,
        feature_counts: Array,
        most: int,
        label_weights: Array | None,
    ) -> Self:
        """With the features, weights and absences that ``fill`` writes, given the rates of the features."""
        shape = len(rows_of), most
        selected = np.empty(shape, np.int32), np.empty(shape, np.float32), np.empty(shape, np.float32)
        fill(rows_of, feature_counts / (n_rows or 1.0), selected)
        priors = rows_of if label_weights is None else rows_of * label_weights
        log_priors = np.log((priors + 0.5) / (n_rows + 1)).astype(np.float32)
        return cls(*selected, log_priors, np.rint(feature_counts).astype(np.int64))

    def tuned(self, validation: Validation, weight: float | None) -> BayesReranker:
        """The stage with the best number of features, power and weight; ``weight`` fixes the last."""
        if not len(validation):
            return self.stage(*DEFAULTS, DEFAULT_WEIGHT if weight is None else weight)
        X, Y, n_jobs, best = validation.X, validation.Y, validation.n_jobs, validation.found(PLACES)
        weights = WEIGHTS if weight is None else (weight,)
        settings = list(itertools.product(POWERS, weights))

        def tried(most: int) -> tuple[BayesReranker, Array]:
            stage = self.stage(most, DEFAULTS[1], 0.0, n_jobs).compiled(n_jobs)
            starts, labels, trees, evidence = stage.candidates(X, *best, n_jobs)
            gains = np.empty((len(settings), len(validation)), np.uint8)
            _kernels.mixed_gains(
                starts,
                labels,
                trees,
                evidence,
                true_candidates(starts, labels, Y, n_jobs).view(np.uint8),
                self.log_priors,
                np.array(POWERS, np.float32),
                np.array(weights, np.float32),
                HIT_GAINS.astype(np.uint8),
                stage.power,
                gains,
                n_jobs,
            )
            return stage, gains

        tuned = in_threads(tried, FEATURES, n_jobs)
        totals = np.array([[total_gain(one, validation.weights) for one in gains] for _, gains in tuned])
        which, place = divmod(int(totals.argmax()), len(settings))  # the first in a tie
        stage = tuned[which][0].with_mix(*settings[place])
        starts, labels, trees, evidence = stage.candidates(X, *best, n_jobs)
        truth = true_candidates(starts, labels, Y, n_jobs)
        of_rows = validation.weights
        of_candidates = None if of_rows is None else np.repeat(of_rows, np.diff(starts))
        margins = stage.margins(trees, evidence)
        return stage.with_platt(fit_platt(margins, truth, of_candidates, n_jobs=n_jobs))

    def stage(self, most: int, power: float, weight: float, n_jobs: int = 1) -> BayesReranker:
        """The stage with the first ``most`` features of every label."""
        indptr, features, weights = _kernels.first_features(self.features, self.weights, most, n_jobs)
        shape = len(self.features), len(self.feature_counts)
        log_odds = PackedVectors.of(sp.csr_matrix((weights, features, indptr), shape=shape), n_jobs)
        absent = self.absent[:, :most].sum(axis=1, dtype=np.float32)
        return BayesReranker(
            log_odds, absent, self.log_priors, most, power, weight, (1.0, 0.0), self.feature_counts
        )


@register("bayes")
@dataclass(frozen=True)
class BayesReranker(ListedReranker):
    """Naive Bayes re-ranker.

    Attributes
    ----------
    log_odds : PackedVectors, shape (n_labels, n_features)
        Log odds ratio of every feature, positive; entries rounded to 0 are ignored.
    absent : float32 array, shape (n_labels,)
        Evidence if none of the label's features is present.
    log_priors : float32 array, shape (n_labels,)
        Log of the fraction of rows with the label.
    most : int
        Maximum number of features per label.
    power : float
        Factor of the log prior.
    weight : float
        β, the weight of the trees: with t their score relative to the row's best and e the evidence, the sum of the
        above, a candidate's margin is β log(t + 0.01) + (1 - β) e.
    platt : (float, float)
        a and b: the score is 1 / (1 + exp(-(a · margin + b))).
    feature_counts : int array, shape (n_features,), or empty
        Training rows of every feature, for updates; empty for files of earlier versions.
    """

    log_odds: PackedVectors
    absent: Array
    log_priors: Array
    most: int
    power: float
    weight: float
    platt: tuple[float, float]
    feature_counts: Array = field(default_factory=lambda: np.empty(0, np.int64))

    kind: ClassVar[str] = "bayes"
    places: ClassVar[int] = PLACES

    def __getstate__(self) -> dict[str, Any]:
        # without the compiled part, which is rebuilt on demand
        return {name: value for name, value in vars(self).items() if name not in ("kernel", "vectors")}

    @cached_property
    def kernel(self) -> _kernels.DiscriminativeIndex:
        """The compiled part; its constructor validates all indices and values."""
        return self._compiled(1)

    def compiled(self, n_jobs: int) -> Self:
        """The stage, whose compiled part is built now and by several threads."""
        vars(self)["kernel"] = self._compiled(n_jobs)
        return self

    def _compiled(self, n_jobs: int) -> _kernels.DiscriminativeIndex:
        return _kernels.DiscriminativeIndex(self.log_odds.kernel, self._bias, n_jobs)

    def index(self) -> tuple[Array, Array, Array, Array, Array]:
        """Inverted index of the log odds: features, row pointers, labels, values; and the evidence without features."""
        return *self.kernel.postings(), self._bias

    @property
    def _bias(self) -> Array:
        """Evidence without features."""
        bias: Array = self.absent + np.float32(self.power) * self.log_priors
        return bias

    @property
    def n_labels(self) -> int:
        """See :class:`~sparseleaf.rerank.stage.ListedReranker`."""
        return len(self.absent)

    def candidates(
        self, X: Features, labels: Array, scores: Array, n_jobs: int
    ) -> tuple[Array, Array, Array, Array]:
        """The union of the trees' labels and those of highest evidence, increasing within a row.

        Returns starts (n_rows + 1), labels, log scores of the trees, evidence.
        """
        return self.kernel.join(
            *csr_parts(sp.csr_matrix(X, dtype=np.float32)),
            np.ascontiguousarray(labels, np.int32),
            np.ascontiguousarray(scores, np.float32),
            MAX_ADDED,
            FLOOR,
            n_jobs,
        )

    def margins(self, trees: Array, evidence: Array) -> Array:
        """Margins of candidates: the mix of log score and evidence."""
        mixed: Array = np.float32(self.weight) * trees + (1 - np.float32(self.weight)) * evidence
        return mixed

    def ranked_candidates(
        self, X: Features, labels: Array, scores: Array, n_jobs: int
    ) -> tuple[Array, Array, Array]:
        """See :class:`~sparseleaf.rerank.stage.ListedReranker`."""
        starts, joined, trees, evidence = self.candidates(X, labels, scores, n_jobs)
        return starts, joined, self.margins(trees, evidence)

    def with_mix(self, power: float, weight: float) -> Self:
        """A copy with another power and weight, which shares the compiled postings."""
        again = replace(self, power=power, weight=weight)
        vars(again)["kernel"] = self.kernel.with_bias(again._bias)
        return again

    def with_platt(self, platt: tuple[float, float]) -> Self:
        """A copy with other probabilities, which shares the compiled part."""
        again = replace(self, platt=platt)
        if "kernel" in vars(self):
            vars(again)["kernel"] = self.kernel
        return again

    def scores_of(self, margins: Array) -> Array:
        """See :class:`~sparseleaf.rerank.stage.ListedReranker`."""
        a, b = self.platt
        # above 0, the score of all other labels
        scores: Array = np.maximum(expit(np.float32(a) * margins + np.float32(b)), np.float32(1e-30))
        return scores

    # --- explanation

    @cached_property
    def vectors(self) -> _kernels.LabelVectors:
        """The log odds, compiled for explanations."""
        return _kernels.LabelVectors(self.log_odds.kernel)

    def label_importances(self, labels: Array, before: sp.csr_matrix, n_jobs: int) -> sp.csr_matrix:
        """See :class:`~sparseleaf.model.stage.Stage`; those of the trees and the log odds, by weight."""
        odds = normalised_rows(self.log_odds.unpacked()[labels])
        return mixed_importances([(self.weight, before), (1 - self.weight, odds)])

    def explain(self, before: Scores, labels: Array, scores: Array, pairs: Pairs) -> Attribution:
        """See :class:`~sparseleaf.rerank.stage.Reranker`; contributions to the margin are scaled to the score."""
        X, n_jobs = sp.csr_matrix(before.rows.X, dtype=np.float32), before.rows.n_jobs
        starts, joined, trees, evidence = self.candidates(X, labels, scores, n_jobs)
        there, place = find_pairs(starts, joined, pairs, self.n_labels)
        some, place = pairs.some(there), place[there]
        a, b = self.platt
        listed, _ = look_up(labels, some)
        highest = np.max(np.where(labels >= 0, scores, 0), axis=1, initial=0)[some.rows].astype(np.float64)
        raw = before.explain_candidates(some.some(listed)).placed(listed)
        relative = np.divide(raw.base, highest, out=np.zeros(len(some)), where=highest > 0).clip(0)
        logs = raw.through(np.log(relative + FLOOR), trees[place].astype(np.float64))
        constant = (self.absent + np.float32(self.power) * self.log_priors)[some.labels].astype(np.float64)
        there_or_not = sp.csr_matrix(((X.data != 0).astype(np.float32), X.indices, X.indptr), shape=X.shape)
        odds = product_terms(self.vectors, there_or_not, some, constant, n_jobs)
        margins = added([logs.scaled(a * self.weight), odds.scaled(a * (1 - self.weight))])
        final = self.scores_of(self.margins(trees[place], evidence[place])).astype(np.float64)
        margins = replace(margins, base=margins.base + b)
        lowest = a * (self.weight * np.log(FLOOR) + (1 - self.weight) * constant) + b
        parts = {
            "trees": a * self.weight * (trees[place] - np.log(FLOOR)),
            "bayes": a * (1 - self.weight) * odds.sums,
        }
        components = secant_components(expit(lowest), parts, final)
        return margins.through(expit(margins.base), final).named(components).placed(there)

    # --- fitting

    @classmethod
    def untuned(cls, kind: str, rows: TrainingRows) -> DiscriminativeFeatures:
        """See :class:`~sparseleaf.rerank.stage.Reranker`."""
        return DiscriminativeFeatures.fit(rows.X, rows.Y, rows.n_jobs, row_weights=rows.weights)

    def refit(self, rows: TrainingRows) -> BayesReranker:
        """See :class:`~sparseleaf.rerank.stage.Reranker`."""
        again = DiscriminativeFeatures.fit(rows.X, rows.Y, rows.n_jobs, self.most, rows.weights)
        return replace(again.stage(self.most, self.power, self.weight, rows.n_jobs), platt=self.platt)

    def updated(self, new: NewRows) -> BayesReranker:
        """Select the features again, from the old counts, as far as they are stored, and those of new rows."""
        there = presence(new.X)
        added = np.bincount(there.indices, weights=there.data, minlength=there.shape[1])
        if len(self.feature_counts):
            counts = new.keep * self.feature_counts
        else:  # a file of an earlier version: assume the rates of the new rows
            counts = new.old_rows * (added + 0.5) / (new.n_rows + 1)
        rates = counts / max(1, new.old_rows)
        seen, before = sp.csr_matrix(new.Y.T, dtype=np.float64), self._common(rates, new.old_counts)
        both = sp.csr_matrix(seen @ there)
        # old rows with features that are not stored: as many as by chance
        label = np.repeat(np.arange(both.shape[0]), np.diff(both.indptr))
        chance = new.old_counts[label] * rates[both.indices]
        expected = sp.csr_matrix((chance, both.indices, both.indptr), shape=both.shape)
        stored = sp.csr_matrix((np.ones(before.nnz), before.indices, before.indptr), shape=before.shape)
        common = sp.csr_matrix(both + before + (expected - expected.multiply(stored)))
        common.eliminate_zeros()
        again = DiscriminativeFeatures.of_counts(
            common,
            (new.old_counts + new.counts).astype(np.float64),
            new.old_rows + new.n_rows,
            counts + added,
            new.n_jobs,
            self.most,
        )
        return replace(again.stage(self.most, self.power, self.weight, new.n_jobs), platt=self.platt)

    def _common(self, rates: Array, rows_of: Array) -> sp.csr_matrix:
        """Old rows with both label and feature, from the log odds ratios; ``rows_of`` are the labels' rows."""
        odds = self.log_odds.unpacked().astype(np.float64)
        odds.resize(len(rows_of), odds.shape[1])
        q = np.clip(rates[odds.indices], 0, 1 - 1e-9)
        ratio = np.exp(odds.data) * q / (1 - q)
        rows = np.repeat(rows_of, np.diff(odds.indptr))
        common = ratio / (1 + ratio) * (rows + SMOOTHING) - SMOOTHING * q
        return sp.csr_matrix((np.rint(common).clip(0, rows), odds.indices, odds.indptr), shape=odds.shape)

    # --- tensors of the model file

    def tensors(self, compact: bool) -> dict[str, Array]:
        """See :class:`~sparseleaf.rerank.stage.Reranker`."""
        counts = {"feature_counts": narrow(self.feature_counts)} if len(self.feature_counts) else {}
        return counts | {
            "settings": np.array([self.weight, self.most, self.power, *self.platt], np.float32),
            "absent": self.absent,
            "log_shares": self.log_priors,
            **self.log_odds.tensors(compact),
        }

    @classmethod
    def from_tensors(cls, source: StageSource) -> Self:
        """See :class:`~sparseleaf.model.stage.Stage`."""
        settings = source.take("settings", ("F32",), 1)
        if len(settings) != 5 or not np.isfinite(settings).all():
            raise ValueError("settings must be five finite numbers")
        weight, most, power, slope, offset = settings.tolist()
        if not (0 <= weight <= 1 and most >= 1 and power >= 0 and slope > 0):
            raise ValueError(
                "settings must be a weight in [0, 1], a number of features, a power, a slope and an offset"
            )
        absent, log_priors = source.take("absent", ("F32",), 1), source.take("log_shares", ("F32",), 1)
        if len(absent) != source.n_labels or len(log_priors) != source.n_labels:
            raise ValueError(
                f"absent and log_shares must have one entry for each of {source.n_labels} labels"
            )
        log_odds = PackedVectors.from_tensors(source, source.n_labels, source.n_features)
        _ = log_odds.kernel  # validates the indices
        counts = np.empty(0, np.int64)
        if source.has("feature_counts"):
            counts = source.take("feature_counts", UNSIGNED, 1)
            if len(counts) != source.n_features:
                raise ValueError(
                    f"feature_counts must have one entry for each of {source.n_features} features"
                )
        stage = cls(log_odds, absent, log_priors, int(most), power, weight, (slope, offset), counts)
        _ = stage.kernel  # validates indices and values
        return stage


def presence(X: Features) -> sp.csr_matrix:
    """Which features are not zero, as 1.0: float64, so that rows are counted exactly."""
    X = sp.csr_matrix(X, dtype=np.float32)
    return sp.csr_matrix(((X.data != 0).astype(np.float64), X.indices, X.indptr), shape=X.shape)


def _weighted_counts(X: sp.csr_matrix, weights: TrainingWeights, n_jobs: int) -> Array:
    """Σ weights of the rows in which each feature is not zero, float64."""
    if weights.rows is None:
        return feature_counts(X, n_jobs).astype(np.float64)
    there = presence(X)
    return np.bincount(there.indices, weights=weights.weighted(there).data, minlength=there.shape[1])


def fit_platt(
    margins: Array, truth: Array, weights: Array | None = None, n_jobs: int = 1
) -> tuple[float, float]:
    """Slope and offset of Platt scaling; (1, 0) if all candidates are relevant, or none."""
    if truth.all() or not truth.any():
        return 1.0, 0.0
    # four digits: the last ones may depend on the C library
    slope, offset = (float(f"{number:.4g}") for number in fit_logistic(margins, truth, weights, n_jobs))
    # scores must increase with the margin
    return (slope, offset) if slope > 0 else (1.0, 0.0)
