"""A report as one HTML file: the template, its style sheet and scripts, and the compressed data.

The page loads nothing. Its content security policy permits only this style sheet and this script, by their hashes, so
that no text of the data can become code even if it were not escaped.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from functools import cache
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from sparseleaf.report.overview import about, overview

SCRIPTS = ("data", "dom", "tabs", "table", "details", "labels", "trees", "examples", "main")
"""Script files, in order; together they are one script."""

SENT = ("task", "labels", "outputs", "queries", "features", "trees", "examples")
"""Parts of the data that scripts show."""

TABLE_TITLES = {"labels": "Labels", "outputs": "Outputs", "queries": "Queries"}


def render(data: dict[str, Any]) -> str:
    """The HTML file."""
    style = _asset("report.css")
    script = "\n".join(_asset(f"{name}.js") for name in SCRIPTS)
    facts = data["about"]
    subtitle = f"{facts['estimator']}, {facts['n_trees']:,} trees, evaluated on {facts['n_rows']:,} rows"
    html = Template(_asset("page.html")).substitute(
        title=escape(data["title"]),
        subtitle=escape(subtitle),
        style=style,
        style_hash=_hash(style),
        script=script,
        script_hash=_hash(script),
        table_title=TABLE_TITLES[data["task"]],
        overview=overview(data),
        about=about(data),
        payload=encode({name: data[name] for name in SENT if name in data}),
    )
    return html.encode(
        errors="replace"
    ).decode()  # lone surrogates, which names may have, are not valid in UTF-8


def encode(values: dict[str, Any]) -> str:
    """JSON values, compressed with deflate, in base64: no character of it has a meaning in HTML."""
    text = json.dumps(values, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return base64.b64encode(zlib.compress(text.encode(errors="replace"), 6)).decode()


def decode(payload: str) -> dict[str, Any]:
    """The inverse of :func:`encode`."""
    values: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(payload)))
    return values


@cache
def _asset(name: str) -> str:
    """A file of the page."""
    return (files("sparseleaf.report") / "assets" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Source of a content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
