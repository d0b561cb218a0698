"""Frontier: which nodes to split next. The growing loop is one; the two ways to grow differ only here."""

from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from sparseleaf.boosting.tree import Node


class Frontier(Protocol):
    """Nodes that could be split."""

    best_first: bool
    """Whether they are split one at a time, that of highest gain next."""

    def push(self, node: Node, parent: Node | None) -> None:
        """Add a node that has a cut worth making."""

    def pop(self) -> list[Node]:
        """Nodes to split now, all independent of each other; none when growth is over."""

    def early(self) -> list[Node]:
        """Nodes that were split ahead of their turn, which then did not come."""


class DepthWise:
    """A level at a time; where ``max_leaves`` allows only some of a level, those of highest gain."""

    best_first = False

    def __init__(self, max_leaves: int | None) -> None:
        self._left = _splits(max_leaves)
        self._level: list[Node] = []

    def push(self, node: Node, parent: Node | None) -> None:
        """See :class:`Frontier`."""
        self._level.append(node)

    def pop(self) -> list[Node]:
        """See :class:`Frontier`."""
        level, self._level = self._level, []
        if len(level) > self._left:
            level = sorted(sorted(level, key=_priority)[: int(self._left)], key=lambda node: node.id)
        self._left -= len(level)
        return level

    def early(self) -> list[Node]:
        """See :class:`Frontier`."""
        return []


class BestFirst:
    """The node of highest gain, and with it the next few small ones, whose turn will probably come.

    A small node costs more to ask for than to work on, so several are split at once. The tree is that of one at a
    time: a node split early waits for its turn, its children wait behind it, and it is a leaf again if its turn
    does not come.
    """

    best_first = True

    def __init__(self, max_leaves: int | None) -> None:
        self._left = _splits(max_leaves)
        self._turn = 0
        self._heap: list[tuple[tuple[float, int, int], Node]] = []
        self._early: dict[int, Node] = {}
        self._behind: dict[int, list[Node]] = {}

    def push(self, node: Node, parent: Node | None) -> None:
        """See :class:`Frontier`."""
        if parent is None:
            self._wait(node)
        else:
            self._behind[parent.id].append(node)

    def pop(self) -> list[Node]:
        """See :class:`Frontier`."""
        while self._heap and self._left > 0 and self._heap[0][1].id in self._early:
            node = heapq.heappop(self._heap)[1]
            self._left -= 1
            self._turn += 1
            del self._early[node.id]
            for child in self._behind.pop(node.id):
                self._wait(child)
        if self._left <= 0:
            return []
        batch: list[Node] = []
        rows = 0
        for _, node in heapq.nsmallest(int(min(self._left, MOST_AT_ONCE)), self._heap):
            if node.id in self._early:
                continue
            rows += node.count
            if batch and rows > ROWS_AT_ONCE:
                break
            batch.append(node)
            self._early[node.id] = node
            self._behind[node.id] = []
        return batch

    def early(self) -> list[Node]:
        """See :class:`Frontier`."""
        return list(self._early.values())

    def _wait(self, node: Node) -> None:
        # of equal gains that which waits longer: nodes split early have numbers before their turn
        gain, number = _priority(node)
        heapq.heappush(self._heap, ((gain, self._turn, number), node))


MOST_AT_ONCE = 8
"""The next nodes of best-first growth, of which those that are not split yet are split at once."""

ROWS_AT_ONCE = 8192
"""Rows in them; larger nodes are worth a call of their own."""


def _splits(max_leaves: int | None) -> float:
    return math.inf if max_leaves is None else max_leaves - 1


def _priority(node: Node) -> tuple[float, int]:
    assert node.split is not None
    return (-node.split.gain, node.id)


FRONTIERS: dict[str, type[DepthWise] | type[BestFirst]] = {"depth-wise": DepthWise, "best-first": BestFirst}
