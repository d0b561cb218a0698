"""Split quality of LdSM trees per level: objective J, balance and purity.

Input: ``split_records_`` of a fitted :class:`~sparseleaf.LdSMClassifier`. :mod:`sparseleaf.routed.plotting` plots the
results.
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
    """Means over the splits at one depth of all trees.

    Attributes
    ----------
    depth : int
        Depth of the nodes, 0 for the roots.
    n_splits : int
        Number of splits.
    n_rows : float
        Mean number of rows of a split node.
    objective : float
        Mean objective J after the last epoch.
    balance : float
        Mean β of the paper's definition 1; 0 is perfectly balanced.
    purity : float
        Mean α of the paper's definition 2; 0 is perfectly pure.

    Examples
    --------
    >>> from sparseleaf import LdSMClassifier
    >>> from sparseleaf.data import make_xc
    >>> from sparseleaf.routed.diagnostics import level_summary
    >>> X, Y = make_xc(200, 50, 20, labels_per_row=2, nnz_per_row=8)
    >>> clf = LdSMClassifier(n_trees=2, max_nodes=15).fit(X, Y)
    >>> root = level_summary(clf.split_records_)[0]
    >>> root.depth, root.n_splits, root.n_rows
    (0, 2, 200.0)
    """

    depth: int
    n_splits: int
    n_rows: float
    objective: float
    balance: float
    purity: float


def level_summary(records: Sequence[Sequence[SplitRecord]]) -> list[Level]:
    """Summarise the splits of LdSM trees by depth.

    Parameters
    ----------
    records : sequence of sequences of SplitRecord
        ``split_records_`` of a fitted :class:`~sparseleaf.LdSMClassifier`: one sequence per tree.

    Returns
    -------
    levels : list of Level
        One entry per depth with splits.

    Examples
    --------
    >>> from sparseleaf import LdSMClassifier
    >>> from sparseleaf.data import make_xc
    >>> from sparseleaf.routed.diagnostics import level_summary
    >>> X, Y = make_xc(200, 50, 20, labels_per_row=2, nnz_per_row=8)
    >>> clf = LdSMClassifier(n_trees=2, max_nodes=15).fit(X, Y)
    >>> [level.depth for level in level_summary(clf.split_records_)][:2]
    [0, 1]
    """
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
    """Mean objective J after every epoch by depth; nodes that stopped early keep their last value.

    Parameters
    ----------
    records : sequence of sequences of SplitRecord
        ``split_records_`` of a fitted :class:`~sparseleaf.LdSMClassifier`: one sequence per tree.

    Returns
    -------
    objective : dict of int to list of float
        Depth to the mean of J after every epoch.

    Examples
    --------
    >>> from sparseleaf import LdSMClassifier
    >>> from sparseleaf.data import make_xc
    >>> from sparseleaf.routed.diagnostics import objective_by_level
    >>> X, Y = make_xc(200, 50, 20, labels_per_row=2, nnz_per_row=8)
    >>> clf = LdSMClassifier(n_trees=2, max_nodes=15).fit(X, Y)
    >>> min(objective_by_level(clf.split_records_))
    0
    """
    means = {}
    for depth, splits in _by_depth(records):
        passes = max(len(split.objective) for split in splits)
        padded = [
            split.objective + split.objective[-1:] * (passes - len(split.objective)) for split in splits
        ]
        means[depth] = np.mean([values for values in padded if values], axis=0).tolist()
    return means


def _by_depth(records: Sequence[Sequence[SplitRecord]]) -> list[tuple[int, list[SplitRecord]]]:
    levels: dict[int, list[SplitRecord]] = defaultdict(list)
    for tree in records:
        for split in tree:
            levels[split.depth].append(split)
    return sorted(levels.items())
