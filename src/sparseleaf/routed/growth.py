"""Best-first growth of routed trees.

A tree expands the node with the highest priority, Σ − max of its label histogram, until it has ``max_nodes``. The
priority of a child is at most that of its parent, but may exceed that of waiting nodes, so the order of expansion is
not known in advance. Splits are independent of each other, though: several waiting nodes of every tree are split
speculatively in one kernel call and expanded in order of priority. The tree is the same as with one split at a time.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from sparseleaf._arrays import derive_key, hash_rows, mix64

if TYPE_CHECKING:
    from sparseleaf._arrays import Array

TASKS_PER_THREAD = 8
"""Number of nodes per thread in one kernel call, for load balancing."""


@dataclass(frozen=True)
class Histogram:
    """Sorted labels of the rows of a node, and their weighted counts."""

    labels: Array
    counts: Array

    @property
    def priority(self) -> float:
        """Upper bound of the gain of a split: occurrences of all labels but the most frequent."""
        return float(self.counts.sum() - self.counts.max(initial=0))


@dataclass(frozen=True)
class Split:
    """Routers of a node and the partition of its rows.

    Attributes
    ----------
    features : int32 array, shape (n,)
        Features of the routers, sorted.
    weights : float32 array, shape (n, arity)
    bias : float32 array, shape (arity,)
    rows : list of int32 arrays
        Rows of each child; a row may be in several.
    histograms : list of Histogram
        Label histogram of each child.
    objective : float64 array
        Objective J after every epoch.
    balance, purity : float
        Definitions 1 and 2 of LdSM: 0 is perfect.
    """

    features: Array
    weights: Array
    bias: Array
    rows: list[Array]
    histograms: list[Histogram]
    objective: Array
    balance: float
    purity: float


class Splitter(Protocol):
    """Splits nodes; the result depends only on the rows and the key of a node."""

    arity: int

    def split(self, rows: Sequence[Array], keys: Array) -> list[Split | None]:
        """Split each node; None if a node has no acceptable split."""
        ...


@dataclass
class Node:
    """A node of a growing tree; the histogram is dropped when it is split."""

    histogram: Histogram | None
    depth: int
    rows: Array | None
    n_rows: int
    split: Split | None = None
    first_child: int = -1


@dataclass
class GrowingTree:
    """A tree and its queue of nodes to split."""

    key: int
    arity: int
    max_nodes: int
    nodes: list[Node]
    waiting: list[tuple[float, int]] = field(default_factory=list)
    tried: dict[int, Split | None] = field(default_factory=dict)

    @classmethod
    def rooted(cls, key: int, arity: int, max_nodes: int, rows: Array, histogram: Histogram) -> GrowingTree:
        """Create a tree with a root node."""
        tree = cls(key, arity, max_nodes, [])
        tree._wait(Node(histogram, 0, rows, len(rows)))
        tree.advance()
        return tree

    @property
    def done(self) -> bool:
        """Whether no node can be split, or ``max_nodes`` is reached."""
        return not self.waiting or len(self.nodes) + self.arity > self.max_nodes

    def next_nodes(self, n: int) -> list[int]:
        """Up to ``n`` nodes with the highest priority that have not been tried."""
        if self.done:
            return []
        n = min(n, (self.max_nodes - len(self.nodes)) // self.arity)
        return [node for _, node in heapq.nsmallest(n, self.waiting) if node not in self.tried]

    def advance(self) -> None:
        """Expand nodes in order of priority, as far as their splits are available."""
        while not self.done and self.waiting[0][1] in self.tried:
            _, number = heapq.heappop(self.waiting)
            split = self.tried.pop(number)
            node = self.nodes[number]
            node.rows = None
            if split is not None:
                node.split, node.histogram = split, None
                node.first_child = len(self.nodes)
                for rows, histogram in zip(split.rows, split.histograms, strict=True):
                    self._wait(Node(histogram, node.depth + 1, rows, len(rows)))
                split.rows.clear()
                split.histograms.clear()
        if self.done:
            self.waiting.clear()
            self.tried.clear()
            for node in self.nodes:
                node.rows = None

    def _wait(self, node: Node) -> None:
        assert node.histogram is not None
        if node.histogram.priority > 0:
            heapq.heappush(self.waiting, (-node.histogram.priority, len(self.nodes)))
        self.nodes.append(node)


def count_parallel_trees(n_trees: int, n_jobs: int) -> int:
    """Number of trees to grow in parallel: enough to keep all threads busy at the roots, but limited by memory."""
    return max(1, min(n_trees, 2 * n_jobs))


def grow_trees(
    splitter: Splitter,
    roots: Callable[[int], tuple[Array, Histogram]],
    n_trees: int,
    max_nodes: int,
    seed: int,
    n_jobs: int,
    first: int = 0,
) -> Iterator[GrowingTree]:
    """Grow trees in parallel, starting with number ``first``, and yield them in order.

    ``roots(tree)`` returns the rows of a tree, in training order, and their label histogram.
    """
    n_parallel = count_parallel_trees(n_trees, n_jobs)
    growing: dict[int, GrowingTree] = {}
    started = finished = first
    while finished < n_trees:
        while started < n_trees and len(growing) < n_parallel:
            key = derive_key(seed, started)
            growing[started] = GrowingTree.rooted(key, splitter.arity, max_nodes, *roots(started))
            started += 1
        active = [tree for tree in growing.values() if not tree.done]
        if active:
            ahead = -(-TASKS_PER_THREAD * n_jobs // len(active))
            _split_next(splitter, active, ahead)
        while finished in growing and growing[finished].done:
            yield growing.pop(finished)
            finished += 1


def _split_next(splitter: Splitter, trees: list[GrowingTree], ahead: int) -> None:
    tasks = [(tree, node) for tree in trees for node in tree.next_nodes(ahead)]
    keys = mix64(
        np.array([tree.key for tree, _ in tasks], np.uint64) ^ np.array([n for _, n in tasks], np.uint64)
    )
    rows = [tree.nodes[node].rows for tree, node in tasks]
    for (tree, node), split in zip(
        tasks, splitter.split([r for r in rows if r is not None], keys), strict=True
    ):
        tree.tried[node] = split
    for tree in trees:
        tree.advance()


def shuffled_rows(n_rows: int, seed: int, tree: int) -> Array:
    """Random permutation of the rows for a tree."""
    return np.argsort(hash_rows(n_rows, seed, tree, 1), kind="stable").astype(np.int32)
