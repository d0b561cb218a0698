"""Forests of axis-aligned trees with vector leaves: the worker program. Every worker gets all rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sparseleaf._settings import Settings
from sparseleaf.binning import BinThresholds, bin_features
from sparseleaf.distributed.failures import run_together
from sparseleaf.objectives.targets import DenseTargets
from sparseleaf.progress import phase
from sparseleaf.training.bagging import Bagging
from sparseleaf.training.dense import DenseProgram, with_categories
from sparseleaf.training.dense_partition import common_base_score
from sparseleaf.training.forest import Forest, ForestGrowth, ForestPlan, ForestRows, bootstraps
from sparseleaf.training.partition import find_common_thresholds

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.distributed.communicator import Communicator
    from sparseleaf.training.dense import Description
    from sparseleaf.training.dense_partition import DensePartition


@dataclass(frozen=True)
class PreparedForest:
    """Result of preparation, for the process that called ``fit``; ``rows`` only for out-of-bag predictions."""

    thresholds: BinThresholds
    base_score: Array | None
    rows: ForestRows | None


@dataclass(frozen=True)
class ForestProgram:
    """See :class:`~sparseleaf.training.program.WorkerProgram`."""

    params: Settings
    predicts_labels: bool

    def describe(self, comm: Communicator, part: DensePartition) -> Description:
        """See :class:`~sparseleaf.training.program.WorkerProgram`."""
        return DenseProgram(self.params, "rows", None, self.predicts_labels).describe(comm, part)

    def prepare(
        self, comm: Communicator, part: DensePartition, plan: ForestPlan
    ) -> tuple[PreparedForest, ForestGrowth]:
        """See :class:`~sparseleaf.training.program.WorkerProgram`."""
        params, problem = self.params, plan.problem
        start = common_base_score(comm, part, problem.loss, problem.rows.n_rows)
        if plan.labels and not problem.form.has_unknown:
            start = np.zeros_like(start)  # absent classes have an exact frequency of 0
        with phase("binning"):
            thresholds = find_common_thresholds(comm, part, [part.features], params.max_bins, plan.seed)
            thresholds = with_categories(thresholds, problem.categories)
            bins = run_together(
                comm, lambda: bin_features([part.features], thresholds, np.uint8, part.n_jobs)
            )
            if comm.size > 1:
                gathered = comm.allgather((bins, part.targets))
                bins = np.concatenate([one for one, _ in gathered])
                targets = DenseTargets.join([one for _, one in gathered])
            else:
                targets = part.targets
        bagging = Bagging.of(
            targets, bootstrap=bootstraps(params), subsample=params.subsample, seed=plan.seed
        )
        rows = ForestRows(bins, targets, bagging)
        forest = Forest.of(params, plan, thresholds, rows, start, part.n_jobs)
        base_score = None if plan.labels else start
        prepared = PreparedForest(thresholds, base_score, rows if params.oob_score else None)
        return prepared, ForestGrowth(comm, forest, params.n_trees, part.n_jobs)
