"""Partitions with dense targets, and their statistics over all workers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sparseleaf._arrays import even_ranges
from sparseleaf._threads import fill_rows
from sparseleaf.binning import bin_features
from sparseleaf.data.targets import form_of
from sparseleaf.data.weights import label_weights
from sparseleaf.fingerprint import fingerprint
from sparseleaf.objectives.dense import gradient_sums
from sparseleaf.objectives.search import minimise
from sparseleaf.objectives.targets import (
    DenseTargets,
    KnownValues,
    TargetForm,
    TargetSums,
    base_quantiles,
    largest_targets,
    target_sums,
)
from sparseleaf.training.columns import fixed_point_scales
from sparseleaf.training.dense_targets import KnownTargets, times_label_weights, with_labels
from sparseleaf.training.partition import Partition

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.binning import BinThresholds
    from sparseleaf.data.categories import Categories
    from sparseleaf.distributed.communicator import Communicator
    from sparseleaf.fingerprint import Prints
    from sparseleaf.model import Model
    from sparseleaf.objectives.dense import DenseObjective
    from sparseleaf.objectives.queries import Queries
    from sparseleaf.training.dense_shard import DenseShard


@dataclass(frozen=True)
class DenseInfo:
    """Properties of a partition's targets.

    Attributes
    ----------
    categories : dict of int to list
        Category names by feature.
    known : KnownTargets
    form : TargetForm
    query_ids : array or None
        Ids of its queries, for ranking.
    lowest : float
        Minimum of the targets.
    """

    categories: Categories
    known: KnownTargets
    form: TargetForm
    query_ids: Array | None
    lowest: float


class DensePartition(Partition):
    """Rows of features with dense targets.

    Parameters
    ----------
    raw : DataFrame, array or sparse matrix
        Features before categories are encoded; ``encode`` validates and encodes them.
    categories : dict of int to list
        Categories of this partition.
    checked : features and names of their columns
        Result of ``encode`` with the categories of this partition.
    queries : Queries or None
        For ranking.
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
        """Properties of the targets, to be gathered over all workers."""
        return DenseInfo(
            self._categories,
            self._known,
            self.targets.form,
            None if self.queries is None else self.queries.ids,
            KnownValues.of(self.targets.values, self.n_jobs).lowest,
        )

    def form(self) -> dict[str, Any]:
        """See :class:`Partition`."""
        return super().form() | form_of(self._known.kind, self._known.n_outputs)

    def encode_features(self, categories: Categories) -> None:
        """Encode the features with the categories of all partitions."""
        if categories != self._categories:
            self.features, self.names = self._encode(self._raw, categories)
        self._raw = None

    def relabel(self, known: KnownTargets, unknown: bool) -> None:
        """Encode classes or labels by the union of all partitions."""
        self.targets = with_labels(self.targets, self._known, known, unknown)
        self._known = known

    def weigh_labels(self, comm: Communicator, class_weight: Any, n_rows: int) -> TargetForm:
        """Multiply the weights by those of the classes or labels, over all workers; returns the new form."""
        sums = _AllTargets(comm, self.targets, n_rows, self.n_jobs).sums()
        labels = label_weights(class_weight, self._known.names, sums.weighted)
        if labels is not None:
            self.targets = times_label_weights(self.targets, labels)
        return self.targets.form

    def fingerprints(self) -> Prints:
        """Fingerprints of the rows, by argument of ``fit``."""
        targets = self.targets
        y = targets.values if len(targets.values) else targets.classes
        arrays = {"X": self.features, "y": y}
        if len(targets.weights):
            arrays["sample_weight"] = targets.weights
        prints = {name: (rows.shape, fingerprint(rows, self.first_row)) for name, rows in arrays.items()}
        if self.queries is not None:
            of_rows = self.queries.of_rows() + self.first_query
            prints["qid"] = of_rows.shape, fingerprint(of_rows, self.first_row)
            weights = self.queries.weights
            if len(weights):
                prints["sample_weight"] = weights.shape, fingerprint(weights, self.first_query)
        return prints

    def fold_keys(self) -> Array:
        """Global index of the row, or for ranking of the query, of every row: what folds are drawn by."""
        if self.queries is not None:
            return self.queries.of_rows() + self.first_query
        return np.arange(self.first_row, self.first_row + self.targets.n_rows)

    def make_shard(
        self,
        thresholds: BinThresholds,
        make_loss: Callable[[Queries | None], DenseObjective],
        matrix: bool,
        base_score: Array,
        init_model: Model | None,
        draw_queries: bool,
        shard_class: type[DenseShard],
    ) -> DenseShard:
        """Bin the rows and initialise their scores; ``draw_queries`` samples whole queries."""
        bins = bin_features([self.features], thresholds, np.uint8, self.n_jobs)
        if init_model is not None:
            scores = init_model.dense(self.features, None, self.n_jobs)
            if not np.isfinite(scores).all():
                raise ValueError(
                    "The scores of the model to continue training from exceed the range of float32."
                )
        else:
            scores = np.empty((bins.shape[0], len(base_score)), base_score.dtype)
            fill_rows(scores, base_score, self.n_jobs)
        draws = None
        if draw_queries and self.queries is not None:
            draws = self.fold_keys()
        return shard_class(
            bins,
            thresholds.missing_bins,
            self.targets,
            scores,
            make_loss(self.queries),
            self.n_jobs,
            matrix=matrix,
            first_row=self.first_row,
            draws=draws,
        )


