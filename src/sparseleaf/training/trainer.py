"""Trainer: the training loop of the process that called ``fit``, common to all estimators.

It handles the seed, memory estimate, checkpoints, evaluation, early stopping, callbacks, progress and Ctrl-C. What is
specific to a kind of trees is in its :class:`Ensemble`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from sparseleaf import memory
from sparseleaf._warnings import warn
from sparseleaf.callbacks import ALWAYS, Callback, EarlyStopping, TrainingState, around, best_tree
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
"""The file, and the number of rounds between writes."""


class Ensemble(Protocol):
    """What is specific to a kind of trees: preparation, evaluation, serialisation and the final model."""

    @property
    def program(self) -> WorkerProgram:
        """The program of every worker."""

    @property
    def memory_advice(self) -> str:
        """How to reduce memory, for the error message."""

    @property
    def per_round(self) -> int:
        """Trees per round; metrics and callbacks run after each round."""

    @property
    def n_rounds(self) -> int:
        """Rounds to train, without those of the initial model."""

    @property
    def n_init_rounds(self) -> int:
        """Rounds of the initial model."""

    @property
    def completes(self) -> bool:
        """Whether workers complete the model after the last tree: see :meth:`Growth.complete`."""

    def validate(self, description: Any, workers: Workers) -> memory.Estimate:
        """Validate parameters and validation sets against the training set; returns the memory estimate."""

    def summary(self) -> str:
        """One line about the training set, for the progress output."""

    def fingerprints(self) -> dict[str, str]:
        """Fingerprints by which a checkpoint recognises this training."""

    def plan(self, checkpoint: Checkpoint) -> Any:
        """What workers need to prepare their rows."""

    def adopt(self, prepared: Any, checkpoint: Checkpoint) -> Any:
        """Store the result of preparation; returns the plan for restarted workers, which makes the same."""

    def early_stopping(self, workers: Workers) -> EarlyStopping | None:
        """The early stopping rule, or None."""

    def pack(self, trees: Sequence[Any]) -> dict[str, Array]:
        """Trees to tensors, for a checkpoint."""

    def unpack(self, tensors: dict[str, Array]) -> list[Any]:
        """Trees from the tensors of an untrusted checkpoint; ValueError if they are invalid."""

    def check_tree(self, tree: Any) -> None:
        """Raise ValueError for a tree that cannot be added, such as one whose scores overflow."""

    def update_validation(self, tree: Any) -> None:
        """Add a tree to the scores of the validation sets."""

    def evaluate(self, workers: Workers) -> Mapping[str, float]:
        """Metrics on the validation sets after a round; empty without validation sets."""

    def finish(
        self,
        trees: Sequence[Any],
        completion: Any,
        history: dict[str, list[float]],
        seed: int,
        workers: Workers,
    ) -> bool:
        """Set the estimator's model; returns whether Ctrl-C interrupted a step after the trees.

        ``completion`` is what the workers completed the model with, or None.
        """


Prepare = Callable[[], tuple[Ensemble, dict[str, Any]]]
"""Validates the arguments of ``fit``; returns the ensemble and, by name, the arguments that must be equal on all
processes of a training."""


class Trainer:
    """Trains an ensemble.

    Parameters
    ----------
    estimator : estimator
        Receives the model.
    callbacks : sequence of callables, or None
        None for a training inside another one: it has no callbacks, not even those of every ``fit``.
    checkpoint : path and int
        The checkpoint file, written and resumed from, and the number of rounds between writes.
    """

    def __init__(
        self, estimator: Any, callbacks: Sequence[Callback] | None, checkpoint: CheckpointPlace
    ) -> None:
        self._estimator = estimator
        self._callbacks = [] if callbacks is None else [*ALWAYS, *callbacks]
        self._place = checkpoint
        self._ensemble: Ensemble
        self._trees: list[Any] = []
        self._history: dict[str, list[float]] = {}
        self._written = 0
        self._interrupted = False

    def fit(self, engine: Any, rows: dict[str, Any], prepare: Prepare) -> None:
        """Train on these rows, arguments of ``fit`` by name, and set the estimator's model.

        ``prepare`` validates all other arguments of ``fit``.
        """

        def start() -> tuple[Program, dict[str, Any]]:
            self._ensemble, arguments = prepare()
            return partial(train, self._ensemble.program, self._place[0] is not None), arguments

        with (
            make_launcher(engine).open(self._estimator, rows, start) as workers,
            reporting(self._estimator.verbose * workers.leads),
            around(self._callbacks if workers.leads else [], self._estimator),
        ):
            self._fit(workers)

    def _fit(self, workers: Workers) -> None:
        estimator, ensemble = self._estimator, self._ensemble
        verbose = estimator.verbose * workers.leads
        session = Session(workers)
        seed = workers.once(estimator._seed)
        description, prints = session.send(None)
        estimated = ensemble.validate(description, workers)
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
        session.replace_last(ensemble.adopt(prepared, checkpoint))
        del prepared
        stopper = ensemble.early_stopping(workers)
        n_rounds = self._resume(checkpoint, stopper)
        complete = self._complete >= n_rounds
        checkpoint.report(len(self._trees), complete, verbose)
        if not complete:
            with training_progress(ensemble.n_init_rounds + n_rounds, verbose) as shown:
                stoppers = [] if stopper is None else [stopper]
                self._grow(session, workers, checkpoint, n_rounds, [*shown, *self._callbacks, *stoppers])
        if stopper is not None and self._history.get(stopper.metric):
            values = self._history[stopper.metric]
            self._keep(best_tree(values, higher_is_better=stopper.higher_is_better))
        completion = self._completion(session, workers) if ensemble.completes else None
        unfinished = ensemble.finish(self._trees, completion, self._history, checkpoint.seed, workers)
        estimator.interrupted_ = self._interrupted or unfinished

    @property
    def _complete(self) -> int:
        """Number of complete rounds."""
        return len(self._trees) // self._ensemble.per_round

    def _resume(self, checkpoint: Checkpoint, stopper: EarlyStopping | None) -> int:
        """Resume from the checkpoint's rounds; returns the total number of rounds to train.

        This is ``n_rounds``, or fewer if ``stopper`` stops within the checkpoint's history.
        """
        ensemble, n_rounds = self._ensemble, self._ensemble.n_rounds
        tensors = checkpoint.part("trees")
        if not tensors:
            return n_rounds
        with checkpoint.refusing():
            trees = ensemble.unpack(tensors)
            kept = len(trees) // ensemble.per_round
            if any(len(values) != kept for values in checkpoint.history.values()):
                raise ValueError("its history does not match its number of trees")
            for tree in trees:
                ensemble.check_tree(tree)
        if stopper is not None:
            n_rounds = min(n_rounds, stopper.stops_at(checkpoint.history.get(stopper.metric, [])) or n_rounds)
        taken = min(n_rounds, kept)
        self._written = kept
        self._trees = trees[: taken * ensemble.per_round]
        self._history = {name: values[:taken] for name, values in checkpoint.history.items()}
        if taken < n_rounds:  # otherwise the scores are not needed
            for tree in self._trees:
                ensemble.update_validation(tree)
        return n_rounds

    def _grow(
        self,
        session: Session,
        workers: Workers,
        checkpoint: Checkpoint,
        n_rounds: int,
        callbacks: Sequence[Callback],
    ) -> None:
        """Train up to ``n_rounds`` rounds; Ctrl-C keeps the complete ones."""
        ensemble = self._ensemble
        began, stopped = time.perf_counter(), False
        try:
            while not stopped and self._complete < n_rounds:
                for grown in session.next(self._trees, len(self._trees) % ensemble.per_round):
                    ensemble.check_tree(grown.tree)
                    ensemble.update_validation(grown.tree)
                    if (len(self._trees) + 1) % ensemble.per_round == 0:
                        for name, value in (*grown.metrics.items(), *ensemble.evaluate(workers).items()):
                            self._history.setdefault(name, []).append(value)
                    self._trees.append(grown.tree)  # last: a round counts once all its trees are there
                    if len(self._trees) % ensemble.per_round:
                        continue
                    state = TrainingState(
                        ensemble.n_init_rounds + self._complete,
                        ensemble.n_init_rounds + n_rounds,
                        grown.n_leaves,
                        grown.n_entries,
                        time.perf_counter() - began,
                        self._history,
                    )
                    stop = [callback(state) for callback in callbacks]  # every callback is called
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
            warn(f"Training was interrupted; the model has the {self._complete} {unit} grown so far.")
        self._keep(self._complete)
        self._write(checkpoint)

    def _completion(self, session: Session, workers: Workers) -> Any:
        """What completes the model; None if training was interrupted."""
        if workers.agree(self._interrupted):
            return None
        try:
            return session.complete(self._trees)
        except KeyboardInterrupt:
            self._interrupted = True
            warn("Training was interrupted; the model has the boosted trees only.")
            return None

    def _write(self, checkpoint: Checkpoint) -> None:
        """Write the complete rounds to the checkpoint, if there are new ones."""
        if not checkpoint.has_file:
            return  # packing all trees again and again would be quadratic in their number
        if self._complete > self._written and checkpoint.keep(
            "trees", self._ensemble.pack(self._trees), self._history
        ):
            self._written = self._complete

    def _keep(self, n_rounds: int) -> None:
        """Drop the trees after the first ``n_rounds`` rounds."""
        del self._trees[n_rounds * self._ensemble.per_round :]
