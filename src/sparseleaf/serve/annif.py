"""The part of Annif's REST API that suggests subjects, so that Annif's ``http`` backend can use a model.

The server has one project: the model.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, Field

from sparseleaf.estimators.topk import topk
from sparseleaf.model.stage import Role
from sparseleaf.serve.errors import RequestError
from sparseleaf.serve.predictor import text_rows

if TYPE_CHECKING:
    from sparseleaf.serve.holder import Loaded, ModelHolder
    from sparseleaf.serve.options import ServeOptions

MAX_DOCUMENTS = 32
"""Documents per request, as in Annif."""

FORM = {
    "type": "object",
    "required": ["text"],
    "properties": {
        "text": {"type": "string"},
        "limit": {"type": "integer", "minimum": 0, "default": 10},
        "threshold": {"type": "number", "minimum": 0, "maximum": 1, "default": 0},
        "language": {"type": "string"},
    },
}
"""Schema of the form that ``suggest`` takes."""


class Document(BaseModel):
    """A text, with an id that is returned."""

    text: str
    document_id: str | None = None


class Documents(BaseModel):
    """A batch of texts."""

    documents: Annotated[list[Document], Field(max_length=MAX_DOCUMENTS)]


def annif_router(holder: ModelHolder, options: ServeOptions) -> APIRouter:
    """Routes of the project."""
    router = APIRouter(prefix="/v1/projects", tags=["Annif"])
    project_path = Path(description="Name of the model.", examples=[options.name])

    @router.get("", summary="List the project")
    async def projects() -> dict[str, Any]:
        return {"projects": [project(holder.current, options)]}

    @router.get("/{project_id}", summary="Describe the project")
    async def show(project_id: str = project_path) -> dict[str, Any]:
        require_project(project_id, options)
        return project(holder.current, options)

    @router.post(
        "/{project_id}/suggest",
        summary="Suggest subjects for a text",
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {"application/x-www-form-urlencoded": {"schema": FORM}},
            }
        },
    )
    async def suggest(request: Request, project_id: str = project_path) -> dict[str, Any]:
        require_project(project_id, options)
        text, limit, threshold = parse_form(await request.body(), options)
        results = await asyncio.to_thread(suggestions, holder.current, [text], limit, threshold)
        return {"results": results[0]}

    @router.post("/{project_id}/suggest-batch", summary="Suggest subjects for up to 32 texts")
    async def suggest_batch(
        body: Documents,
        project_id: str = project_path,
        limit: Annotated[int, Query(ge=0)] = 10,
        threshold: Annotated[float, Query(ge=0, le=1)] = 0.0,
        language: str | None = None,  # of the subjects' names, which have one language here
    ) -> list[dict[str, Any]]:
        require_project(project_id, options)
        if limit > options.max_labels:
            raise RequestError(
                422, f"limit must be at most {options.max_labels:,}. Got {limit:,} instead.", "limit"
            )
        texts = [one.text for one in body.documents]
        results = await asyncio.to_thread(suggestions, holder.current, texts, limit, threshold)
        return [
            {"document_id": document.document_id, "results": result}
            for document, result in zip(body.documents, results, strict=True)
        ]

    return router


def require_project(project_id: str, options: ServeOptions) -> None:
    """Raise an error if the project is not the model."""
    if project_id != options.name:
        raise RequestError(
            404, f"There is no project {project_id!r}; the model is {options.name!r}.", "project_id"
        )


def project(loaded: Loaded, options: ServeOptions) -> dict[str, Any]:
    """The project as Annif describes it."""
    return {
        "project_id": options.name,
        "name": options.name,
        "language": "und",
        "backend": {"backend_id": "sparseleaf"},
        "is_trained": True,
        "modification_time": loaded.loaded_at,
    }


def parse_form(body: bytes, options: ServeOptions) -> tuple[str, int, float]:
    """Text, limit and threshold of a form."""
    try:
        form = parse_qs(body.decode(), keep_blank_values=True, strict_parsing=True, max_num_fields=100)
    except ValueError:
        raise RequestError(400, "The request body must be a form with the field 'text'.") from None
    if "text" not in form:
        raise RequestError(422, "The form must have the field 'text'.", "text")
    limit = _number(form, "limit", 10, 0, options.max_labels)
    if limit != int(limit):
        raise RequestError(422, f"limit must be a whole number. Got {limit:g} instead.", "limit")
    return form["text"][0], int(limit), _number(form, "threshold", 0, 0, 1)


def _number(form: dict[str, list[str]], name: str, default: float, least: float, largest: float) -> float:
    text = form.get(name, [str(default)])[0]
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not least <= value <= largest:
        raise RequestError(
            422, f"{name} must be from {least:g} to {largest:g}. Got {text[:20]!r} instead.", name
        )
    return value


def suggestions(loaded: Loaded, texts: list[str], limit: int, threshold: float) -> list[list[dict[str, Any]]]:
    """Subjects of every text with their scores in [0, 1], best first."""
    rows = text_rows(loaded.estimator, texts, "text")
    if not texts or not limit:
        return [[] for _ in texts]
    uris = loaded.uris or {}  # labels of models without URIs are URIs themselves
    likely = loaded.estimator.model_.stage(Role.CALIBRATOR) is not None
    labels, scores = topk(loaded.estimator, rows, limit, probabilities=likely)
    return [
        [
            {
                "uri": uris.get(label, str(label)),
                "label": str(label),
                "notation": None,
                "score": min(1.0, score),
            }
            for label, score in zip(row, values, strict=True)
            if score > 0 and score >= threshold
        ]
        for row, values in zip(labels.tolist(), scores.tolist(), strict=True)
    ]
