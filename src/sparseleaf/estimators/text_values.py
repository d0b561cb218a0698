"""Valid values of the ``vectorizer`` parameter, and its form on the command line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sparseleaf.estimators.parameters import suggestion
from sparseleaf.estimators.values import Values
from sparseleaf.features import TextVectorizer
from sparseleaf.features.settings import RULES


@dataclass(frozen=True)
class Vectorizer(Values):
    """Text vectorizers; on the command line, their parameters are set one by one."""

    text = "a TextVectorizer"

    def __contains__(self, value: object) -> bool:
        return isinstance(value, TextVectorizer)

    def parse(self, text: str) -> Any:
        """See :meth:`Values.parse`."""
        raise ValueError(text)

    def parse_entries(self, entries: Mapping[str, str]) -> TextVectorizer:
        """See :meth:`Values.parse_entries`."""
        return TextVectorizer(**{name: self._entry(name, text) for name, text in entries.items()})

    def _entry(self, name: str, text: str) -> Any:
        if name not in RULES:
            raise ValueError(f"unknown parameter {name!r}; {suggestion(name, RULES)}")
        for value in _readings(text):
            if RULES[name].valid(value):
                return value
        raise ValueError(f"the {name!r} parameter must be {RULES[name].text}. Got {text!r} instead.")


def _readings(text: str) -> Iterator[Any]:
    """Values that a text may stand for, the most special first."""
    words = [word.strip() for word in text.split(",")]
    pairs = [word.rpartition(":") for word in words]
    literals = {"none": None, "true": True, "false": False}
    if text.lower() in literals:
        yield literals[text.lower()]
    for convert in (int, float):
        with suppress(ValueError):
            yield convert(text)
    with suppress(ValueError):
        yield tuple(map(int, words))
    with suppress(ValueError):
        yield {name: float(number) for name, _, number in pairs}
    if len(words) > 1:
        yield words
    yield text
    yield [text]


def vectorizer_parameters() -> str:
    """The parameters of the text vectorizer as text."""
    defaults = TextVectorizer().get_params()
    return "\n".join(f"{name} : {rule.text}, default={defaults[name]!r}" for name, rule in RULES.items())
