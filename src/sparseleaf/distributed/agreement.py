"""Consistency checks before training: all workers must have the same version, parameters and form of data."""

from __future__ import annotations

from importlib import metadata
from typing import Any

import sparseleaf
from sparseleaf._settings import plain_settings, short

MAY_DIFFER = ("n_jobs", "verbose")
"""Parameters that may differ between workers."""

MAX_NAMED = 8
"""Maximum number of differences in the error message."""

SAME_VERSION = "install the same version on the client and all workers"


def describe_training(estimator: Any, arguments: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    """Version, estimator, parameters, arguments of ``fit`` and form of the data, as plain values by name."""
    return {
        "sparseleaf version": sparseleaf.__version__,
        "estimator": type(estimator).__name__,
        **plain_settings(estimator, MAY_DIFFER),
        **arguments,
        **data,
    }


def refuse_differences(descriptions: list[dict[str, Any]]) -> None:
    """Raise ValueError naming the differences between ranks.

    All ranks call this with the same descriptions, so it raises on all or on none.
    """
    first = descriptions[0]
    different = []
    for rank, other in enumerate(descriptions):
        names = [name for name in {**first, **other} if other.get(name) != first.get(name)]
        different += [
            f"rank {rank} has {name} {short(other.get(name))}, rank 0 has {short(first.get(name))}"
            for name in names
        ]
    if different:
        more = f"; and {len(different) - MAX_NAMED} more" if len(different) > MAX_NAMED else ""
        raise ValueError(
            "All ranks must train with the same version, parameters and form of the data: "
            f"{'; '.join(different[:MAX_NAMED])}{more}."
        )


def require_same_version(client: Any, workers: list[str] | None = None) -> None:
    """Raise ValueError if a Dask worker (of all, if not given) has another version of the package, or none."""
    # a function of the standard library: the package may not be installed there
    versions = client.run(metadata.version, "sparseleaf", workers=workers, on_error="return")
    for worker, version in versions.items():
        if isinstance(version, metadata.PackageNotFoundError):
            raise ValueError(f"engine: the Dask worker {worker} does not have sparseleaf; {SAME_VERSION}.")
        if isinstance(version, str):  # otherwise the worker is gone
            compare_versions(worker, version, sparseleaf.__version__)


def compare_versions(worker: str, version: str, client_version: str) -> None:
    """Raise ValueError if the versions differ."""
    if version != client_version:
        raise ValueError(
            f"engine: the Dask worker {worker} has sparseleaf {version}, the client has {client_version};"
            f" {SAME_VERSION}."
        )
