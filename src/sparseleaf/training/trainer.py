"""Trainer: what the process that called ``fit`` does around the workers, for every estimator.

Seed, memory estimate, checkpoint, validation sets, early stopping, callbacks, progress and Ctrl-C are here. What the
trees are, how they are measured and what becomes of them is the :class:`Ensemble`'s.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from sparseleaf import memory
from sparseleaf._warnings import warn
from sparseleaf.callbacks import Callback, EarlyStopping, TrainingState, best_tree
from sparseleaf.checkpoint import Checkpoint
from sparseleaf.distributed.launch import make_launcher
from sparseleaf.progress import reporting, say, training_progress
from sparseleaf.training.program import train
from sparseleaf.training.session import Session

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.distributed.launch import Program, Workers
    from sparseleaf.training.program import WorkerProgram

CheckpointPlace = tuple[str | os.PathLike[str] | None, int]
"""The file, and rounds between two writings."""


class Ensemble(Protocol):
    """How the trees of an estimator are made, replayed and measured."""

    @property
    def work(self) -> WorkerProgram:
        """What every worker does."""

    @property
    def memory_advice(self) -> str:
        """What takes less memory."""

    @property
    def per_round(self) -> int:
        """Trees that make a round: metrics and callbacks come after each round."""

    @property
    def n_rounds(self) -> int:
        """Rounds to train, without those of a model that training starts from."""

    @property
    def n_before(self) -> int:
        """Rounds of that model."""

    def accept(self, description: Any, workers: Workers) -> memory.Estimate:
        """Check validation sets and parameters against the training rows; the memory that training takes."""

    def summary(self) -> str:
        """What is trained on, in a line."""

    def fingerprints(self) -> dict[str, str]:
        """What a checkpoint tells this training from others by."""

    def plan(self, checkpoint: Checkpoint) -> Any:
        """What workers have to know before they make their rows ready."""

    def adopt(self, prepared: Any, checkpoint: Checkpoint) -> Any:
        """Take what workers have prepared; the plan from which workers that begin again prepare the same."""

    def early_stopping(self, workers: Workers) -> EarlyStopping | None:
        """When to stop before all rounds are trained."""

    def pack(self, trees: Sequence[Any]) -> dict[str, Array]:
        """Tensors of trees."""

    def unpack(self, tensors: dict[str, Array]) -> list[Any]:
        """Trees of tensors that may come from anywhere; a ValueError where they are damaged."""

    def check_tree(self, tree: Any) -> None:
        """Refuse a tree that cannot be added to those before it."""

    def follow(self, tree: Any) -> None:
        """Add a tree to the scores of the validation sets."""

    def measure(self, workers: Workers) -> Mapping[str, float]:
        """Metrics on the validation sets, after a round; none where there are none."""

    def finish(
        self, trees: Sequence[Any], history: dict[str, list[float]], seed: int, workers: Workers
    ) -> bool:
        """Give the estimator the model of these trees; whether Ctrl-C ended what comes after them."""


Prepare = Callable[[], tuple[Ensemble, dict[str, Any]]]
"""Checks the arguments of ``fit``; returns what is to be trained and, by name, the arguments that all processes of a
training must have in common."""


class Trainer:
    """Trains an ensemble.

    Parameters
    ----------
    estimator : estimator
        Gets the model.
    callbacks : sequence of callables
    checkpoint : path and int
        Where rounds are kept, and taken up from; rounds between two writings.
    """

    def __init__(self, estimator: Any, callbacks: Sequence[Callback], checkpoint: CheckpointPlace) -> None:
        self._estimator = estimator
        self._callbacks = callbacks
        self._place = checkpoint
        self._ensemble: Ensemble
        self._trees: list[Any] = []
        self._history: dict[str, list[float]] = {}
        self._written = 0
        self._interrupted = False

    def fit(self, engine: Any, rows: dict[str, Any], prepare: Prepare) -> None:
        """Train on these rows, which are arguments of ``fit`` by name; the estimator has the model then.

        ``prepare`` checks all else that ``fit`` was given.
        """

        def start() -> tuple[Program, dict[str, Any]]:
            self._ensemble, arguments = prepare()
            return partial(train, self._ensemble.work, self._place[0] is not None), arguments

        with (
            make_launcher(engine).open(self._estimator, rows, start) as workers,
            reporting(self._estimator.verbose * workers.leads),
        ):
            self._fit(workers)

    def _fit(self, workers: Workers) -> None:
        estimator, ensemble = self._estimator, self._ensemble
        verbose = estimator.verbose * workers.leads
        session = Session(workers)
        seed = workers.once(estimator._seed)
        description, prints = session.send(None)
        estimated = ensemble.accept(description, workers)
        memory.require(estimated, ensemble.memory_advice)
        checkpoint = workers.once(
            lambda: Checkpoint.open(
                estimator,
                *self._place,
                seed,
                lambda: prints | ensemble.fingerprints(),
            )
        )
        if not workers.leads:
            checkpoint = checkpoint.without_file()
        say(f"{ensemble.summary()}; {estimated}", verbose)
        prepared = session.send(ensemble.plan(checkpoint))
        session.amend(ensemble.adopt(prepared, checkpoint))
        del prepared
        stopper = ensemble.early_stopping(workers)
        n_rounds = self._take_up(checkpoint, stopper)
        complete = self._complete >= n_rounds
        checkpoint.tell(len(self._trees), complete, verbose)
        if not complete:
            with training_progress(ensemble.n_before + n_rounds, verbose) as shown:
                stoppers = [] if stopper is None else [stopper]
                self._grow(session, workers, checkpoint, n_rounds, [*shown, *self._callbacks, *stoppers])
        if stopper is not None and self._history.get(stopper.metric):
            values = self._history[stopper.metric]
            self._keep(best_tree(values, higher_is_better=stopper.higher_is_better))
        unfinished = ensemble.finish(self._trees, self._history, checkpoint.seed, workers)
        estimator.interrupted_ = self._interrupted or unfinished

    @property
    def _complete(self) -> int:
        """Rounds that are complete."""
        return len(self._trees) // self._ensemble.per_round

    def _take_up(self, checkpoint: Checkpoint, stopper: EarlyStopping | None) -> int:
        """Go on from the rounds of the checkpoint; how many there shall be in the end.

        That is what was asked for, or fewer where the checkpoint's history says that ``stopper`` ended the training.
        """
        ensemble, n_rounds = self._ensemble, self._ensemble.n_rounds
        tensors = checkpoint.part("trees")
        if not tensors:
            return n_rounds
        with checkpoint.refusing():
            trees = ensemble.unpack(tensors)
            kept = len(trees) // ensemble.per_round
            if any(len(values) != kept for values in checkpoint.history.values()):
                raise ValueError("its history has another length than its trees")
            for tree in trees:
                ensemble.check_tree(tree)
        if stopper is not None:
            n_rounds = min(n_rounds, stopper.stops_at(checkpoint.history.get(stopper.metric, [])) or n_rounds)
        taken = min(n_rounds, kept)
        self._written = kept
        self._trees = trees[: taken * ensemble.per_round]
        self._history = {name: values[:taken] for name, values in checkpoint.history.items()}
        if taken < n_rounds:  # else nobody will ask for the scores
            for tree in self._trees:
                ensemble.follow(tree)
        return n_rounds

    def _grow(
        self,
        session: Session,
        workers: Workers,
        checkpoint: Checkpoint,
        n_rounds: int,
        callbacks: Sequence[Callback],
    ) -> None:
        """Grow up to so many rounds; Ctrl-C keeps those that are complete."""
        ensemble = self._ensemble
        began, stopped = time.perf_counter(), False
        try:
            while not stopped and self._complete < n_rounds:
                for grown in session.next(self._trees, len(self._trees) % ensemble.per_round):
                    ensemble.check_tree(grown.tree)
                    ensemble.follow(grown.tree)
                    if (len(self._trees) + 1) % ensemble.per_round == 0:
                        for name, value in ensemble.measure(workers).items():
                            self._history.setdefault(name, []).append(value)
                    self._trees.append(grown.tree)  # last: a round counts when all of it is there
                    if len(self._trees) % ensemble.per_round:
                        continue
                    state = TrainingState(
                        ensemble.n_before + self._complete,
                        ensemble.n_before + n_rounds,
                        grown.n_leaves,
                        grown.n_entries,
                        time.perf_counter() - began,
                        self._history,
                    )
                    stop = [callback(state) for callback in callbacks]  # all are called
                    stopped = workers.agree(any(stop))
                    if stopped or self._complete >= n_rounds:
                        break
                    if self._complete % checkpoint.every == 0:
                        self._write(checkpoint)
        except KeyboardInterrupt:
            if not self._complete:
                raise
            self._interrupted = True
            for values in self._history.values():
                del values[self._complete :]
            unit = "trees" if ensemble.per_round == 1 else "rounds"
            warn(f"interrupted: the model has the {self._complete} {unit} grown so far")
        self._keep(self._complete)
        self._write(checkpoint)

    def _write(self, checkpoint: Checkpoint) -> None:
        """Keep the complete rounds in the checkpoint, if they are more than it has."""
        if not checkpoint.has_file:
            return  # packing all trees time and again would make many of them slow
        if self._complete > self._written and checkpoint.keep(
            "trees", self._ensemble.pack(self._trees), self._history
        ):
            self._written = self._complete

    def _keep(self, n_rounds: int) -> None:
        """Drop trees beyond the first rounds."""
        del self._trees[n_rounds * self._ensemble.per_round :]
