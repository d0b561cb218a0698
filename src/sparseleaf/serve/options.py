"""Options of the server, which its worker processes read from the environment."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import Self

VARIABLE = "SPARSELEAF_SERVE"
"""Environment variable that holds the options as JSON."""


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """Options of the server.

    Attributes
    ----------
    model : str
        Path of the model file. The server reloads it when the file is replaced.
    name : str
        Name of the model in responses and logs, and its project in the Annif protocol.
    token : str or None
        If given, requests must have the header ``Authorization: Bearer TOKEN``, except for ``/health`` and ``/ready``.
    max_body : int
        Maximum size of a request body in bytes.
    max_rows : int
        Maximum number of rows per request.
    max_labels : int
        Maximum number of labels per row (``k``).
    timeout : float
        Maximum number of seconds for a request.
    n_jobs : int
        Number of threads per prediction.
    reload_seconds : float
        Seconds between checks whether the model file was replaced; 0 for never.

    Examples
    --------
    >>> from sparseleaf.serve import ServeOptions
    >>> ServeOptions(model="model.safetensors", max_rows=100).max_rows
    100
    """

    model: str
    name: str = "sparseleaf"
    token: str | None = None
    max_body: int = 10_000_000
    max_rows: int = 1_000
    max_labels: int = 1_000
    timeout: float = 30.0
    n_jobs: int = 1
    reload_seconds: float = 0.5

    def to_environment(self) -> None:
        """Store the options for the worker processes."""
        os.environ[VARIABLE] = json.dumps(asdict(self))

    @classmethod
    def from_environment(cls) -> Self:
        """The options that :meth:`to_environment` stored."""
        return cls(**json.loads(os.environ[VARIABLE]))
