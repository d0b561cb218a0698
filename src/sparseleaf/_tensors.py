"""Atomic writing of safetensors files, used for models and checkpoints."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import save, save_file

from sparseleaf._files import drafting, replacing

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf._files import AnyPath


def write_tensors(path: AnyPath, tensors: dict[str, Array], metadata: dict[str, str]) -> None:
    """Write a file atomically: an existing file is replaced when the new one is complete and on disk.

    Raises
    ------
    OSError
        If the file cannot be written; its ``filename`` is ``path``.
    """
    contiguous = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    with _os_errors(path):
        if not isinstance(path, Path):
            with replacing(path) as file:
                file.write(save(contiguous, metadata))
            return
        if path.exists() and not path.is_file():
            raise ValueError(f"The 'path' parameter must be a regular file. Got {os.fspath(path)!r} instead.")
        with drafting(path) as draft:
            save_file(contiguous, draft, metadata)
            with io.FileIO(draft, "r+") as file:
                os.fsync(file.fileno())


@contextmanager
def _os_errors(path: AnyPath) -> Iterator[None]:
    """Convert write errors, including those of safetensors, to an OSError with the name of the file."""
    try:
        yield
    except SafetensorError as error:
        code = re.search(r"(?:os error|code:) (\d+)", str(error))  # the latter in older versions
        if code is None:
            raise OSError(f"{path}: {error}") from None
        raise OSError(int(code[1]), os.strerror(int(code[1])), str(path)) from None
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None
