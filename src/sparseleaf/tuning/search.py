"""The search: trials are sampled, trained rung by rung, and pruned, until their number or the time is reached."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from optuna.trial import TrialState

from sparseleaf._warnings import warn
from sparseleaf.progress import logger, phase, say
from sparseleaf.tuning.candidates import METHOD_KEY, Candidate
from sparseleaf.tuning.halving import METHOD
from sparseleaf.tuning.study import ERROR
from sparseleaf.tuning.trials import OutOfTime, Rung, RungResult

if TYPE_CHECKING:
    import optuna

    from sparseleaf.tuning.problem import Metric
    from sparseleaf.tuning.study import StudyFile
    from sparseleaf.tuning.workers import Result, Workers

N_TREES, START, SECONDS = "n_trees", "start", "seconds"
"""User attributes of a trial: trees to refit with, its number among the trials that are not sampled, its duration."""


@dataclass(frozen=True)
class Start:
    """A trial that is not sampled: the defaults of a candidate, with the default or the maximum number of trees."""

    candidate: Candidate
    more_trees: bool

    @property
    def values(self) -> dict[str, Any]:
        """Values of the trial in the study."""
        return {METHOD_KEY: self.candidate.method, **self.candidate.default_values()}


@dataclass
class _Running:
    """A trial that is being trained."""

    trial: optuna.Trial
    candidate: Candidate
    rungs: list[Rung]
    began: float
    number: int | None
    """Its number among the trials that are not sampled, which are not pruned; None if it is sampled."""
    step: int = 0

    @property
    def first(self) -> bool:
        """Whether it has the defaults of the first candidate: the trial that a result needs."""
        return self.number == 0


class Search:
    """One run of a study.

    Parameters
    ----------
    study : StudyFile
    candidates : dict of str to Candidate
    workers : Workers
    metric : Metric
    n_splits : int
        Number of splits into training and validation rows.
    n_jobs : int or None
    n_trials : int or None
        Number of trials of the study, those of earlier runs included.
    timeout : float or None
        Seconds. The first trial of the study is not stopped, so that there is a result.
    verbose : int
    """

    def __init__(
        self,
        study: StudyFile,
        candidates: Mapping[str, Candidate],
        workers: Workers,
        metric: Metric,
        *,
        n_splits: int,
        n_jobs: int | None,
        n_trials: int | None,
        timeout: float | None,
        verbose: int,
    ) -> None:
        self._study = study
        self._candidates = candidates
        self._workers = workers
        self._metric = metric
        self._n_splits = n_splits
        self._n_jobs = workers.n_jobs(n_jobs)
        self._n_trials = n_trials
        self._verbose = verbose
        self._end = None if timeout is None else time.monotonic() + timeout
        self._running: dict[int, _Running] = {}
        self._starts = [Start(one, False) for one in candidates.values()]
        self._starts += [
            Start(one, True) for one in candidates.values() if one.stops_early and not one.user_stops
        ]
        finished = study.finished()
        self._n_finished = len(finished)
        done = {trial.user_attrs.get(START) for trial in finished}
        self._pending = [number for number in range(len(self._starts)) if number not in done]
        self._best: float | None = None
        for trial in finished:
            if trial.state == TrialState.COMPLETE and trial.value is not None:
                self._keep_best(trial.value)

    def run(self) -> bool:
        """Train trials; returns whether Ctrl-C ended the search."""
        with phase("tuning", self._n_trials) as advance:
            advance(self._n_finished, self._summary())
            try:
                while True:
                    while self._workers.n_free and self._may_start():
                        self._start()
                    if not self._running:
                        return False
                    index, result = self._workers.wait()
                    self._continue(index, result)
                    advance(self._n_finished, self._summary())
            except KeyboardInterrupt:
                return True
            finally:
                for index in list(self._running):
                    self._interrupt(index)

    # --- inside

    def _summary(self) -> str:
        return "" if self._best is None else f"best {self._metric.name} {self._best:.4f}"

    @property
    def _seconds_left(self) -> float | None:
        return None if self._end is None else self._end - time.monotonic()

    def _may_start(self) -> bool:
        index = self._n_finished + len(self._running)
        if self._n_trials is not None and index >= self._n_trials:
            return False
        left = self._seconds_left
        return left is None or left > 0 or self._pending[:1] == [0]

    def _start(self) -> None:
        index = self._n_finished + len(self._running)
        number = self._pending.pop(0) if self._pending else None
        start = None if number is None else self._starts[number]
        trial = self._study.ask(index, None if start is None else start.values)
        candidate = self._candidates[trial.suggest_categorical(METHOD_KEY, list(self._candidates))]
        if start is None:
            settings = candidate.suggest(trial)
        else:
            settings = candidate.suggest_only(trial, start.values)
            trial.set_user_attr(START, number)
        rungs = candidate.rungs(settings, self._n_splits, self._n_jobs)
        if start is not None and not (start.more_trees or candidate.bagged or candidate.user_stops):
            rungs = [candidate.default_rung(settings, self._n_jobs)]
        trial.set_user_attr(METHOD, candidate.method)
        self._running[index] = _Running(trial, candidate, rungs, time.monotonic(), number)
        self._submit(index)

    def _submit(self, index: int) -> None:
        running = self._running[index]
        self._workers.submit(
            index, running.rungs[running.step], None if running.first else self._seconds_left
        )

    def _continue(self, index: int, result: Result) -> None:
        """Report a rung; prune, promote or complete the trial."""
        running = self._running[index]
        if isinstance(result, OutOfTime):
            self._interrupt(index)
            return
        if not isinstance(result, RungResult):
            self._fail(index, result)
            return
        trial = running.trial
        trial.set_user_attr(N_TREES, result.n_trees)
        last = result.stopped or running.step == len(running.rungs) - 1
        if len(running.rungs) > 1:
            trial.report(result.value, running.step)
        if not last and running.number is None and trial.should_prune():
            self._finish(index, "pruned", state=TrialState.PRUNED)
        elif last:
            self._keep_best(result.value)
            self._finish(index, f"{self._metric.name} {result.value:.4f}", values=result.value)
        else:
            running.step += 1
            running.rungs[running.step] = replace(running.rungs[running.step], earlier=result.values)
            self._submit(index)

    def _keep_best(self, value: float) -> None:
        if self._best is None or self._metric.is_better(value, self._best):
            self._best = value

    def _finish(self, index: int, outcome: str, **ending: Any) -> None:
        running = self._running.pop(index)
        seconds = time.monotonic() - running.began
        running.trial.set_user_attr(SECONDS, round(seconds, 3))
        self._study.study().tell(running.trial.number, **ending)
        self._workers.release(index)
        self._n_finished += 1
        line = f"trial {index + 1}: {running.candidate.method}, {outcome}, {seconds:.1f} s"
        say(line, self._verbose >= 2)

    def _fail(self, index: int, error: BaseException) -> None:
        running = self._running[index]
        if running.first:
            raise error
        running.trial.set_user_attr(ERROR, f"{type(error).__name__}: {error}")
        warn(f"A trial of {running.candidate.method} failed: {error}")
        self._finish(index, "failed", state=TrialState.FAIL)

    def _interrupt(self, index: int) -> None:
        """End a trial whose training was not completed; it keeps its checkpoints, and a resumed study resumes it."""
        running = self._running.pop(index)
        self._workers.stop(index)
        self._study.study().tell(running.trial.number, state=TrialState.FAIL)
        logger.info("trial %d: interrupted", index + 1)
