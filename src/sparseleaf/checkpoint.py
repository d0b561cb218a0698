"""Checkpoints: a training that was cut short goes on where it was, and ends in the same bytes.

A file holds the trees so far and what cannot be made again from the data (the seed, the projection, the history of the
validation set), beside what it was made with: settings and fingerprints of the data. Scores are not in it: trees add up
to them, in the same order and so to the same bits.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from safetensors import SafetensorError, safe_open

from sparseleaf._files import as_path, local_copy, remove_drafts
from sparseleaf._settings import plain_settings, short
from sparseleaf._tensors import write_tensors
from sparseleaf._warnings import warn
from sparseleaf.progress import say

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf._files import AnyPath

VERSION = 1
METADATA_KEY = "sparseleaf-checkpoint"
EVERY = 10
"""Rounds between two checkpoints, where nobody says."""

MAY_CHANGE = ("n_trees", "early_stopping_rounds", "histogram_mb", "warm_start", "n_jobs", "verbose")
"""Parameters that say how far or how fast to go, and not where: a training may go on with others."""


class CheckpointError(ValueError):
    """The file is no checkpoint of this training.

    Examples
    --------
    >>> from sparseleaf import SparseGBDTClassifier
    >>> from sparseleaf.checkpoint import CheckpointError
    >>> from sparseleaf.data import make_xc
    >>> X, Y = make_xc(200, 60, 10)
    >>> _ = SparseGBDTClassifier(n_trees=4).fit(X, Y, checkpoint="run.ckpt", checkpoint_every=2)
    >>> try:
    ...     SparseGBDTClassifier(n_trees=4, max_depth=2).fit(X, Y, checkpoint="run.ckpt")
    ... except CheckpointError:
    ...     print("of another training")
    of another training
    """


class Checkpoint:
    """What has been trained so far, in a file; one without a path keeps nothing.

    Attributes
    ----------
    seed : int
        Of all random draws; that of the file, where there is one.
    every : int
        Rounds between two writings.
    history : dict of str to list of float
        As the file has it.
    """

    def __init__(self, path: AnyPath | None, every: int, identity: dict[str, Any], seed: int) -> None:
        self._path = path
        self._identity = identity
        self._parts: dict[str, dict[str, Array]] = {}
        self.every = every
        self.seed = seed
        self.history: dict[str, list[float]] = {}

    @classmethod
    def open(
        cls,
        estimator: Any,
        path: str | os.PathLike[str] | None,
        every: int,
        seed: int,
        data: Callable[[], dict[str, str]],
    ) -> Self:
        """Read a checkpoint, or begin one.

        Parameters
        ----------
        estimator : estimator
            Whose parameters must be those of the file; :data:`MAY_CHANGE` are excepted.
        path : path or None
        every : int
        seed : int
            What the estimator drew; the file's takes its place.
        data : callable
            Answers the fingerprints of all that is trained on, by argument; not called without a path.

        Raises
        ------
        CheckpointError
            If the file is damaged, no checkpoint, or one of other data or settings.
        """
        if isinstance(every, bool) or not isinstance(every, int | np.integer) or every < 1:
            raise ValueError(f"checkpoint_every: found {every!r}; wanted an int of at least 1.")
        if path is None:
            return cls(None, int(every), {}, seed)
        place = as_path(path)
        if isinstance(place, Path) and not place.parent.is_dir():
            raise ValueError(f"checkpoint: {os.fspath(path)!r}: there is no folder {place.parent}.")
        identity = {
            "estimator": type(estimator).__name__,
            "settings": plain_settings(estimator, MAY_CHANGE),
            "data": data(),
        }
        remove_drafts(place)  # a killed process leaves the file that it was writing
        checkpoint = cls(place, int(every), identity, seed)
        if place.is_file():
            checkpoint._read()
        elif place.exists():
            raise checkpoint._refusal("it is not a file")
        else:
            checkpoint._write()  # a place that cannot be written to is known before the work
        return checkpoint

    def without_file(self) -> Self:
        """The same trees, but no place to write to: only one process of a training does."""
        self._path = None
        return self

    def part(self, name: str) -> dict[str, Array]:
        """Tensors of a part, by name; none where it has not been kept."""
        return self._parts.get(name, {})

    def tell(self, n_trees: int, complete: bool, verbose: int) -> None:
        """Say how many trees were taken from the file."""
        if n_trees:
            after = "training was complete" if complete else "training goes on"
            say(f"checkpoint {self._path}: {n_trees} trees; {after}", verbose)

    @property
    def has_file(self) -> bool:
        """Whether anything is kept at all."""
        return self._path is not None

    def keep(self, name: str, tensors: dict[str, Array], history: Mapping[str, list[float]]) -> bool:
        """Put a part in place of the old one and write all; whether that went well.

        A place that fails is warned of, and training goes on.
        """
        if not self.has_file:
            return True
        self._parts[name] = tensors
        self.history = {metric: list(values) for metric, values in history.items()}
        try:
            self._write()
        except OSError as error:
            warn(f"checkpoint: could not be written, the one before it stays ({error})")
            return False
        return True

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Errors of what the file holds as :class:`CheckpointError`."""
        try:
            yield
        except ValueError as error:
            raise self._refusal(f"it is damaged: {error}") from None

    # --- inside

    def _write(self) -> None:
        assert self._path is not None
        tensors = {
            f"{part}.{name}": np.ascontiguousarray(tensor)
            for part, own in self._parts.items()
            for name, tensor in own.items()
        }
        header = {
            "version": VERSION,
            **self._identity,
            "seed": self.seed,
            "history": self.history,
        }
        header["digest"] = _digest(header, tensors)
        write_tensors(self._path, tensors, {METADATA_KEY: json.dumps(header, sort_keys=True)})

    def _read(self) -> None:
        assert self._path is not None
        try:
            with local_copy(self._path) as here, safe_open(here, framework="np") as file:
                header = json.loads((file.metadata() or {}).get(METADATA_KEY, "null"))
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, ValueError, TypeError, RecursionError) as error:
            raise self._refusal(f"it is damaged, or no checkpoint at all ({error})") from None
        if not isinstance(header, dict):
            raise self._refusal("it is no checkpoint")
        if header.get("version") != VERSION:
            raise self._refusal(f"found format version {header.get('version')!r:.20}; wanted {VERSION}")
        if header.pop("digest", None) != _digest(header, tensors):
            raise self._refusal("it is damaged: its content is not what was written")
        self._compare(header)
        seed: Any = header.get("seed")
        history: Any = header.get("history")
        if not isinstance(seed, int) or not _is_history(history):
            raise self._refusal("it is damaged: its seed or history cannot be read")
        self.seed, self.history = seed, history
        for name, tensor in tensors.items():
            part, _, own = name.partition(".")
            self._parts.setdefault(part, {})[own] = tensor

    def _compare(self, header: dict[str, Any]) -> None:
        """Refuse a file of another training, and say what differs."""
        wanted = json.loads(json.dumps(self._identity))
        differences = []
        if header.get("estimator") != wanted["estimator"]:
            raise self._refusal(f"found one of {header.get('estimator')!r:.60}; wanted {wanted['estimator']}")
        for kind in ("settings", "data"):
            found = header.get(kind)
            if not isinstance(found, dict):
                raise self._refusal(f"it is damaged: its {kind} cannot be read")
            differences += [
                f"found {name} {short(found.get(name))}; wanted {short(wanted[kind].get(name))}"
                for name in sorted({*found, *wanted[kind]})
                if found.get(name) != wanted[kind].get(name)
            ]
        if differences:
            raise self._refusal(f"it is of another training: {'. Also '.join(differences)}")

    def _refusal(self, reason: str) -> CheckpointError:
        return CheckpointError(
            f"checkpoint: {str(self._path)!r}: {reason}. Give another file, or remove this one to train from the start."
        )


def _digest(header: dict[str, Any], tensors: dict[str, Array]) -> str:
    """Tells a file that was damaged after it was written."""
    digest = hashlib.blake2b(json.dumps(header, sort_keys=True).encode(), digest_size=16)
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype.str} {tensor.shape}\n".encode())
        digest.update(np.ascontiguousarray(tensor).view(np.uint8).data if tensor.size else b"")
    return digest.hexdigest()


def _is_history(history: Any) -> bool:
    return isinstance(history, dict) and all(
        isinstance(values, list) and all(isinstance(value, int | float) for value in values)
        for values in history.values()
    )
