"""Bilingual dictionaries, to translate the names of labels.

Texts in one language and label names in another have no words in common. A dictionary of words is enough: of several
translations of a name, the re-ranker needs one that occurs in texts, and wrong ones occur in few.
"""

from __future__ import annotations

import itertools
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from sparseleaf._files import as_path
from sparseleaf.data.pairs import Pairs, from_object, grouped, read_text, suffix_of, two_columns

if TYPE_CHECKING:
    from sparseleaf._files import AnyPath

MOST_TRANSLATIONS = 4
"""Maximum number of translations of a name; dictionaries have the most common ones first."""

MOST_PER_WORD = 2
"""Maximum number of translations of a word within a name."""

MOST_WORDS = 5
"""Number of words up to which a name is translated word by word."""

ENDING = 2
"""Maximum number of characters that a word may have beyond the form in the dictionary, as German ``soziale``."""

LINKING = 2
"""Maximum number of linking characters within a composed word, as in German ``Arbeit-s-markt``."""

SHORTEST = 4
"""Minimum number of characters of a word without its ending, and of the parts of a composed word."""

WORD = re.compile(r"[^\W\d_]+")
QUALIFIER = re.compile(r"\s*(?:<[^>]*>|\([^)]*\))")
"""What vocabularies add to a name to tell it from others."""

NOTE = re.compile(r"\{[^}]*\}|\[[^\]]*\]|\([^)]*\)|<[^>]*>|/[^/]*/")
"""Remarks of dictionaries on gender, number, field and pronunciation."""

SIDES, FORMS, SYNONYMS = " :: ", "|", ";"
"""Separators of Ding's format: ``word; synonym | plural :: translation; another | plural``."""


