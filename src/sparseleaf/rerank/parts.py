"""Parts of label names as evidence: a linear classifier for every part, trained on the rows of all labels with it.

A part is a word of names, or one that such a word is composed of. Names need not be in the language of the texts: rows
of labels with a part have words that mean it, in any language. A label with few rows, or none, shares the parts of its
name with other labels, which have more.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp

from sparseleaf import _kernels
from sparseleaf._arrays import csr_parts
from sparseleaf._steps import UNSIGNED, narrow
from sparseleaf._strings import split_strings
from sparseleaf._vectors import PackedLists, starts_of
from sparseleaf.data.weights import TrainingWeights
from sparseleaf.model.attribution import Attribution, Pairs, Terms
from sparseleaf.model.source import prefixed
from sparseleaf.rerank.examples import Examples
from sparseleaf.rerank.models import LinearModels
from sparseleaf.rerank.names import word_blocks

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.features import TextStage
    from sparseleaf.model.source import StageSource

PART_COLUMNS = ("part margin", "least part margin", "largest part margin")
"""Columns of evidence: the mean, smallest and largest margin of the parts of a label's names, -1 without any."""

FEWEST_CHARACTERS = 4
"""Minimum number of characters of a word that others are composed of."""

LINKING = 2
"""Maximum number of linking characters between two such words, as in German ``Arbeit-s-markt``."""

FREQUENT = 50
"""Number of names from which words are equally good parts."""

NEGATIVES = (200, 5)
"""Negatives of a part, and more per positive: parts have more positives than labels."""

MOST_PARTS = 2**31 - 1


@dataclass(frozen=True)
class NameParts:
    """Parts of the names of the labels, and their linear models.

    Attributes
    ----------
    parts : PackedLists
        Parts of every label.
    models : LinearModels or None
        Of the parts; None while they are being trained.
    """

    parts: PackedLists
    models: LinearModels | None

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return self.parts.n_lists

    def __getstate__(self) -> dict[str, Any]:
        # without the matrix, which is rebuilt on demand
        return {name: value for name, value in vars(self).items() if name != "membership"}

    @cached_property
    def membership(self) -> sp.csr_matrix:
        """Which label has which parts, (n_labels, n_parts)."""
        indices = self.parts.indices
        shape = (self.n_labels, self.parts.width)
        return sp.csr_matrix((np.ones(len(indices), np.int32), indices, self.parts.indptr), shape=shape)

    def fill(
        self, rows: sp.csr_matrix, starts: Array, labels: Array, table: Array, first: int, n_jobs: int
    ) -> None:
        """Write the ``PART_COLUMNS`` of candidates into columns of a table, from ``first`` on."""
        assert self.models is not None
        weights, bias = self.models.weights.kernel, self.models.bias
        parts = self.parts.kernel
        _kernels.part_margins(*csr_parts(rows), starts, labels, parts, weights, bias, table, first, n_jobs)

    def explain(self, rows: sp.csr_matrix, pairs: Pairs, n_jobs: int) -> Attribution:
        """The mean margin of the parts of the label."""
        assert self.models is not None
        chosen = self.membership[pairs.labels]
        pair = np.repeat(np.arange(len(pairs)), np.diff(chosen.indptr))
        each = self.models.explain(rows, Pairs(pairs.rows[pair], chosen.indices), n_jobs)
        fraction = 1.0 / np.diff(chosen.indptr)[pair]
        mean = sp.csr_matrix((fraction, np.arange(len(pair)), chosen.indptr), shape=(len(pairs), len(pair)))
        terms = sp.csr_matrix(mean @ each.terms.matrix)
        terms.sort_indices()
        return Attribution(mean @ each.base, Terms.of(terms), {})

    def with_labels(self, n_labels: int) -> NameParts:
        """With more labels, which have no names."""
        more = np.full(n_labels - self.n_labels, self.parts.indptr[-1], np.int64)
        return replace(self, parts=replace(self.parts, indptr=np.concatenate((self.parts.indptr, more))))

    # --- fitting

    @classmethod
    def fit(cls, names: Sequence[Sequence[str]], text: TextStage | None, n_jobs: int) -> Self | None:
        """Parts of the names of every label, without models; None if names have no words."""
        flat = [name for several in names for name in several]
        words, lengths, (indptr, numbers, _) = word_blocks(text)[0][1].split_words(flat, n_jobs)
        if not len(numbers):
            return None
        counts = np.bincount(numbers, minlength=len(lengths))
        parts = _Composed(dict(zip(split_strings(words, lengths), counts.tolist(), strict=True)))
        listed = [parts.of(word) for word in parts.counts]
        number = {part: place for place, part in enumerate(sorted({one for few in listed for one in few}))}
        of_words = _matrix([[number[one] for one in few] for few in listed], len(number))
        of_names = sp.csr_matrix(
            (np.ones(len(numbers), np.int32), numbers, indptr), shape=(len(flat), len(lengths))
        )
        place = np.cumsum([0, *map(len, names)])
        of_labels = _matrix([range(a, b) for a, b in itertools.pairwise(place)], len(flat))
        membership = sp.csr_matrix(of_labels @ of_names @ of_words)
        membership.sort_indices()
        return cls(PackedLists.of(membership), None)

    def trained(self, examples: Examples, seed: int, n_jobs: int) -> tuple[Self | None, Self]:
        """With models that are trained without the held-out rows, None if there are none, and with all rows.

        ``examples`` are those of the labels.
        """
        before, after = LinearModels.fit(self._examples(examples), seed, n_jobs)
        return None if before is None else replace(self, models=before), replace(self, models=after)

    def updated(self, examples: Examples, seed: int, n_jobs: int) -> Self:
        """With models that are trained further on new examples of the labels."""
        assert self.models is not None
        return replace(self, models=self.models.updated(self._examples(examples), seed, n_jobs))

    def _examples(self, examples: Examples) -> Examples:
        """A row is a positive of the parts of its labels, and a negative of those of its false candidates."""
        membership = self.membership
        shape = (examples.Y.shape[0], self.n_labels)
        ones = np.ones(len(examples.labels), np.int32)
        candidates = sp.csr_matrix((ones, examples.labels, examples.starts), shape=shape) @ membership
        having = sp.csr_matrix(
            (np.ones(examples.Y.nnz, np.int32), examples.Y.indices, examples.Y.indptr), shape=shape
        )
        Y = sp.csr_matrix(having @ membership)
        Y.sort_indices()
        candidates.sort_indices()
        return replace(
            examples,
            Y=Y,
            starts=candidates.indptr.astype(np.int64),
            labels=candidates.indices.astype(np.int32),
            weights=TrainingWeights(examples.weights.rows),
            negatives=NEGATIVES,
        )

    # --- tensors of the model file

    def tensors(self, compact: bool) -> dict[str, Array]:
        """Tensors by name; without ``compact``, weights are float32."""
        assert self.models is not None
        return {
            "sizes": narrow(np.diff(self.parts.indptr)),
            "steps": self.parts.steps,
            "count": np.array([self.parts.width], np.uint32),
            **prefixed("models", self.models.tensors(compact)),
        }

    @classmethod
    def from_tensors(cls, source: StageSource) -> Self:
        """From tensors; ValueError if they are invalid."""
        sizes = source.take("sizes", UNSIGNED, 1)
        if len(sizes) != source.n_labels:
            raise ValueError(f"{source.prefix}sizes must have one entry for each of {source.n_labels} labels")
        steps = source.take("steps", UNSIGNED, 1, in_place=True)
        n_parts = source.count("count", 0, MOST_PARTS)
        parts = PackedLists(starts_of(sizes), steps, n_parts)
        _ = parts.kernel  # validates
        return cls(parts, LinearModels.from_tensors(source.part("models", n_labels=n_parts)))


