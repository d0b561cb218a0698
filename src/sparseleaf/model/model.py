"""A trained model: an ordered list of stages, and metadata of its labels, features and training."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sparseleaf._steps import UNSIGNED, narrow
from sparseleaf.data.targets import Targets
from sparseleaf.links import IDENTITY, LINKS
from sparseleaf.model import header as headers
from sparseleaf.model.attribution import Attribution, Pairs
from sparseleaf.model.importance import largest_importances
from sparseleaf.model.registry import stage_class
from sparseleaf.model.source import ModelFileError, StageSource, prefixed
from sparseleaf.model.stage import Role, Rows

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.model.source import Tensors
    from sparseleaf.model.stage import Scores, Stage


@dataclass(frozen=True, kw_only=True)
class Model:
    """A trained model. Immutable: any number of threads may predict with it concurrently.

    Attributes
    ----------
    stages : tuple of Stage
        In the order of their roles, at most one per role, with exactly one scorer.
    method : str
        The method, such as ``"gbdt-sparse"``.
    n_features : int
        Number of input features, before the projection.
    n_labels : int
    label_names : array of str or int, or None
    target_kind : str
        Form of the targets: see :mod:`sparseleaf.data.targets`.
    label_counts : int array, shape (n_labels,)
        Training rows of every label, for propensities.
    n_train_rows : int
    parameters : dict
        The estimator's parameters.
    history : dict of str to list of float
        Metrics after every tree, if there was a validation set.
    feature_names : list of str or None
        Column names of the training DataFrame.
    categories : dict of int to list
        Category names by feature; category ``c`` is the c-th.
    threshold : float or None
        Score from which ``predict`` returns a label; None in older files.
    link : str
        Link function from scores to predictions: see :mod:`sparseleaf.links`.
    validation : dict or None
        Precision on the validation rows of training, with their number: see :mod:`sparseleaf.model.drift`.
    updates : tuple of dict
        One record per update: see :mod:`sparseleaf.model.drift`.
    target_columns : dict
        Columns of the training files with labels or targets, for further files: see
        :mod:`sparseleaf.model.target_columns`.
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
    validation: dict[str, Any] | None = None
    updates: tuple[dict[str, Any], ...] = ()
    target_columns: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        roles = [stage.role for stage in self.stages]
        if any(a >= b for a, b in pairwise(roles)) or Role.SCORER not in roles:
            raise ValueError(
                "stages must have exactly one scorer and be in the order of their roles, are"
                f" {[stage.kind for stage in self.stages]}"
            )

    # --- stages

    @cached_property
    def _by_role(self) -> dict[Role, Any]:
        return {stage.role: stage for stage in self.stages}

    def stage(self, role: Role) -> Any:
        """The stage of that role, or None."""
        return self._by_role.get(role)

    def with_stage(self, role: Role, stage: Stage | None) -> Model:
        """A copy with this stage in that role; None for no stage."""
        others = {number: one for number, one in self._by_role.items() if number is not role}
        return replace(self, stages=in_order([*others.values(), stage]))

    @property
    def scorer(self) -> Any:
        """The stage that scores labels, a :class:`~sparseleaf.model.stage.Scorer`; its class depends on ``method``."""
        return self._by_role[Role.SCORER]

    @property
    def trees(self) -> Any:
        """The scorer's trees; a blend has none."""
        return self.scorer.trees

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        n_trees: int = self.scorer.n_trees
        return n_trees

    @property
    def n_columns(self) -> int:
        """Number of columns that the scorer takes."""
        return self.n_features if self.projection is None else int(self.projection.width)

    @property
    def base_score(self) -> Array | None:
        """Initial scores; None if scores are sparse, starting at 0."""
        base: Array | None = self.scorer.base_score
        return base

    @property
    def vectorizer(self) -> Any:
        """The stage that maps texts to features, or None."""
        return self.stage(Role.VECTORIZER)

    def names_of(self, features: Array) -> list[str] | None:
        """Names of some features: terms of the vectorizer, or column names of the DataFrame; None without names."""
        if self.vectorizer is not None:
            names: list[str] = self.vectorizer.names(features)
            return names
        if self.feature_names is None:
            return None
        return [self.feature_names[number] for number in np.asarray(features).tolist()]

    @property
    def projection(self) -> Any:
        """The projection stage, or None."""
        return self.stage(Role.PROJECTION)

    @property
    def rerank(self) -> Any:
        """The re-ranker, or None."""
        return self.stage(Role.RERANKER)

    @property
    def calibrator(self) -> Any:
        """The stage that maps scores to probabilities, or None."""
        return self.stage(Role.CALIBRATOR)

    @property
    def empty(self) -> Any:
        """The stage for rows without known features, or None if training rows were dense."""
        return self.stage(Role.EMPTY_ROWS)

    @property
    def rescored(self) -> bool:
        """Whether a re-ranker makes scores from 0 to 1, so that the link does not apply."""
        return self.rerank is not None

    @cached_property
    def takes_nan(self) -> bool:
        """Whether all stages support NaN as a missing value."""
        return all(stage.takes_nan for stage in self.stages)

    @property
    def known_labels(self) -> Targets:
        """The training labels, as targets without rows."""
        kind: Any = self.target_kind
        return Targets(sp.csr_matrix((0, self.n_labels), dtype=np.float32), self.label_names, kind)

    # --- prediction

    def apply(
        self,
        X: Features,
        n_trees: int | None,
        n_jobs: int,
        *,
        device: str = "cpu",
        last: Role | None = None,
        calibrated: bool = False,
    ) -> Scores:
        """Apply the stages up to role ``last``, lazily. With a vectorizer, X may also be texts or records.

        Without ``calibrated``, the calibrator is skipped.
        """
        batch: Any = Rows(X, n_trees, n_jobs, device)
        for stage in self.stages:
            if (last is None or stage.role <= last) and (calibrated or stage.role is not Role.CALIBRATOR):
                batch = stage.apply(batch)
        scores: Scores = batch
        return scores

    def topk(
        self, X: Features, k: int, n_trees: int | None, n_jobs: int, device: str = "cpu"
    ) -> tuple[Array, Array]:
        """The k best labels of every row: see :meth:`~sparseleaf.model.stage.Scores.topk`."""
        return self.apply(X, n_trees, n_jobs, device=device).topk(k)

    def scores(self, X: Features, n_trees: int | None, n_jobs: int) -> sp.csr_matrix:
        """Scores of every row as a CSR matrix: see :meth:`~sparseleaf.model.stage.Scores.sparse`."""
        return self.apply(X, n_trees, n_jobs).sparse()

    def outputs(self, X: Features, n_trees: int | None, n_jobs: int, device: str = "cpu") -> Array:
        """Scores of every row as a float32 array (n_rows, n_labels)."""
        return self.apply(X, n_trees, n_jobs, device=device).dense()

    def candidates(self, X: Features, k: int, n_trees: int | None, n_jobs: int) -> tuple[Array, Array]:
        """The k best labels for a re-ranker: see :meth:`~sparseleaf.model.stage.Scores.candidates`."""
        return self.apply(X, n_trees, n_jobs).candidates(k)

    def explain(
        self, X: Features, labels: Array | None, k: int, n_jobs: int
    ) -> tuple[Pairs, Array, Attribution]:
        """Attribute scores to the features: of these labels of every row or, if None, of its k best ones.

        Returns the pairs of row and label, their scores (float32), and their attribution.
        """
        scores = self.apply(X, None, n_jobs)
        if labels is None:
            best, values = scores.topk(k)
            pairs, values = Pairs.of_topk(best), values[best >= 0]
        else:
            pairs = Pairs.product(X.shape[0], labels)
            values = scores.of_pairs(pairs)
        return pairs, values, scores.explain(pairs)

    def predictions_of(self, X: Features, pairs: Pairs, n_jobs: int) -> Array | None:
        """Probabilities of pairs, or predictions on the scale of the targets; None if they are the scores."""
        if self.calibrator is not None:
            return self.apply(X, None, n_jobs, calibrated=True).of_pairs(pairs)
        if self.rescored or self.link == IDENTITY.name:
            return None
        return LINKS[self.link].apply(self.outputs(X, None, n_jobs))[pairs.rows, pairs.labels]

    @property
    def indexed_rows(self) -> int | None:
        """Number of training rows among which similar ones are found, if a stage has them."""
        return next((stage.indexed_rows for stage in self.stages if stage.indexed_rows is not None), None)

    def label_importances(self, labels: Array, most: int, n_jobs: int) -> sp.csr_matrix:
        """The ``most`` largest importances of features for labels: see :class:`~sparseleaf.model.stage.Stage`."""
        place = self.stages.index(self.scorer)
        importances = sp.csr_matrix((len(labels), self.n_columns), dtype=np.float64)
        for stage in (self.scorer, *reversed(self.stages[:place]), *self.stages[place + 1 :]):
            importances = stage.label_importances(labels, importances, n_jobs)
        return largest_importances(importances, most)

    def title_of(self, row: int) -> str | None:
        """Title of a training row, if a stage has it."""
        titles = (stage.title_of(row) for stage in self.stages)
        return next((title for title in titles if title is not None), None)

    def with_titles(self, titles: Sequence[str] | None) -> Model:
        """A copy with titles of the training rows."""
        return replace(self, stages=tuple(stage.with_titles(titles) for stage in self.stages))

    def tree_scores(self, X: Features, n_trees: int | None, n_jobs: int) -> sp.csr_matrix:
        """:meth:`scores` of the scorer only."""
        return self.apply(X, n_trees, n_jobs, last=Role.SCORER).sparse()

    def dense(self, X: Features, n_trees: int | None, n_jobs: int) -> Array:
        """:meth:`outputs` of the scorer only."""
        return self.apply(X, n_trees, n_jobs, last=Role.SCORER).dense()

    # --- files

    def header(self) -> dict[str, Any]:
        """The model's header in a file."""
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
        """From a validated header and the tensors with this prefix, which are removed from ``tensors``."""
        n_features, n_labels = header["n_features"], header["n_labels"]
        kind = header["target_kind"]
        source = StageSource(tensors, prefix, n_features, n_labels, n_features, kind, names=names)
        counts = source.take("label_counts", (*UNSIGNED, "U64"), 1)
        if len(counts) != n_labels:
            raise ModelFileError(
                f"label_counts must have one entry for each of {n_labels} labels, has {len(counts)}"
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
    """Stages in the order of their roles, without None."""
    return tuple(sorted((stage for stage in stages if stage is not None), key=lambda stage: stage.role))
