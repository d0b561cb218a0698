"""The scorer of a blend: the weighted mean of several models' scores over the union of their candidates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from scipy.special import expit

from sparseleaf.model import header as headers
from sparseleaf.model.attribution import Attribution, added
from sparseleaf.model.candidates import BLOCK_ROWS, PLACES, look_up, mixed, topk_of
from sparseleaf.model.importance import mixed_importances
from sparseleaf.model.model import Model, in_order
from sparseleaf.model.registry import register
from sparseleaf.model.source import ModelFileError, prefixed
from sparseleaf.model.stage import Role, Scorer, Scores, same_stage
from sparseleaf.model.update import updated_model

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.model.attribution import Pairs
    from sparseleaf.model.source import StageSource
    from sparseleaf.model.stage import Rows
    from sparseleaf.model.update import NewRows

    _Relative = tuple[Scores, Array, Array, Array]


@register("blend")
@dataclass(frozen=True)
class BlendScorer(Scorer):
    """Scorer of a blend of models.

    Attributes
    ----------
    members : tuple of Model
        With the same features and labels. A vectorizer that they share is a stage of the blend.
    weights : float32 array, shape (n_members,)
        Non-negative, of sum 1.
    """

    members: tuple[Model, ...]
    weights: Array

    kind: ClassVar[str] = "blend"
    base_score: ClassVar[None] = None
    axis_trees: ClassVar[None] = None

    @property
    def takes_nan(self) -> bool:
        """Whether all members support NaN."""
        return all(member.takes_nan for member in self.members)

    @property
    def n_trees(self) -> int:
        """Number of trees of all members."""
        return sum(member.n_trees for member in self.members)

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return self.members[0].n_labels

    @property
    def indexed_rows(self) -> int | None:
        """See :class:`~sparseleaf.model.stage.Stage`; of the first member that has some."""
        return next((one.indexed_rows for one in self.members if one.indexed_rows is not None), None)

    def label_importances(self, labels: Array, before: sp.csr_matrix, n_jobs: int) -> sp.csr_matrix:
        """See :class:`~sparseleaf.model.stage.Stage`; the weighted sum of the members."""
        most = self.members[0].n_features
        return mixed_importances(
            [
                (weight, member.label_importances(labels, most, n_jobs))
                for member, weight in zip(self.members, self.weights.tolist(), strict=True)
            ]
        )

    def title_of(self, row: int) -> str | None:
        """See :class:`~sparseleaf.model.stage.Stage`."""
        titles = (member.title_of(row) for member in self.members)
        return next((title for title in titles if title is not None), None)

    def with_titles(self, titles: Sequence[str] | None) -> BlendScorer:
        """See :class:`~sparseleaf.model.stage.Stage`; stored once, by the first member with indexed rows."""
        first = next((i for i, member in enumerate(self.members) if member.indexed_rows is not None), -1)
        return replace(
            self,
            members=tuple(
                member.with_titles(titles if number == first else None)
                for number, member in enumerate(self.members)
            ),
        )

    def importances(self) -> tuple[Array, Array]:
        """Not available: members may have different columns."""
        raise AttributeError("A blend has no feature_importances_; see those of its estimators_.")

    def apply(self, before: Rows) -> BlendScores:
        """Scores of rows."""
        before.used(self.n_trees)
        return BlendScores(before, self)

    def components(
        self, rows: Rows, scored: Sequence[_Relative] | None = None
    ) -> Iterator[tuple[slice, Array, Array, Array]]:
        """For each block of rows: (rows, starts, labels, score components of each candidate, one per member).

        Candidates are the ``PLACES`` best labels of every member. A component is the member's score relative to its
        highest score for the row, so that members with different scales can be mixed; 0 for labels not among its best.
        ``scored`` are those of every member, if rows are a single block.
        """
        X = rows.X
        for begin in range(0, X.shape[0], BLOCK_ROWS):
            block = slice(begin, begin + BLOCK_ROWS)
            part = X if X.shape[0] <= BLOCK_ROWS else X[block]
            keys, values = [], []
            for number, member in enumerate(self.members):
                known = _relative(member, part, rows.n_jobs) if scored is None else scored[number]
                _, labels, relative, _ = known
                listed = labels >= 0
                row = np.nonzero(listed)[0].astype(np.int64)
                keys.append(row * self.n_labels + labels[listed])
                values.append(relative[listed])
            union = np.unique(np.concatenate(keys))
            components = np.zeros((len(union), len(self.members)), np.float32)
            for number, (member_keys, member_values) in enumerate(zip(keys, values, strict=True)):
                components[np.searchsorted(union, member_keys), number] = member_values
            ends = np.arange(part.shape[0] + 1) * np.int64(self.n_labels)
            starts = np.searchsorted(union, ends).astype(np.int64)
            yield block, starts, (union % max(1, self.n_labels)).astype(np.int32), components

    def updated(self, new: NewRows) -> BlendScorer:
        """The blend of the updated members; the weights are kept."""
        members = (updated_model(replace(new, before=member, stages=())) for member in self.members)
        return replace(self, members=tuple(members))

    def member_names(self) -> list[str]:
        """A distinct name for every member: its method, numbered if others have the same."""
        methods = [member.method for member in self.members]
        return [
            method if methods.count(method) == 1 else f"{method} {methods[: number + 1].count(method)}"
            for number, method in enumerate(methods)
        ]

    # --- tensors of the model file

    def settings(self) -> dict[str, Any]:
        """The members' headers."""
        return {"members": [member.header() for member in self.members]}

    def tensors(self, compact: bool) -> dict[str, Array]:
        """The weights, and the members' tensors, prefixed by index."""
        tensors: dict[str, Array] = {"weights": self.weights}
        for number, member in enumerate(self.members):
            tensors |= prefixed(str(number), member.tensors(compact))
        return tensors

    @classmethod
    def from_tensors(cls, source: StageSource) -> Self:
        """See :class:`~sparseleaf.model.stage.Stage`."""
        weights = source.take("weights", ("F32",), 1)
        entries = source.settings.get("members")
        if not isinstance(entries, list) or not entries or len(entries) != len(weights):
            raise ModelFileError(f"'members' must be a list of {len(weights)} headers, one per weight")
        members = []
        for number, header in enumerate(entries):
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
        """A blend of models with weights of any sum; ValueError if the models do not match."""
        weights = np.asarray(weights, np.float32)
        if not members or len(members) != len(weights):
            raise ValueError(
                f"weights must have one entry for each of {len(members)} members, has {len(weights)}"
            )
        if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.sum() > 0):
            raise ValueError("weights must be non-negative and not all 0")
        for number, member in enumerate(members, start=1):
            _check_member(member, members[0], number)
        return cls(tuple(members), weights if abs(weights.sum() - 1) < 1e-6 else weights / weights.sum())

    def describe(self) -> dict[str, Any]:
        """The members."""
        return {
            "members": [
                {"method": member.method, "weight": weight, "n_trees": member.n_trees, "rerank": None}
                | {name: value for stage in member.stages for name, value in stage.describe().items()}
                | {"parameters": member.parameters}
                for member, weight in zip(self.members, self.weights.tolist(), strict=True)
            ]
        }


