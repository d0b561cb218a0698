"""``sparseleaf predict``: top-k labels of each row, or the outputs of a regressor or ranker."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from sparseleaf._files import AnyPath, as_path, replacing
from sparseleaf._printable import printable
from sparseleaf.cli._common import (
    AUTO,
    Data,
    DataFormat,
    Jobs,
    Labels,
    Model,
    PathOrURL,
    Qid,
    Reading,
    Target,
    TextField,
    check_output,
    decoded,
    read_rows,
    topk,
)
from sparseleaf.cli._explained import SHOWN, explained_lines, read_titles
from sparseleaf.cli._label_files import Written, read_names, uris_of

if TYPE_CHECKING:
    from sparseleaf.data import Rows

LINES = 10_000
"""Number of rows formatted at a time."""


def predict(
    model: Model,
    data: Data,
    k: Annotated[int, typer.Option("-k", "--top", min=1, help="Number of labels per row.")] = 5,
    output: Annotated[
        PathOrURL | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="File to write, gzipped if it ends in .gz; - for stdout (default).",
            parser=as_path,
        ),
    ] = None,
    text: TextField = None,
    labels: Labels = None,
    target: Target = None,
    format_: DataFormat = AUTO,
    qid: Qid = None,
    id_: Annotated[
        list[str] | None,
        typer.Option(
            "--id",
            metavar="COLUMN",
            help="Column to write before the labels, such as an id; several as id,title.",
        ),
    ] = None,
    label_names: Annotated[
        PathOrURL | None,
        typer.Option(
            metavar="FILE",
            help="Names of the labels, written with them: lines of a label, a tab and a name, or a JSON object.",
            parser=as_path,
        ),
    ] = None,
    uris: Annotated[
        bool,
        typer.Option(
            "--uris",
            help="Write the URIs of the labels, in place of the labels or, with --json, beside them.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per row.")] = False,
    proba: Annotated[
        bool, typer.Option("--proba", help="Calibrated probabilities instead of scores.")
    ] = False,
    decode: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Labels to return, instead of the -k best: threshold (as chosen in training), threshold:x, top:k,"
            " expected_f1, macro_recall@k or psp@k.",
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            metavar="X", help="Return labels with a probability of at least X: --decode threshold:X."
        ),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Explain the labels or outputs: contributions of the features.")
    ] = False,
    features: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=0, help="With --explain: number of features per label.", show_default="10"
        ),
    ] = None,
    titles: Annotated[
        PathOrURL | None,
        typer.Option(
            metavar="FILE",
            help="With --explain: titles of the training rows, one per line, for the similar ones.",
            parser=as_path,
        ),
    ] = None,
    training: Annotated[
        list[PathOrURL] | None,
        typer.Option(
            metavar="DATA",
            help="With --explain: rows with labels, such as the training data, to find similar ones in; by default the"
            " neighbours that the model has.",
            parser=as_path,
        ),
    ] = None,
    device: Annotated[
        str,
        typer.Option(
            metavar="cpu|cuda",
            help="Where large batches are predicted; cuda: an NVIDIA GPU, for models of dense outputs (gbdt-mo, rank).",
        ),
    ] = "cpu",
    jobs: Jobs = None,
) -> None:
    """Predict the top labels of each row, or the outputs of a regressor or ranker.

    Classifiers write one line per row, best label first: [bold]label:score label:score …[/bold]. Labels are names, or
    ids if the model has no label names. Names with spaces, colons or quotes are written as JSON strings.

    A model that was trained on texts reads their fields in JSON lines, CSV and Parquet files, or plain texts, one per
    line, which is the default for standard input.

    With --decode or --threshold, lines have as many labels as are predicted, and scores are probabilities if the model
    has a calibrator (see sparseleaf calibrate).

    Regressors and rankers write CSV with one column per output.

    With [bold]--explain[/bold], every row has its labels with the features, score components and similar training rows
    that account for their scores.

    Target columns in the data are optional and ignored.
    """
    if not explain and not (features is None and titles is None and training is None):
        raise ValueError("--features, --titles and --training require --explain.")
    if explain and (proba or decode is not None or threshold is not None or uris):
        raise ValueError(
            "--explain explains scores and cannot be combined with --proba, --decode, --threshold or --uris."
        )
    to_file = output is not None and str(output) != "-"
    if to_file and output is not None and (not output.exists() or output.is_file()):
        check_output(output, "--output", [model, *data, *([label_names] if label_names else [])])

    from sklearn.base import is_classifier

    import sparseleaf
    from sparseleaf.data import Columns

    decode = decode_option(decode, threshold)
    estimator = sparseleaf.load(model, n_jobs=jobs, device=device)
    if not is_classifier(estimator) and label_names is not None:
        raise ValueError("--label-names requires a classifier.")
    if not is_classifier(estimator) and (proba or decode is not None):
        raise ValueError("--proba, --decode and --threshold are for classifiers.")
    names = None if label_names is None else read_names(label_names)
    labels_by = Written(names, uris_of(estimator) if uris else None)
    how = Reading.of(format_, target, jobs, qid, text=text, labels=labels, keep=id_)
    rows = read_rows(estimator, data, how, Columns.of_model(estimator), labelled=False)
    if explain:
        shown_features = SHOWN if features is None else features
        among = None
        if training is not None:
            from sparseleaf.estimators.similar import LabelledRows

            labelled = read_rows(estimator, training, replace(how, keep=()), Columns.of_model(estimator))
            among = LabelledRows.of(estimator, (labelled.X, labelled.y))
        shown_titles = read_titles(titles)
        lines = explained_lines(estimator, rows, k, shown_features, shown_titles, as_json, names, among)
    elif is_classifier(estimator):
        lines = topk_lines(estimator, rows, k, as_json, labels_by, proba=proba, decode=decode)
    else:
        lines = output_lines(estimator, rows, as_json)
    shown = not to_file and sys.stdout.isatty()
    with _opened(output if to_file else None) as file:
        for some in lines:
            file.write((printable(some) if shown else some).encode())


def decode_option(decode: str | None, threshold: float | None) -> str | None:
    """The decoder of ``--decode`` or ``--threshold``, validated; None for neither."""
    from sparseleaf.model.decoding import make_decoder

    if decode is not None and threshold is not None:
        raise ValueError("Only one of --decode and --threshold may be given.")
    if threshold is not None:
        decode = f"threshold:{threshold!r}"
    if decode is not None:
        make_decoder(decode)
    return decode


def topk_lines(
    estimator: Any,
    rows: Rows,
    k: int,
    as_json: bool,
    labels_by: Written,
    *,
    proba: bool = False,
    decode: str | None = None,
) -> Iterator[str]:
    """Format the k best labels of each row, or those of a decoder, in blocks of lines."""
    labels, scores = (
        topk(estimator, rows, k, proba=proba) if decode is None else decoded(estimator, rows, decode)
    )
    kept = rows.kept or {}
    for begin in range(0, len(labels), LINES):
        some = slice(begin, begin + LINES)
        ids = [
            dict(zip(kept, values, strict=True))
            for values in zip(*(v[some] for v in kept.values()), strict=True)
        ]
        predicted = zip(ids or [{}] * LINES, labels[some].tolist(), scores[some].tolist(), strict=False)
        yield "".join(_line(*row, as_json, labels_by) for row in predicted)


def output_lines(estimator: Any, rows: Rows, as_json: bool) -> Iterator[str]:
    """Format the outputs of a regressor or ranker, in blocks of lines.

    CSV with one column per output, named by ``estimator.output_names_``, else y0, y1, …; or JSON objects. Numbers have
    enough digits to be read back exactly. Columns that the rows keep, such as ids, come first.
    """
    import numpy as np

    values = np.asarray(estimator.predict(rows.X))
    values = values[:, None] if values.ndim == 1 else values
    names = getattr(estimator, "output_names_", None)
    names = [f"y{i}" for i in range(values.shape[1])] if names is None else [str(name) for name in names]
    if len(names) != values.shape[1]:
        raise ValueError(f"The model has {len(names)} output names, but predicts {values.shape[1]} outputs.")
    kept = rows.kept or {}
    if not as_json:
        yield _csv([[*kept, *names]])
    for begin in range(0, len(values), LINES):
        some = slice(begin, begin + LINES)
        numbers = values[some].astype(str).tolist()
        ids = list(zip(*(column[some] for column in kept.values()), strict=True)) or [()] * len(numbers)
        if as_json:
            yield "".join(
                _json(dict(zip(kept, row, strict=True)) | dict(zip(names, map(float, line), strict=True)))
                for row, line in zip(ids, numbers, strict=True)
            )
        else:
            yield _csv([[*map(str, row), *line] for row, line in zip(ids, numbers, strict=True)])


def _csv(rows: list[list[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _line(
    ids: dict[str, Any], labels: list[Any], scores: list[float], as_json: bool, labels_by: Written
) -> str:
    n_labels = sum(score > -math.inf for score in scores)  # missing labels are at the end
    labels, scores = labels[:n_labels], scores[:n_labels]
    if as_json:
        short = [float(f"{score:.6g}") for score in scores]
        return _json({**ids, "labels": labels, **labels_by.columns(labels), "scores": short})
    pairs = (
        f"{_quoted(labels_by.text(label))}:{score:.6g}" for label, score in zip(labels, scores, strict=True)
    )
    return "".join(f"{_plain(value)}\t" for value in ids.values()) + " ".join(pairs) + "\n"


def _json(line: dict[str, Any]) -> str:
    text = json.dumps(line, ensure_ascii=False, default=str)
    return (text if text.isprintable() else json.dumps(line, default=str)) + "\n"


def _plain(value: Any) -> str:
    """A kept value on one line, without tabs."""
    return "" if value is None else " ".join(str(value).split())


def _quoted(label: object) -> str:
    """A label name, as a JSON string if it would be ambiguous."""
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
    sys.stdout.buffer.flush()  # here, where a broken pipe is still reported
