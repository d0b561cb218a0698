"""Errors of the server: JSON with a message and the field that it is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi.responses import JSONResponse


class RequestError(Exception):
    """A request that cannot be answered.

    Parameters
    ----------
    status : int
        HTTP status code.
    message : str
    field : str or None
        The invalid field, such as ``rows.0.indices``.
    """

    def __init__(self, status: int, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.field = status, message, field

    def response(self) -> JSONResponse:
        """The error as a JSON response."""
        return error_response(self.status, self.message, self.field)


def error_response(
    status: int, message: str, field: str | None = None, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """A JSON response with an error."""
    if status == 401:
        headers = {"WWW-Authenticate": "Bearer"}
    return JSONResponse({"error": {"message": message, "field": field}}, status, headers)


def first_of(errors: Sequence[Any]) -> RequestError:
    """The first of pydantic's validation errors."""
    error = errors[0]
    field = ".".join(str(part) for part in error["loc"]) or None
    message = error["msg"].removeprefix("Value error, ")
    if error["type"] == "json_invalid":
        return RequestError(400, f"The request body must be valid JSON. {message}.", None)
    return RequestError(422, message, field)
