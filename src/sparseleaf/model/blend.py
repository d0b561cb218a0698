"""Several models as one: the weighted mean of what they say, over the union of their candidates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sparseleaf.model.model import Model
from sparseleaf.rerank.listed import BLOCK_ROWS, PLACES, topk_of

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features


@dataclass(frozen=True)
class BlendModel(Model):
    """A model of models. It has no trees of its own: ``trees`` are the first member's.

    Attributes
    ----------
    members : tuple of Model
        With the same features and labels.
    weights : float32 array, shape (n_members,)
        From 0, adding up to 1.
    """

    members: tuple[Model, ...] = ()
    weights: Array = None  # type: ignore[assignment]

    @property
    def n_trees(self) -> int:
        """Trees of all members."""
        return sum(member.n_trees for member in self.members)

    @property
    def takes_nan(self) -> bool:
        """Whether all members do."""
        return all(member.takes_nan for member in self.members)

    def _topk(self, X: Features, k: int, n_trees: int | None, n_jobs: int) -> tuple[Array, Array]:
        """See :meth:`Model.topk`; all trees are used."""
        self._used(n_trees)
        labels = np.empty((X.shape[0], k), np.int32)
        scores = np.empty((X.shape[0], k), np.float32)
        for block, starts, joined, opinions in self.opinions(X, n_jobs):
            labels[block], scores[block] = topk_of(starts, joined, opinions @ self.weights, k)
        return labels, scores

    def _scores(self, X: Features, n_trees: int | None, n_jobs: int) -> sp.csr_matrix:
        """See :meth:`Model.scores`: those of candidates."""
        self._used(n_trees)
        parts = [sp.csr_matrix((0, self.n_labels), dtype=np.float32)]
        for _, starts, joined, opinions in self.opinions(X, n_jobs):
            shape = (len(starts) - 1, self.n_labels)
            parts.append(sp.csr_matrix((opinions @ self.weights, joined, starts), shape=shape))
        return sp.vstack(parts, "csr")

    def tree_scores(self, X: Features, n_trees: int | None, n_jobs: int) -> sp.csr_matrix:
        """The same: members have their say whole."""
        return self.scores(X, n_trees, n_jobs)

    def opinions(self, X: Features, n_jobs: int) -> Iterator[tuple[slice, Array, Array, Array]]:
        """Block by block of rows: (rows, starts, labels, what each member says of each candidate).

        Candidates are the ``PLACES`` best labels of every member. A member says its score by the
        highest score that it has for the row, so that members with other units can be mixed; 0 of a label that is
        not among its best.
        """
        for begin in range(0, X.shape[0], BLOCK_ROWS):
            block = slice(begin, begin + BLOCK_ROWS)
            rows = X if X.shape[0] <= BLOCK_ROWS else X[block]
            n_rows = min(begin + BLOCK_ROWS, X.shape[0]) - begin
            keys, said = [], []
            for member in self.members:
                labels, scores = _best(member, rows, PLACES, n_jobs)
                there = labels >= 0
                top = scores.max(axis=1, keepdims=True)
                relative = np.divide(scores, top, where=there & (top > 0), out=np.zeros_like(scores))
                row = np.nonzero(there)[0].astype(np.int64)
                keys.append(row * self.n_labels + labels[there])
                said.append(np.clip(relative[there], 0, 1))
            union = np.unique(np.concatenate(keys))
            opinions = np.zeros((len(union), len(self.members)), np.float32)
            for number, (own, values) in enumerate(zip(keys, said, strict=True)):
                opinions[np.searchsorted(union, own), number] = values
            starts = np.searchsorted(union, np.arange(n_rows + 1) * np.int64(self.n_labels)).astype(np.int64)
            yield block, starts, (union % max(1, self.n_labels)).astype(np.int32), opinions


def _best(member: Model, X: Features, k: int, n_jobs: int) -> tuple[Array, Array]:
    if member.rerank is not None:
        return member.topk(X, k, None, n_jobs)
    return member.candidates(X, k, None, n_jobs)


def blend_models(
    members: Sequence[Model], weights: Array, parameters: dict[str, Any], feature_names: list[str] | None
) -> BlendModel:
    """One model of several; ValueError where they do not fit together."""
    weights = np.asarray(weights, np.float32)
    if not members or len(members) != len(weights):
        raise ValueError(f"weights: found {len(weights)} for {len(members)} members; wanted one each")
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.sum() > 0):
        raise ValueError("weights: wanted numbers from 0, not all of them 0")
    first = members[0]
    for number, member in enumerate(members, start=1):
        if isinstance(member, BlendModel):
            raise ValueError(f"member {number} is a blend itself; wanted the models it is made of")
        for name in ("n_features", "n_labels", "target_kind"):
            found, wanted = getattr(member, name), getattr(first, name)
            if found != wanted:
                raise ValueError(f"member {number}: {name} is {found!r}; wanted {wanted!r}, as member 1 has")
        if (member.label_names is None) != (first.label_names is None) or (
            first.label_names is not None and member.label_names.tolist() != first.label_names.tolist()  # type: ignore[union-attr]
        ):
            raise ValueError(f"member {number}: its labels are not those of member 1")
        if member.feature_names != first.feature_names:
            raise ValueError(f"member {number}: its features are not those of member 1")
        if member.categories:
            raise ValueError(f"member {number} has features with categories; wanted numbers only")
    return BlendModel(
        method="blend",
        n_features=first.n_features,
        n_labels=first.n_labels,
        trees=first.trees,
        projection=None,
        label_names=first.label_names,
        target_kind=first.target_kind,
        label_counts=first.label_counts,
        n_train_rows=first.n_train_rows,
        parameters=parameters,
        history={},
        feature_names=feature_names,
        members=tuple(members),
        empty=first.empty,
        weights=weights if abs(weights.sum() - 1) < 1e-6 else weights / weights.sum(),
    )
