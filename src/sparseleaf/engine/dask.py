"""Deprecated alias of :mod:`sparseleaf.distributed.dask`."""

from __future__ import annotations

import warnings
from typing import Any

from sparseleaf.distributed.dask import DaskLauncher


class DaskEngine(DaskLauncher):
    """Deprecated alias of :class:`~sparseleaf.distributed.dask.DaskLauncher`."""

    def __init__(self, client: Any = None, n_shards: int | None = None) -> None:
        warnings.warn(
            "sparseleaf.engine.dask.DaskEngine is deprecated; use sparseleaf.distributed.dask.DaskLauncher.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__(client, n_shards)
