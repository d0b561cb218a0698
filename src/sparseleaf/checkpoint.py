"""Checkpoints: an interrupted training is resumed, and the model is byte-identical to that of an uninterrupted run.

A checkpoint file has the trees so far and everything that cannot be recomputed from the data (seed, projection,
validation history), together with the parameters and fingerprints of the data. Scores are not stored: they are
recomputed from the trees in the same order, to the same bits.
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
EMPTY = "empty"
"""The tensor of a checkpoint without trees: safetensors 0.4 cannot read files without tensors."""

EVERY = 10
"""Default number of rounds between two checkpoints."""

MAY_CHANGE = ("n_trees", "early_stopping_rounds", "histogram_mb", "device", "warm_start", "n_jobs", "verbose")
"""Parameters that may differ when training is resumed."""


class CheckpointError(ValueError):
    """The checkpoint file is corrupt or belongs to another training.

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
    ...     print("checkpoint of another training")
    checkpoint of another training
    """


class Checkpoint:
    """State of a training in a file; without a path nothing is stored.

    Attributes
    ----------
    seed : int
        Random seed; that of the file, if it exists.
    every : int
        Number of rounds between two checkpoints.
    history : dict of str to list of float
        Validation history of the file.
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
        """Read a checkpoint, or create one if the file does not exist.

        Parameters
        ----------
        estimator : estimator
            Its parameters must be those of the file, except :data:`MAY_CHANGE`.
        path : path or None
        every : int
        seed : int
            Seed of a new training; that of the file takes precedence.
        data : callable
            Returns the fingerprints of the training data by argument; not called without a path.

        Raises
        ------
        CheckpointError
            If the file is corrupt, not a checkpoint, or has other data or parameters.
        """
        if isinstance(every, bool) or not isinstance(every, int | np.integer) or every < 1:
            raise ValueError(f"The 'checkpoint_every' parameter must be an int >= 1. Got {every!r} instead.")
        if path is None:
            return cls(None, int(every), {}, seed)
        place = as_path(path)
        if isinstance(place, Path) and not place.parent.is_dir():
            raise ValueError(f"checkpoint: {os.fspath(path)!r}: the directory {place.parent} does not exist.")
        identity = {
            "estimator": type(estimator).__name__,
            "settings": plain_settings(estimator, MAY_CHANGE),
            "data": data(),
        }
        remove_drafts(place)  # left behind by killed processes
        checkpoint = cls(place, int(every), identity, seed)
        if place.is_file():
            checkpoint._read()
        elif place.exists():
            raise checkpoint._refusal("the path is not a file")
        else:
            checkpoint._write()  # fails early if the path is not writable
        return checkpoint

    def without_file(self) -> Self:
        """Disable writing: only one process of a training writes the checkpoint."""
        self._path = None
        return self

    def part(self, name: str) -> dict[str, Array]:
        """Tensors of a part by name; empty if it was not stored."""
        return self._parts.get(name, {})

    def report(self, n_trees: int, complete: bool, verbose: int) -> None:
        """Log the number of trees read from the file."""
        if n_trees:
            status = "training was complete" if complete else "resuming training"
            say(f"checkpoint {self._path}: {n_trees} trees; {status}", verbose)

    @property
    def has_file(self) -> bool:
        """Whether checkpoints are written."""
        return self._path is not None

    def keep(self, name: str, tensors: dict[str, Array], history: Mapping[str, list[float]]) -> bool:
        """Replace a part and write the file; returns whether the file was written.

        A write error is a warning, and training continues.
        """
        if not self.has_file:
            return True
        self._parts[name] = tensors
        self.history = {metric: list(values) for metric, values in history.items()}
        try:
            self._write()
        except OSError as error:
            warn(f"The checkpoint could not be written ({error}); the previous one is kept.")
            return False
        return True

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Convert errors of the file content to :class:`CheckpointError`."""
        try:
            yield
        except ValueError as error:
            raise self._refusal(f"the file is corrupt: {error}") from None

    # --- inside

    def _write(self) -> None:
        assert self._path is not None
        tensors = {
            f"{part}.{name}": np.ascontiguousarray(tensor)
            for part, named in self._parts.items()
            for name, tensor in named.items()
        }
        header = {
            "version": VERSION,
            **self._identity,
            "seed": self.seed,
            "history": self.history,
        }
        header["digest"] = _digest(header, tensors)
        tensors = tensors or {EMPTY: np.zeros(1, np.uint8)}
        write_tensors(self._path, tensors, {METADATA_KEY: json.dumps(header, sort_keys=True)})

    def _read(self) -> None:
        assert self._path is not None
        try:
            with local_copy(self._path) as here, safe_open(here, framework="np") as file:
                header = json.loads((file.metadata() or {}).get(METADATA_KEY, "null"))
                tensors = {name: file.get_tensor(name) for name in file.keys() if name != EMPTY}  # noqa: SIM118
        except (SafetensorError, ValueError, TypeError, RecursionError) as error:
            raise self._refusal(f"the file is corrupt or not a checkpoint ({error})") from None
        if not isinstance(header, dict):
            raise self._refusal("the file is not a checkpoint")
        if header.get("version") != VERSION:
            raise self._refusal(f"expected format version {VERSION}, got {header.get('version')!r:.20}")
        if header.pop("digest", None) != _digest(header, tensors):
            raise self._refusal("the file is corrupt: its checksum does not match")
        self._compare(header)
        seed: Any = header.get("seed")
        history: Any = header.get("history")
        if not isinstance(seed, int) or not _is_history(history):
            raise self._refusal("the file is corrupt: invalid seed or history")
        self.seed, self.history = seed, history
        for name, tensor in tensors.items():
            part, _, inner = name.partition(".")
            self._parts.setdefault(part, {})[inner] = tensor

    def _compare(self, header: dict[str, Any]) -> None:
        """Raise an error with the differences if the file belongs to another training."""
        expected = json.loads(json.dumps(self._identity))
        differences = []
        if header.get("estimator") != expected["estimator"]:
            raise self._refusal(
                f"expected a checkpoint of {expected['estimator']}, got {header.get('estimator')!r:.60}"
            )
        for kind in ("settings", "data"):
            stored = header.get(kind)
            if not isinstance(stored, dict):
                raise self._refusal(f"the file is corrupt: invalid {kind}")
            differences += [
                f"expected {name} {short(expected[kind].get(name))}, got {short(stored.get(name))}"
                for name in sorted({*stored, *expected[kind]})
                if stored.get(name) != expected[kind].get(name)
            ]
        if differences:
            raise self._refusal(f"the file belongs to another training: {'; '.join(differences)}")

    def _refusal(self, reason: str) -> CheckpointError:
        return CheckpointError(
            f"checkpoint: {str(self._path)!r}: {reason}. Use another file, or remove this one to train from scratch."
        )


def _digest(header: dict[str, Any], tensors: dict[str, Array]) -> str:
    """Checksum of the content."""
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
