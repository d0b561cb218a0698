"""Training examples of labels without rows, for a booster that is to score them by their names.

Validation rows rarely have a label without training rows if labels are few. Then a copy of the rows is added in which
some labels are treated as if they had none: their candidates have no other evidence than their names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sparseleaf._arrays import hash_numbers
from sparseleaf.rerank.evidence import COLUMNS, Candidates
from sparseleaf.rerank.models import NO_ROWS
from sparseleaf.rerank.parts import PART_COLUMNS

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.rerank.evidence import Evidence

ENOUGH = 30
"""Number of true candidates without training rows, found by name, from which no copy is needed."""

ONE_IN = 3
"""The inverse of the fraction of labels that are treated as if they had no rows."""

STREAM = 11
"""Of the hash that selects these labels."""


def with_unseen(
    evidence: Evidence, candidates: Candidates, truth: Array, weights: Array | None, seed: int
) -> tuple[Candidates, Array, Array | None]:
    """Candidates, which of them are relevant, and weights of the rows, with a copy if it is needed."""
    if evidence.side is None or evidence.side.names is None:
        return candidates, truth, weights
    named = evidence.side.names.shares(candidates.table[:, len(COLUMNS) :]) > 0
    without_rows = evidence.label_counts[candidates.labels] == 0
    if np.count_nonzero(truth & named & without_rows) >= ENOUGH:
        return candidates, truth, weights
    hidden = hash_numbers(candidates.labels, seed, STREAM) % np.uint64(ONE_IN) == 0
    kept = named | ~hidden
    table = candidates.table.copy()
    table[hidden, : len(COLUMNS)] = _no_rows(evidence.places)
    if evidence.side.parts is not None:  # their models may have been trained on no other rows
        table[hidden, -len(PART_COLUMNS) :] = NO_ROWS
    row = np.repeat(np.arange(len(candidates.starts) - 1), np.diff(candidates.starts))[kept]
    sizes = np.bincount(row, minlength=len(candidates.starts) - 1)
    joined = Candidates(
        np.concatenate((candidates.starts, candidates.starts[-1] + np.cumsum(sizes))),
        np.concatenate((candidates.labels, candidates.labels[kept])),
        np.concatenate((candidates.table, table[kept])),
    )
    both = None if weights is None else np.concatenate((weights, weights))
    return joined, np.concatenate((truth, truth[kept])), both


def _no_rows(places: int) -> Array:
    """The ``COLUMNS`` of a candidate without training rows."""
    values = dict.fromkeys(COLUMNS, 0.0) | {"log place": np.log1p(places), "margin": NO_ROWS}
    return np.array([values[name] for name in COLUMNS], np.float32)
