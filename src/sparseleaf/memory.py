"""Memory estimates of training, before it starts. The formula is explained in ``docs/memory.md``."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any

from sparseleaf._limits import remaining_memory
from sparseleaf.training.builder import EXTRA_SLOTS, MIN_SLOTS
from sparseleaf.training.columns import padded_width

GIB = 2.0**30


@dataclass(frozen=True)
class Estimate(ABC):
    """Estimated memory of training in bytes, in addition to X and y, by purpose."""

    @property
    @abstractmethod
    def certain(self) -> int:
        """Memory that is allocated in any case, independent of the trees."""

    @property
    def total(self) -> int:
        """Upper bound of the memory."""
        return sum(getattr(self, field.name) for field in fields(self))

    def __str__(self) -> str:
        parts = ", ".join(f"{field.name} {_readable(getattr(self, field.name))}" for field in fields(self))
        return f"memory at most {_readable(self.total)} ({parts})"


@dataclass(frozen=True)
class MemoryEstimate(Estimate):
    """Memory estimate of gradient boosted trees, in bytes.

    Attributes
    ----------
    features : int
        Projection matrix and projected features, during binning.
    bins : int
        Binned features: one byte per value, four with ``split="exact"``.
    residuals : int
        Sketched gradients: float32 and int16, ``sketch_dim`` columns.
    histograms : int
        Histogram cache, upper bound.
    scores : int
        Stored (row, label) scores, upper bound: labels of the row plus ``leaf_labels`` per tree; usually far fewer.
    model : int
        Trees, upper bound with all leaves full.

    Examples
    --------
    >>> from sparseleaf import MultiGBDTRegressor
    >>> estimate = MultiGBDTRegressor(n_trees=50).estimate_memory([[0.0]] * 100, [[0.0, 1.0]] * 100)
    >>> estimate.bins
    100
    """

    features: int
    bins: int
    residuals: int
    histograms: int
    scores: int
    model: int

    @property
    def certain(self) -> int:
        """Memory that is allocated in any case, independent of the trees."""
        return self.features + self.bins + self.residuals

    def __add__(self, other: MemoryEstimate) -> MemoryEstimate:
        return MemoryEstimate(
            *(getattr(self, one.name) + getattr(other, one.name) for one in fields(MemoryEstimate))
        )


@dataclass(frozen=True)
class RoutedEstimate(Estimate):
    """Memory estimate of routed trees (LdSM, sketch forest), in bytes, assuming balanced trees and single routing.

    Attributes
    ----------
    work : int
        Working memory of the threads at the root nodes, the largest ones.
    rows : int
        Row indices of the nodes of trees that grow in parallel.
    trees : int
        Grown trees, upper bound: routers with weights for all features of their rows, and label counts.
    model : int
        Arrays of the model, which are created while the trees still exist.

    Examples
    --------
    >>> from sparseleaf import SketchForestClassifier
    >>> from sparseleaf.data import make_xc
    >>> estimate = SketchForestClassifier().estimate_memory(*make_xc(1_000, 50, 200))
    >>> estimate.total > estimate.certain
    True
    """

    work: int
    rows: int
    trees: int
    model: int

    @property
    def certain(self) -> int:
        """Memory that is allocated in any case, independent of the trees."""
        return self.work + self.rows


def estimate(
    n_rows: int,
    n_features: int,
    n_labels: int,
    target_entries: int,
    *,
    input_features: int,
    projected: int,
    max_bins: int,
    sketch_width: int,
    exact: bool,
    n_trees: int,
    leaf_labels: int | None,
    max_leaves: int,
    histogram_budget: int,
    weighted: bool = False,
) -> MemoryEstimate:
    """Apply the formula of ``docs/memory.md``; ``n_features`` is the number of features after the projection."""
    k = n_labels if leaf_labels is None else min(leaf_labels, n_labels)
    columns = 0 if exact else padded_width(sketch_width + weighted)  # the hessian is a column, too
    histograms = _histograms(n_features, max_bins, columns, max_leaves, histogram_budget)
    entries = min(target_entries + n_rows * n_trees * k, n_rows * n_labels)
    return MemoryEstimate(
        features=projected * (4 * n_rows + 6 * input_features),
        bins=(4 if exact else 1) * n_rows * n_features,
        residuals=(0 if exact else n_rows * (4 * sketch_width + 2 * columns)) + 4 * n_rows * weighted,
        histograms=0 if exact else histograms,
        scores=8 * entries,
        model=n_trees * max_leaves * (8 * k + 34),
    )


def estimate_dense(
    n_rows: int,
    n_features: int,
    n_outputs: int,
    *,
    hessian_columns: int,
    width: int,
    sketch_width: int,
    max_bins: int,
    n_trees: int,
    n_models: int,
    leaf_outputs: int | None,
    max_leaves: int,
    histogram_budget: int,
) -> MemoryEstimate:
    """The formula of ``docs/memory.md`` for dense losses: targets, scores, gradients and hessians of all outputs."""
    columns = padded_width(width)
    k = n_outputs if leaf_outputs is None else min(leaf_outputs, n_outputs)
    return MemoryEstimate(
        features=0,
        bins=n_rows * n_features,
        residuals=n_rows * (4 * (n_outputs + hessian_columns) + 4 * sketch_width + 2 * columns),
        histograms=_histograms(n_features, max_bins, columns, max_leaves, histogram_budget),
        scores=4 * n_rows * n_outputs * (1 + n_models),
        model=n_trees * max_leaves * (8 * k + 34),
    )


def estimate_multi_forest(
    n_rows: int,
    n_features: int,
    n_outputs: int,
    *,
    hessian_columns: int,
    sketch_width: int,
    width: int,
    n_trees: int,
    max_leaves: int,
    leaf_outputs: int,
    oob: bool,
    n_jobs: int,
) -> MemoryEstimate:
    """The formula of ``docs/memory.md`` for forests with dense outputs, with a tree per thread."""
    columns = 2 * width + 4 * sketch_width
    of_trees = n_rows * (4 + 2 * width + 6 + (columns if sketch_width else 0))
    return MemoryEstimate(
        features=0,
        bins=2 * n_rows * n_features,
        residuals=n_rows * (4 * (n_outputs + hessian_columns) + (0 if sketch_width else columns)),
        histograms=n_jobs * of_trees,
        scores=(12 if oob else 8) * n_rows * n_outputs,
        model=n_trees * max_leaves * (8 * leaf_outputs + 34),
    )


def estimate_ldsm(
    n_rows: int,
    n_features: int,
    n_labels: int,
    feature_entries: int,
    target_entries: int,
    *,
    dense: bool,
    copy_entries: int,
    arity: int,
    max_nodes: int,
    min_samples_leaf: int,
    leaf_labels: int | None,
    n_trees: int,
    n_parallel: int,
    n_jobs: int,
) -> RoutedEstimate:
    """The formula of ``docs/memory.md`` for LdSM, with ``n_parallel`` trees at a time."""
    met, labels = min(n_features, feature_entries), min(n_labels, target_entries)
    tables = 8 * (n_features + n_labels) + 4 * met * (1 + 2 * arity + 6 * dense) + 16 * labels * (arity + 1)
    copied = feature_entries if dense else min(feature_entries, copy_entries)
    copies = 8 * copied + 4 * target_entries + 20 * n_rows
    listed = (8 * n_rows + 4 * feature_entries) * dense  # dense rows are converted to sparse ones
    inner = min((max_nodes - 1) // arity, (max(1, n_rows // min_samples_leaf) - 1) // (arity - 1))
    entries = _in_levels(inner, arity, met, feature_entries)
    return RoutedEstimate(
        work=_work(tables, copies, n_parallel, n_jobs) + listed * (n_parallel > 0),
        rows=16 * n_rows * n_parallel,
        **_trees_and_model(entries * (4 + 4 * arity), inner, arity, target_entries, leaf_labels, n_trees),
    )


def estimate_forest(
    n_rows: int,
    n_features: int,
    target_entries: int,
    *,
    dense: bool,
    arity: int,
    min_samples_leaf: int,
    max_depth: int | None,
    sketch_dim: int,
    sample_rows: int,
    router_weights: int,
    weights_per_row: float,
    leaf_labels: int | None,
    n_trees: int,
    n_parallel: int,
    n_jobs: int,
) -> RoutedEstimate:
    """The formula of ``docs/memory.md`` for the sketch forest, with ``n_parallel`` trees at a time."""
    tables = n_features * (4 * arity + 1) + 4 * min(n_rows, sample_rows) * sketch_dim
    copies = n_rows * (4 * (arity - 1) + 1 + 4 * (arity == 2))
    listed = 8 * n_rows * (1 + n_features) * dense  # dense rows are converted to sparse ones
    leaves = max(1, n_rows // min_samples_leaf)
    if max_depth is not None and max_depth < 40:
        leaves = min(leaves, arity**max_depth)
    inner = (leaves - 1) // (arity - 1)
    entries = _in_levels(inner, arity, min(router_weights, n_features), int(weights_per_row * n_rows))
    return RoutedEstimate(
        work=_work(tables, copies, n_parallel, n_jobs) + listed * (n_parallel > 0),
        rows=24 * n_rows * n_parallel,
        **_trees_and_model(entries * (3 + arity), inner, arity, target_entries, leaf_labels, n_trees),
    )


def _work(tables: int, copies: int, n_parallel: int, n_jobs: int) -> int:
    """Tables per thread, and a copy of all rows per root node that is being split."""
    return (n_jobs * tables if n_parallel else 0) + min(n_jobs, n_parallel) * copies


def _trees_and_model(
    weights: int, inner: int, arity: int, target_entries: int, leaf_labels: int | None, n_trees: int
) -> dict[str, int]:
    leaves = 1 + inner * (arity - 1)
    kept = target_entries if leaf_labels is None else min(target_entries, leaves * leaf_labels)
    nodes = weights + inner * 4 * arity + 16 * (inner + leaves)
    # leaves are converted tree by tree, then concatenated
    return {"trees": n_trees * (nodes + 12 * target_entries), "model": n_trees * (nodes + 16 * kept)}


def _in_levels(n_nodes: int, arity: int, of_node: int, of_level: int) -> int:
    """Entries of ``n_nodes`` nodes in a balanced tree, with at most ``of_node`` per node and ``of_level`` per level."""
    entries, level = 0, 1
    while n_nodes > 0:
        entries += min(min(level, n_nodes) * of_node, of_level)
        n_nodes, level = n_nodes - level, level * arity
    return entries


def _histograms(n_features: int, max_bins: int, columns: int, max_leaves: int, budget: int) -> int:
    """Histogram cache: at most one slot per node that waits to be split, plus a reserve."""
    slot = n_features * (max_bins + 1) * (columns + 1) * 4
    return max(MIN_SLOTS * slot, min(budget, (max_leaves + EXTRA_SLOTS) * slot))


def available_memory() -> int | None:
    """Available memory in bytes: what the system has and the limits of this process and its container allow."""
    return min((one for one in (_system_memory(), remaining_memory()) if one is not None), default=None)


def _system_memory() -> int | None:
    """Free memory and page cache; the total memory on systems without this information."""
    for pages in ("SC_AVPHYS_PAGES", "SC_PHYS_PAGES"):
        try:
            return os.sysconf(pages) * os.sysconf("SC_PAGE_SIZE") + (
                _cached() if pages == "SC_AVPHYS_PAGES" else 0
            )
        except (ValueError, OSError, AttributeError):
            continue
    return None


def _cached() -> int:
    """Reclaimable page cache, on Linux."""
    try:
        with open("/proc/meminfo") as file:  # noqa: PTH123
            values: dict[str, Any] = dict(line.split(":") for line in file)
        return max(0, 1024 * (int(values["MemAvailable"].split()[0]) - int(values["MemFree"].split()[0])))
    except (OSError, KeyError, ValueError):
        return 0


def require(estimated: Estimate, advice: str) -> None:
    """Raise MemoryError if the memory that is certainly needed is not available."""
    available = available_memory()
    if available is not None and estimated.certain > available:
        raise MemoryError(
            f"Training needs at least {_readable(estimated.certain)} at once ({estimated}), but only"
            f" {_readable(available)} are available. {advice}"
        )


def _readable(n_bytes: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if n_bytes < 1024 or unit == "GiB":
            return f"{n_bytes:.0f} {unit}" if unit == "B" else f"{n_bytes:.1f} {unit}"
        n_bytes /= 1024
    raise AssertionError
