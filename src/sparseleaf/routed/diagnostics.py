"""How well the splits of routed trees are: J, balance and purity, level by level.

In: the split records of a fitted :class:`~sparseleaf.LdSMClassifier`, ``split_records_``. Out: numbers a level, which
:mod:`sparseleaf.plotting` draws.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparseleaf.routed.ensemble import SplitRecord

__all__ = ["Level", "SplitRecord", "level_summary", "objective_by_level"]


@dataclass(frozen=True)
class Level:
    """The splits at one depth, over all trees.

    Attributes
    ----------
    depth : int
        0 is the roots.
    n_splits : int
    n_rows : float
        Rows of a split node, mean.
    objective : float
        J after the last pass, mean.
    balance : float
        β of the paper's definition 1, mean over splits: 0 is perfectly balanced.
    purity : float
        α of the paper's definition 2, mean over splits: 0 is perfectly pure.
    """

    depth: int
    n_splits: int
    n_rows: float
    objective: float
    balance: float
    purity: float


def level_summary(records: Sequence[Sequence[SplitRecord]]) -> list[Level]:
    """One entry for every depth that has splits; ``records`` has a list for every tree."""
    return [
        Level(
            depth,
            len(splits),
            float(np.mean([split.n_rows for split in splits])),
            float(np.mean([split.objective[-1] for split in splits if split.objective])),
            float(np.mean([split.balance for split in splits])),
            float(np.mean([split.purity for split in splits])),
        )
        for depth, splits in _by_depth(records)
    ]


def objective_by_level(records: Sequence[Sequence[SplitRecord]]) -> dict[int, list[float]]:
    """J after every pass, mean over the nodes of a level; one that stopped early keeps its last value."""
    found = {}
    for depth, splits in _by_depth(records):
        passes = max(len(split.objective) for split in splits)
        padded = [
            split.objective + split.objective[-1:] * (passes - len(split.objective)) for split in splits
        ]
        found[depth] = np.mean([values for values in padded if values], axis=0).tolist()
    return found


def _by_depth(records: Sequence[Sequence[SplitRecord]]) -> list[tuple[int, list[SplitRecord]]]:
    levels: dict[int, list[SplitRecord]] = defaultdict(list)
    for tree in records:
        for split in tree:
            levels[split.depth].append(split)
    return sorted(levels.items())
