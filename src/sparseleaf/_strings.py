"""Many strings in two arrays, in the form used by model files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from sparseleaf._steps import UNSIGNED, narrow

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.model.source import StageSource


@dataclass(frozen=True)
class PackedStrings:
    """Strings, concatenated.

    Attributes
    ----------
    text : uint8 array
        UTF-8.
    offsets : int64 array, shape (n_strings + 1,)
        First byte of every string, and the number of bytes.
    """

    text: Array
    offsets: Array

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, number: int) -> str:
        # untrusted files may have anything
        return self.text[self.offsets[number] : self.offsets[number + 1]].tobytes().decode(errors="replace")

    @classmethod
    def of(cls, strings: Sequence[str]) -> Self:
        """Pack strings."""
        encoded = [one.encode(errors="replace") for one in strings]
        offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
        return cls(np.frombuffer(b"".join(encoded), np.uint8), offsets)

    def moved(self, first: int, n_new: int) -> Self:
        """From the ``first`` string on, followed by ``n_new`` empty ones."""
        offsets = self.offsets[first:] - self.offsets[first]
        end = np.full(n_new, offsets[-1], np.int64)
        return type(self)(self.text[self.offsets[first] :], np.concatenate((offsets, end)))

    # --- tensors of the model file

    def tensors(self) -> dict[str, Array]:
        """Tensors by name."""
        return {"sizes": narrow(np.diff(self.offsets)), "text": self.text}

    @classmethod
    def from_tensors(cls, source: StageSource, count: int) -> Self:
        """From tensors; ValueError if they are not ``count`` strings."""
        sizes, text = source.take("sizes", UNSIGNED, 1), source.take("text", ("U8",), 1, in_place=True)
        if len(sizes) != count or int(sizes.sum(dtype=np.int64)) != len(text):
            raise ValueError(f"{source.prefix}sizes must be the sizes of {count} strings in text")
        return cls(text, np.concatenate(([0], np.cumsum(sizes, dtype=np.int64))))


def split_strings(text: Array, lengths: Array) -> list[bytes]:
    """Concatenated strings of these lengths in bytes."""
    whole, ends = text.tobytes(), np.cumsum(lengths, dtype=np.int64).tolist()
    return [whole[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)] if ends else []
