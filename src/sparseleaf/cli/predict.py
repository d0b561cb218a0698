"""``sparseleaf predict``: a model and rows in, the best labels of every row out."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from sparseleaf.cli._common import Data, Jobs, Model, check_output, read_rows, topk_ids

LINES = 10_000
"""Rows formatted at a time."""


class Format(StrEnum):
    """How a row is written."""

    TEXT = "text"
    JSON = "json"


def predict(
    model: Model,
    data: Data,
    k: Annotated[int, typer.Option("-k", "--top", min=1, help="Labels a row.")] = 5,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File to write, gzipped for .gz; - is stdout, the default."),
    ] = None,
    format_: Annotated[
        Format, typer.Option("--format", help="label:score pairs, or a JSON object a row.")
    ] = Format.TEXT,
    jobs: Jobs = None,
) -> None:
    """Write the best labels of every row, best first: [bold]label:score label:score …[/bold].

    Labels are ids, or names where the model has them. A name with spaces, colons or quotes in it is written
    as a JSON string.
    """
    to_file = output is not None and str(output) != "-"
    if to_file and output is not None and (not output.exists() or output.is_file()):
        check_output(output, "--output", [model, *data])

    import sparseleaf
    from sparseleaf.data.targets import decode

    estimator = sparseleaf.load(model)
    X, _ = read_rows(data, estimator.model_.n_features, jobs)
    ids, scores = topk_ids(estimator, X, k, jobs)
    with _opened(output if to_file else None) as file:
        for begin in range(0, len(ids), LINES):
            some = slice(begin, begin + LINES)
            labels = decode(ids[some], estimator.model_.label_names).tolist()
            rows = zip(labels, scores[some].tolist(), ids[some].tolist(), strict=True)
            file.write("".join(_line(*row, format_) for row in rows).encode())


def _line(labels: list[Any], scores: list[float], ids: list[int], format_: Format) -> str:
    found = sum(i >= 0 for i in ids)  # what is missing is at the end
    if format_ is Format.JSON:
        short = [float(f"{score:.6g}") for score in scores[:found]]
        return json.dumps({"labels": labels[:found], "scores": short}, ensure_ascii=False) + "\n"
    pairs = (f"{_quoted(label)}:{score:.6g}" for label, score in zip(labels[:found], scores, strict=False))
    return " ".join(pairs) + "\n"


def _quoted(label: object) -> str:
    """A name as it stands, or as a JSON string where it could be misread."""
    text = str(label)
    plain = text.isprintable() and text != "" and not any(c in ' :"' for c in text)
    return text if plain else json.dumps(text, ensure_ascii=not text.isprintable())


@contextmanager
def _opened(path: Path | None) -> Iterator[IO[bytes]]:
    from sparseleaf._files import replacing

    if path is not None:
        with replacing(path) as file:
            yield file
        return
    yield sys.stdout.buffer
    sys.stdout.buffer.flush()  # here, where a broken pipe is still noticed
