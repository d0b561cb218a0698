"""Where the rows live. The grower speaks to all shards at once and cannot tell how many there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from sparseleaf.engine.shard import Shard


class Shards(Protocol):
    """All shards of a training set.

    Results of :meth:`sum` are integers, so the order in which shards are added cannot matter.
    """

    def call(self, verb: str, *args: Any) -> None:
        """Every shard does it."""

    def sum(self, verb: str, *args: Any) -> Any:
        """Every shard does it; the integers or integer arrays they answer are added up."""

    def gather(self, verb: str, *args: Any) -> list[Any]:
        """Every shard does it; all answers."""


class LocalShards:
    """One shard, in this process: every call is a direct one."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard

    def call(self, verb: str, *args: Any) -> None:
        """See :class:`Shards`."""
        getattr(self._shard, verb)(*args)

    def sum(self, verb: str, *args: Any) -> Any:
        """See :class:`Shards`."""
        return getattr(self._shard, verb)(*args)

    def gather(self, verb: str, *args: Any) -> list[Any]:
        """See :class:`Shards`."""
        return [getattr(self._shard, verb)(*args)]
