"""Every single character is folded and classified as Python does it."""

import re
import unicodedata

import numpy as np
import pytest

from sparseleaf import _kernels
from sparseleaf.features.unicode import text_tables

RANGES = (
    (0, 0xD800),
    (0xE000, 0x20000),
    (0x2F800, 0x2FA20),
    (0xE0000, 0xE0200),
    (0xF0000, 0xF0010),
    (0x10FFF0, 0x110000),
)
CHARACTERS = [chr(code) for begin, end in RANGES for code in range(begin, end)]


def analyzer(lowercase=True, strip_accents=None, tokenizer="sklearn", kind=1, n=1):
    tables = text_tables(lowercase, strip_accents, tokenizer)
    nothing = np.empty(0, np.uint8), np.empty(0, np.uint32)
    return _kernels.TextAnalyzer(tables, kind, n, n, *nothing, np.ones(1, np.float32), False)


def stripped(text, how):
    text = unicodedata.normalize("NFKD", text)
    if how == "ascii":
        return text.encode("ascii", "ignore").decode()
    return "".join(c for c in text if not unicodedata.combining(c))


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("strip_accents", [None, "unicode", "ascii"])
def test_folding_of_every_character(lowercase, strip_accents):
    text = "x".join(CHARACTERS)  # kept apart, so that white space is not joined
    expected = "x".join(c.lower() if lowercase and c != "Σ" else c for c in CHARACTERS)
    expected = expected.replace("Σ", "σ") if lowercase else expected
    if strip_accents:
        expected = re.sub(r"\s\s+", " ", stripped(expected, strip_accents))
    assert "".join(analyzer(lowercase, strip_accents).terms(text)) == expected


def test_lower_case_is_idempotent():
    lower = "\n".join(CHARACTERS).lower()
    assert lower.lower() == lower


def test_words_of_every_character():
    text = "".join(f"{c}a{c}b " for c in CHARACTERS)
    assert analyzer(False, kind=0).terms(text) == re.findall(r"(?u)\b\w\w+\b", text)


def test_white_space():
    text = "".join(f"x{c}" for c in CHARACTERS)
    assert analyzer(False, kind=2, n=64).terms(text) == analyzer(False, kind=2, n=64).terms(
        " ".join(text.split())
    )
    words = analyzer(False, kind=2, n=3).terms("a\u2028bb\x1cc\u200bd")
    assert words == [" a ", " bb", "bb ", " c\u200b", "c\u200bd", "\u200bd "]


def test_lone_surrogates_are_replaced():
    assert analyzer().terms("a\ud800b") == ["a", "\ufffd", "b"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("東京都に住む", ["東京", "京都", "都に", "に住", "住む"]),
        ("a字b 字", ["字", "字"]),
        ("iPhone手机2台", ["iphone", "手机", "台"]),
        ("ภาษา", ["ภา", "าษ", "ษา"]),
        ("ที่นี่", ["ที่นี่"]),
        ("हिन्दी", ["हिन्दी"]),
        ("soft\u00adhyphen", ["softhyphen"]),
        ("می\u200cخواهم", ["می\u200cخواهم"]),
        ("한국어 문장", ["한국어", "문장"]),
        ("\u0301ab", ["ab"]),
        ("o\u0302", ["o\u0302"]),
    ],
)
def test_words_of_other_scripts(text, words):
    assert analyzer(tokenizer="unicode", kind=0).terms(text) == words
