"""HTTP server of a model: ``sparseleaf serve MODEL``. Requires the extra ``serve`` (FastAPI, uvicorn)."""

from sparseleaf.serve.options import ServeOptions

__all__ = ["ServeOptions", "create_app"]


def __getattr__(name: str) -> object:
    # FastAPI is imported on demand: the command line reads the options only
    if name == "create_app":
        from sparseleaf.serve.app import create_app

        return create_app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
