"""Scores that are a weighted sum of a forest and of boosted models. The weights are part of the leaf values.

Trees of a model are in this order: those of the forest, those of bagged boosted models, and those that continue them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.model.source import StageSource


@dataclass(frozen=True)
class Mix:
    """How leaf values were weighted.

    Attributes
    ----------
    n_forest_trees : int
        Trees of the forest, the first ones; 0 without a forest.
    boosted_weight, forest_weight : float
        Factors of the scores of the boosted models and of the forest, the mean of its trees.
    n_models : int
        Bagged models before a single one continued them. Otherwise 1: it is a parameter of the model.
    n_continued_trees : int
        Trees of these models; 0 if they were not continued.
    """

    n_forest_trees: int = 0
    boosted_weight: float = 1.0
    forest_weight: float = 0.0
    n_models: int = 1
    n_continued_trees: int = 0

    def tensors(self) -> dict[str, Array]:
        """See :meth:`~sparseleaf.model.stage.Stage.tensors`."""
        numbers = [self.n_forest_trees, self.boosted_weight, self.forest_weight]
        if self.n_continued_trees:
            numbers += [self.n_models, self.n_continued_trees]
        return {"mix": np.array(numbers, np.float64)} if self != NO_FOREST else {}

    @classmethod
    def from_tensors(cls, source: StageSource, n_trees: int) -> Self:
        """See :meth:`~sparseleaf.model.stage.Stage.from_tensors`."""
        if not source.has("mix"):
            return cls()
        numbers = source.finite("mix", ("F64",), 1).tolist()
        if not _are_valid(numbers, n_trees):
            raise ValueError(
                f"mix must have a number of trees, at most {n_trees}, two weights > 0, and for a continued model the"
                f" number of models and of their trees, has {numbers!r:.80}"
            )
        n_forest_trees, boosted_weight, forest_weight, *continued = numbers
        return cls(int(n_forest_trees), boosted_weight, forest_weight, *map(int, continued))


def _are_valid(numbers: list[float], n_trees: int) -> bool:
    if len(numbers) not in (3, 5) or any(numbers[i] % 1 for i in (0, *range(3, len(numbers)))):
        return False
    n_forest_trees, boosted_weight, forest_weight, *continued = numbers
    no_forest = bool(continued) and (n_forest_trees, boosted_weight, forest_weight) == (0, 1, 0)
    if not no_forest and not (1 <= n_forest_trees <= n_trees and min(boosted_weight, forest_weight) > 0):
        return False
    if not continued:
        return True
    n_models, n_continued_trees = continued
    return n_models >= 2 and 1 <= n_continued_trees <= n_trees - n_forest_trees


NO_FOREST = Mix()
