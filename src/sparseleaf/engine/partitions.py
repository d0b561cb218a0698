"""How a partition travels: for every node one bit a row, or the places of the fewer rows where that takes less.

How many rows go left is known to everyone, and with it which of the two it is and how long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from sparseleaf._arrays import Array

PLACE = np.dtype("<u4")
"""A row's place in its node."""


def bit_sizes(rows: Array) -> Array:
    """Bytes of the nodes' bits, each from a byte of its own."""
    sizes: Array = (rows + 7) // 8
    return sizes


def told_sizes(rows: Array, lefts: Array | None) -> Array:
    """Bytes that tell the partitions of nodes; only bits will do where it is not known how many rows go left."""
    bits = bit_sizes(rows)
    if lefts is None:
        return bits
    told: Array = np.minimum(bits, PLACE.itemsize * np.minimum(lefts, rows - lefts))
    return told


def shorten(bits: Array, rows: Array, lefts: Array | None) -> Array:
    """What tells the partitions, given the bits of all nodes, one after the other."""
    told, sizes = told_sizes(rows, lefts), bit_sizes(rows)
    if lefts is None or not (told < sizes).any():
        return bits
    pieces = np.split(bits, np.cumsum(sizes)[:-1])
    for i in np.flatnonzero(told < sizes).tolist():
        n, left = int(rows[i]), int(lefts[i])
        ways = np.unpackbits(pieces[i], count=n, bitorder="little")
        pieces[i] = np.flatnonzero(ways == _fewer(n, left)).astype(PLACE).view(np.uint8)
    return np.concatenate(pieces)


def lengthen(told: Array, offsets: Array, rows: Array, lefts: Array | None) -> tuple[Array, Array]:
    """Bits, and where those of every node begin in them, given what tells them and where that begins."""
    sizes = told_sizes(rows, lefts)
    listed = np.flatnonzero(sizes < bit_sizes(rows)).tolist()
    if lefts is None or not listed:
        return told, offsets
    offsets, at, pieces = offsets.copy(), len(told), [told]
    for i in listed:
        n, left = int(rows[i]), int(lefts[i])
        few = _fewer(n, left)
        ways = np.full(n, 1 - few, np.uint8)
        ways[told[offsets[i] : offsets[i] + sizes[i]].view(PLACE)] = few
        pieces.append(np.packbits(ways, bitorder="little"))
        offsets[i], at = at, at + len(pieces[-1])
    return np.concatenate(pieces), offsets


def _fewer(rows: int, left: int) -> int:
    """The way of the fewer rows: 1 is left."""
    return int(2 * left <= rows)
