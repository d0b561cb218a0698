"""A part with dense targets, and what all parts agree on before the first tree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sparseleaf.binning import bin_features
from sparseleaf.boosting.columns import fixed_point_scales
from sparseleaf.boosting.dense_losses import (
    DenseTargets,
    TargetForm,
    TargetSums,
    base_quantiles,
    largest_targets,
    target_sums,
)
from sparseleaf.data.targets import form_of
from sparseleaf.engine.dense import DenseShard
from sparseleaf.engine.part import Part
from sparseleaf.engine.shard import even_ranges
from sparseleaf.estimators.multi_targets import KnownTargets, with_labels
from sparseleaf.fingerprint import fingerprint
from sparseleaf.objectives.dense import gradient_sums
from sparseleaf.objectives.search import minimise

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.binning import Cuts
    from sparseleaf.boosting.dense_losses import Loss
    from sparseleaf.boosting.ranking_losses import Queries
    from sparseleaf.data.categories import Categories
    from sparseleaf.engine.shards import Shards
    from sparseleaf.fingerprint import Prints
    from sparseleaf.model import Model


@dataclass(frozen=True)
class DenseInfo:
    """What a part's targets are like.

    Attributes
    ----------
    categories : dict of int to list
        By feature, the names of its categories.
    known : KnownTargets
    form : TargetForm
    query_ids : array or None
        The queries that it has, where rows have queries.
    lowest : float
        The smallest target.
    """

    categories: Categories
    known: KnownTargets
    form: TargetForm
    query_ids: Array | None
    lowest: float


class DensePart(Part):
    """Rows of features with dense targets.

    Parameters
    ----------
    raw : DataFrame, array or sparse matrix
        Features before their categories have numbers; ``encode`` makes checked features of them.
    categories : dict of int to list
        Those of the part.
    checked : features and names of their columns
        What ``encode`` makes of ``raw`` where there are no categories.
    queries : Queries or None
        Of a ranking.
    """

    def __init__(
        self,
        raw: Any,
        categories: Categories,
        encode: Callable[[Any, Categories], tuple[Features, list[str] | None]],
        known: KnownTargets,
        targets: DenseTargets,
        n_jobs: int,
        checked: tuple[Features, list[str] | None],
    ) -> None:
        super().__init__(*checked, n_jobs)
        self._raw = raw
        self._encode = encode
        self._categories = categories
        self._known = known
        self.targets = targets
        self.queries: Queries | None = None
        self.first_query = 0

    def describe_targets(self) -> DenseInfo:
        """What there is to fit."""
        return DenseInfo(
            self._categories,
            self._known,
            self.targets.form,
            None if self.queries is None else self.queries.ids,
            float(np.nanmin(self.targets.values, initial=np.inf)) if len(self.targets.values) else np.inf,
        )

    def form(self) -> dict[str, Any]:
        """See :class:`Part`."""
        return super().form() | form_of(self._known.kind, self._known.n_outputs)

    def encode_features(self, categories: Categories) -> bool:
        """Check the features, with the categories of all parts as numbers."""
        if categories != self._categories:
            self.features, self.names = self._encode(self._raw, categories)
            self.columns = [self.features]
        self._raw = None
        return True

    def relabel(self, known: KnownTargets, unknown: bool) -> None:
        """Take the classes or labels that all parts have together."""
        self.targets = with_labels(self.targets, self._known, known, unknown)
        self._known = known

    def fingerprints(self) -> Prints:
        """Fingerprints of the rows, by argument."""
        targets = self.targets
        y = targets.values if len(targets.values) else targets.classes
        found = {"X": self.features, "y": y}
        if len(targets.weights):
            found["sample_weight"] = targets.weights
        prints = {name: (rows.shape, fingerprint(rows, self.first_row)) for name, rows in found.items()}
        if self.queries is not None:
            of_rows = self.queries.of_rows() + self.first_query
            prints["qid"] = of_rows.shape, fingerprint(of_rows, self.first_row)
            weights = self.queries.weights
            if len(weights):
                prints["sample_weight"] = weights.shape, fingerprint(weights, self.first_query)
        return prints

    def number_queries(self, sizes: list[int]) -> None:
        """Queries are numbered on from those of the parts before."""
        self.first_query = sum(sizes[: self.place])

    def largest_targets(self) -> Array:
        """See :func:`~sparseleaf.boosting.dense_losses.largest_targets`."""
        return largest_targets(self.targets)

    def target_sums(self, scales: Array) -> Array:
        """See :func:`~sparseleaf.boosting.dense_losses.target_sums`."""
        return target_sums(self.targets, scales)

    def gradient_sums(self, loss: Loss, score: Array, scale: Array | None = None) -> Array:
        """See :func:`~sparseleaf.objectives.dense.gradient_sums`."""
        return gradient_sums(loss, self.targets, score, scale, self.n_jobs)

    def base_quantiles(self, share: float) -> Array:
        """The quantile of every output's targets."""
        return base_quantiles(self.targets, share)

    def base_quantiles_give(self, share: float) -> list[Any]:
        """Targets, parted by the parts that look at the outputs."""
        weights = self.targets.weights
        return [
            (self.targets.values[:, a:b], weights[:, a:b] if weights.shape[1] > 1 else weights)
            for a, b in even_ranges(np.ones(self.targets.n_outputs), self.n_parts)
        ]

    def base_quantiles_take(self, pieces: list[Any], share: float) -> Array:
        """The quantiles of this part's share of the outputs."""
        values, weights = (np.concatenate(found) for found in zip(*pieces, strict=True))
        return base_quantiles(DenseTargets(values, self.targets.classes, weights, values.shape[1]), share)

    def make_shard(
        self,
        cuts: Cuts,
        make_loss: Callable[[Queries | None], Loss],
        matrix: bool,
        base_score: Array,
        before: Model | None,
        draw_queries: bool,
    ) -> None:
        """Make bins of the features, and scores to start from; rows may be drawn by query."""
        bins = bin_features(self.columns, cuts, np.uint8, self.n_jobs)
        if before is not None:
            scores = before.dense(self.features, None, self.n_jobs)
            if not np.isfinite(scores).all():
                raise ValueError("init_model or warm_start: the model's scores exceed the range of float32.")
        else:
            scores = np.repeat(base_score[None, :], bins.shape[0], axis=0)
        draws = None
        if draw_queries and self.queries is not None:
            draws = self.queries.of_rows() + self.first_query
        self._make(
            DenseShard(
                bins,
                cuts.missing_bins,
                self.targets,
                scores,
                make_loss(self.queries),
                self.n_jobs,
                matrix=matrix,
                first_row=self.first_row,
                draws=draws,
            )
        )


