"""The text and the identifiers use the field's vocabulary: none of the phrases below, but for the listed exceptions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]

SEARCHED = (
    *("README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/**/*.md", "docs/**/*.rst", "docs/*.py"),
    *(
        "src/**/*.py",
        "src/**/*.pyi",
        "cpp/**/*.cpp",
        "cpp/**/*.hpp",
        "benchmarks/**/*.py",
        "examples/**/*.py",
    ),
)

COUNTED = "row|tree|label|leaf|node|round|worker|rank|class|output|query|feature|column|pair|point|entry|core|process"
UNITS = (
    "µs|ms|s|seconds?|[kmg]i?b|bytes?|bits?|one|two|number|class|value|labels?|features?|rows?|entries|times"
)

PHRASES = {
    # phrase: what to write instead
    r"turned(?! (?:into|out|on|off)\b)|what to turn": "tuned",
    r"cuts?(?!-off| (?:off|short)\b)": "split, threshold, bin edge",
    r"part(?:ed|ing)": "partitioned, split",
    r"curvatures?": "hessian",
    r"reducers?|reduced residuals?": "sketch, sketched gradients",
    r"lowered": "minimised",
    r"predict\w*\W{1,4}answers?": "predict returns",
    r"judg(?:e|es|ed|ing)": "validation set; evaluated",
    r"watched": "validation set",
    r"opinions?": "score components",
    r"(?:choose|chosen|best) shares": "mixing weights",
    r"ha(?:s|ve) (?:its|a|their) say": "score component",
    r"telling": "discriminative",
    r"told": "a name for what it holds; set",
    r"made[- ]up": "synthetic",
    r"rows? alone": "single-row prediction",
    r"(?:is|are|be|lie|from|files|rows) elsewhere": "remote",
    r"tells? each other|in step(?! \d)|verbs?": "collectives, SPMD, methods",
    rf"(?:{UNITS}) an? (?:{COUNTED})": "per row, per tree, per label",
    r"so (?:much|many) (?:an?|bytes|[kmg]i?b|rows|trees|labels|columns|values|entries|outputs)": "the number of",
    r"wanted": "The 'x' parameter must be ... Got ... instead.",
    r"found (?=\{)": "Got {...} instead.",
    r"abreast": "in parallel",
    r"scikit-learn(?:'s)? faces?|strangers": "scikit-learn estimators; untrusted input",
    r"(?:go|goes|going) on from|taken? up from": "resume from",
    r"with a word|a word (?:about|on)|what is made of": "plain prose",
}

NAMES = ("found", "own", "asked", "given", "said")
"""Of variables and parameters: not what they hold."""

EXCEPTIONS: dict[tuple[str, str], str] = {
    # (path, part of the line): why
    ("src/sparseleaf/estimators/declarations.py", 'former_name="min_curvature_leaf"'): "name in version 0.1",
    ("src/sparseleaf/estimators/declarations.py", 'former_name="reducer"'): "name in version 0.1",
    ("docs/parameters.md", "`min_curvature_leaf`"): "name in version 0.1",
    ("docs/parameters.md", "`reducer`"): "name in version 0.1",
    ("docs/papers/gbdt-on-hadoop.md", "candidate cut points"): "term of the paper",
    ("docs/papers/gbdt-on-hadoop.md", "mappers and reducers"): "of MapReduce",
}


class Use(NamedTuple):
    """Where a phrase is used."""

    path: str
    line: int
    text: str
    instead: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text.strip()!r}; instead: {self.instead}"


# a word of a phrase ends at "_", at a capital letter, and where no letter follows
PHRASE = re.compile(
    rf"(?<![a-z])(?:{'|'.join(f'({phrase})' for phrase in PHRASES)})(?![a-z])".replace(" ", r"\s+")
)
CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")
WRAPPED = re.compile(r"\n[ \t]*(?:#+|//+)?[ \t]*")
# assigned to, a variable of a loop, or a parameter with a type
NAME = re.compile(
    rf"for ({'|'.join(NAMES)}) in |"
    rf"(?:^ *|[(,*&\[] ?|\w> |auto |int |double |float )({'|'.join(NAMES)})(?:, \w+)*"
    r"(?: = | := | \+= |: [A-Za-z]+(?:\[.*)?(?: \||,|\)| =|$))",
    re.MULTILINE,
)


def uses(text: str, path: str = "") -> Iterator[Use]:
    """Every use of a phrase, also one that is wrapped over lines, in a comment or within an identifier."""
    lines = text.splitlines()
    plain = WRAPPED.sub("\n", CAPITAL.sub(" ", text).replace("_", " ")).lower()  # of as many lines
    instead = list(PHRASES.values())
    for match in PHRASE.finditer(plain):
        at = plain.count("\n", 0, match.start())
        assert match.lastindex is not None
        yield Use(path, at + 1, lines[at], instead[match.lastindex - 1])
    for match in NAME.finditer(text):
        at = text.count("\n", 0, match.start())
        yield Use(path, at + 1, lines[at], "a name for what it holds")


def files() -> list[Path]:
    return sorted({path for pattern in SEARCHED for path in ROOT.glob(pattern)})


def is_exception(use: Use) -> bool:
    return any(use.path == path and text in use.text for path, text in EXCEPTIONS)


def test_no_private_vocabulary():
    paths = {str(path.relative_to(ROOT)): path for path in files()}
    assert len(paths) > 200
    rest = [
        use for name, path in paths.items() for use in uses(path.read_text(), name) if not is_exception(use)
    ]
    assert not rest, "\n".join(map(str, rest))


@pytest.mark.parametrize(("path", "text"), EXCEPTIONS)
def test_exceptions_are_in_use(path, text):
    lines = [use.text for use in uses((ROOT / path).read_text(), path)]
    assert any(text in line for line in lines)


@pytest.mark.parametrize(
    "text",
    [
        "# parameters that are turned first",
        "    # a node is made by a cut",
        "cuts_of_feature = 1",
        "class WatchedRows:",
        "takes 3 ms a row",
        "one class a\n    # row",
        "// rows that judge\n// a tree",
        'raise ValueError(f"k: found {k!r}; expected more")',
        "wantedRows",
        "a made-up set",
        "each of the workers works in\n    step",
        "    found = 3",
        "def f(own: int) -> None:",
        "for given in settings:",
        "if (asked := f()):",
        "const int own = 3;",
    ],
)
def test_private_vocabulary_is_found(text):
    (use,) = uses(f"first line\n{text}\nlast line\n", "here.py")
    assert use.path == "here.py"
    assert use.line == 2


@pytest.mark.parametrize(
    "text",
    [
        "a cut-off of 0.5",
        "the workers return in turn",
        "executed; shortcut; outdated; founded",
        "every worker has its own copy, found in the file",
        "in step 3",
        "as given: True",
        "split a row per tree",
    ],
)
def test_ordinary_text_is_not_reported(text):
    assert not list(uses(text))
