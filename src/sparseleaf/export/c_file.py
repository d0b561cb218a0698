"""The container of ``model.bin``: named arrays; ``csource/file.h`` is its specification."""

from __future__ import annotations

import struct
from typing import IO, TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from sparseleaf._arrays import Array

MAGIC = b"SPARSELF"
VERSION = 2
BYTE_ORDER_MARK = 0x01020304
ALIGNMENT = 64
NAME_SIZE = 40

HEADER = struct.Struct("<8sIIQQ")
ENTRY = struct.Struct(f"<{NAME_SIZE}sIIQQ")

TYPES = ("u1", "i1", "u2", "i2", "u4", "i4", "i8", "f4", "f8", "f2")
"""Type codes, by position."""


def write_arrays(file: IO[bytes], arrays: dict[str, Array]) -> None:
    """Write arrays by name, little-endian."""
    end = HEADER.size + ENTRY.size * len(arrays)
    entries, starts = [], []
    for name, array in arrays.items():
        encoded = name.encode("ascii")
        if len(encoded) > NAME_SIZE:
            raise ValueError(
                f"The name of an array must have at most {NAME_SIZE} bytes. Got {name!r} instead."
            )
        start = -(-end // ALIGNMENT) * ALIGNMENT
        entries.append(ENTRY.pack(encoded, TYPES.index(array.dtype.str[1:]), 0, start, array.size))
        starts.append(start)
        end = start + array.nbytes
    file.write(HEADER.pack(MAGIC, VERSION, BYTE_ORDER_MARK, len(arrays), end))
    file.writelines(entries)
    at = HEADER.size + ENTRY.size * len(arrays)
    for start, array in zip(starts, arrays.values(), strict=True):
        file.write(b"\0" * (start - at))
        file.write(np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False)).data)
        at = start + array.nbytes
