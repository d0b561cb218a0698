"""The model that a server process uses, replaced when its file is."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import sparseleaf

logger = logging.getLogger("sparseleaf.serve")

FileState = tuple[int, int, int]
"""Inode, time of the last change in ns, and size: a replaced file has another one."""


@dataclass(frozen=True)
class Loaded:
    """A loaded model and the file it came from.

    Attributes
    ----------
    estimator : fitted estimator
    state : FileState or None
        None for remote files, which are not reloaded.
    loaded_at : str
        ISO 8601 time.
    """

    estimator: Any
    state: FileState | None
    loaded_at: str

    @cached_property
    def uris(self) -> dict[Any, str] | None:
        """URIs by label; None if the model has none."""
        uris = getattr(self.estimator, "label_uris_", None)
        if uris is None:
            return None
        names = self.estimator.model_.label_names
        labels = range(len(uris)) if names is None else names.tolist()
        return {label: uri for label, uri in zip(labels, uris.tolist(), strict=True) if uri is not None}


class ModelHolder:
    """Loads a model, and loads it again when its file is replaced.

    Requests take :attr:`current` once and use it to the end, so that a reload affects only later requests.
    """

    def __init__(self, path: str, n_jobs: int) -> None:
        self._path, self._n_jobs = path, n_jobs
        self.current = self._load()
        self._refused: FileState | None = None

    def _load(self) -> Loaded:
        state = self._state()  # before loading: a replacement meanwhile is noticed later
        estimator = sparseleaf.load(self._path, n_jobs=self._n_jobs)
        return Loaded(estimator, state, datetime.now(UTC).isoformat(timespec="seconds"))

    def _state(self) -> FileState | None:
        if "://" in self._path:
            return None
        stat = Path(self._path).stat()
        return stat.st_ino, stat.st_mtime_ns, stat.st_size

    def refresh(self) -> bool:
        """Load the file again if it was replaced; keep the present model if the new one cannot be loaded."""
        try:
            state = self._state()
            if state in (self.current.state, self._refused):
                return False
            self._refused = state  # if it cannot be loaded, it is not tried again until it changes
            self.current = self._load()
        except (OSError, ValueError) as error:
            logger.error("model was not reloaded", extra={"reason": str(error)})
            return False
        self._refused = None
        logger.info("model reloaded", extra={"model": self._path})
        return True

    @contextlib.asynccontextmanager
    async def watching(self, seconds: float) -> AsyncIterator[None]:
        """Refresh at this interval while the context lasts; never for 0 seconds."""
        if seconds <= 0:
            yield
            return
        task = asyncio.create_task(self._watch(seconds))
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _watch(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            await asyncio.to_thread(self.refresh)
