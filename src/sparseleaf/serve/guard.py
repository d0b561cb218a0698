"""ASGI middleware: bearer token, size of the body, time, metrics and logs of every request."""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from sparseleaf.serve.errors import RequestError
from sparseleaf.serve.options import ServeOptions
from sparseleaf.serve.telemetry import Telemetry

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN = frozenset(("/health", "/ready", "/"))
"""Paths without a token."""

logger = logging.getLogger("sparseleaf.serve.access")


class Guard:
    """Checks requests before the application reads them."""

    def __init__(self, app: App, options: ServeOptions, telemetry: Telemetry, paths: frozenset[str]) -> None:
        self._app, self._options, self._telemetry, self._paths = app, options, telemetry, paths
        self._expected = None if options.token is None else f"Bearer {options.token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begin, status = time.perf_counter(), 500

        async def observed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            self._check(scope)
            async with asyncio.timeout(self._options.timeout):
                await self._app(scope, self._limited(receive), observed)
        except RequestError as error:
            await error.response()(scope, receive, observed)
        except TimeoutError:
            late = RequestError(504, f"The request took longer than {self._options.timeout:g} s.")
            await late.response()(scope, receive, observed)
        finally:
            self._record(scope, status, time.perf_counter() - begin)

    def _check(self, scope: Scope) -> None:
        headers = dict(scope["headers"])
        if self._expected is not None and scope["path"] not in OPEN:
            received = headers.get(b"authorization", b"")
            if not hmac.compare_digest(received, self._expected):
                raise RequestError(401, "The request must have a valid token: Authorization: Bearer TOKEN.")
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > self._options.max_body:
            raise self._too_large()

    def _limited(self, receive: Receive) -> Receive:
        """``receive``, which refuses bodies that exceed the limit without having announced it."""
        n_bytes = 0

        async def counted() -> Message:
            nonlocal n_bytes
            message = await receive()
            if message["type"] == "http.request":
                n_bytes += len(message.get("body", b""))
                if n_bytes > self._options.max_body:
                    raise self._too_large()
            return message

        return counted

    def _too_large(self) -> RequestError:
        return RequestError(413, f"The request body must have at most {self._options.max_body:,} bytes.")

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        path = scope["path"] if scope["path"] in self._paths else "other"  # clients cannot add metrics
        self._telemetry.requests.labels(path, str(status)).inc()
        self._telemetry.seconds.labels(path).observe(seconds)
        if logger.isEnabledFor(logging.INFO):
            logger.info(
                "request",
                extra={
                    "method": scope["method"],
                    "path": scope["path"],
                    "status": status,
                    "ms": round(1000 * seconds, 3),
                    "client": (scope.get("client") or ("",))[0],
                },
            )
