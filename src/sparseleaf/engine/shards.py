"""Where the rows live. The grower speaks to all shards at once and cannot tell how many there are, or where."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sparseleaf.distributed.communicator import LocalCommunicator

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.boosting.builder import Trees
    from sparseleaf.boosting.columns import Columns
    from sparseleaf.boosting.loop import Recipe
    from sparseleaf.boosting.tree import FlatTree, GrownNodes, LeafVectors

Answer = TypeVar("Answer")

Check = Callable[[], dict[str, Any]]
"""Checks the arguments of ``fit``; answers, by name, those that all processes of a training must have in common."""

LAYOUTS = ("rows", "features")


class GrowingShards(Protocol):
    """What a tree that grows asks of all shards.

    They hold some rows each ("by rows"), or all rows and some features each ("by features"): what is said of the rows
    is then the same in every shard, and the answer of one is that of all.

    Results of :meth:`sum` are integers, so the order in which shards are added cannot matter.
    """

    n_shards: int

    def call(self, verb: str, *args: Any) -> None:
        """Every shard does it."""

    def sum(self, verb: str, *args: Any) -> Any:
        """Every shard does it; the integers or integer arrays they answer are added up over the rows."""

    def gather(self, verb: str, *args: Any) -> list[Any]:
        """Every shard does it; answers for all rows, in order."""

    def exchange(self, verb: str, *args: Any) -> list[Any]:
        """What takes all rows, done in shares; the answers, in order.

        A shard that has all rows does ``verb``. Of several by rows each does ``verb_give``, which answers a piece for
        every shard, and then ``verb_take`` with the pieces that were made for it.
        """

    def build_tree(
        self, trees: Trees, columns: Columns | None, features: Array, n_node_features: int, key: int
    ) -> GrownNodes:
        """Grow a tree on the rows that are planted (see :meth:`~sparseleaf.engine.shard.Shard.build_tree`)."""

    def add_tree(self, tree: Any, vectors: Any) -> None:
        """A tree is done: give every row its leaf's vector."""


class Shards(Protocol):
    """All shards of a training set, as a training sees them.

    They begin with some rows each. :meth:`spread` may make them hold all rows, and some features each.
    """

    layout: str
    """Where this is going: "rows" or "features"."""

    n_shards: int

    leads: bool
    """Whether this process is the one that watches and prints."""

    def call(self, verb: str, *args: Any) -> None:
        """See :class:`GrowingShards`."""

    def sum(self, verb: str, *args: Any) -> Any:
        """See :class:`GrowingShards`."""

    def gather(self, verb: str, *args: Any) -> list[Any]:
        """See :class:`GrowingShards`."""

    def exchange(self, verb: str, *args: Any) -> list[Any]:
        """See :class:`GrowingShards`."""

    def follow_tree(self, tree: Any, vectors: Any) -> None:
        """A tree of a checkpoint, before the layout is that of training: give every row its leaf's vector."""

    def spread(self) -> None:
        """Go over to the layout that was asked for."""

    def grow(self, recipe: Recipe, number: int) -> tuple[FlatTree, LeafVectors]:
        """The next tree, grown where the shards are (see :meth:`~sparseleaf.boosting.loop.Recipe.grow`)."""

    def once(self, work: Callable[[], Answer]) -> Answer:
        """Done in one place (what is watched, what is printed); the answer is known everywhere."""

    def first(self, work: Callable[[], Answer]) -> Answer | None:
        """Done in one place and kept there; None elsewhere."""

    def agree(self, local: bool) -> bool:
        """Whether it is so anywhere."""

    def recover(self, error: Exception) -> bool:
        """Whether what was lost has been made anew, so that the tree that was growing can be grown again."""


class LocalShards:
    """One shard, in this process: every call is a direct one."""

    layout = "rows"
    n_shards = 1
    leads = True

    def __init__(self, shard: Any) -> None:
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

    def exchange(self, verb: str, *args: Any) -> list[Any]:
        """See :class:`Shards`."""
        return [getattr(self._shard, verb)(*args)]

    def build_tree(
        self, trees: Trees, columns: Columns | None, features: Array, n_node_features: int, key: int
    ) -> GrownNodes:
        """See :class:`GrowingShards`."""
        found: GrownNodes = self._shard.build_tree(
            trees, columns, features, n_node_features, key, LocalCommunicator()
        )
        return found

    def add_tree(self, tree: Any, vectors: Any) -> None:
        """See :class:`GrowingShards`."""
        self._shard.add_leaves(tree, vectors)

    def follow_tree(self, tree: Any, vectors: Any) -> None:
        """See :class:`Shards`."""
        self._shard.follow(tree, vectors)

    def spread(self) -> None:
        """See :class:`Shards`."""

    def grow(self, recipe: Recipe, number: int) -> tuple[FlatTree, LeafVectors]:
        """See :class:`Shards`."""
        return recipe.grow(self, number)

    def once(self, work: Callable[[], Answer]) -> Answer:
        """See :class:`Shards`."""
        return work()

    def first(self, work: Callable[[], Answer]) -> Answer | None:
        """See :class:`Shards`."""
        return work()

    def agree(self, local: bool) -> bool:
        """See :class:`Shards`."""
        return local

    def recover(self, error: Exception) -> bool:
        """See :class:`Shards`."""
        return False


class Engine(Protocol):
    """What makes shards of the rows that a user gives."""

    def open(self, estimator: Any, rows: dict[str, Any], layout: str, check: Check) -> Any:
        """A context in which the rows' :class:`Shards` work; each is a part made by ``estimator._part(**rows)``.

        ``check`` is called before any work, and where several processes call ``fit`` its answers are compared.
        """


class LocalEngine:
    """All in this process."""

    @contextmanager
    def open(self, estimator: Any, rows: dict[str, Any], layout: str, check: Check) -> Iterator[LocalShards]:
        """See :class:`Engine`."""
        check()
        yield LocalShards(estimator._part(**rows))


def make_engine(engine: Any) -> Engine:
    """The engine of that name, or around that communicator or client."""
    if engine == "local":
        return LocalEngine()
    if engine == "mpi" or hasattr(engine, "Get_rank"):
        from sparseleaf.engine.mpi import MPIEngine

        return MPIEngine(None if engine == "mpi" else engine)
    if engine == "dask" or hasattr(engine, "scheduler_info"):
        from sparseleaf.engine.dask import DaskEngine

        return DaskEngine(None if engine == "dask" else engine)
    if hasattr(engine, "open"):
        found: Engine = engine
        return found
    raise ValueError(
        f"engine: found {engine!r:.60}; wanted 'local', 'mpi', 'dask', an mpi4py communicator or a Dask client."
    )


def check_layout(layout: str) -> None:
    """Refuse other layouts than there are."""
    if layout not in LAYOUTS:
        raise ValueError(f"layout: found {layout!r:.60}; wanted 'rows' or 'features'.")