class BlendScores(Scores):
    """Weighted mean of the score components."""

    def __init__(self, rows: Rows, scorer: BlendScorer) -> None:
        self.rows, self._scorer = rows, scorer

    @cached_property
    def _members(self) -> list[_Relative]:
        """Scores of every member, which the ranking and its explanation share."""
        return [_relative(member, self.rows.X, self.rows.n_jobs) for member in self._scorer.members]

    def _components(self) -> Iterator[tuple[slice, Array, Array, Array]]:
        return self._scorer.components(self.rows, self._members if self.rows.n_rows <= BLOCK_ROWS else None)

    def topk(self, k: int) -> tuple[Array, Array]:
        """See :class:`~sparseleaf.model.stage.Scores`."""
        n_rows = self.rows.n_rows
        labels, scores = np.empty((n_rows, k), np.int32), np.empty((n_rows, k), np.float32)
        for block, starts, joined, components in self._components():
            means = mixed(components, self._scorer.weights)
            labels[block], scores[block] = topk_of(starts, joined, means, k, self.rows.n_jobs)
        return labels, scores

    def sparse(self) -> sp.csr_matrix:
        """See :class:`~sparseleaf.model.stage.Scores`; candidates only."""
        parts = [sp.csr_matrix((0, self._scorer.n_labels), dtype=np.float32)]
        for _, starts, joined, components in self._components():
            shape = (len(starts) - 1, self._scorer.n_labels)
            mean = mixed(components, self._scorer.weights)
            parts.append(sp.csr_matrix((mean, joined, starts), shape=shape))
        return sp.vstack(parts, "csr")

    def explain(self, pairs: Pairs) -> Attribution:
        """See :class:`~sparseleaf.model.stage.Scores`; the row's highest scores are constants."""
        parts = []
        weights = self._scorer.weights.astype(np.float64)
        for name, known, weight in zip(self._scorer.member_names(), self._members, weights, strict=True):
            scored, labels, relative, top = known
            listed, place = look_up(labels, pairs)
            some = pairs.some(listed)
            raw, highest = scored.explain_candidates(some), top[some.rows]
            base = np.divide(raw.base, highest, out=np.zeros(len(some)), where=highest > 0).clip(0, 1)
            final = relative[some.rows, place[listed]].astype(np.float64)
            part = raw.through(base, final).scaled(weight)
            part = part.named(
                {
                    f"{name} {component}": values
                    for component, values in _portions(raw, weight * final).items()
                }
            )
            parts.append(part.placed(listed))
        return added(parts)


