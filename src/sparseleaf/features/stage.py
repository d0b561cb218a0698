"""The vectoriser stage of a model: records to features."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from sparseleaf import _kernels
from sparseleaf._arrays import LARGEST_COUNT, require_countable
from sparseleaf.features.columns import CategoryColumn, NumericColumns
from sparseleaf.features.records import columns_of, is_features
from sparseleaf.features.settings import TextSettings
from sparseleaf.features.terms import TermBlock
from sparseleaf.model.registry import register
from sparseleaf.model.source import prefixed
from sparseleaf.model.stage import Role, Rows, Stage

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.features.terms import Columns, CsrArrays
    from sparseleaf.model.source import StageSource


@register("text")
@dataclass(frozen=True)
class TextStage(Stage):
    """A fitted :class:`~sparseleaf.TextVectorizer`.

    Attributes
    ----------
    parameters : TextSettings
    n_rows : int
        Number of training rows.
    terms : tuple of TermBlock
        Text columns, which come first.
    numeric : NumericColumns or None
    categorical : tuple of CategoryColumn
    """

    parameters: TextSettings
    n_rows: int
    terms: tuple[TermBlock, ...]
    numeric: NumericColumns | None
    categorical: tuple[CategoryColumn, ...]

    kind: ClassVar[str] = "text"
    role: ClassVar[Role] = Role.VECTORIZER
    takes_nan: ClassVar[bool] = True

    @classmethod
    def fit(
        cls,
        columns: Columns,
        n_rows: int,
        settings: TextSettings,
        n_jobs: int,
        advance: Callable[[int], None],
        *,
        keep_rows: bool,
    ) -> tuple[Self, sp.csr_matrix | None]:
        """Fit on the columns of records; with ``keep_rows``, also return their features.

        ``advance`` is called with the number of rows that are done, of ``n_rows`` times the number of blocks.
        """
        if n_rows == 0:
            raise ValueError("X must have at least one row. Got none.")
        require_countable("X", n_rows, "rows in one process")
        blocks: list[TermBlock] = []
        parts: list[CsrArrays | None] = []
        for number, block in enumerate(settings.blocks):
            fitted, rows = TermBlock.fit(
                block,
                settings,
                columns,
                n_rows,
                n_jobs,
                lambda done, before=number * n_rows: advance(before + done),  # type: ignore[misc]
                keep_rows=keep_rows,
            )
            blocks.append(fitted)
            parts.append(rows)
        numeric = NumericColumns.fit(settings.numeric, columns, n_rows) if settings.numeric else None
        categorical = tuple(
            CategoryColumn.fit(name, weight, columns[name])
            for name, weight in (settings.categorical or {}).items()
        )
        stage = cls(settings, n_rows, tuple(blocks), numeric, categorical)
        if stage.width == 0:
            raise ValueError(
                "X must have terms that the parameters keep; texts are empty, have stop words only, or no term is in"
                " enough rows. Try a smaller 'min_df' or a larger 'max_df'."
            )
        if not keep_rows:
            return stage, None
        others = [part.transform(columns, n_rows) for part in stage._others()]
        return stage, stage._join([part for part in parts if part is not None] + others, n_rows, n_jobs)

    def with_words(self, texts: list[str], n_jobs: int) -> tuple[Self, Array]:
        """With the words of texts in the vocabulary; and the new places of the columns."""
        parts = [block.with_words(texts, n_jobs) for block in self.terms]
        wider = replace(self, terms=tuple(block for block, _ in parts))
        places, old, new = [], 0, 0
        for (block, place), before in zip(parts, self.terms, strict=True):
            places.append(place + np.int32(new))
            old, new = old + before.width, new + block.width
        places.append(np.arange(new, new + self.width - old, dtype=np.int32))  # numbers and categories
        return wider, np.concatenate(places)

    def unknown_words(self, X: Any, n_jobs: int) -> tuple[float, float]:
        """Fraction of the words of records that the vocabulary lacks, and the expected one for similar records.

        The latter is Good and Turing's estimate, the fraction of the training words that are in one row only. Both are
        0 if the vocabulary is limited, or there is none.
        """
        columns, n_rows = columns_of(X, self.parameters, fitting=False)
        counts = [block.count_words(columns, n_rows, n_jobs) for block in self.terms]
        n_words, n_unknown, n_training, n_single = map(sum, zip(*counts, strict=True))
        return n_unknown / max(1, n_words), n_single / max(1, n_training)

    # --- features

    @property
    def width(self) -> int:
        """Number of columns."""
        return sum(part.width for part in self._parts())

    def transform(self, X: Any, n_jobs: int = 1) -> sp.csr_matrix:
        """Features of records, CSR float32 with sorted indices."""
        columns, n_rows = columns_of(X, self.parameters, fitting=False)
        parts = [block.transform(columns, n_rows, n_jobs) for block in self.terms]
        parts += [part.transform(columns, n_rows) for part in self._others()]
        return self._join(parts, n_rows, n_jobs)

    def apply(self, before: Rows) -> Rows:
        """Rows with features; those that have features already are returned unchanged."""
        if is_features(before.X):
            return before
        features = self.transform(before.X, before.threads)
        return Rows(features, before.n_trees, before.n_jobs, before.device)

    def _parts(self) -> Iterator[TermBlock | NumericColumns | CategoryColumn]:
        yield from self.terms
        yield from self._others()

    def _others(self) -> Iterator[NumericColumns | CategoryColumn]:
        if self.numeric is not None:
            yield self.numeric
        yield from self.categorical

    def _join(self, parts: list[CsrArrays], n_rows: int, n_jobs: int) -> sp.csr_matrix:
        indptr, indices, values = parts[0]
        if len(parts) > 1:
            widths = [part.width for part in self._parts()]
            offsets = np.concatenate(([0], np.cumsum(widths[:-1], dtype=np.int64)))
            indptr, indices, values = _kernels.join_columns(parts, offsets, n_jobs)
        features = sp.csr_matrix((n_rows, self.width), dtype=np.float32)
        # assigned rather than passed: the constructor would check what the kernels guarantee
        if indptr[-1] <= LARGEST_COUNT:
            indptr = indptr.astype(np.int32)
        features.indptr, features.indices, features.data = indptr, indices, values
        features.has_sorted_indices = True
        return features

    # --- names

    def feature_names(self) -> list[str]:
        """Names of all columns."""
        return [name for part in self._parts() for name in part.feature_names()]

    def names(self, columns: Array) -> list[str]:
        """Names of some columns, without decoding all."""
        ends = np.cumsum([block.width for block in self.terms])
        others = [name for part in self._others() for name in part.feature_names()]
        names = []
        for column in np.asarray(columns).tolist():
            place = int(np.searchsorted(ends, column, side="right"))
            if place < len(ends):
                block = self.terms[place]
                names.append(block.name(column - int(ends[place]) + block.width))
            else:
                names.append(others[column - int(ends[-1])])
        return names

    # --- tensors of the model file

    def settings(self) -> dict[str, Any]:
        """Parameters, and the number of training rows."""
        return {"parameters": self.parameters.plain(), "n_rows": self.n_rows}

    def tensors(self, compact: bool) -> dict[str, Array]:
        """Tensors by name."""
        tensors: dict[str, Array] = {}
        for number, block in enumerate(self.terms):
            tensors |= prefixed(str(number), block.tensors())
        if self.numeric is not None:
            tensors |= prefixed("numeric", self.numeric.tensors())
        for number, column in enumerate(self.categorical):
            tensors |= prefixed(f"category{number}", column.tensors())
        return tensors

    @classmethod
    def from_tensors(cls, source: StageSource) -> Self:
        """See :class:`~sparseleaf.model.stage.Stage`."""
        parameters = TextSettings.from_plain(source.settings.get("parameters"))
        n_rows = source.settings.get("n_rows")
        if not isinstance(n_rows, int) or isinstance(n_rows, bool) or not 1 <= n_rows <= LARGEST_COUNT:
            raise ValueError(f"n_rows must be from 1 to {LARGEST_COUNT}, is {n_rows!r:.60}")
        terms = tuple(
            TermBlock.from_tensors(source.part(str(number)), block, parameters, n_rows)
            for number, block in enumerate(parameters.blocks)
        )
        numeric = None
        if parameters.numeric:
            numeric = NumericColumns.from_tensors(source.part("numeric"), parameters.numeric)
        categorical = tuple(
            CategoryColumn.from_tensors(source.part(f"category{number}"), name, weight)
            for number, (name, weight) in enumerate((parameters.categorical or {}).items())
        )
        stage = cls(parameters, n_rows, terms, numeric, categorical)
        if stage.width != source.n_features:
            raise ValueError(f"must have {source.n_features} columns, one per feature, has {stage.width}")
        return stage

    def describe(self) -> dict[str, Any]:
        """Number of columns of each block, and the parameters."""
        return {
            "text": {
                "columns": {block.block.prefix + block.block.analyzer: block.width for block in self.terms},
                "numeric": list(self.parameters.numeric or ()),
                "categorical": {column.name: column.width for column in self.categorical},
                "parameters": self.parameters.plain(),
            }
        }
