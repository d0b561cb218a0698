"""Deprecated alias of :mod:`sparseleaf.distributed.mpi`."""

from __future__ import annotations

import warnings
from typing import Any

from sparseleaf.distributed.mpi import MPILauncher


class MPIEngine(MPILauncher):
    """Deprecated alias of :class:`~sparseleaf.distributed.mpi.MPILauncher`."""

    def __init__(self, communicator: Any = None) -> None:
        warnings.warn(
            "sparseleaf.engine.mpi.MPIEngine is deprecated; use sparseleaf.distributed.mpi.MPILauncher.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__(communicator)