def count_queries(parts: list[Array | None]) -> list[int]:
    """Number of queries of every partition; ValueError if a query is in several."""
    seen: dict[Any, int] = {}
    for number, ids in enumerate(parts):
        for name in [] if ids is None else ids.tolist():
            if seen.setdefault(name, number) != number:
                raise ValueError(
                    "All rows of a query must be in the same part."
                    f" Got query {name!r} in parts {seen[name]} and {number} instead."
                )
    return [0 if ids is None else len(ids) for ids in parts]


def common_base_score(comm: Communicator, part: DensePartition, loss: DenseObjective, n_rows: int) -> Array:
    """The base score of boosting, over all workers."""
    return loss.base_score(_AllTargets(comm, part.targets, n_rows, part.n_jobs))


def common_output_weights(comm: Communicator, part: DensePartition, base_score: Array, n_rows: int) -> Array:
    """1 / variance of the targets of every output around the base score, over all workers; 1 for constant ones."""
    weights = part.targets.known_weights()
    squares = weights * np.nan_to_num(part.targets.values.astype(np.float64) - base_score) ** 2
    totals = []
    for each in (squares, weights):
        scales = fixed_point_scales(comm.allreduce(each.max(axis=0, initial=0.0), "max"), n_rows)
        totals.append(comm.allreduce(np.rint(each * scales).astype(np.int64).sum(axis=0)) / scales)
    return np.where(totals[0] > 0, totals[1] / np.where(totals[0] > 0, totals[0], 1.0), 1.0)


@dataclass(frozen=True)
class _AllTargets:
    """Statistics of all workers' targets: see :class:`~sparseleaf.objectives.targets.TargetStatistics`."""

    comm: Communicator
    targets: DenseTargets
    n_rows: int
    n_jobs: int

    def sums(self) -> TargetSums:
        largest = self.comm.allreduce(largest_targets(self.targets, self.n_jobs), "max")
        scales = np.stack([fixed_point_scales(row, self.n_rows) for row in largest])
        return TargetSums(*(self.comm.allreduce(target_sums(self.targets, scales, self.n_jobs)) / scales))

    def quantiles(self, level: float) -> Array:
        """Quantiles of all outputs, which are divided among the workers."""
        pieces = self.comm.alltoall(_targets_by_output(self.targets, self.comm.size))
        values, weights = (np.concatenate(arrays) for arrays in zip(*pieces, strict=True))
        assigned = DenseTargets(values, self.targets.classes, weights, values.shape[1])
        return np.concatenate(self.comm.allgather(base_quantiles(assigned, level)))

    def minimiser(self, objective: DenseObjective) -> Array:
        def slope(score: Array) -> Array:
            largest = gradient_sums(objective, self.targets, score, None, self.n_jobs)
            scales = fixed_point_scales(self.comm.allreduce(largest, "max"), self.n_rows)
            sums = gradient_sums(objective, self.targets, score, scales, self.n_jobs)
            slopes: Array = self.comm.allreduce(sums) / scales
            return slopes

        return minimise(slope, len(self.sums().weights))


def _targets_by_output(targets: DenseTargets, n: int) -> list[tuple[Array, Array]]:
    """Targets and weights, divided by outputs."""
    weights = targets.weights
    return [
        (targets.values[:, a:b], weights[:, a:b] if weights.shape[1] > 1 else weights)
        for a, b in even_ranges(np.ones(targets.n_outputs), n)
    ]
