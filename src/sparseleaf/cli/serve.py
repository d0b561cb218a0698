"""``sparseleaf serve``: an HTTP server for a model."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from sparseleaf.cli._common import Model

TOKEN = "SPARSELEAF_TOKEN"


def serve(
    model: Model,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on.")] = 8000,
    workers: Annotated[
        int, typer.Option(min=1, help="Number of processes; they share the memory-mapped model.")
    ] = 1,
    name: Annotated[
        str | None,
        typer.Option(help="Name of the model, by default that of its file; project id of the Annif API."),
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=0, help="Number of threads per prediction.")] = 1,
    max_body: Annotated[
        int, typer.Option(min=1, metavar="BYTES", help="Maximum size of a request.")
    ] = 10_000_000,
    max_rows: Annotated[int, typer.Option(min=1, help="Maximum number of rows per request.")] = 1_000,
    timeout: Annotated[
        float, typer.Option(min=0.001, metavar="SECONDS", help="Maximum duration of a request.")
    ] = 30.0,
    reload_seconds: Annotated[
        float,
        typer.Option(
            "--reload", min=0, metavar="SECONDS", help="How often to check for a new model file; 0: never."
        ),
    ] = 0.5,
    access_log: Annotated[bool, typer.Option(help="Log every request.")] = True,
) -> None:
    """Serve a model over HTTP, until interrupted.

    POST /v1/predict takes sparse rows, dense rows, texts or records; / is a page to try it, /docs describes the API.
    The server reloads the model when its file is replaced. It logs JSON lines to stderr.

    If the environment variable SPARSELEAF_TOKEN is set, requests must have the header Authorization: Bearer TOKEN.
    """
    try:
        import uvicorn

        from sparseleaf.serve.telemetry import LOGGING, SHARED
    except ImportError as error:
        raise ImportError(
            f"sparseleaf serve requires the extra 'serve': pip install 'sparseleaf[serve]' ({error})."
        ) from None
    import sparseleaf
    from sparseleaf.serve.options import ServeOptions

    sparseleaf.load(model)  # an invalid file is refused here, once, and not by every worker
    path = str(model) if "://" in str(model) else str(Path(str(model)).resolve())
    options = ServeOptions(
        model=path,
        name=name or Path(str(model)).name.split(".")[0],
        token=os.environ.get(TOKEN) or None,
        max_body=max_body,
        max_rows=max_rows,
        timeout=timeout,
        n_jobs=jobs,
        reload_seconds=reload_seconds,
    )
    options.to_environment()
    loggers = LOGGING["loggers"] | {"sparseleaf.serve.access": {"level": "INFO" if access_log else "WARNING"}}
    with tempfile.TemporaryDirectory(prefix="sparseleaf-") as folder:
        if workers > 1:
            os.environ[SHARED] = folder
        typer.echo(f"Serving {options.name} on http://{host}:{port}", err=True)
        uvicorn.run(
            "sparseleaf.serve.app:from_environment",
            factory=True,
            host=host,
            port=port,
            workers=workers,
            access_log=False,
            log_config=LOGGING | {"loggers": loggers},
            timeout_graceful_shutdown=max(1, round(timeout)),
            timeout_worker_healthcheck=60,  # a busy machine may take long to start a worker
            server_header=False,
        )
