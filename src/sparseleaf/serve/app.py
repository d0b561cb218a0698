"""The web application: prediction, state of the model, metrics, and a page to try it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from importlib import resources
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST
from sklearn.base import is_classifier
from starlette.exceptions import HTTPException

import sparseleaf
from sparseleaf.model.stage import Role
from sparseleaf.serve.annif import annif_router
from sparseleaf.serve.endpoint import PATH, DirectPredictions, PredictEndpoint
from sparseleaf.serve.errors import RequestError, error_response, first_of
from sparseleaf.serve.guard import Guard
from sparseleaf.serve.holder import Loaded, ModelHolder
from sparseleaf.serve.options import ServeOptions
from sparseleaf.serve.schema import ErrorResponse, PredictRequest, PredictResponse
from sparseleaf.serve.telemetry import Telemetry

ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorResponse, "description": text}
    for status, text in {
        400: "The body is not JSON.",
        401: "The token is missing or wrong.",
        404: "There is no such project.",
        413: "The body is too large.",
        422: "A field is invalid.",
        504: "The request took too long.",
    }.items()
}

logger = logging.getLogger("sparseleaf.serve")


def create_app(options: ServeOptions) -> FastAPI:
    """Create the web application of a model.

    Parameters
    ----------
    options : ServeOptions
        Path of the model, limits and token.

    Returns
    -------
    app : fastapi.FastAPI
        An ASGI application, for uvicorn or any other ASGI server.

    Examples
    --------
    >>> from sparseleaf import SparseGBDTClassifier
    >>> from sparseleaf.data import make_xc
    >>> from sparseleaf.serve import ServeOptions, create_app
    >>> X, Y = make_xc(100, 20, 5, labels_per_row=2, nnz_per_row=4)
    >>> SparseGBDTClassifier(n_trees=2).fit(X, Y).save("model.safetensors")
    >>> create_app(ServeOptions(model="model.safetensors")).title
    'sparseleaf'
    """
    holder, telemetry = ModelHolder(options.model, options.n_jobs), Telemetry()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with holder.watching(options.reload_seconds):
            logger.info("ready", extra={"model": options.model})
            yield
            logger.info("shut down", extra={"model": options.model})

    app = FastAPI(title="sparseleaf", version=sparseleaf.__version__, lifespan=lifespan, redoc_url=None)
    _handle_errors(app)
    _add_state(app, holder, telemetry, options)
    endpoint = PredictEndpoint(holder, telemetry, options)
    _add_prediction(app, endpoint)
    app.include_router(annif_router(holder, options), responses=ERRORS)
    paths = frozenset(route.path for route in app.routes if hasattr(route, "path"))
    app.add_middleware(DirectPredictions, endpoint=endpoint)
    app.add_middleware(Guard, options=options, telemetry=telemetry, paths=paths)
    return app


def from_environment() -> FastAPI:
    """The application of a worker process."""
    return create_app(ServeOptions.from_environment())


def describe(loaded: Loaded, options: ServeOptions) -> dict[str, Any]:
    """What clients need to know of the model."""
    estimator, model = loaded.estimator, loaded.estimator.model_
    return {
        "name": options.name,
        "estimator": type(estimator).__name__,
        "method": model.method,
        "task": "classification" if is_classifier(estimator) else "regression",
        "n_features": model.n_features,
        "n_labels": model.n_labels,
        "n_trees": model.n_trees,
        "n_train_rows": model.n_train_rows,
        "stages": [stage.kind for stage in model.stages],
        "has_uris": loaded.uris is not None,
        "takes_text": model.stage(Role.VECTORIZER) is not None,
        "has_probabilities": model.stage(Role.CALIBRATOR) is not None,
        "loaded_at": loaded.loaded_at,
        "version": sparseleaf.__version__,
    }


def _handle_errors(app: FastAPI) -> None:
    @app.exception_handler(RequestError)
    async def refused(request: Request, error: RequestError) -> Response:
        return error.response()

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        return first_of(error.errors()).response()

    @app.exception_handler(HTTPException)
    async def other(request: Request, error: HTTPException) -> Response:
        return error_response(error.status_code, str(error.detail), headers=error.headers)

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> Response:
        return error_response(500, "The server failed; its log has the reason.")


def _add_state(app: FastAPI, holder: ModelHolder, telemetry: Telemetry, options: ServeOptions) -> None:
    page = resources.files("sparseleaf.serve").joinpath("page.html").read_text("utf-8")

    @app.get("/health", summary="Whether the process runs")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/ready", summary="Whether the model is loaded")
    async def ready() -> dict[str, str]:
        return {"status": "ready", "loaded_at": holder.current.loaded_at}

    @app.get("/v1/model", summary="Description of the model", responses={401: ERRORS[401]})
    async def model() -> dict[str, Any]:
        return describe(holder.current, options)

    @app.get(
        "/metrics",
        summary="Metrics in Prometheus' format",
        response_class=Response,
        responses={401: ERRORS[401]},
    )
    async def metrics() -> Response:
        telemetry.loaded.set(datetime.fromisoformat(holder.current.loaded_at).timestamp())
        return Response(telemetry.page(), media_type=CONTENT_TYPE_LATEST)

    @app.get("/", include_in_schema=False)
    async def try_it() -> HTMLResponse:
        return HTMLResponse(page)


def _add_prediction(app: FastAPI, endpoint: PredictEndpoint) -> None:
    body = {
        "content": {"application/json": {"schema": PredictRequest.model_json_schema(ref_template=REFERENCE)}}
    }

    # described here; the requests themselves are answered before FastAPI's routing: see DirectPredictions
    @app.post(
        PATH,
        summary="Predict labels or outputs of rows",
        response_model=PredictResponse,
        responses={status: entry for status, entry in ERRORS.items() if status != 404},
        openapi_extra={"requestBody": {"required": True, **body}},
    )
    async def predict_rows(request: Request) -> Response:
        return Response(await endpoint.answer(await request.body()), media_type="application/json")

    app.openapi = _with_definitions(app)  # type: ignore[method-assign]


REFERENCE = "#/components/schemas/{model}"


def _with_definitions(app: FastAPI) -> Any:
    """``app.openapi`` with the definitions that the schema of requests refers to."""
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        document = generate()
        definitions = PredictRequest.model_json_schema(ref_template=REFERENCE).get("$defs", {})
        document.setdefault("components", {}).setdefault("schemas", {}).update(definitions)
        return document

    return openapi
