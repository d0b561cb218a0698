"""Properties of characters for the text kernels, from Python's own Unicode database.

The kernels thus split words and convert case exactly as :mod:`re` and :meth:`str.lower` do, whatever the version of
Unicode.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sparseleaf import _kernels

if TYPE_CHECKING:
    from sparseleaf._arrays import Array

N_CHARACTERS = 0x110000
ASSIGNED = ((0, 0xD800), (0xE000, 0x40000), (0xE0000, 0xF0000))
"""Ranges of characters that may have properties: not surrogates, unassigned planes and planes for private use."""

OTHER, WORD, MARK, IDEOGRAPH, SPACE = range(5)
"""Kinds of characters, as in ``cpp/text/tables.hpp``."""

EXPANSION = -0x200000
SOFT_HYPHEN = 0xAD
LINE_BREAK = 0x0A
JOINERS = (0x200C, 0x200D)
"""Zero-width joiners, which are inside words of Persian and Indic scripts."""

WITHOUT_SPACES = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Burmese
    (0x1780, 0x17FF),  # Khmer
    (0x2E80, 0x2FDF),  # radicals
    (0x3005, 0x3007),  # iteration mark, zero
    (0x3021, 0x30FF),  # Hiragana, Katakana
    (0x3100, 0x312F),  # Bopomofo
    (0x31A0, 0x31BF),
    (0x31F0, 0x31FF),  # Katakana extensions
    (0x3400, 0x4DBF),  # Chinese characters
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0xFF66, 0xFF9D),  # Katakana of half width
    (0x1B000, 0x1B16F),
    (0x20000, 0x3FFFF),
)
"""Blocks of scripts that are written without spaces; of their characters, letters are ideographs here."""


class CharacterTables(NamedTuple):
    """What every character is folded to, and its kind, as two-stage tables: see ``cpp/text/tables.hpp``."""

    page_of: Array
    changes: Array
    kinds: Array
    starts: Array
    expansions: Array


@cache
def text_tables(lowercase: bool, strip_accents: str | None, tokenizer: str) -> Any:
    """The kernel object of :func:`character_tables`."""
    return _kernels.TextTables(*character_tables(lowercase, strip_accents, tokenizer))


def character_tables(lowercase: bool, strip_accents: str | None, tokenizer: str) -> CharacterTables:
    """What every character is folded to, and its kind."""
    changes, expansions = _folds(lowercase, strip_accents, tokenizer)
    pages = np.stack((changes.reshape(-1, 256), _kinds(tokenizer).reshape(-1, 256)), axis=1)
    distinct = {page.tobytes(): page for page in pages}
    number = {key: place for place, key in enumerate(distinct)}
    kept = np.stack(list(distinct.values()))
    return CharacterTables(
        np.array([number[page.tobytes()] for page in pages], np.uint16),
        np.ascontiguousarray(kept[:, 0]).ravel(),
        kept[:, 1].astype(np.uint8).ravel(),
        np.cumsum([0, *map(len, expansions)], dtype=np.int64),
        _codes("".join(expansions)),
    )


@cache
def _assigned() -> Array:
    return np.concatenate([np.arange(begin, end, dtype=np.int32) for begin, end in ASSIGNED])


def _codes(text: str) -> Array:
    return np.frombuffer(text.encode("utf-32-le"), np.int32)


def _text(codes: Array) -> str:
    return codes.astype("<i4").tobytes().decode("utf-32-le")


def _places(pattern: str) -> Array:
    """Mask of the characters that match a pattern of single characters."""
    mask, codes = np.zeros(N_CHARACTERS, bool), _assigned()
    for match in re.finditer(f"(?:{pattern})+", _text(codes)):
        mask[codes[match.start() : match.end()]] = True
    return mask


def _kinds(tokenizer: str) -> Array:
    kinds = np.full(N_CHARACTERS, OTHER, np.int32)
    kinds[_places(r"\w")] = WORD
    kinds[_places(r"\s")] = SPACE
    if tokenizer == "unicode":
        for begin, end in WITHOUT_SPACES:
            kinds[[code for code in range(begin, end + 1) if chr(code).isalpha()]] = IDEOGRAPH
        others = _assigned()[kinds[_assigned()] == OTHER]
        is_mark = [unicodedata.category(c).startswith("M") for c in _text(others)]
        kinds[others[is_mark]] = MARK
        kinds[list(JOINERS)] = MARK
    return kinds


def _folds(lowercase: bool, strip_accents: str | None, tokenizer: str) -> tuple[Array, list[str]]:
    """Difference of every character to the one that it is folded to, or the number of its expansion."""
    codes = _assigned()[_assigned() != LINE_BREAK]
    # a line break after every character keeps them apart, so that one call converts all of them
    text = _text(np.stack((codes, np.full_like(codes, LINE_BREAK)), axis=1).ravel())
    if lowercase:
        text = text.lower()
    if strip_accents is not None:
        text = unicodedata.normalize("NFKD", text)
    folded = _codes(text)
    if strip_accents == "unicode":
        folded = folded[
            ~np.isin(folded, [code for code in np.unique(folded) if unicodedata.combining(chr(code))])
        ]
    if strip_accents == "ascii":
        folded = folded[folded < 128]
    ends = np.flatnonzero(folded == LINE_BREAK)
    starts = np.concatenate(([0], ends[:-1] + 1))
    lengths = ends - starts
    if tokenizer == "unicode":
        lengths[SOFT_HYPHEN - 1] = 0
    changes = np.zeros(N_CHARACTERS, np.int32)
    if strip_accents == "ascii":
        changes[128:] = EXPANSION  # also of characters without properties
    single = lengths == 1
    changes[codes[single]] = folded[starts[single]] - codes[single]
    expansions = {"": 0}
    changes[codes[lengths == 0]] = EXPANSION
    for place in np.flatnonzero(lengths > 1).tolist():
        expansion = _text(folded[starts[place] : starts[place] + lengths[place]])
        changes[codes[place]] = EXPANSION - expansions.setdefault(expansion, len(expansions))
    return changes, list(expansions)
