"""Side information of labels as evidence: their names, parts of these, and their hierarchy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np

from sparseleaf.model.source import prefixed
from sparseleaf.rerank.hierarchy import GROUPS, RELATED_COLUMNS, Hierarchy
from sparseleaf.rerank.names import NAME_COLUMNS, LabelNames
from sparseleaf.rerank.parts import PART_COLUMNS, NameParts

if TYPE_CHECKING:
    import scipy.sparse as sp

    from sparseleaf._arrays import Array, Features
    from sparseleaf.data.label_info import LabelInfo
    from sparseleaf.data.targets import Targets
    from sparseleaf.features import TextStage
    from sparseleaf.model.source import StageSource
    from sparseleaf.rerank.examples import Examples

SOURCES = (
    dict.fromkeys(NAME_COLUMNS, "names")
    | dict.fromkeys(RELATED_COLUMNS, "hierarchy")
    | dict.fromkeys(PART_COLUMNS, "name parts")
)
"""The score component that each of the columns measures."""


@dataclass(frozen=True)
class SideEvidence:
    """Names and hierarchy, at least one of them.

    Attributes
    ----------
    names : LabelNames or None
    hierarchy : Hierarchy or None
    parts : NameParts or None
        Of the names; models of earlier versions have none.
    """

    names: LabelNames | None
    hierarchy: Hierarchy | None
    parts: NameParts | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of evidence."""
        columns: tuple[str, ...] = () if self.names is None else NAME_COLUMNS
        columns += () if self.hierarchy is None else RELATED_COLUMNS
        return columns + (() if self.parts is None else PART_COLUMNS)

    @property
    def sources(self) -> tuple[str, ...]:
        """The score component that each of the columns measures."""
        return tuple(SOURCES[column] for column in self.columns)

    def propose(self, rows: sp.csr_matrix, n_jobs: int) -> Array:
        """Labels found by their names, (n_rows, places), -1 for none."""
        if self.names is None:
            return no_proposals(rows.shape[0])
        return self.names.propose(rows, n_jobs)

    def fill(
        self, rows: sp.csr_matrix, starts: Array, labels: Array, proposed: Array, components: Array, table: Array,
        n_jobs: int,
    ) -> None:  # fmt: skip
        """Write the last columns of a table of candidates; ``components`` are their mean score components."""
        first = table.shape[1] - len(self.columns)
        if self.names is not None:
            self.names.fill(rows, starts, labels, proposed, table, first, n_jobs)
            first += len(NAME_COLUMNS)
        if self.hierarchy is not None:
            self.hierarchy.fill(starts, labels, components, table, first, n_jobs)
            first += len(RELATED_COLUMNS)
        if self.parts is not None:
            self.parts.fill(rows, starts, labels, table, first, n_jobs)

    def with_labels(self, n_labels: int) -> SideEvidence:
        """With more labels, of which nothing is known."""
        return replace(
            self,
            names=None if self.names is None else self.names.with_labels(n_labels),
            hierarchy=None if self.hierarchy is None else self.hierarchy.with_labels(n_labels),
            parts=None if self.parts is None else self.parts.with_labels(n_labels),
        )

    # --- fitting

    @classmethod
    def fit(
        cls, info: LabelInfo, targets: Targets, text: TextStage | None, X: Features, n_jobs: int
    ) -> SideEvidence | None:
        """What is known of the labels of ``targets``; None if that is nothing."""
        labels = list(range(targets.n_labels)) if targets.names is None else targets.names.tolist()
        number = {label: place for place, label in enumerate(labels)}
        names = [info.names.get(label, ()) for label in labels]
        broader = [info.broader.get(label, ()) for label in labels]
        for parent in (one for several in broader for one in several):
            number.setdefault(parent, GROUPS + len(number) - len(labels))
        fitted = cls(
            LabelNames.fit(names, text, X, n_jobs) if any(names) else None,
            Hierarchy.fit([[number[one] for one in several] for several in broader])
            if any(broader)
            else None,
            NameParts.fit(names, text, n_jobs) if any(names) else None,
        )
        return fitted if fitted.columns else None

    def trained(self, examples: Examples, seed: int, n_jobs: int) -> tuple[Self, Self]:
        """With models of the parts of names: without the held-out rows, if there are any, and of all rows."""
        if self.parts is None:
            return self, self
        before, after = self.parts.trained(examples, seed, n_jobs)
        return replace(self, parts=before), replace(self, parts=after)

    def updated(self, examples: Examples, seed: int, n_jobs: int) -> Self:
        """With models of the parts of names that are trained further."""
        return self if self.parts is None else replace(self, parts=self.parts.updated(examples, seed, n_jobs))

    # --- tensors of the model file

    def tensors(self, compact: bool) -> dict[str, Array]:
        """Tensors by name."""
        tensors = {} if self.names is None else prefixed("names", self.names.tensors(compact))
        if self.parts is not None:
            tensors |= prefixed("parts", self.parts.tensors(compact))
        return tensors if self.hierarchy is None else tensors | prefixed("broader", self.hierarchy.tensors())

    @classmethod
    def from_tensors(cls, source: StageSource) -> Self | None:
        """From tensors, None if there are none; ValueError if they are invalid."""
        names = LabelNames.from_tensors(source.part("names")) if source.has("names.weights") else None
        hierarchy = Hierarchy.from_tensors(source.part("broader")) if source.has("broader.sizes") else None
        parts = NameParts.from_tensors(source.part("parts")) if source.has("parts.sizes") else None
        return None if names is None and hierarchy is None else cls(names, hierarchy, parts)


def no_proposals(n_rows: int) -> Array:
    """No label for any row."""
    return np.empty((n_rows, 0), np.int32)
