"""Reader of SKOS vocabularies: names of concepts and their hierarchy."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sparseleaf._files import AnyPath, read_bytes, read_lines

SKOS = "http://www.w3.org/2004/02/skos/core#"
NAMES = ("prefLabel", "altLabel", "hiddenLabel")

SUFFIXES = {".nt": "nt", ".ttl": "turtle", ".rdf": "xml", ".xml": "xml"}
"""Formats by suffix, with rdflib's names."""

KEYS = ("uri", "notation", "last")
"""How concepts are called in the training data."""

Pairs = list[tuple[str, str]]


class Triple(NamedTuple):
    """A statement about a concept; the object is a URI or the text of a literal."""

    subject: str
    predicate: str
    object: str


def read_concepts(path: AnyPath, suffix: str, key: str) -> tuple[Pairs, Pairs]:
    """Pairs of a label and a name, and of a label and a broader one."""
    triples = _n_triples(path) if suffix == ".nt" else _with_rdflib(path, SUFFIXES[suffix])
    statements = [(s, p.removeprefix(SKOS), o) for s, p, o in triples if p.startswith(SKOS)]
    call = _caller(statements, key)
    names = [(call(s), o) for s, p, o in statements if p in NAMES]
    broader = [(call(s), call(o)) for s, p, o in statements if p == "broader"]
    broader += [(call(o), call(s)) for s, p, o in statements if p == "narrower"]
    if not names and not broader:
        raise ValueError(
            f"{path}: the file has no SKOS concepts with prefLabel, altLabel, broader or narrower."
        )
    return sorted(set(names)), sorted(set(broader))  # graphs have no order


class _Caller:
    def __init__(self, notations: dict[str, str], last: bool) -> None:
        self._notations, self._last = notations, last

    def __call__(self, uri: str) -> str:
        """The label of a concept; its URI if it has no notation."""
        return re.split(r"[/#]", uri)[-1] if self._last else self._notations.get(uri, uri)


def _caller(statements: Iterable[tuple[str, str, str]], key: str) -> _Caller:
    notations: dict[str, str] = {}
    for uri, predicate, text in statements:
        if predicate == "notation" and key == "notation":
            notations[uri] = min(text, notations.get(uri, text))
    return _Caller(notations, key == "last")


# --- triples

_STATEMENT = re.compile(
    r'<([^>]*)>\s*<([^>]*)>\s*(?:<([^>]*)>|(_:\S+)|"((?:[^"\\]|\\.)*)"(?:@[A-Za-z0-9-]+|\^\^<[^>]*>)?)\s*\.\s*(?:#.*)?$'
)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))")
_SPECIAL = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f"}


def _n_triples(path: AnyPath) -> Iterator[Triple]:
    for number, line in enumerate(read_lines(path), start=1):
        try:
            text = line.decode().strip()
        except UnicodeDecodeError:
            raise ValueError(f"{path}: line {number}: the text is not valid UTF-8.") from None
        if not text or text.startswith(("#", "_:")):
            continue
        match = _STATEMENT.match(text)
        if match is None:
            raise ValueError(
                f"{path}: line {number}: expected a statement in N-Triples. Got {text!r:.60} instead."
            )
        subject, predicate, uri, blank, literal = match.groups()
        if blank is None:
            yield Triple(subject, predicate, uri if literal is None else _ESCAPE.sub(_character, literal))


def _character(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    if not code:
        return _SPECIAL.get(match[3], match[3])
    number = int(code, 16)
    return chr(number) if number <= 0x10FFFF and not 0xD800 <= number < 0xE000 else "\ufffd"


def _with_rdflib(path: AnyPath, kind: str) -> Iterator[Triple]:
    try:
        import rdflib
    except ImportError:
        raise ImportError(
            f"{path}: this format of SKOS requires rdflib: pip install 'sparseleaf[skos]'. N-Triples (.nt) do not."
        ) from None
    graph = rdflib.Graph()
    try:
        graph.parse(data=read_bytes(path), format=kind)
    except Exception as error:  # parsers raise errors of many types
        raise ValueError(f"{path}: invalid RDF ({type(error).__name__}: {error}).") from None
    for subject, predicate, value in graph:
        if not isinstance(subject, rdflib.BNode) and not isinstance(value, rdflib.BNode):
            yield Triple(str(subject), str(predicate), str(value))
