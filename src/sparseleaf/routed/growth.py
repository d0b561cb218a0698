"""Growing routed trees by priority: which node is split next, and when a tree is done.

In: something that splits nodes (a :class:`Splitter`). Out: grown trees, ready to be frozen.

A tree expands the node of highest priority, Σ − max of its label histogram, until it has ``max_nodes``. A child's
priority is at most its parent's, but may exceed that of nodes that wait, so the next expansions are not known in
advance. Splits do not depend on each other, though: several waiting nodes of every tree are split at once, ahead of
their turn, and taken up in order of priority. The tree is the same as if they were split one by one.
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
"""Nodes split at once, for every thread: threads then seldom wait for the largest."""


@dataclass(frozen=True)
class Histogram:
    """Labels of a node's rows and how often each occurs; labels rise."""

    labels: Array
    counts: Array

    @property
    def priority(self) -> int:
        """What a split could gain: occurrences of all labels but the most frequent."""
        return int(self.counts.sum() - self.counts.max(initial=0))


@dataclass(frozen=True)
class Split:
    """How a node sends its rows to its children.

    Attributes
    ----------
    features : int32 array, shape (n,)
        Rising.
    weights : float32 array, shape (n, arity)
    bias : float32 array, shape (arity,)
    rows : list of int32 arrays
        Rows of every child; a row may be in several.
    histograms : list of Histogram
    objective : float64 array
        What was minimised, after every pass.
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
    """Splits nodes; the result depends on a node's rows and key alone."""

    arity: int

    def split(self, rows: Sequence[Array], keys: Array) -> list[Split | None]:
        """A split of every node, or None where there is none worth having."""
        ...


@dataclass
class Node:
    """A node of a growing tree; once it is split its histogram is of no use."""

    histogram: Histogram | None
    depth: int
    rows: Array | None
    n_rows: int
    split: Split | None = None
    first_child: int = -1


@dataclass
class GrowingTree:
    """A tree and the nodes that wait to be split."""

    key: int
    arity: int
    max_nodes: int
    nodes: list[Node]
    waiting: list[tuple[int, int]] = field(default_factory=list)
    tried: dict[int, Split | None] = field(default_factory=dict)

    @classmethod
    def rooted(cls, key: int, arity: int, max_nodes: int, rows: Array, histogram: Histogram) -> GrowingTree:
        """A tree of one node."""
        tree = cls(key, arity, max_nodes, [])
        tree._wait(Node(histogram, 0, rows, len(rows)))
        tree.advance()
        return tree

    @property
    def done(self) -> bool:
        """Whether no node is left to split, or no room for its children."""
        return not self.waiting or len(self.nodes) + self.arity > self.max_nodes

    def next_nodes(self, n: int) -> list[int]:
        """Up to ``n`` nodes that are likely to be expanded next and have not been tried."""
        if self.done:
            return []
        n = min(n, (self.max_nodes - len(self.nodes)) // self.arity)
        return [node for _, node in heapq.nsmallest(n, self.waiting) if node not in self.tried]

    def advance(self) -> None:
        """Expand in order of priority as far as nodes have been tried."""
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


def trees_abreast(n_trees: int, n_jobs: int) -> int:
    """So many trees at a time that all threads have work even at the roots, and no more: a tree's rows take memory."""
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
    """Grow the trees from number ``first`` side by side, and hand them out in order.

    ``roots(tree)`` are a tree's rows, in the order in which nodes see them, and their histogram.
    """
    abreast = trees_abreast(n_trees, n_jobs)
    growing: dict[int, GrowingTree] = {}
    started = finished = first
    while finished < n_trees:
        while started < n_trees and len(growing) < abreast:
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
    """All rows in an order that is the tree's own."""
    return np.argsort(hash_rows(n_rows, seed, tree, 1), kind="stable").astype(np.int32)