class Dictionary:
    """Translations of words, by which names of labels are translated.

    A name that is in the dictionary has its translations. Others are translated word by word, if all of their words are
    known: as they are, without an ending of up to two characters, or composed of two known words. Qualifiers in
    parentheses are left out. Names with a comma, such as those of persons, are translated as a whole only.

    Parameters
    ----------
    translations : mapping of str to str or list of str
        Translations of words or phrases, the most common first. Upper and lower case are not distinguished.

    Examples
    --------
    >>> from sparseleaf.data import Dictionary, LabelInfo
    >>> words = Dictionary({"Arbeit": ["work", "labour"], "Markt": "market", "sozial": "social"})
    >>> words.translate("Arbeitsmarkt")
    ['work market', 'labour market']
    >>> LabelInfo({"s1": "Soziale Arbeit"}).translated(words).names["s1"]
    ('Soziale Arbeit', 'social work', 'social labour')
    """

    def __init__(self, translations: Mapping[str, Any]) -> None:
        if not isinstance(translations, Mapping):
            raise ValueError(
                f"The 'translations' parameter must be a mapping by word. Got {translations!r:.60} instead."
            )
        self._translations: dict[str, list[str]] = {}
        for word, given in translations.items():
            several = [given] if isinstance(given, str) else given
            if not isinstance(word, str) or not isinstance(several, list | tuple):
                raise ValueError(
                    f"The 'translations' parameter must have str or a list of str for each word. Got {given!r:.60} for"
                    f" {word!r:.60} instead."
                )
            if not all(isinstance(one, str) for one in several):
                raise ValueError(
                    f"The 'translations' parameter must have translations of type str. Got {given!r:.60} for"
                    f" {word!r:.60} instead."
                )
            known = self._translations.setdefault(word.casefold().strip(), [])
            known += [one for one in dict.fromkeys(several) if one not in known]
        self._words: dict[str, list[str]] = {}

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Dictionary:
        """Read a dictionary from a file; gzipped ones are detected by content.

        Parameters
        ----------
        path : path-like
            One of:

            - ``.tsv``, ``.txt`` or ``.csv``: two columns, a word and a translation; a word may have several lines. A
              first line that starts with "word" is a header.
            - ``.json``: an object of words and translations, or lists of translations.
            - Ding's format: lines of ``word; synonym | plural :: translation; another | plural``.

            Remarks in brackets and lines that start with # are left out.

        Returns
        -------
        dictionary : Dictionary
        """
        file = as_path(path)
        text = read_text(file)
        if suffix_of(file) == ".json":
            pairs = list(from_object(file, text))
        else:
            lines = ["" if line.startswith("#") else line for line in text.split("\n")]
            ding = next((SIDES in line for line in lines if line.strip()), False)
            pairs = _ding(lines) if ding else _columns(file, "\n".join(lines))
        if not pairs:
            raise ValueError(f"{file}: the file has no translations.")
        return cls(grouped(pairs))

    def translate(self, name: str) -> list[str]:
        """Translations of a name, the most common first; none if it has unknown words.

        Parameters
        ----------
        name : str

        Returns
        -------
        translations : list of str
        """
        plain = QUALIFIER.sub("", name).casefold().strip()
        if not plain:
            return []
        whole = self._inflected(plain)
        if whole or "," in plain:
            return whole[:MOST_TRANSLATIONS]
        words = WORD.findall(plain)
        if not 0 < len(words) <= MOST_WORDS:
            return []
        combined = itertools.product(*(self._word(word)[:MOST_PER_WORD] for word in words))
        return [" ".join(several) for several in itertools.islice(combined, MOST_TRANSLATIONS)]

    def _word(self, word: str) -> list[str]:
        """Translations of a word of a name."""
        known = self._words.get(word)
        if known is None:
            known = self._words[word] = self._inflected(word) or self._composed(word)
        return known

    def _inflected(self, word: str) -> list[str]:
        """Translations of a word or phrase, or of the form without the shortest ending."""
        for ending in range(ENDING + 1):
            form = word[: len(word) - ending]
            if ending and len(form) < SHORTEST:
                break
            if form in self._translations:
                return self._translations[form]
        return []

    def _composed(self, word: str) -> list[str]:
        """Translations of the two words of which a word is composed.

        Of several ways, the one with the fewest linking characters, then with the longest shorter word.
        """
        best: tuple[tuple[int, int], list[str], list[str]] | None = None
        for at in range(SHORTEST, len(word) - SHORTEST + 1):
            tail = self._inflected(word[at:])
            for linking in range(LINKING + 1) if tail else ():
                head = word[: at - linking]
                if len(head) < SHORTEST or head not in self._translations:
                    continue
                rank = (-linking, min(len(head), len(word) - at))
                if best is None or rank > best[0]:
                    best = rank, self._translations[head], tail
        if best is None:
            return []
        return [f"{one} {other}" for one in best[1][:MOST_PER_WORD] for other in best[2][:MOST_PER_WORD]]


# --- files


def _plain(text: str) -> str:
    remarks = any(bracket in text for bracket in "{[(</")
    return " ".join((NOTE.sub(" ", text) if remarks else text).split())


def _columns(path: AnyPath, text: str) -> Pairs:
    pairs = (
        (_plain(word), _plain(translation))
        for word, translation in two_columns(path, text, "word", "translation")
    )
    return [pair for pair in pairs if all(pair)]


def _ding(lines: list[str]) -> Pairs:
    """Pairs of words and translations, those that many lines have in the first places before others."""
    counts: defaultdict[tuple[str, str], float] = defaultdict(float)
    for line in lines:
        source, separator, target = line.partition(SIDES)
        for place, pair in _ding_line(source, target) if separator else ():
            counts[pair] += 1 / (1 + place)
    return sorted(counts, key=lambda pair: -counts[pair])


def _ding_line(source: str, target: str) -> Iterator[tuple[int, tuple[str, str]]]:
    """Place, word and translation of the pairs of a line; forms of a word correspond to those of the translation."""
    for number, forms in enumerate(zip(source.split(FORMS), target.split(FORMS), strict=False)):
        words, translations = ([_plain(one) for one in form.split(SYNONYMS)] for form in forms)
        for (i, word), (j, translation) in itertools.product(enumerate(words), enumerate(translations)):
            if word and translation:
                yield (number > 0) + i + j, (word, translation.removeprefix("to "))
