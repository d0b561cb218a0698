"""Where trials run: in this process, one after another, or on the workers of a Dask cluster, in parallel."""

from __future__ import annotations

import shutil
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from sparseleaf.tuning.trials import Rung, RungResult, TrialData, train_rung

Result = RungResult | BaseException


class Workers(Protocol):
    """Trains rungs of trials."""

    @property
    def n_free(self) -> int:
        """Number of further trials that can start now."""

    def n_jobs(self, n_jobs: int | None) -> int | None:
        """Threads of a trial, if the user set this number."""

    def submit(self, index: int, rung: Rung, seconds: float | None) -> None:
        """Start a rung of the trial ``index``."""

    def wait(self) -> tuple[int, Result]:
        """The trial that is ready first, and the result or the error of its rung."""

    def release(self, index: int) -> None:
        """Forget a trial that has ended, and delete its checkpoints."""

    def stop(self, index: int) -> None:
        """Stop a trial before its end, keeping checkpoints that a later run can use."""


class LocalWorkers:
    """Trains in this process, one trial at a time; checkpoints are in ``folder``."""

    def __init__(self, data: TrialData, folder: Path) -> None:
        self._data = data
        self._folder = folder
        self._next: tuple[int, Rung, float | None] | None = None
        self._current: int | None = None

    @property
    def n_free(self) -> int:
        """See :class:`Workers`."""
        return int(self._current is None)

    def n_jobs(self, n_jobs: int | None) -> int | None:
        """See :class:`Workers`."""
        return n_jobs

    def submit(self, index: int, rung: Rung, seconds: float | None) -> None:
        """See :class:`Workers`."""
        self._current = index
        self._next = (index, rung, seconds)

    def wait(self) -> tuple[int, Result]:
        """See :class:`Workers`."""
        assert self._next is not None
        index, rung, seconds = self._next
        place = self._place(index)
        place.mkdir(parents=True, exist_ok=True)
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Training was interrupted")  # tune reports it
                return index, train_rung(self._data, rung, place, seconds)
        except Exception as error:
            return index, error

    def release(self, index: int) -> None:
        """See :class:`Workers`."""
        shutil.rmtree(self._place(index), ignore_errors=True)
        self._current = None

    def stop(self, index: int) -> None:
        """See :class:`Workers`."""
        self._current = None

    def _place(self, index: int) -> Path:
        return self._folder / f"trial-{index}"


class DaskWorkers:
    """Trains on the workers of a Dask cluster, one trial per worker; checkpoints are in their local directories."""

    def __init__(self, client: Any, data: TrialData) -> None:
        self._client = client
        self._run = uuid.uuid4().hex[:12]
        self._threads: dict[str, int] = dict(client.nthreads())
        if not self._threads:
            raise ValueError("The Dask cluster must have at least one worker. Got none instead.")
        self._data = client.scatter(data, broadcast=True)
        self._futures: dict[int, Any] = {}
        self._homes: dict[int, str] = {}

    @property
    def n_free(self) -> int:
        """See :class:`Workers`."""
        return len(self._threads) - len(self._homes)

    def n_jobs(self, n_jobs: int | None) -> int | None:
        """See :class:`Workers`."""
        return min(self._threads.values()) if n_jobs is None else n_jobs

    def submit(self, index: int, rung: Rung, seconds: float | None) -> None:
        """See :class:`Workers`."""
        if index not in self._homes:
            self._homes[index] = next(one for one in self._threads if one not in self._homes.values())
        # another worker may have to take over: without the checkpoints it trains the same from the start
        self._futures[index] = self._client.submit(
            _train_remotely,
            self._data,
            rung,
            self._name(index),
            seconds,
            workers=[self._homes[index]],
            allow_other_workers=True,
            pure=False,
        )

    def wait(self) -> tuple[int, Result]:
        """See :class:`Workers`."""
        from distributed import wait

        done = wait(list(self._futures.values()), return_when="FIRST_COMPLETED").done
        index = min(number for number, future in self._futures.items() if future in done)
        future = self._futures.pop(index)
        try:
            result: RungResult = future.result()
        except Exception as error:
            return index, error
        return index, result

    def release(self, index: int) -> None:
        """See :class:`Workers`."""
        future = self._futures.pop(index, None)
        if future is not None:
            future.cancel()
        home = self._homes.pop(index, None)
        if home is not None:
            from distributed import fire_and_forget

            task = self._client.submit(
                _clean_remotely, self._name(index), workers=[home], allow_other_workers=True, pure=False
            )
            fire_and_forget(task)

    def stop(self, index: int) -> None:
        """See :class:`Workers`."""
        self.release(index)  # a later run has other workers

    def _name(self, index: int) -> str:
        return f"sparseleaf-tune-{self._run}-{index}"


def _place_on_worker(name: str) -> Path:
    from distributed import get_worker

    return Path(get_worker().local_directory) / name


def _train_remotely(data: TrialData, rung: Rung, name: str, seconds: float | None) -> RungResult:
    place = _place_on_worker(name)
    place.mkdir(parents=True, exist_ok=True)
    return train_rung(data, rung, place, seconds)


def _clean_remotely(name: str) -> None:
    shutil.rmtree(_place_on_worker(name), ignore_errors=True)


@contextmanager
def open_workers(client: Any, data: TrialData, folder: Path) -> Iterator[Workers]:
    """Workers of a Dask client or the scheduler of that address; those of this process if there is none."""
    if client is None:
        yield LocalWorkers(data, folder)
        return
    from sparseleaf.distributed.dask import DaskLauncher

    with DaskLauncher(client).client() as opened:
        yield DaskWorkers(opened, data)