class _Composed:
    """Words of names, and which of them others are composed of.

    Parameters
    ----------
    counts : dict of bytes to int
        Words in UTF-8, and the number of names that have them.
    """

    def __init__(self, counts: dict[bytes, int]) -> None:
        self.counts = counts
        self._text = {word: word.decode() for word in counts}
        self._counts = {
            text: min(counts[word], FREQUENT)
            for word, text in self._text.items()
            if len(text) >= FEWEST_CHARACTERS
        }
        self._parts: dict[str, tuple[str, ...]] = {}

    def of(self, word: bytes) -> tuple[str, ...]:
        """The parts of a word: itself, or those of the two words that it is composed of."""
        return self._split(self._text[word])

    def _split(self, word: str) -> tuple[str, ...]:
        known = self._parts.get(word)
        if known is None:
            two = self._two(word)
            known = (word,) if two is None else self._split(two[0]) + self._split(two[1])
            self._parts[word] = known
        return known

    def _two(self, word: str) -> tuple[str, str] | None:
        """The most frequent words that a word begins and ends with, but for linking characters; the first in a tie."""
        best, most = None, 0
        for at in range(FEWEST_CHARACTERS, len(word) - FEWEST_CHARACTERS + 1):
            tail = self._counts.get(word[at:])
            if tail is None:
                continue
            for linking in range(LINKING + 1):
                head = self._counts.get(word[: at - linking])
                if head is not None and head * tail > most:
                    best, most = (word[: at - linking], word[at:]), head * tail
        return best


def _matrix(lists: Sequence[Sequence[int]], width: int) -> sp.csr_matrix:
    """Lists of numbers as a CSR matrix."""
    indptr = np.cumsum([0, *map(len, lists)], dtype=np.int64)
    indices = np.fromiter((one for few in lists for one in few), np.int32, indptr[-1])
    return sp.csr_matrix((np.ones(len(indices), np.int32), indices, indptr), shape=(len(lists), width))
