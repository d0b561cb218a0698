"""What the split search of boosted trees on dense gradients uses: outputs, hessian, sketch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparseleaf.training.columns import COUNT, DIAGONAL, MATRIX, SHARED

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf._settings import Settings
    from sparseleaf.objectives.dense import DenseObjective
    from sparseleaf.objectives.targets import TargetForm

MAX_FULL_OUTPUTS = 32
"""Number of outputs up to which ``split="auto"`` means "full"; beyond it, "sketch"."""

MAX_MATRIX_OUTPUTS = 32


class SearchPlan:
    """Which statistics the split search uses.

    Attributes
    ----------
    split : str
        The ``split`` parameter, "auto" resolved.
    hessian : int
        See :mod:`sparseleaf.training.columns`.
    matrix : bool
        Whether the full hessian matrix across outputs is used.
    sketch : int
        Width of the gradient sketch, 0 for none.
    width : int
        Columns of a histogram.
    top : int
        Score only the best ``top`` outputs of each side, 0 for all; ``shared``: the same outputs on both sides.
    all_outputs : bool
        Whether every leaf stores all outputs.
    """

    def __init__(
        self,
        params: Settings,
        loss: DenseObjective,
        targets: TargetForm,
        directions: Array | None,
    ) -> None:
        d = targets.n_outputs
        k = params.leaf_labels
        alone = params.tree_per_output
        self.loss = loss
        self.directions = directions
        split = params.split
        if split == "auto":
            few = d <= max(MAX_FULL_OUTPUTS, params.sketch_dim)
            split = (
                "sketch"
                if not few and not alone
                else "full"
                if k is None or k >= d or alone
                else "topk-shared"
            )
            if directions is not None:
                split = "full"
        if split == "sketch" and params.sketch_dim >= d:
            split = "full"  # a sketch would not be narrower than the outputs
        self.split = split
        self.matrix = params.hessian == "exact" and d > 1
        self.sketch = params.sketch_dim if split == "sketch" else 0
        self._refuse(params, targets)
        if self.matrix:
            self.hessian = MATRIX
        elif not loss.constant_hessian or targets.has_unknown or targets.weight_columns > 1:
            self.hessian = DIAGONAL
        elif targets.weight_columns:
            self.hessian = SHARED if d > 1 else DIAGONAL
        else:
            self.hessian = COUNT
        self.top = k if split.startswith("topk") and k is not None and k < d else 0
        self.shared = split == "topk-shared"
        self.all_outputs = (k is None or k >= d) and params.leaf_min_gain == 0 and not alone
        if self.sketch:
            self.width = self.sketch + bool(targets.weight_columns)
        else:
            n = 1 if alone else d
            self.width = n + (0, 1, n, n * (n + 1) // 2)[self.hessian]

    def _refuse(self, params: Settings, targets: TargetForm) -> None:
        """Raise ValueError for incompatible parameters."""
        d = targets.n_outputs
        if self.matrix:
            if targets.weight_columns > 1:
                raise ValueError(
                    "hessian='exact' requires one sample_weight per row. Got one per output instead."
                )
            if not self.loss.full_hessian:
                raise ValueError(
                    "hessian='exact' requires a loss with a hessian across outputs."
                    f" Got loss={self.loss.name!r} instead."
                )
            if d > MAX_MATRIX_OUTPUTS:
                raise ValueError(
                    f"hessian='exact' supports at most {MAX_MATRIX_OUTPUTS} outputs. Got {d} instead."
                )
            if self.split != "full" or params.tree_per_output or self.directions is not None:
                raise ValueError(
                    "hessian='exact' requires split='full' and is not supported with tree_per_output, leaf_labels or"
                    " monotone_constraints."
                )
        if self.split.startswith("topk") and params.leaf_labels is None:
            raise ValueError(
                f"split={self.split!r} requires leaf_labels, the number of outputs per leaf. Got None instead."
            )
        if params.tree_per_output and self.split != "full":
            raise ValueError(
                f"tree_per_output=True requires split='full' or 'auto'. Got split={self.split!r} instead."
            )
        if self.directions is not None and (
            self.split != "full" or params.leaf_labels is not None or params.leaf_min_gain > 0
        ):
            raise ValueError(
                "monotone_constraints requires split='full' or 'auto', leaf_labels=None and leaf_min_gain=0."
            )
        if self.directions is not None and self.loss.quantile is not None:
            raise ValueError(f"monotone_constraints is not supported for loss={self.loss.name!r}.")
