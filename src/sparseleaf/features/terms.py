"""A fitted block of text columns: its terms with their document frequencies, or hashed terms."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from sparseleaf import _kernels
from sparseleaf._steps import UNSIGNED, narrow
from sparseleaf._strings import split_strings
from sparseleaf.features.settings import ANALYZERS, NORMS
from sparseleaf.features.unicode import text_tables

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.features.settings import Block, TextSettings
    from sparseleaf.model.source import StageSource

BATCH_ROWS = 4096
"""Number of texts that are processed at a time, which bounds the memory of temporary arrays."""

CsrArrays = tuple["Array", "Array", "Array"]
"""indptr (int64), indices (int32) and values (float32)."""

Columns = dict[str | None, list[Any]]


class WordCounts(NamedTuple):
    """Words of texts, each counted once per row: all, those that the vocabulary lacks, and in the training rows all,
    and those that are in one row only.
    """

    n_words: int
    n_unknown: int
    n_training: int
    n_single: int


@dataclass(frozen=True)
class TermBlock:
    """A block of text columns.

    Attributes
    ----------
    block : Block
    settings : TextSettings
    n_rows : int
        Number of training rows.
    document_counts : uint32 array, shape (width,)
        Number of training rows with each term; empty if they are not needed.
    text : uint8 array
        All terms in UTF-8, sorted, concatenated; empty with hashing.
    lengths : uint32 array
        Length of each term in bytes.
    """

    block: Block
    settings: TextSettings
    n_rows: int
    document_counts: Array
    text: Array
    lengths: Array

    def __getstate__(self) -> dict[str, Any]:
        # kernel objects are recreated on demand
        return {name: value for name, value in vars(self).items() if name in self.__dataclass_fields__}

    # --- fitting

    @classmethod
    def fit(
        cls,
        block: Block,
        settings: TextSettings,
        columns: Columns,
        n_rows: int,
        n_jobs: int,
        advance: Callable[[int], None],
        *,
        keep_rows: bool,
    ) -> tuple[Self, CsrArrays | None]:
        """Fit on the training rows; with ``keep_rows``, also return their columns."""
        if settings.n_hash_features is not None:
            return cls._fit_hashed(block, settings, columns, n_rows, n_jobs, advance, keep_rows=keep_rows)
        counter = _kernels.TermCounter(make_analyzer(block, settings), keep_rows)
        for begin, batch in batches(block, columns, n_rows):
            counter.add(batch, n_jobs)
            advance(begin)
        low, high = _count_range(settings, n_rows)
        text, lengths, counts = counter.finish(low, high, settings.max_features or 0, n_jobs)
        fitted = cls(block, settings, n_rows, counts, text, lengths)
        if not keep_rows:
            return fitted, None
        rows = counter.rows(n_jobs)
        fitted._weigh(rows, n_jobs)
        return fitted, rows

    @classmethod
    def _fit_hashed(
        cls,
        block: Block,
        settings: TextSettings,
        columns: Columns,
        n_rows: int,
        n_jobs: int,
        advance: Callable[[int], None],
        *,
        keep_rows: bool,
    ) -> tuple[Self, CsrArrays | None]:
        empty = np.empty(0, np.uint32)
        fitted = cls(block, settings, n_rows, empty, np.empty(0, np.uint8), empty)
        if not (keep_rows or settings.use_idf):
            return fitted, None
        counts = np.zeros(fitted.width, np.int64)
        parts = []
        for begin, batch in batches(block, columns, n_rows):
            part = fitted._counts(batch, n_jobs)
            counts += np.bincount(part[1], minlength=fitted.width)
            parts += [part] if keep_rows else []
            advance(begin)
        if settings.use_idf:
            fitted = cls(block, settings, n_rows, counts.astype(np.uint32), fitted.text, empty)
        if not keep_rows:
            return fitted, None
        rows = joined(parts)
        fitted._weigh(rows, n_jobs)
        return fitted, rows

    def split_words(self, texts: list[str], n_jobs: int) -> tuple[Array, Array, CsrArrays]:
        """Split texts into words, as those of the block: the words in UTF-8, their lengths, and those of every text."""
        block = self.block._replace(fields=(None,), field_weights=(1.0,), ngram_range=(1, 1))
        counter = _kernels.TermCounter(make_analyzer(block, self.settings), True)
        counter.add([texts], n_jobs)
        words, lengths, _ = counter.finish(1, max(1, len(texts)), 0, n_jobs)
        return words, lengths, counter.rows(n_jobs)

    def with_words(self, texts: list[str], n_jobs: int) -> tuple[Self, Array]:
        """With more terms: the words of these texts, as if in one training row each; and the new places of the old.

        Only blocks of words without limits on frequent words or the number of terms get more.
        """
        settings = self.settings
        if not self.has_words or self._limited:
            return self, np.arange(self.width, dtype=np.int32)
        words, lengths, _ = self.split_words(texts, n_jobs)
        old, new = split_strings(self.text, self.lengths), split_strings(words, lengths)
        joined = sorted({*old, *new})
        number = {term: place for place, term in enumerate(joined)}
        place = np.array([number[term] for term in old], np.int32)
        counts = np.ones(len(joined), np.uint32)
        counts[place] = self.document_counts
        text = np.frombuffer(b"".join(joined), np.uint8)
        sizes = np.array([len(term) for term in joined], np.uint32)
        return type(self)(self.block, settings, self.n_rows, counts, text, sizes), place

    @property
    def _limited(self) -> bool:
        """Whether frequent words or the number of terms are limited."""
        most = self.settings.max_df
        return self.settings.max_features is not None or not (
            isinstance(most, float) and most == 1.0
        )  # 1: one row

    def count_words(self, columns: Columns, n_rows: int, n_jobs: int) -> WordCounts:
        """How many words of texts the vocabulary lacks; nothing is counted if it lacks words of its training rows."""
        if not self.has_words or self._limited or self.settings.min_df != 1:
            return WordCounts(0, 0, 0, 0)
        analyzer = make_analyzer(self.block._replace(ngram_range=(1, 1)), self.settings)
        counter, n_known = _kernels.TermCounter(analyzer, True), 0
        for _, batch in batches(self.block, columns, n_rows):
            counter.add(batch, n_jobs)
            n_known += int(_kernels.count_terms(analyzer, self._index, batch, n_jobs)[0][-1])
        counter.finish(1, max(1, n_rows), 0, n_jobs)
        n_words = int(counter.rows(n_jobs)[0][-1])
        starts = self._ends - self.lengths
        counts = self.document_counts[np.add.reduceat(self.text == ord(" "), starts) == 0]  # without n-grams
        return WordCounts(n_words, n_words - n_known, int(counts.sum()), int((counts == 1).sum()))

    # --- features

    @property
    def has_words(self) -> bool:
        """Whether single words are columns, with their names."""
        whole = self.block.analyzer == "word" and self.block.ngram_range[0] == 1
        return whole and len(self.lengths) > 0

    @property
    def width(self) -> int:
        """Number of columns."""
        hashed = self.settings.n_hash_features
        return len(self.lengths) if hashed is None else hashed

    @cached_property
    def idf(self) -> Array:
        """Inverse document frequency of every column, float64; empty if it is not used."""
        if not self.settings.use_idf:
            return np.empty(0)
        smooth = int(self.settings.smooth_idf)
        distinct, place = np.unique(self.document_counts, return_inverse=True)
        # the logarithm of the C library; numpy's depends on the processor
        values = [
            math.log((self.n_rows + smooth) / max(count + smooth, 1)) + 1.0 for count in distinct.tolist()
        ]
        idf: Array = np.array(values, np.float64)[place]
        return idf

    def transform(self, columns: Columns, n_rows: int, n_jobs: int) -> CsrArrays:
        """CSR arrays of the rows."""
        parts = [self._counts(batch, n_jobs) for _, batch in batches(self.block, columns, n_rows)]
        rows = parts[0] if len(parts) == 1 else joined(parts)
        self._weigh(rows, n_jobs)
        return rows

    def _counts(self, batch: list[list[str]], n_jobs: int) -> CsrArrays:
        hashed = self.settings.n_hash_features
        if hashed is not None:
            rows: CsrArrays = _kernels.hash_terms(
                self._analyzer, hashed, self.settings.alternate_sign, batch, n_jobs
            )
        else:
            rows = _kernels.count_terms(self._analyzer, self._index, batch, n_jobs)
        return rows

    def _weigh(self, rows: CsrArrays, n_jobs: int) -> None:
        norm = 0 if self.settings.norm is None else 1 + NORMS.index(self.settings.norm)
        _kernels.weigh_terms(*rows, self.idf, self.settings.sublinear_tf, norm, self.block.weight, n_jobs)

    @cached_property
    def _analyzer(self) -> Any:
        return make_analyzer(self.block, self.settings)

    @cached_property
    def _index(self) -> Any:
        return _kernels.TermIndex(self.text, self.lengths)

    # --- names

    @cached_property
    def _ends(self) -> Array:
        return np.cumsum(self.lengths, dtype=np.int64)

    def name(self, column: int) -> str:
        """Name of a column: its term, or ``#`` and the number of a hashed column."""
        if self.settings.n_hash_features is not None:
            return f"{self.block.prefix}#{column}"
        end = int(self._ends[column])
        term = self.text[end - int(self.lengths[column]) : end].tobytes().decode()
        return f"{self.block.prefix}{term}"

    def feature_names(self) -> list[str]:
        """Names of all columns."""
        if self.settings.n_hash_features is not None:
            return [self.name(column) for column in range(self.width)]
        whole, ends = self.text.tobytes(), self._ends.tolist()
        return [self.block.prefix + whole[a:b].decode() for a, b in zip([0, *ends[:-1]], ends, strict=True)]

    # --- tensors of the model file

    def tensors(self) -> dict[str, Array]:
        """Tensors by name."""
        tensors = {}
        if self.settings.n_hash_features is None:
            tensors = {"terms": self.text, "lengths": narrow(self.lengths)}
        return tensors | {"document_counts": narrow(self.document_counts)}

    @classmethod
    def from_tensors(cls, source: StageSource, block: Block, settings: TextSettings, n_rows: int) -> Self:
        """From untrusted tensors; the kernel validates that terms are distinct, sorted and UTF-8."""
        counts = source.take("document_counts", UNSIGNED, 1).astype(np.uint32)
        text, lengths, low = np.empty(0, np.uint8), np.empty(0, np.uint32), 0
        if settings.n_hash_features is None:
            text = source.take("terms", ("U8",), 1, in_place=True)
            lengths = source.take("lengths", UNSIGNED, 1).astype(np.uint32)
            low = 1
        fitted = cls(block, settings, n_rows, counts, text, lengths)
        expected = fitted.width if settings.n_hash_features is None or settings.use_idf else 0
        if len(counts) != expected:
            raise ValueError(f"document_counts must have {expected} entries, has {len(counts)}")
        if len(counts) and not (low <= counts.min() and counts.max() <= n_rows):
            raise ValueError(
                f"document_counts must be between {low} and {n_rows}, the number of training rows"
            )
        if settings.n_hash_features is None:
            fitted._index  # noqa: B018 (validates)
        return fitted


