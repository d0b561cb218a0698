"""What workers sent and how long they worked and waited, tree by tree."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp


@dataclass(frozen=True)
class TreeRecord:
    """One worker's share of one tree.

    Attributes
    ----------
    received : int
        Bytes that came from other workers.
    working : float
        Seconds of computing.
    waiting : float
        Seconds in messages, those of waiting for others among them.
    """

    received: int
    working: float
    waiting: float = 0.0


def join_records(workers: list[list[TreeRecord]]) -> list[dict[str, Any]]:
    """By tree: the records of all workers."""
    return [
        {"tree": number, "workers": [asdict(record) for record in records]}
        for number, records in enumerate(zip(*workers, strict=False))
    ]


def size_of(value: Any) -> int:
    """Bytes of the arrays in an answer, and 8 for anything else."""
    if isinstance(value, np.ndarray | np.generic):
        return int(value.nbytes)
    if sp.issparse(value):
        return sum(size_of(getattr(value, name)) for name in ("data", "indices", "indptr"))
    if isinstance(value, tuple | list):
        return sum(map(size_of, value))
    if is_dataclass(value) and not isinstance(value, type):
        return sum(size_of(getattr(value, one.name)) for one in fields(value))
    return 8
