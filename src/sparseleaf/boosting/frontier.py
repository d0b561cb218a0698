"""Frontier: which nodes to split next. The growing loop is one; the two ways to grow differ only here."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from sparseleaf.boosting.tree import Node


class Frontier(Protocol):
    """Nodes that could be split."""

    def push(self, node: Node) -> None:
        """Add a node that has a cut worth making."""

    def pop(self, most: int) -> list[Node]:
        """Up to ``most`` nodes to split now, all independent of each other; none when growth is over."""


class DepthWise:
    """A level at a time; where ``max_leaves`` allows only some of a level, those of highest gain."""

    def __init__(self) -> None:
        self._level: list[Node] = []

    def push(self, node: Node) -> None:
        """See :class:`Frontier`."""
        self._level.append(node)

    def pop(self, most: int) -> list[Node]:
        """See :class:`Frontier`."""
        level, self._level = self._level, []
        if len(level) > most:
            level = sorted(sorted(level, key=_priority)[:most], key=lambda node: node.id)
        return level


class BestFirst:
    """The node of highest gain, one at a time."""

    def __init__(self) -> None:
        self._heap: list[tuple[tuple[float, int], Node]] = []

    def push(self, node: Node) -> None:
        """See :class:`Frontier`."""
        heapq.heappush(self._heap, (_priority(node), node))

    def pop(self, most: int) -> list[Node]:
        """See :class:`Frontier`."""
        return [heapq.heappop(self._heap)[1]] if self._heap and most > 0 else []


def _priority(node: Node) -> tuple[float, int]:
    assert node.split is not None
    return (-node.split.gain, node.id)


FRONTIERS: dict[str, type[DepthWise] | type[BestFirst]] = {"depth-wise": DepthWise, "best-first": BestFirst}
