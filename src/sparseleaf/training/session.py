"""Session: the exchange of messages between the process that called ``fit`` and the workers, over their losses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from sparseleaf.distributed.communicator import WorkerLostError

if TYPE_CHECKING:
    from sparseleaf.distributed.launch import Workers
    from sparseleaf.training.program import Grown

Result = TypeVar("Result")

MOST_LOSSES = 10
"""Times that workers are started again without a tree in between: what ends one every time will do so again."""


class Session:
    """Messages to the workers of a training (see :func:`~sparseleaf.training.program.train`).

    Where a worker is lost, all are started again and sent what they had been sent, with the trees so far in place of
    the steps that made them. All draws are keyed, so the next tree is the same as without the loss.
    """

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._sent: list[Any] = []
        self._replayed = False
        self._losses = 0

    def send(self, message: Any) -> Any:
        """The answer to a message before the first tree."""
        answer = self._lasting(lambda: self._workers.send(message))
        self._sent.append(message)
        return answer

    def amend(self, message: Any) -> None:
        """Send this in place of the last message if workers are started again."""
        self._sent[-1] = message

    def next(self, trees: Sequence[Any], into_round: int) -> list[Grown]:
        """The trees after these, the last ``into_round`` of which belong to a round that is not complete.

        Trees of one round are fitted to the same gradients, which new workers lack: they begin with the round.
        """

        def step() -> list[Grown]:
            if not self._replayed:
                self._workers.send(list(trees[: len(trees) - into_round]))
                for _ in range(into_round):
                    self._workers.send(None)
                self._replayed = True
            grown: list[Grown] = self._workers.step()
            return grown

        grown = self._lasting(step)
        self._losses = 0
        return grown

    def _lasting(self, work: Callable[[], Result]) -> Result:
        """Done again after a loss."""
        lost = False
        while True:
            try:
                if lost:
                    self._begin_again()
                return work()
            except WorkerLostError:
                self._losses += 1
                if self._losses > MOST_LOSSES:
                    raise
                lost = True

    def _begin_again(self) -> None:
        self._replayed = False
        self._workers.restart()
        for message in self._sent:
            self._workers.send(message)
