"""Label names as evidence: candidates whose names occur in a row, and how well the names of candidates match.

A name is a set of words, found by the features of a row that are equal or similar to them: inflected forms, compounds
and cognates with a common prefix. The evidence does not depend on a label's rows, so that it applies to labels without
any.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp

from sparseleaf import _kernels
from sparseleaf._arrays import csr_parts
from sparseleaf._steps import UNSIGNED, narrow
from sparseleaf._vectors import PackedLists, PackedVectors, starts_of
from sparseleaf.model.attribution import Attribution, tiled
from sparseleaf.model.source import prefixed

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.features import TextStage
    from sparseleaf.features.terms import TermBlock
    from sparseleaf.model.attribution import Pairs
    from sparseleaf.model.source import StageSource

NAME_COLUMNS = (
    "name share",
    "equal share",
    "name mass",
    "name words",
    "name weight",
    "names alike",
    "log name place",
)
"""Columns of evidence, of the best name of a label: the fraction of its weight that is found, by similarity and as
equal words; the sum of the values of the features found; its number of words and weight; the log number of names with
the same heaviest word; and its log rank among the names found."""

NAME_PLACES = 20
"""Number of candidates from names."""

COMMON_PREFIX = 4
"""Minimum number of characters that similar words have in common."""

LEAST_SIMILARITY = 0.6
"""Minimum similarity of words: twice the length of the common prefix, relative to the sum of their lengths."""

SAME_WORD = 0.8
"""Similarity from which terms count as forms of a word, for its frequency."""

NO_WORDS = (
    "The 'label_info' parameter requires features that are words: texts as X, and a vectorizer with analyzer='word',"
    " single words in ngram_range, and without n_hash_features."
)


@dataclass(frozen=True)
class LabelNames:
    """Names of the labels, and the features that are similar to their words.

    Attributes
    ----------
    similar : PackedVectors, shape (n_features, n_words)
        Similarity of features and words, from 0 to 1.
    names : PackedLists
        Words of every name.
    weights : float32 array, shape (n_words,)
        Inverse document frequencies.
    starts : int64 array, shape (n_labels + 1,)
        The names of label i are ``starts[i]`` to ``starts[i + 1] - 1``.
    places : int
        Number of candidates from names.
    """

    similar: PackedVectors
    names: PackedLists
    weights: Array
    starts: Array
    places: int = NAME_PLACES

    def __getstate__(self) -> dict[str, Any]:
        # without the compiled part, which is rebuilt on demand
        return {name: value for name, value in vars(self).items() if name != "kernel"}

    @cached_property
    def kernel(self) -> _kernels.NameMatcher:
        """The compiled part; its constructor validates weights and sizes."""
        return _kernels.NameMatcher(self.similar.kernel, self.names.kernel, self.weights, self.starts)

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return len(self.starts) - 1

    def propose(self, rows: sp.csr_matrix, n_jobs: int) -> Array:
        """The labels whose names are found best, (n_rows, places), best first, -1 for none."""
        labels = np.empty((rows.shape[0], self.places), np.int32)
        self.kernel.propose(*csr_parts(rows), labels, n_jobs)
        return labels

    def fill(
        self,
        rows: sp.csr_matrix,
        starts: Array,
        labels: Array,
        proposed: Array,
        table: Array,
        first: int,
        n_jobs: int,
    ) -> None:
        """Write the ``NAME_COLUMNS`` of candidates into columns of a table, from ``first`` on."""
        self.kernel.evidence(*csr_parts(rows), starts, labels, proposed, table, first, n_jobs)

    def shares(self, table: Array) -> Array:
        """How much of the names of candidates is found, by their ``NAME_COLUMNS``; 0 if names did not propose them."""
        proposed = table[:, NAME_COLUMNS.index("log name place")] < np.log1p(np.float32(self.places))
        return np.where(proposed, table[:, NAME_COLUMNS.index("name share")], np.float32(0))

    def explain(self, rows: sp.csr_matrix, pairs: Pairs, n_jobs: int) -> Attribution:
        """The fraction of the name's weight that is found, by the features that are most similar to its words."""
        terms = tiled(pairs, rows)
        starts = pairs.starts(rows.shape[0])
        self.kernel.terms(*csr_parts(rows), starts, pairs.labels, terms.indptr, terms.data, n_jobs)
        return Attribution(np.zeros(len(pairs)), terms, {})

    def with_labels(self, n_labels: int) -> LabelNames:
        """With more labels, which have no names."""
        more = np.full(n_labels - self.n_labels, self.starts[-1], np.int64)
        return replace(self, starts=np.concatenate((self.starts, more)))

    # --- fitting

    @classmethod
    def fit(cls, names: Sequence[Sequence[str]], text: TextStage | None, X: Features, n_jobs: int) -> Self:
        """From the names of every label, the vectoriser and the training rows."""
        blocks = word_blocks(text)
        flat = [name for several in names for name in several]
        words, lengths, (indptr, indices, _) = blocks[0][1].split_words(flat, n_jobs)
        listed = sp.csr_matrix(
            (np.ones(len(indices), np.int8), indices, indptr), shape=(len(flat), len(lengths))
        )
        similar = _similar_features(blocks, words, lengths, X.shape[1], n_jobs)
        return cls(
            PackedVectors.of(sp.csr_matrix(similar.T)),
            PackedLists.of(listed),
            _word_weights(similar, X),
            np.concatenate(([0], np.cumsum([len(several) for several in names], dtype=np.int64))),
        )

    # --- tensors of the model file

    def tensors(self, compact: bool) -> dict[str, Array]:
        """Tensors by name; without ``compact``, similarities are float32."""
        return {
            "weights": self.weights,
            "label_sizes": narrow(np.diff(self.starts)),
            "name_sizes": narrow(np.diff(self.names.indptr)),
            "name_steps": self.names.steps,
            "places": np.array([self.places], np.uint32),
            **prefixed("similar", self.similar.tensors(compact)),
        }

    @classmethod
    def from_tensors(cls, source: StageSource) -> Self:
        """From tensors; ValueError if they are invalid."""
        weights = source.take("weights", ("F32",), 1)
        starts = starts_of(source.take("label_sizes", UNSIGNED, 1))
        if len(starts) != source.n_labels + 1:
            raise ValueError(
                f"{source.prefix}label_sizes must have one entry for each of {source.n_labels} labels"
            )
        sizes = source.take("name_sizes", UNSIGNED, 1)
        if starts[-1] != len(sizes):
            raise ValueError(f"{source.prefix}label_sizes must add up to the {len(sizes)} names")
        steps = source.take("name_steps", UNSIGNED, 1, in_place=True)
        names = PackedLists(starts_of(sizes), steps, len(weights))
        similar = PackedVectors.from_tensors(source.part("similar"), source.n_features, len(weights))
        loaded = cls(similar, names, weights, starts, source.count("places", NAME_PLACES))
        _ = loaded.kernel  # validates
        return loaded


