"""Boosting rounds of a model: which trees are of bagged models, of a single one that continues them, or of a forest."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from sparseleaf.model import Model
    from sparseleaf.model.mix import Mix


@dataclass(frozen=True)
class Rounds:
    """How the trees of a model are divided into boosting rounds.

    Attributes
    ----------
    n_forest_trees : int
        The first trees, which are in no round.
    n_models : int
        Bagged models; 1 for none.
    n_bagged_trees : int
        Trees of the bagged models, which follow; 0 if there is one model.
    per_model : int
        Trees of one model in a round.
    n_later_trees : int
        The remaining trees, of a single model.
    """

    n_forest_trees: int
    n_models: int
    n_bagged_trees: int
    per_model: int
    n_later_trees: int

    @classmethod
    def of(cls, model: Model) -> Self:
        """The rounds of a model."""
        parameters, mix = model.parameters, model.scorer.mix
        per_model = model.n_labels if parameters.get("tree_per_output") is True else 1
        n_boosted = model.n_trees - mix.n_forest_trees
        n_models = parameters.get("n_models", 1)  # absent in models of earlier versions
        n_models = n_models if isinstance(n_models, int) else 1
        n_bagged = n_boosted if n_models > 1 else 0
        if mix.n_continued_trees:
            n_models, n_bagged = mix.n_models, mix.n_continued_trees
        return cls(mix.n_forest_trees, n_models, n_bagged, max(1, per_model), n_boosted - n_bagged)

    @property
    def count(self) -> int:
        """Number of rounds."""
        return self._bagged + self.n_later_trees // self.per_model

    def n_trees(self, rounds: int) -> int:
        """Number of trees of the forest and the first rounds."""
        bagged = min(rounds, self._bagged)
        return self.n_forest_trees + (bagged * self.n_models + rounds - bagged) * self.per_model

    def starts(self, tree: int) -> bool:
        """Whether a boosted tree, counted from 0, is the first of its round."""
        later = tree - self.n_bagged_trees
        return later % self.per_model == 0 if later >= 0 else tree % (self.per_model * self.n_models) == 0

    def number(self, tree: int) -> int:
        """The round of a boosted tree, counted from 0."""
        later = tree - self.n_bagged_trees
        if later >= 0:
            return self._bagged + later // self.per_model
        return tree // (self.per_model * self.n_models)

    @property
    def _bagged(self) -> int:
        return self.n_bagged_trees // (self.per_model * self.n_models)


def n_rounds(model: Model) -> int:
    """Boosting rounds of a model, without the trees of its forest."""
    return Rounds.of(model).count


def continued_mix(model: Model) -> Mix:
    """What a model that continues this one has to know of its first trees."""
    rounds = Rounds.of(model)
    mix: Mix = model.scorer.mix
    if not rounds.n_bagged_trees:
        return mix
    return replace(mix, n_models=rounds.n_models, n_continued_trees=rounds.n_bagged_trees)
