"""Registration of the backend.

Annif 1.4 has a fixed list of backends and looks each up by ``annif.backend.get_backend``. ``register`` puts a function
in its place that knows one more. It has to run in every process that uses the backend.
"""

from __future__ import annotations

from typing import Any

import annif.backend

from sparseleaf.integrations.annif.backend import SparseleafBackend


def register() -> None:
    """Let projects of this process have ``backend=sparseleaf``. Further calls change nothing."""
    others = annif.backend.get_backend
    if getattr(others, "has_sparseleaf", False):
        return

    def get_backend(backend_id: str) -> type[Any]:
        if backend_id == SparseleafBackend.name:
            return SparseleafBackend
        backend: type[Any] = others(backend_id)
        return backend

    get_backend.has_sparseleaf = True  # type: ignore[attr-defined]
    annif.backend.get_backend = get_backend


def create_app(config_name: str | None = None) -> Any:
    """Annif's web application with the backend, for ASGI servers.

    Parameters
    ----------
    config_name : str, optional
        Annif's configuration, by default that of its environment variables.

    Returns
    -------
    app : ASGI application
        What ``annif.create_app`` returns.
    """
    register()
    return annif.create_app(config_name)
