"""Session: the messages between the process that called ``fit`` and the workers, with restarts after lost workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from sparseleaf.distributed.communicator import WorkerLostError
from sparseleaf.training.program import COMPLETE

if TYPE_CHECKING:
    from sparseleaf.distributed.launch import Workers
    from sparseleaf.training.program import Grown

Result = TypeVar("Result")

MAX_RESTARTS = 10
"""Consecutive restarts without a new tree before training fails: the cause is then likely deterministic."""


class Session:
    """Messages to the workers of a training (see :func:`~sparseleaf.training.program.train`).

    When a worker is lost, all workers are restarted and sent the same messages again, with the trees so far in place of
    the steps that grew them. All random draws are keyed, so the next tree is the same as without the loss.
    """

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._sent: list[Any] = []
        self._replayed = False
        self._losses = 0

    def send(self, message: Any) -> Any:
        """Send a message before the first tree; returns the reply."""
        reply = self._with_restarts(lambda: self._workers.send(message))
        self._sent.append(message)
        return reply

    def replace_last(self, message: Any) -> None:
        """Send this instead of the last message after a restart."""
        self._sent[-1] = message

    def next(self, trees: Sequence[Any], into_round: int) -> list[Grown]:
        """Grow the next trees after ``trees``, the last ``into_round`` of which belong to an incomplete round.

        Trees of a round are fitted to the same gradients, which restarted workers lack: they repeat the whole round.
        """

        def step() -> list[Grown]:
            self._replay(trees, into_round)
            grown: list[Grown] = self._workers.step()
            return grown

        grown = self._with_restarts(step)
        self._losses = 0
        return grown

    def complete(self, trees: Sequence[Any]) -> Any:
        """What completes the model of these trees, those up to the best round."""

        def step() -> Any:
            self._replay(trees, 0)
            return self._workers.send(COMPLETE)

        return self._with_restarts(step)

    def _replay(self, trees: Sequence[Any], into_round: int) -> None:
        if self._replayed:
            return
        self._workers.send(list(trees[: len(trees) - into_round]))
        for _ in range(into_round):
            self._workers.send(None)
        self._replayed = True

    def _with_restarts(self, work: Callable[[], Result]) -> Result:
        """Run ``work``, again after each restart."""
        lost = False
        while True:
            try:
                if lost:
                    self._restart()
                return work()
            except WorkerLostError:
                self._losses += 1
                if self._losses > MAX_RESTARTS:
                    raise
                lost = True

    def _restart(self) -> None:
        self._replayed = False
        self._workers.restart()
        for message in self._sent:
            self._workers.send(message)
