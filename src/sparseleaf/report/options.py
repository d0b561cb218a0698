"""Options of a report, and their validation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from sparseleaf._arrays import Array


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of :meth:`report` of the estimators, which describes them."""

    title: str | None = None
    decode: str | None = None
    feature_names: Sequence[str] | Array | None = None
    label_names: Mapping[Any, str] | None = None
    titles: Sequence[str] | Array | None = None
    n_examples: int = 20
    n_importances: int = 1_000
    n_trees: int = 10
    latency: bool = True

    def __post_init__(self) -> None:
        for name in ("n_examples", "n_importances", "n_trees"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
                raise ValueError(f"The {name!r} parameter must be an int >= 0. Got {value!r} instead.")
        if self.label_names is not None and not isinstance(self.label_names, Mapping):
            raise ValueError(
                "The 'label_names' parameter must be a mapping from labels to names. Got"
                f" {type(self.label_names).__name__} instead."
            )
        if self.title is not None and not isinstance(self.title, str):
            raise ValueError(f"The 'title' parameter must be a str or None. Got {self.title!r:.60} instead.")