def count_queries(parts: list[Array | None]) -> list[int]:
    """Queries of every part, given their ids; all rows of a query must be in one."""
    seen: dict[Any, int] = {}
    for number, ids in enumerate(parts):
        for name in [] if ids is None else ids.tolist():
            if seen.setdefault(name, number) != number:
                raise ValueError(
                    f"qid: found query {name!r} in parts {seen[name]} and {number}; wanted all its rows in one."
                )
    return [0 if ids is None else len(ids) for ids in parts]


def agree_on_base(shards: Shards, loss: Loss, n_rows: int) -> Array:
    """Where boosting starts."""
    return loss.base_score(_AllTargets(shards, n_rows))


@dataclass(frozen=True)
class _AllTargets:
    """Statistics of the targets of all parts: see :class:`~sparseleaf.objectives.targets.TargetStatistics`."""

    shards: Shards
    n_rows: int

    def sums(self) -> TargetSums:
        largest = np.max(self.shards.gather("largest_targets"), axis=0)
        scales = np.stack([fixed_point_scales(row, self.n_rows) for row in largest])
        return TargetSums(*(self.shards.sum("target_sums", scales) / scales))

    def quantiles(self, level: float) -> Array:
        return np.concatenate(self.shards.exchange("base_quantiles", level))

    def minimiser(self, objective: Loss) -> Array:
        def slope(score: Array) -> Array:
            largest = np.max(self.shards.gather("gradient_sums", objective, score), axis=0)
            scales = fixed_point_scales(largest, self.n_rows)
            slopes: Array = self.shards.sum("gradient_sums", objective, score, scales) / scales
            return slopes

        return minimise(slope, len(self.sums().weights))