def word_blocks(text: TextStage | None) -> list[tuple[int, TermBlock]]:
    """Blocks of columns that are words, with their first column; ValueError if there is none."""
    blocks, first = [], 0
    for terms in () if text is None else text.terms:
        if terms.has_words:
            blocks.append((first, terms))
        first += terms.width
    if not blocks:
        raise ValueError(NO_WORDS)
    return blocks


def _similar_features(
    blocks: list[tuple[int, TermBlock]], words: Array, lengths: Array, n_features: int, n_jobs: int
) -> sp.csr_matrix:
    """Similarity of words and features, (n_words, n_features)."""
    total = sp.csr_matrix((len(lengths), n_features), dtype=np.float32)
    for first, terms in blocks:
        indptr, columns, values = _kernels.similar_terms(
            terms.text, terms.lengths, words, lengths, COMMON_PREFIX, LEAST_SIMILARITY, n_jobs
        )
        total = total + sp.csr_matrix((values, columns + np.int32(first), indptr), shape=total.shape)
    return sp.csr_matrix(total)


def _word_weights(similar: sp.csr_matrix, X: Features) -> Array:
    """Inverse document frequency of words: ln((n + 1) / (d + 1)) + 1, with the most frequent form in d of n rows."""
    counts = np.bincount(X.indices, minlength=X.shape[1])
    forms = sp.csr_matrix(
        (np.where(similar.data >= SAME_WORD, counts[similar.indices], 0), similar.indices, similar.indptr),
        shape=similar.shape,
    )
    most = np.zeros(similar.shape[0], np.int64)
    with_forms = np.diff(forms.indptr) > 0
    most[with_forms] = (
        np.maximum.reduceat(forms.data, forms.indptr[:-1][with_forms]) if len(forms.data) else 0
    )
    distinct, place = np.unique(most, return_inverse=True)
    # the logarithm of the C library; numpy's depends on the processor
    values = [math.log((X.shape[0] + 1) / (count + 1)) + 1.0 for count in distinct.tolist()]
    return np.array(values, np.float32)[place]
