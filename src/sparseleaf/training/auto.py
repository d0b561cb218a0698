"""Automatic parameters of boosted trees with dense losses: what ``"auto"`` means for a training set.

``n_trees="auto"`` bags boosted models: every model leaves out another fold of the rows, all are grown in lockstep, and
the number of rounds is the one with the lowest loss of the rows under the models that left them out. The model is the
average, stored as one ensemble of trees.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sparseleaf._settings import Settings

if TYPE_CHECKING:
    from sparseleaf.objectives.haste import Haste

AUTO = "auto"

N_FOLDS = 8
"""Folds of the rows; at most as many models leave out one each. A power of two: averaging is then exact."""

BAGGED_ROWS = 5_000
"""Number of rows up to which models are bagged; beyond it, a single model is almost as accurate."""

FEW_ROWS = 1_000
"""Number of rows up to which bagged models take their time: beyond it, those of some losses are trained in haste."""

FOREST_TREES = 96
"""Trees of the forest beside bagged models; a multiple of the folds, so that every row has as many trees without it."""

FEW_TARGETS = 100_000
"""Number of rows times outputs up to which a forest is grown and outputs may have separate trees: it bounds the size of
the model."""

MAX_SEPARATE = 32
"""Number of outputs up to which each may have separate trees."""

MAX_ROUNDS = 1_000
N_TREES = 100
"""Number of trees with ``"auto"`` where it cannot be measured: when continuing from a model, for a loss of which only
gradients are known, and with too few rows or queries."""

MIN_HELD_OUT = 5
"""Number of held-out rows, or queries with relevant documents, below which their metric says nothing."""


@dataclass(frozen=True)
class AutoValue:
    """Value of a parameter that is "auto", when it depends on the number of trees.

    Attributes
    ----------
    bagged, single : object
        With an automatic number of trees, for bagged models and for one model.
    fixed : object
        With a fixed number of trees.
    hasty : object
        For bagged models that are trained in haste; None: as for others.
    """

    bagged: Any
    single: Any
    fixed: Any
    hasty: Any = None

    @property
    def text(self) -> str:
        """For the description of the parameter."""
        automatic = 'with n_trees="auto"'
        if self.hasty is not None:
            return (
                f'"auto": {self.hasty} {automatic} for bagged models of classes, labels or rankings (LambdaMART) with'
                f" more than {FEW_ROWS:,} rows; otherwise {self.fixed}."
            )
        if self.bagged == self.single:
            return f'"auto": {self.bagged} {automatic}, otherwise {self.fixed}.'
        return f'"auto": {self.bagged} for bagged models {automatic}, otherwise {self.fixed}.'


AUTO_VALUES = {
    "learning_rate": AutoValue(0.1, 0.1, 0.1, hasty=0.3),
    "subsample": AutoValue(0.7, 0.7, 1.0),
    "colsample_bynode": AutoValue(0.5, 0.5, 1.0),
    "min_samples_leaf": AutoValue(5, 20, 20),
    "max_leaves": AutoValue(8, 31, 31),
    "sketch_dim": AutoValue(1, 32, 32),
    "standardise": AutoValue(True, True, False),
}
RANKER_VALUES = AUTO_VALUES | {
    "learning_rate": AutoValue(0.1, 0.1, 0.1, hasty=0.2),
    "max_leaves": AutoValue(15, 31, 31),
}


@dataclass(frozen=True)
class Bagging:
    """How boosted models are bagged.

    Attributes
    ----------
    n_models : int
        Models, each of which leaves out one fold.
    n_folds : int
        Folds of the rows; 0 if no rows are left out.
    stops : bool
        Whether the held-out rows determine the number of rounds.
    n_forest_trees : int
        Trees of the forest that is grown beside the models; 0 for none. See :mod:`sparseleaf.training.fold_forest`.
    hurries : bool
        Whether the models are trained in haste: see :class:`~sparseleaf.objectives.haste.Haste`.
    compares_sharing : bool
        Whether held-out rows decide if every output has trees of its own. See :mod:`sparseleaf.training.sharing`.
    """

    n_models: int = 1
    n_folds: int = 0
    stops: bool = False
    n_forest_trees: int = 0
    hurries: bool = False
    compares_sharing: bool = False

    @property
    def unmeasured(self) -> Bagging:
        """The same models without what held-out rows decide; a single model leaves none out."""
        n_folds = self.n_folds if self.n_models > 1 else 0
        return replace(self, n_folds=n_folds, stops=False, n_forest_trees=0, compares_sharing=False)

    @property
    def saved(self) -> dict[str, int]:
        """Parameters of the model file: the number of models, if there are several."""
        return {"n_models": self.n_models} if self.n_models > 1 else {}


def resolve(
    params: Settings,
    auto: Mapping[str, AutoValue],
    n_rows: int,
    n_outputs: int,
    *,
    continues: bool,
    constant_hessian: bool,
    measurable: bool = True,
    mixes: bool = False,
    haste: Haste | None = None,
) -> tuple[Settings, Bagging]:
    """Replace "auto" by the values for a training set; ``continues``: trees are added to a model.

    ``measurable``: whether held-out rows can determine the number of rounds. ``mixes``: whether the loss supports a
    forest beside bagged models. Without a constant hessian, all outputs are used in the split search: a sketch has no
    hessians. Until sharing is compared, outputs share trees. With ``haste``, more than ``FEW_ROWS`` rows are trained in
    haste, unless the learning rate is given, since small steps take their time, or a validation set decides.
    """
    undecided = params.tree_per_output == AUTO
    params = Settings(**vars(params) | {"tree_per_output": not undecided and params.tree_per_output})
    automatic = params.n_trees == AUTO and measurable and not continues
    n_models = params.n_models
    if n_models == AUTO:
        n_models = N_FOLDS if automatic and n_rows <= BAGGED_ROWS else 1
    values = vars(params) | {"n_models": n_models}
    bagged = automatic and n_models > 1
    decided = params.learning_rate != AUTO or params.early_stopping_rounds is not None
    if decided or not bagged or n_rows <= FEW_ROWS:
        haste = None
    if params.n_trees == AUTO:
        most = max_rounds(n_models, n_outputs) if haste is None else haste.max_rounds
        values["n_trees"] = most if automatic else N_TREES
    one_column = bagged and constant_hessian and _can_sketch(params)
    for name, value in auto.items():
        if values.get(name) == AUTO:
            if haste is not None and value.hasty is not None:
                values[name] = value.hasty
                continue
            few = one_column if name == "sketch_dim" else bagged
            values[name] = value.bagged if few else value.single if automatic else value.fixed
    if one_column:
        values["split"] = "sketch"
    stops = automatic and params.early_stopping_rounds is None
    n_folds = max(n_models, N_FOLDS) if stops or n_models > 1 else 0
    small = n_rows <= BAGGED_ROWS and n_rows * n_outputs <= FEW_TARGETS
    mixed = mixes and bagged and stops and small and _all_outputs(params)
    compared = undecided and one_column and stops and small and 1 < n_outputs <= MAX_SEPARATE
    n_forest = FOREST_TREES if mixed else 0
    return Settings(**values), Bagging(n_models, n_folds, stops, n_forest, haste is not None, compared)


def _can_sketch(params: Settings) -> bool:
    """Whether ``split="auto"`` may mean "sketch": the other parameters do not require all outputs."""
    return params.split == AUTO and params.hessian == "diagonal" and _all_outputs(params)


def _all_outputs(params: Settings) -> bool:
    """Whether leaves have values of all outputs, without constraints."""
    return (
        params.leaf_labels is None
        and params.leaf_min_gain == 0
        and not params.tree_per_output
        and params.monotone_constraints is None
    )


def max_rounds(n_models: int, n_outputs: int) -> int:
    """Limit of the automatic number of rounds: for a single model, it grows with the number of outputs."""
    return MAX_ROUNDS if n_models > 1 else min(MAX_ROUNDS, 100 + 50 * n_outputs)
