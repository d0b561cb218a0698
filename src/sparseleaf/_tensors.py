"""Safetensors files, written whole or not at all: what model files and checkpoints are made of."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from safetensors.numpy import save, save_file

from sparseleaf._files import drafting, replacing

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf._files import AnyPath


def write_tensors(path: AnyPath, tensors: dict[str, Array], metadata: dict[str, str]) -> None:
    """Write a file; the old one, if any, stays until the new one is complete and on disk."""
    contiguous = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    if not isinstance(path, Path):
        with replacing(path) as file:
            file.write(save(contiguous, metadata))
        return
    if path.exists() and not path.is_file():
        raise ValueError(f"path: {os.fspath(path)!r} is not a regular file; wanted a file to write.")
    with drafting(path) as draft:
        draft.touch()
        mode = draft.stat().st_mode  # what files have here; the library's own would hide it from other users
        save_file(contiguous, draft, metadata)
        draft.chmod(mode)
        with io.FileIO(draft, "r+") as file:
            os.fsync(file.fileno())
