"""``POST /v1/predict``, from the bytes of a request to those of the response."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from sparseleaf.serve.errors import first_of
from sparseleaf.serve.predictor import predict
from sparseleaf.serve.schema import PredictRequest

if TYPE_CHECKING:
    from sparseleaf.serve.guard import App, Receive, Scope, Send
    from sparseleaf.serve.holder import ModelHolder
    from sparseleaf.serve.options import ServeOptions
    from sparseleaf.serve.telemetry import Telemetry

PATH = "/v1/predict"

FEW_ROWS, FEW_BYTES = 8, 100_000
"""Number of rows, and size of a request, up to which a prediction takes little time."""

JSON: TypeAdapter[Any] = TypeAdapter(Any)


class PredictEndpoint:
    """Predicts rows with the present model."""

    def __init__(self, holder: ModelHolder, telemetry: Telemetry, options: ServeOptions) -> None:
        self._holder, self._telemetry, self._options = holder, telemetry, options

    async def answer(self, body: bytes) -> bytes:
        """The response to a request; RequestError if it is invalid."""
        # parsed and validated in one step, which is twice as fast as FastAPI's two
        try:
            request = PredictRequest.model_validate_json(body)
        except ValidationError as error:
            raise first_of(error.errors(include_url=False, include_context=False)) from None
        loaded = self._holder.current
        few = len(body) <= FEW_BYTES and len(getattr(request, request.input)) <= FEW_ROWS
        if few and not request.explain:
            results = predict(loaded, request, self._options)
        else:  # in another thread, so that the server stays responsive
            results = await asyncio.to_thread(predict, loaded, request, self._options)
        self._telemetry.rows.inc(len(results))
        answer = {"predictions": results, "model": self._options.name, "loaded_at": loaded.loaded_at}
        return JSON.dump_json(answer)


class DirectPredictions:
    """ASGI application that answers predictions itself and leaves all else to FastAPI.

    Routing and dependencies of FastAPI take as long as the prediction of a row.
    """

    def __init__(self, app: App, endpoint: PredictEndpoint) -> None:
        self._app, self._endpoint = app, endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request; a RequestError is left to the middleware before this one."""
        if scope["type"] != "http" or scope["path"] != PATH or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        body = await read_body(receive)
        if body is None:
            return
        answer = await self._endpoint.answer(body)
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(answer))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})


async def read_body(receive: Receive) -> bytes | None:
    """The whole body; None if the client has disconnected."""
    parts = []
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)
