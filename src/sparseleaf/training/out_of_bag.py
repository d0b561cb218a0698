"""Out-of-bag predictions of a forest: for every training row, the mean over the trees without it in their sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sparseleaf import _kernels
from sparseleaf.progress import phase

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.objectives.targets import DenseTargets
    from sparseleaf.training.boosted import BoostedTree
    from sparseleaf.training.forest import ForestRows

BLOCK_ROWS = 4096
"""Rows per block where this bounds memory."""


@dataclass(frozen=True)
class OutOfBag:
    """Out-of-bag predictions.

    Attributes
    ----------
    scores : float32 array, shape (n_rows, n_outputs)
        NaN for rows that are in the samples of all trees.
    targets : DenseTargets
    """

    scores: Array
    targets: DenseTargets


def predict_out_of_bag(
    rows: ForestRows, trees: Sequence[BoostedTree], base_score: Array | None, n_jobs: int
) -> OutOfBag:
    """Out-of-bag predictions of the training rows; memory does not grow with the number of trees."""
    n_rows = len(rows.bins)
    sums, counts = np.zeros((n_rows, rows.targets.n_outputs), np.float32), np.zeros(n_rows, np.int64)
    with phase("out-of-bag predictions", len(trees)) as advance:
        for number, (tree, vectors) in enumerate(trees):
            oob = rows.bagging.oob_rows(number)
            counts[oob] += 1
            leaf_of_row = np.zeros(n_rows, np.int32)
            if len(oob):
                _kernels.route_binned(
                    rows.bins,
                    oob,
                    tree.feature,
                    tree.bin,
                    tree.missing_bin,
                    tree.missing_left,
                    tree.set_of,
                    tree.sets,
                    tree.child,
                    leaf_of_row,
                    n_jobs,
                )
            for begin in range(0, len(oob), BLOCK_ROWS):
                block = oob[begin : begin + BLOCK_ROWS]
                added = sums[block]
                _kernels.add_leaves(
                    added, leaf_of_row[block], vectors.indptr, vectors.labels, vectors.values, n_jobs
                )
                sums[block] = added
            advance(number + 1, "")
    scores = np.full_like(sums, np.nan)
    seen = counts > 0
    scores[seen] = sums[seen] / counts[seen, None].astype(np.float32)
    if base_score is not None:
        scores += base_score
    return OutOfBag(scores, rows.targets)
