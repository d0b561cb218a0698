"""The scorer of several models: the weighted mean of their scores, over the union of their candidates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from scipy.special import expit

from sparseleaf.model import header as headers
from sparseleaf.model.candidates import BLOCK_ROWS, PLACES, topk_of
from sparseleaf.model.model import Model, in_order
from sparseleaf.model.registry import register
from sparseleaf.model.source import ModelFileError, prefixed
from sparseleaf.model.stage import Role, Scorer, Scores

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.model.source import StageSource
    from sparseleaf.model.stage import Rows


@register("blend")
@dataclass(frozen=True)
class BlendScorer(Scorer):
    """The stage.

    Attributes
    ----------
    members : tuple of Model
        With the same features and labels.
    weights : float32 array, shape (n_members,)
        From 0, adding up to 1.
    """

    members: tuple[Model, ...]
    weights: Array

    kind: ClassVar[str] = "blend"
    base_score: ClassVar[None] = None
    axis_trees: ClassVar[None] = None

    @property
    def takes_nan(self) -> bool:
        """Whether all members do."""
        return all(member.takes_nan for member in self.members)

    @property
    def n_trees(self) -> int:
        """Trees of all members."""
        return sum(member.n_trees for member in self.members)

    @property
    def n_labels(self) -> int:
        """Labels that there are."""
        return self.members[0].n_labels

    def importances(self) -> tuple[Array, Array]:
        """There are none: members may have different columns."""
        raise AttributeError("feature_importances_: a blend has none of its own; ask its estimators_.")

    def apply(self, before: Rows) -> BlendScores:
        """Scores of rows; all trees are used."""
        before.used(self.n_trees)
        return BlendScores(before, self)

    def components(self, rows: Rows) -> Iterator[tuple[slice, Array, Array, Array]]:
        """Block by block of rows: (rows, starts, labels, score components of each candidate, one a member).

        Candidates are the ``PLACES`` best labels of every member. A component is the member's score by the highest
        score that it has for the row, so that members with other units can be mixed; 0 of a label that is not among
        its best.
        """
        X = rows.X
        for begin in range(0, X.shape[0], BLOCK_ROWS):
            block = slice(begin, begin + BLOCK_ROWS)
            part = X if X.shape[0] <= BLOCK_ROWS else X[block]
            keys, values = [], []
            for member in self.members:
                scored = member.apply(part, None, rows.n_jobs)
                labels, scores = scored.topk(PLACES)
                scores = scores if scored.base is None else expit(scores)
                there = labels >= 0
                top = scores.max(axis=1, keepdims=True)
                relative = np.divide(scores, top, where=there & (top > 0), out=np.zeros_like(scores))
                row = np.nonzero(there)[0].astype(np.int64)
                keys.append(row * self.n_labels + labels[there])
                values.append(np.clip(relative[there], 0, 1))
            union = np.unique(np.concatenate(keys))
            components = np.zeros((len(union), len(self.members)), np.float32)
            for number, (own, their) in enumerate(zip(keys, values, strict=True)):
                components[np.searchsorted(union, own), number] = their
            ends = np.arange(part.shape[0] + 1) * np.int64(self.n_labels)
            starts = np.searchsorted(union, ends).astype(np.int64)
            yield block, starts, (union % max(1, self.n_labels)).astype(np.int32), components

    # --- tensors of the model file

    def settings(self) -> dict[str, Any]:
        """The members' headers."""
        return {"members": [member.header() for member in self.members]}

    def tensors(self, compact: bool) -> dict[str, Array]:
        """The weights, and the members' tensors, each under its number."""
        tensors: dict[str, Array] = {"weights": self.weights}
        for number, member in enumerate(self.members):
            tensors |= prefixed(str(number), member.tensors(compact))
        return tensors

    @classmethod
    def from_tensors(cls, source: StageSource) -> Self:
        """From tensors; ValueError where members are not sound or do not fit together."""
        weights = source.take("weights", ("F32",), 1)
        found = source.settings.get("members")
        if not isinstance(found, list) or not found or len(found) != len(weights):
            raise ModelFileError(f"'members' is not a list of {len(weights)} headers, one a weight")
        members = []
        for number, header in enumerate(found):
            try:
                if not isinstance(header, dict):
                    raise ModelFileError("its header is not a JSON object")
                headers.check(header)
                _check_header(header, source)
                prefix = source.part(str(number)).prefix
                members.append(Model.from_tensors(header, source.tensors, prefix, source.names))
            except ModelFileError as error:
                raise ModelFileError(f"member {number + 1}: {error}") from None
        return cls.of(members, weights)

    @classmethod
    def of(cls, members: Sequence[Model], weights: Array) -> Self:
        """A blend of models with weights of any sum; ValueError where they do not fit together."""
        weights = np.asarray(weights, np.float32)
        if not members or len(members) != len(weights):
            raise ValueError(f"weights: found {len(weights)} for {len(members)} members; wanted one each")
        if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.sum() > 0):
            raise ValueError("weights: wanted numbers from 0, not all of them 0")
        for number, member in enumerate(members, start=1):
            _check_member(member, members[0], number)
        return cls(tuple(members), weights if abs(weights.sum() - 1) < 1e-6 else weights / weights.sum())

    def describe(self) -> dict[str, Any]:
        """Its members."""
        return {
            "members": [
                {"method": member.method, "weight": weight, "n_trees": member.n_trees, "rerank": None}
                | {name: value for stage in member.stages for name, value in stage.describe().items()}
                | {"parameters": member.parameters}
                for member, weight in zip(self.members, self.weights.tolist(), strict=True)
            ]
        }


