"""The study: trials in a SQLite file or in memory, which belong to one problem and are resumed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import optuna
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from sparseleaf._arrays import derive_key
from sparseleaf._settings import short
from sparseleaf.tuning.halving import SuccessiveHalving

if TYPE_CHECKING:
    from optuna.storages import BaseStorage

NAME = "sparseleaf"
ERROR = "error"
"""User attribute of a trial that failed: the message. Interrupted trials have none and are trained again."""
IDENTITY = "problem"
MOST_DIFFERENCES = 3


class StudyFile:
    """An Optuna study of one problem.

    Parameters
    ----------
    path : path-like or None
        SQLite file, created if it does not exist; None keeps the study in memory.
    identity : mapping
        What the trials depend on: data, splits, metric, spaces, seed. A file with another identity is refused.
    higher_is_better : bool
    seed : int
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        identity: Mapping[str, Any],
        higher_is_better: bool,
        seed: int,
    ) -> None:
        self._path = None if path is None else Path(path)
        self._seed = seed
        self._storage = self._open_storage()
        direction = StudyDirection.MAXIMIZE if higher_is_better else StudyDirection.MINIMIZE
        study = optuna.create_study(
            study_name=NAME, storage=self._storage, direction=direction, load_if_exists=True
        )
        plain = json.loads(json.dumps(identity))
        stored = study.user_attrs.get(IDENTITY)
        if stored is None:
            study.set_user_attr(IDENTITY, plain)
        elif stored != plain:
            raise self._refusal(_differences(plain, stored))
        for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            study.tell(trial.number, state=TrialState.FAIL)  # of a process that was killed

    def study(self, index: int = 0) -> optuna.Study:
        """The study, with the sampler of the trial ``index``.

        The sampler is seeded by the index, so that a resumed study samples what an uninterrupted one does.
        """
        sampler = optuna.samplers.TPESampler(seed=derive_key(self._seed, index) % 2**31, multivariate=False)
        return optuna.load_study(
            study_name=NAME, storage=self._storage, sampler=sampler, pruner=SuccessiveHalving()
        )

    def ask(self, index: int, values: Mapping[str, Any] | None) -> optuna.Trial:
        """A new trial, with fixed values if there are some."""
        study = self.study(index)
        if values is not None and not study.get_trials(deepcopy=False, states=(TrialState.WAITING,)):
            study.enqueue_trial(dict(values))
        return study.ask()

    def finished(self) -> list[FrozenTrial]:
        """Complete, pruned and failed trials; not the interrupted ones."""
        return [
            trial
            for trial in self.study().get_trials(deepcopy=False)
            if trial.state in (TrialState.COMPLETE, TrialState.PRUNED) or ERROR in trial.user_attrs
        ]

    def close(self) -> None:
        """Release the file."""
        self._storage.remove_session()

    # --- inside

    def _open_storage(self) -> BaseStorage:
        if self._path is None:
            return optuna.storages.InMemoryStorage()
        if not self._path.parent.is_dir():
            raise ValueError(f"study: {str(self._path)!r}: the directory {self._path.parent} does not exist.")
        if self._path.exists() and not _is_sqlite(self._path):
            raise self._refusal("the file is not a SQLite database")
        try:
            return optuna.storages.RDBStorage(f"sqlite:///{self._path.absolute()}")
        except RuntimeError as error:  # of another version of Optuna
            raise self._refusal(str(error)) from None

    def _refusal(self, reason: str) -> ValueError:
        return ValueError(f"study: {str(self._path)!r}: {reason}. Use another file, or remove this one.")


@contextmanager
def quiet_optuna() -> Iterator[None]:
    """Without Optuna's lines about every trial: tune reports its own."""
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(verbosity)


def _is_sqlite(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(16) in (b"", b"SQLite format 3\0")


def _differences(expected: Mapping[str, Any], stored: Any) -> str:
    if not isinstance(stored, dict):
        return "the file is not a study of sparseleaf"
    differing = [name for name in {**expected, **stored} if expected.get(name) != stored.get(name)]
    texts = [
        f"expected {name} {short(expected.get(name))}, got {short(stored.get(name))}"
        for name in differing[:MOST_DIFFERENCES]
    ]
    return f"the study belongs to another problem: {'; '.join(texts)}"