def _relative(member: Model, X: Features, n_jobs: int) -> _Relative:
    """Scores of a member, its best labels, -1 for none, their scores relative to the row's highest, and the latter."""
    scored = member.apply(X, None, n_jobs)
    labels, scores = scored.topk(PLACES)
    scores = scores if scored.base is None else expit(scores)
    top = scores.max(axis=1, keepdims=True)
    relative = np.divide(scores, top, where=(labels >= 0) & (top > 0), out=np.zeros_like(scores))
    return scored, labels, np.clip(relative, 0, 1), top[:, 0]


def _portions(raw: Attribution, scores: Array) -> dict[str, Array]:
    """The components of an attribution, in proportion, as components of other scores."""
    components = raw.components or {"score": raw.scores}
    total = np.sum(list(components.values()), axis=0)
    factor = np.divide(scores, total, out=np.zeros(len(scores)), where=total != 0)
    return {name: values * factor for name, values in components.items()}


def blend_models(
    members: Sequence[Model], weights: Array, parameters: dict[str, Any], feature_names: list[str] | None
) -> Model:
    """Blend several models into one; ValueError if they do not match."""
    first = members[0]
    for number, member in enumerate(members, start=1):
        if not same_stage(member.vectorizer, first.vectorizer):
            raise ValueError(f"member {number}: its vectorizer is not that of member 1")
    uris = next((stage for member in members if (stage := member.stage(Role.URIS)) is not None), None)
    bare = [member.with_stage(Role.VECTORIZER, None).with_stage(Role.URIS, None) for member in members]
    scorer = BlendScorer.of(bare, weights)
    return Model(
        stages=in_order([first.vectorizer, scorer, first.stage(Role.EMPTY_ROWS), uris]),
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
    """Validate that an untrusted member has the blend's features and labels and is not a blend."""
    for name in ("n_features", "n_labels", "target_kind"):
        blend_value = getattr(source, name)
        if header[name] != blend_value:
            raise ModelFileError(
                f"{name} must be {blend_value!r}, as in the blend, is {headers.short(header[name])}"
            )
    if any(entry["kind"] == BlendScorer.kind for entry in header["stages"]):
        raise ModelFileError("it is a blend itself")


def _check_member(member: Model, first: Model, number: int) -> None:
    if member.scorer.kind == BlendScorer.kind:
        raise ValueError(f"member {number} must not be a blend")
    if member.vectorizer is not None:
        raise ValueError(f"member {number} must not have a vectorizer, which is a stage of the blend")
    for name in ("n_features", "n_labels", "target_kind"):
        value, first_value = getattr(member, name), getattr(first, name)
        if value != first_value:
            raise ValueError(f"member {number}: {name} must be {first_value!r}, as in member 1, is {value!r}")
    if (member.label_names is None) != (first.label_names is None) or (
        first.label_names is not None and member.label_names.tolist() != first.label_names.tolist()  # type: ignore[union-attr]
    ):
        raise ValueError(f"member {number}: its labels are not those of member 1")
    if member.feature_names != first.feature_names:
        raise ValueError(f"member {number}: its features are not those of member 1")
    if member.categories:
        raise ValueError(f"member {number} must not have categorical features")
