"""A text vectoriser as the arrays that the C predictor reads, with tables of Python's Unicode database."""

from __future__ import annotations

import unicodedata
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from sparseleaf.features.settings import ANALYZERS, NORMS
from sparseleaf.features.unicode import character_tables
from sparseleaf.model.source import prefixed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sparseleaf._arrays import Array
    from sparseleaf.features import TextStage
    from sparseleaf.features.terms import TermBlock

JAMO = (range(0x1161, 0x1176), range(0x11A8, 0x11C3))
"""Vowels and final consonants of Hangul, which are composed with the letter before them."""

SYLLABLES = range(0xAC00, 0xD7A4)
"""Hangul syllables, which are decomposed by arithmetic."""


def text_arrays(stage: TextStage) -> dict[str, Array]:
    """Arrays of all blocks, and of conversions that depend on several characters."""
    settings = stage.parameters
    fields: list[str | None] = [None] if settings.fields is None else list(settings.fields)
    compose = settings.tokenizer == "unicode"
    unicode = {"flags": np.array([compose, settings.lowercase], np.uint8)}
    if compose:
        unicode |= composition_arrays()
    if settings.lowercase:
        unicode |= sigma_arrays()
    n_numeric = 0 if stage.numeric is None else stage.numeric.width
    shape = [len(fields), len(stage.terms), n_numeric, len(stage.categorical)]
    arrays = {"shape": np.array(shape, np.int64), **prefixed("unicode", unicode)}
    for number, block in enumerate(stage.terms):
        arrays |= prefixed(f"{number:04}", _block_arrays(block, fields))
    if stage.numeric is not None:
        columns = {
            "means": stage.numeric.mean,
            "scales": stage.numeric.scale,
            "weights": stage.numeric.weights,
        }
        arrays |= prefixed("numeric", columns)
    for number, column in enumerate(stage.categorical):
        names = [category.encode() for category in column.categories]
        categories = {"weight": np.array([column.weight], np.float32), **_strings("names", "starts", names)}
        arrays |= prefixed(f"category{number:04}", categories)
    return arrays


def _block_arrays(terms: TermBlock, fields: list[str | None]) -> dict[str, Array]:
    block, settings = terms.block, terms.settings
    is_word = block.analyzer == "word"
    tables = character_tables(
        settings.lowercase, settings.strip_accents, settings.tokenizer if is_word else "sklearn"
    )
    stop_words = [word.encode("utf-8", "surrogatepass") for word in settings.stop_words or () if is_word]
    arrays: dict[str, Array] = {
        "settings": np.array(
            [
                ANALYZERS.index(block.analyzer),
                *block.ngram_range,
                0 if settings.norm is None else 1 + NORMS.index(settings.norm),
                terms.width,
                settings.binary,
                settings.sublinear_tf,
                settings.n_hash_features is not None,
                settings.alternate_sign,
            ],
            np.int64,
        ),
        "weight": np.array([block.weight], np.float64),
        "fields": np.array([fields.index(name) for name in block.fields], np.int64),
        "field_weights": np.array(block.field_weights, np.float32),
        "page_of": tables.page_of,
        "changes": tables.changes,
        "kinds": tables.kinds,
        "fold_starts": tables.starts,
        "folds": tables.expansions.astype(np.uint32),
        **_strings("stop_words", "stop_starts", sorted(stop_words)),
    }
    if settings.n_hash_features is None:
        arrays["terms"] = terms.text
        arrays["term_starts"] = np.concatenate(([0], np.cumsum(terms.lengths, dtype=np.int64)))
    return arrays | {"idf": terms.idf} if settings.use_idf else arrays


def _strings(name: str, starts: str, values: list[bytes]) -> dict[str, Array]:
    return {
        name: np.frombuffer(b"".join(values), np.uint8),
        starts: np.cumsum([0, *map(len, values)], dtype=np.int64),
    }


# --- properties of characters


def _characters() -> Iterable[str]:
    return (chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000)


def _ranges(characters: Iterable[str]) -> Array:
    """Ranges [begin, end) of sorted characters, flattened."""
    ends: list[int] = []
    for _, run in groupby(enumerate(map(ord, characters)), key=lambda pair: pair[1] - pair[0]):
        codes = [code for _, code in run]
        ends += [codes[0], codes[-1] + 1]
    return np.array(ends, np.uint32)


@cache
def composition_arrays() -> dict[str, Array]:
    """Tables of canonical composition (NFC): decompositions, combining classes and pairs."""
    decomposed, pairs = {}, []
    classes = {c: value for c in _characters() if (value := unicodedata.combining(c))}
    for c in _characters():
        parts = unicodedata.decomposition(c).split()
        if ord(c) in SYLLABLES or not parts or parts[0].startswith("<"):
            continue
        decomposed[c] = unicodedata.normalize("NFD", c)
        if len(parts) == 2 and unicodedata.normalize("NFC", c) == c:
            pairs.append((int(parts[0], 16), int(parts[1], 16), ord(c)))
    second = {chr(pair[1]) for pair in pairs} | {chr(code) for jamo in JAMO for code in jamo}
    changed = {c for c in decomposed if unicodedata.normalize("NFC", c) != c}
    whole = "".join(decomposed.values())
    return {
        "unsafe": _ranges(sorted(second | changed | classes.keys())),
        "decomposed": _codes("".join(decomposed)),
        "decomposition_starts": np.cumsum([0, *map(len, decomposed.values())], dtype=np.int64),
        "decompositions": _codes(whole),
        "classed": _codes("".join(classes)),
        "classes": np.array(list(classes.values()), np.uint8),
        "pairs": np.array(sorted(pairs), np.uint32).ravel(),
    }


@cache
def sigma_arrays() -> dict[str, Array]:
    """Characters that decide the lower case of a capital sigma, as :meth:`str.lower` treats them."""
    cased = [c for c in _characters() if f"{c}Σ".lower().endswith("ς")]
    skipped = [c for c in _characters() if f"a{c}Σ".lower().endswith("ς")]
    return {"cased": _ranges(cased), "ignorable": _ranges(sorted(set(skipped) - set(cased)))}


def _codes(text: str) -> Array:
    return np.frombuffer(text.encode("utf-32-le"), np.uint32)
