"""A trained model: an ordered list of stages, and what is known of its labels, features and training."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sparseleaf._steps import UNSIGNED, narrow
from sparseleaf.data.targets import Targets
from sparseleaf.model import header as headers
from sparseleaf.model.registry import stage_class
from sparseleaf.model.source import ModelFileError, StageSource, prefixed
from sparseleaf.model.stage import Role, Rows

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.model.source import Tensors
    from sparseleaf.model.stage import Scores, Stage


@dataclass(frozen=True, kw_only=True)
class Model:
    """A trained model. It never changes after it is made: any number of threads may predict with it at once.

    Attributes
    ----------
    stages : tuple of Stage
        In the order of their roles, each of which is there once at most; one is a scorer.
    method : str
        Which system trained it, such as ``"gbdt-sparse"``.
    n_features : int
        Features of the rows that come in, before the projection.
    n_labels : int
    label_names : array of str or int, or None
    target_kind : str
        What the targets looked like: see :mod:`sparseleaf.data.targets`.
    label_counts : int array, shape (n_labels,)
        Training rows of every label, for propensities.
    n_train_rows : int
    parameters : dict
        The estimator's parameters.
    history : dict of str to list of float
        Metrics after every tree, where there was a validation set.
    feature_names : list of str or None
        Columns of the DataFrame of training.
    categories : dict of int to list
        By feature, what its categories are called; category ``c`` is the c-th.
    threshold : float or None
        Score from which ``predict`` returns a label; None in files that do not have it.
    link : str
        How predictions are made of the scorer's scores: see :mod:`sparseleaf.links`.
    """

    stages: tuple[Stage, ...]
    method: str
    n_features: int
    n_labels: int
    target_kind: str
    label_counts: Array
    n_train_rows: int
    label_names: Array | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    history: dict[str, list[float]] = field(default_factory=dict)
    feature_names: list[str] | None = None
    categories: dict[int, list[Any]] = field(default_factory=dict)
    threshold: float | None = None
    link: str = "identity"

    def __post_init__(self) -> None:
        roles = [stage.role for stage in self.stages]
        if any(a >= b for a, b in pairwise(roles)) or Role.SCORER not in roles:
            raise ValueError(
                f"stages: found {[stage.kind for stage in self.stages]}; wanted one scorer, and other stages before and"
                " after it in their order"
            )

    # --- stages

    @cached_property
    def _by_role(self) -> dict[Role, Any]:
        return {stage.role: stage for stage in self.stages}

    def stage(self, role: Role) -> Any:
        """The stage of that role, or None."""
        return self._by_role.get(role)

    def with_stage(self, role: Role, stage: Stage | None) -> Model:
        """The same model with this stage in that role; None for no stage."""
        others = {number: one for number, one in self._by_role.items() if number is not role}
        return replace(self, stages=in_order([*others.values(), stage]))

    @property
    def scorer(self) -> Any:
        """The stage that scores labels, a :class:`~sparseleaf.model.stage.Scorer`; its class is known by ``method``."""
        return self._by_role[Role.SCORER]

    @property
    def trees(self) -> Any:
        """The scorer's trees; a blend has none of its own."""
        return self.scorer.trees

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        n_trees: int = self.scorer.n_trees
        return n_trees

    @property
    def n_columns(self) -> int:
        """Columns that the scorer sees."""
        return self.n_features if self.projection is None else int(self.projection.width)

    @property
    def base_score(self) -> Array | None:
        """Where scores start; None where they start at 0 and stay sparse."""
        base: Array | None = self.scorer.base_score
        return base

    @property
    def projection(self) -> Any:
        """The stage that makes columns for the trees, or None."""
        return self.stage(Role.PROJECTION)

    @property
    def rerank(self) -> Any:
        """The stage that scores the best labels again, or None."""
        return self.stage(Role.RERANKER)

    @property
    def empty(self) -> Any:
        """The stage for rows without a known feature, or None where training rows were dense."""
        return self.stage(Role.EMPTY_ROWS)

    @property
    def rescored(self) -> bool:
        """Whether a stage after the scorer makes scores from 0 to 1 of its scores, so that the link does not apply."""
        return any(Role.SCORER < stage.role < Role.EMPTY_ROWS for stage in self.stages)

    @cached_property
    def takes_nan(self) -> bool:
        """Whether NaN is a missing value to all stages; else rows must hold numbers."""
        return all(stage.takes_nan for stage in self.stages)

    @property
    def known_labels(self) -> Targets:
        """The labels of training, as targets without rows."""
        kind: Any = self.target_kind
        return Targets(sp.csr_matrix((0, self.n_labels), dtype=np.float32), self.label_names, kind)

    # --- prediction

    def apply(self, X: Features, n_trees: int | None, n_jobs: int, *, last: Role | None = None) -> Scores:
        """What the stages make of rows, up to those of role ``last``; nothing is computed yet."""
        batch: Any = Rows(X, n_trees, n_jobs)
        for stage in self.stages:
            if last is None or stage.role <= last:
                batch = stage.apply(batch)
        scores: Scores = batch
        return scores

    def topk(self, X: Features, k: int, n_trees: int | None, n_jobs: int) -> tuple[Array, Array]:
        """The k best labels of every row: see :meth:`~sparseleaf.model.stage.Scores.topk`."""
        return self.apply(X, n_trees, n_jobs).topk(k)

    def scores(self, X: Features, n_trees: int | None, n_jobs: int) -> sp.csr_matrix:
        """Scores of every row as a CSR matrix: see :meth:`~sparseleaf.model.stage.Scores.sparse`."""
        return self.apply(X, n_trees, n_jobs).sparse()

    def outputs(self, X: Features, n_trees: int | None, n_jobs: int) -> Array:
        """Scores of every row as a float32 array (n_rows, n_labels)."""
        return self.apply(X, n_trees, n_jobs).dense()

    def candidates(self, X: Features, k: int, n_trees: int | None, n_jobs: int) -> tuple[Array, Array]:
        """The k best labels for a re-ranker: see :meth:`~sparseleaf.model.stage.Scores.candidates`."""
        return self.apply(X, n_trees, n_jobs).candidates(k)

    def tree_scores(self, X: Features, n_trees: int | None, n_jobs: int) -> sp.csr_matrix:
        """:meth:`scores` by the scorer alone."""
        return self.apply(X, n_trees, n_jobs, last=Role.SCORER).sparse()

    def dense(self, X: Features, n_trees: int | None, n_jobs: int) -> Array:
        """:meth:`outputs` by the scorer alone."""
        return self.apply(X, n_trees, n_jobs, last=Role.SCORER).dense()

    # --- files

    def header(self) -> dict[str, Any]:
        """What a file's header says of the model."""
        stages = [{"kind": stage.kind, **stage.settings()} for stage in self.stages]
        return headers.encode(self) | {"stages": stages}

    def tensors(self, compact: bool) -> dict[str, Array]:
        """All tensors but the label names."""
        tensors = {"label_counts": narrow(self.label_counts)}
        for stage in self.stages:
            tensors |= prefixed(stage.kind, stage.tensors(compact))
        return tensors

    @classmethod
    def from_tensors(
        cls, header: dict[str, Any], tensors: Tensors, prefix: str, names: Array | None
    ) -> Model:
        """From a checked header and the tensors whose names begin with ``prefix``, each of which is taken off."""
        n_features, n_labels = header["n_features"], header["n_labels"]
        kind = header["target_kind"]
        source = StageSource(tensors, prefix, n_features, n_labels, n_features, kind, names=names)
        counts = source.take("label_counts", (*UNSIGNED, "U64"), 1)
        if len(counts) != n_labels:
            raise ModelFileError(
                f"label_counts has {len(counts)} entries; wanted one for each of {n_labels} labels"
            )
        stages: list[Any] = []
        for entry in header["stages"]:
            kind = entry["kind"]
            try:
                stage = stage_class(kind).from_tensors(source.part(kind, kind=kind, settings=entry))
            except ModelFileError:
                raise
            except ValueError as error:
                raise ModelFileError(f"{kind}: {error}") from None
            if stage.role < Role.SCORER:
                source = replace(source, n_columns=stage.width)
            stages.append(stage)
        try:
            return cls(
                stages=tuple(stages),
                label_names=names,
                label_counts=counts,
                **headers.decode(header),
            )
        except ValueError as error:
            raise ModelFileError(str(error)) from None


def in_order(stages: Iterable[Stage | None]) -> tuple[Stage, ...]:
    """Stages in the order of their roles, without those that are None."""
    return tuple(sorted((stage for stage in stages if stage is not None), key=lambda stage: stage.role))
