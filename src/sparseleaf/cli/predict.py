"""``sparseleaf predict``: a model and rows in, the best labels of every row out, or the outputs of a regressor."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Annotated, Any

import typer

from sparseleaf._files import AnyPath, as_path, replacing
from sparseleaf._printable import printable
from sparseleaf.cli._common import (
    AUTO,
    Data,
    DataFormat,
    Jobs,
    Model,
    PathOrURL,
    Qid,
    Reading,
    Target,
    check_output,
    read_rows,
    topk,
)

LINES = 10_000
"""Rows formatted at a time."""


def predict(
    model: Model,
    data: Data,
    k: Annotated[int, typer.Option("-k", "--top", min=1, help="Labels a row.")] = 5,
    output: Annotated[
        PathOrURL | None,
        typer.Option(
            "--output", "-o", help="File to write, gzipped for .gz; - is stdout, the default.", parser=as_path
        ),
    ] = None,
    target: Target = None,
    format_: DataFormat = AUTO,
    qid: Qid = None,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object a row.")] = False,
    jobs: Jobs = None,
) -> None:
    """Write the best labels of every row, best first: [bold]label:score label:score …[/bold].

    Labels are ids, or names where the model has them. A name with spaces, colons or quotes in it is written
    as a JSON string. A model of numbers writes CSV, a column for each target. Target columns of a table need
    not be there, and are not looked at.
    """
    to_file = output is not None and str(output) != "-"
    if to_file and output is not None and (not output.exists() or output.is_file()):
        check_output(output, "--output", [model, *data])

    from sklearn.base import is_classifier

    import sparseleaf
    from sparseleaf.data import Columns

    estimator = sparseleaf.load(model, n_jobs=jobs)
    how = Reading.of(format_, target, jobs, qid)
    rows = read_rows(estimator, data, how, Columns.of_model(estimator), labelled=False)
    lines = (
        topk_lines(estimator, rows.X, k, as_json)
        if is_classifier(estimator)
        else output_lines(estimator, rows.X, as_json)
    )
    shown = not to_file and sys.stdout.isatty()
    with _opened(output if to_file else None) as file:
        for some in lines:
            file.write((printable(some) if shown else some).encode())


def topk_lines(estimator: Any, X: Any, k: int, as_json: bool) -> Iterator[str]:
    """The k best labels of every row, as text in blocks of lines."""
    labels, scores = topk(estimator, X, k)
    for begin in range(0, len(labels), LINES):
        some = slice(begin, begin + LINES)
        rows = zip(labels[some].tolist(), scores[some].tolist(), strict=True)
        yield "".join(_line(*row, as_json) for row in rows)


def output_lines(estimator: Any, X: Any, as_json: bool) -> Iterator[str]:
    """The outputs of an estimator that predicts numbers, as text in blocks of lines.

    CSV with a column for each output, named by ``estimator.output_names_``, else y0, y1, …; or JSON objects.
    A number has as many digits as it takes to read the same one back.
    """
    import numpy as np

    values = np.asarray(estimator.predict(X))
    values = values[:, None] if values.ndim == 1 else values
    names = getattr(estimator, "output_names_", None)
    names = [f"y{i}" for i in range(values.shape[1])] if names is None else [str(name) for name in names]
    if len(names) != values.shape[1]:
        raise ValueError(f"the model names {len(names)} outputs and predicts {values.shape[1]}.")
    if not as_json:
        yield _csv([names])
    for begin in range(0, len(values), LINES):
        rows = values[begin : begin + LINES].astype(str).tolist()
        if as_json:
            yield "".join(
                json.dumps({n: float(v) for n, v in zip(names, row, strict=True)}) + "\n" for row in rows
            )
        else:
            yield _csv(rows)


def _csv(rows: list[list[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _line(labels: list[Any], scores: list[float], as_json: bool) -> str:
    found = sum(score > -math.inf for score in scores)  # what is missing is at the end
    if as_json:
        short = [float(f"{score:.6g}") for score in scores[:found]]
        plain = all(str(label).isprintable() for label in labels[:found])
        return json.dumps({"labels": labels[:found], "scores": short}, ensure_ascii=not plain) + "\n"
    pairs = (f"{_quoted(label)}:{score:.6g}" for label, score in zip(labels[:found], scores, strict=False))
    return " ".join(pairs) + "\n"


def _quoted(label: object) -> str:
    """A name as it stands, or as a JSON string where it could be misread."""
    text = str(label)
    plain = text.isprintable() and text != "" and not any(c in ' :"' for c in text)
    return text if plain else json.dumps(text, ensure_ascii=not text.isprintable())


@contextmanager
def _opened(path: AnyPath | None) -> Iterator[IO[bytes]]:
    if path is not None:
        with replacing(path) as file:
            yield file
        return
    yield sys.stdout.buffer
    sys.stdout.buffer.flush()  # here, where a broken pipe is still noticed
