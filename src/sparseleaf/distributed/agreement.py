"""What all workers of a training must have in common, compared before any of them trains."""

from __future__ import annotations

from importlib import metadata
from typing import Any

import sparseleaf
from sparseleaf._settings import plain_settings, short

MAY_DIFFER = ("n_jobs", "verbose")
"""Parameters that each worker may set as it likes."""

MOST_NAMED = 8
"""Differences that are named one by one."""

SAME_VERSION = "install the same version on the client and all workers"


def describe_training(estimator: Any, arguments: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    """Version, estimator, parameters, arguments of ``fit`` and form of the data: plain values by name."""
    return {
        "sparseleaf version": sparseleaf.__version__,
        "estimator": type(estimator).__name__,
        **plain_settings(estimator, MAY_DIFFER),
        **arguments,
        **data,
    }


def refuse_differences(descriptions: list[dict[str, Any]]) -> None:
    """Raise where a rank's description is not that of the first, and say what differs.

    Called by every rank with the same descriptions, it raises in all or in none.
    """
    first = descriptions[0]
    different = []
    for rank, found in enumerate(descriptions):
        names = [name for name in {**first, **found} if found.get(name) != first.get(name)]
        different += [
            f"rank {rank} has {name} {short(found.get(name))}, rank 0 has {short(first.get(name))}"
            for name in names
        ]
    if different:
        more = f"; and {len(different) - MOST_NAMED} more" if len(different) > MOST_NAMED else ""
        raise ValueError(
            "All MPI ranks must train with the same version, parameters and form of the data: "
            f"{'; '.join(different[:MOST_NAMED])}{more}."
        )


def require_same_version(client: Any, workers: list[str] | None = None) -> None:
    """Refuse Dask workers (all if not given) that have another version of the package than this process, or none."""
    # a function of the standard library: one of ours may not be there, or be another one
    found = client.run(metadata.version, "sparseleaf", workers=workers, on_error="return")
    for worker, version in found.items():
        if isinstance(version, metadata.PackageNotFoundError):
            raise ValueError(f"engine: the Dask worker {worker} does not have sparseleaf; {SAME_VERSION}.")
        if isinstance(version, str):  # else the worker is gone
            compare_versions(worker, version, sparseleaf.__version__)


def compare_versions(worker: str, version: str, wanted: str) -> None:
    """Refuse a worker whose version is not that of the client."""
    if version != wanted:
        raise ValueError(
            f"engine: the Dask worker {worker} has sparseleaf {version}, the client has {wanted}; {SAME_VERSION}."
        )
