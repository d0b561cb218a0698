"""Finds measured figures in the hand-written text of a page: numbers with a unit of measurement, and scores."""

from __future__ import annotations

import re

MADE = re.compile(r"<!-- (?:made|tables: made) by .*?-->.*?<!-- end of .*?-->", re.DOTALL)
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.DOTALL | re.MULTILINE)
NUMBER = r"(?<![\w.,])\d[\d,]*"
UNIT = r"(?:ms|s|seconds?|minutes?|hours?|days|[kKMG]i?B|bytes|%|points?|times)(?![\w²])"
MEASURED = re.compile(
    rf"{NUMBER}(?:\.\d+)?(?:\s*/\s*[\d.]+)*\s*{UNIT}"  # 12 ms
    rf"|{NUMBER}\.\d+(?:\s*/\s*\d+\.\d+)+"  # 69.3 / 63.5
    rf"|{NUMBER}\.\d\d+"  # 98.31
)


def quoted_figures(text: str) -> list[str]:
    """Figures that are typed by hand: outside code and outside what a script makes."""
    text = CODE.sub("", MADE.sub("", text))
    return [" ".join(found.group().split()) for found in MEASURED.finditer(text)]
