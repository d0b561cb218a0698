"""Scores that are a weighted sum of a forest and of boosted models. The weights are part of the leaf values."""

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
    """

    n_forest_trees: int = 0
    boosted_weight: float = 1.0
    forest_weight: float = 0.0

    def tensors(self) -> dict[str, Array]:
        """See :meth:`~sparseleaf.model.stage.Stage.tensors`."""
        if not self.n_forest_trees:
            return {}
        return {"mix": np.array([self.n_forest_trees, self.boosted_weight, self.forest_weight])}

    @classmethod
    def from_tensors(cls, source: StageSource, n_trees: int) -> Self:
        """See :meth:`~sparseleaf.model.stage.Stage.from_tensors`."""
        if not source.has("mix"):
            return cls()
        numbers = source.finite("mix", ("F64",), 1).tolist()
        if len(numbers) != 3 or numbers[0] not in range(1, n_trees + 1) or not min(numbers[1:]) > 0:
            raise ValueError(
                f"mix must have a number of trees, at most {n_trees}, and two weights > 0, has {numbers!r:.80}"
            )
        return cls(int(numbers[0]), *numbers[1:])


NO_FOREST = Mix()