class BlendScores(Scores):
    """The weighted mean of the components."""

    def __init__(self, rows: Rows, scorer: BlendScorer) -> None:
        self.rows, self._scorer = rows, scorer

    def topk(self, k: int) -> tuple[Array, Array]:
        """See :class:`~sparseleaf.model.stage.Scores`."""
        n_rows = self.rows.n_rows
        labels, scores = np.empty((n_rows, k), np.int32), np.empty((n_rows, k), np.float32)
        for block, starts, joined, components in self._scorer.components(self.rows):
            labels[block], scores[block] = topk_of(starts, joined, components @ self._scorer.weights, k)
        return labels, scores

    def sparse(self) -> sp.csr_matrix:
        """See :class:`~sparseleaf.model.stage.Scores`: those of candidates."""
        parts = [sp.csr_matrix((0, self._scorer.n_labels), dtype=np.float32)]
        for _, starts, joined, components in self._scorer.components(self.rows):
            shape = (len(starts) - 1, self._scorer.n_labels)
            parts.append(sp.csr_matrix((components @ self._scorer.weights, joined, starts), shape=shape))
        return sp.vstack(parts, "csr")


def blend_models(
    members: Sequence[Model], weights: Array, parameters: dict[str, Any], feature_names: list[str] | None
) -> Model:
    """One model of several; ValueError where they do not fit together."""
    scorer, first = BlendScorer.of(members, weights), members[0]
    return Model(
        stages=in_order([scorer, first.stage(Role.EMPTY_ROWS)]),
        method="blend",
        n_features=first.n_features,
        n_labels=first.n_labels,
        label_names=first.label_names,
        target_kind=first.target_kind,
        label_counts=first.label_counts,
        n_train_rows=first.n_train_rows,
        parameters=parameters,
        feature_names=feature_names,
    )


def _check_header(header: dict[str, Any], source: StageSource) -> None:
    """Whether a member from a stranger has the blend's features and labels, and no members itself."""
    for name in ("n_features", "n_labels", "target_kind"):
        wanted = getattr(source, name)
        if header[name] != wanted:
            raise ModelFileError(f"{name} is {headers.short(header[name])}; wanted {wanted!r}, the blend's")
    if any(entry["kind"] == BlendScorer.kind for entry in header["stages"]):
        raise ModelFileError("it is a blend itself")


def _check_member(member: Model, first: Model, number: int) -> None:
    if member.scorer.kind == BlendScorer.kind:
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
