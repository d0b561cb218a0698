"""Updating a model with new rows and labels, without regrowing its trees.

Every stage updates itself: see :meth:`~sparseleaf.model.stage.Stage.updated`. The model is immutable; the update is a
new one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sparseleaf.model.stage import Role, Rows

if TYPE_CHECKING:
    import scipy.sparse as sp

    from sparseleaf._arrays import Array, Features
    from sparseleaf.model.model import Model
    from sparseleaf.model.stage import Stage


@dataclass(frozen=True)
class NewRows:
    """New rows, and what a stage needs of the model that it is part of.

    Attributes
    ----------
    X : features
    Y : CSR matrix of ones, shape (n_rows, n_labels)
        The model's labels, followed by new ones.
    names : array or None
        Names of all labels.
    keep : float
        Factor of the old evidence: 1 - ``forget``.
    before : Model
        The model before the update.
    seed, n_jobs : int
    boosted : callable
        ``boosted(scorer, new)`` updates boosted trees, by refreshed leaves or more trees; training has both.
    stages : tuple of Stage
        The updated stages before this one.
    unknown_words : tuple of float
        Fraction of the words of new texts that the vectoriser does not know, and the expected one.
    """

    X: Features
    Y: sp.csr_matrix
    names: Array | None
    keep: float
    before: Model
    seed: int
    n_jobs: int
    boosted: Callable[[Any, NewRows], Any]
    stages: tuple[Stage, ...] = ()
    unknown_words: tuple[float, float] = (0.0, 0.0)

    @property
    def n_rows(self) -> int:
        """Number of new rows."""
        return int(self.X.shape[0])

    @property
    def n_labels(self) -> int:
        """Number of labels after the update."""
        return int(self.Y.shape[1])

    @cached_property
    def counts(self) -> Array:
        """New rows of every label."""
        return np.bincount(self.Y.indices, minlength=self.n_labels)

    @cached_property
    def old_counts(self) -> Array:
        """Old rows of every label, weighted by ``keep`` and rounded; a label with rows keeps at least one."""
        counts = np.asarray(self.before.label_counts, np.int64)
        kept = np.zeros(self.n_labels, np.int64)
        kept[: len(counts)] = np.where(counts > 0, np.maximum(1, np.rint(self.keep * counts)), 0)
        return kept

    @cached_property
    def old_rows(self) -> int:
        """Number of old rows, weighted by ``keep`` and rounded."""
        return round(self.keep * self.before.n_train_rows)

    def rows(self) -> Rows:
        """The new rows as the scorer takes them."""
        rows = Rows(self.X, None, self.n_jobs)
        for stage in self.stages:
            if stage.role < Role.SCORER:
                rows = stage.apply(rows)
        return rows

    @cached_property
    def trees(self) -> Model:
        """The updated model up to the scorer, which proposes candidates to a re-ranker."""
        scorers = tuple(stage for stage in self.stages if stage.role <= Role.SCORER)
        return replace(self.before, stages=scorers, n_labels=self.n_labels, label_names=self.names)


def updated_model(new: NewRows) -> Model:
    """The model with the evidence of new rows."""
    before = new.before
    stages: tuple[Stage, ...] = ()
    for stage in before.stages:
        stages = (*stages, stage.updated(replace(new, stages=stages)))
    third_class = before.target_kind == "binary" and new.n_labels > 2
    return replace(
        before,
        stages=stages,
        n_labels=new.n_labels,
        label_names=new.names,
        target_kind="multiclass" if third_class else before.target_kind,
        label_counts=new.old_counts + new.counts,
        n_train_rows=new.old_rows + new.n_rows,
    )