def make_analyzer(block: Block, settings: TextSettings) -> Any:
    """The kernel object that splits texts into terms."""
    words = settings.stop_words or ()
    stop = [word.encode("utf-8", "surrogatepass") for word in words] if block.analyzer == "word" else []
    tokenizer = settings.tokenizer if block.analyzer == "word" else "sklearn"
    return _kernels.TextAnalyzer(
        text_tables(settings.lowercase, settings.strip_accents, tokenizer),
        ANALYZERS.index(block.analyzer),
        *block.ngram_range,
        np.frombuffer(b"".join(stop), np.uint8),
        np.array([len(word) for word in stop], np.uint32),
        np.array(block.field_weights, np.float32),
        settings.binary,
    )


def batches(block: Block, columns: Columns, n_rows: int) -> Iterator[tuple[int, list[list[str]]]]:
    """Number of rows so far and the texts of every field of the block, for batches of rows; at least one batch."""
    texts = [columns[name] for name in block.fields]
    if n_rows <= BATCH_ROWS:
        yield n_rows, texts
        return
    for begin in range(0, n_rows, BATCH_ROWS):
        end = min(n_rows, begin + BATCH_ROWS)
        yield end, [column[begin:end] for column in texts]


def joined(parts: list[CsrArrays]) -> CsrArrays:
    """The rows of all parts."""
    ends = np.cumsum([0, *(part[0][-1] for part in parts)])
    pointers = [np.zeros(1, np.int64), *(part[0][1:] + end for part, end in zip(parts, ends, strict=False))]
    return (
        np.concatenate(pointers),
        np.concatenate([part[1] for part in parts]),
        np.concatenate([part[2] for part in parts]),
    )


def _count_range(settings: TextSettings, n_rows: int) -> tuple[int, int]:
    """Lowest and highest number of rows of a term."""
    low, high = (
        value if isinstance(value, int) else value * n_rows for value in (settings.min_df, settings.max_df)
    )
    if high < low:
        raise ValueError(
            f"The 'max_df' parameter must not be of fewer rows than 'min_df'. Got {settings.max_df!r} and"
            f" {settings.min_df!r} instead."
        )
    return math.ceil(low), math.floor(high)
