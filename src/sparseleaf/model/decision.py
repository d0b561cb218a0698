"""Decision thresholds chosen on validation rows: the scores or probabilities from which ``predict`` returns labels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from sparseleaf.model.registry import register
from sparseleaf.model.stage import Role, Scores, Stage

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.model.source import StageSource
    from sparseleaf.model.update import NewRows


@register("thresholds")
@dataclass(frozen=True)
class Thresholds(Stage):
    """Thresholds of ``predict``, in place of the one in the header.

    Attributes
    ----------
    values : float32 array, shape (1,) or (n_labels,)
        Minimum score: of all labels, or of each.
    on_probabilities : bool
        Whether they are compared with probabilities.
    """

    values: Array
    on_probabilities: bool

    kind: ClassVar[str] = "thresholds"
    role: ClassVar[Role] = Role.DECISION
    takes_nan: ClassVar[bool] = True

    def apply(self, before: Scores) -> Scores:
        """Scores do not change."""
        return before

    def updated(self, new: NewRows) -> Thresholds:
        """See :class:`~sparseleaf.model.stage.Stage`; new labels have the median threshold."""
        if len(self.values) == 1:
            return self
        values = np.full(new.n_labels, np.median(self.values), np.float32)
        values[: len(self.values)] = self.values
        return replace(self, values=values)

    def tensors(self, compact: bool) -> dict[str, Array]:
        """Tensors by name."""
        return {"values": self.values, "on_probabilities": np.array([self.on_probabilities], np.uint8)}

    @classmethod
    def from_tensors(cls, source: StageSource) -> Self:
        """See :class:`~sparseleaf.model.stage.Stage`."""
        values = source.finite("values", ("F32",), 1)
        if len(values) not in (1, source.n_labels):
            raise ValueError(
                f"values must be one number, or one for each of {source.n_labels} labels, has {len(values)}"
            )
        return cls(values, source.flag("on_probabilities"))

    def describe(self) -> dict[str, Any]:
        """Number and range of thresholds."""
        return {
            "thresholds": {
                "per_label": len(self.values) > 1,
                "on_probabilities": self.on_probabilities,
                "lowest": float(self.values.min()),
                "median": float(np.median(self.values)),
            }
        }
