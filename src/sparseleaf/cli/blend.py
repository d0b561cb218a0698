"""``sparseleaf blend``: several model files in, one out."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from sparseleaf._files import as_path
from sparseleaf.cli._common import (
    AUTO,
    DataFormat,
    Jobs,
    PathOrURL,
    Reading,
    Target,
    check_output,
    read_rows,
    readable_bytes,
    save_model,
)


def blend(
    models: Annotated[
        list[PathOrURL],
        typer.Argument(
            help="Model files of classifiers with the same labels.", metavar="MODELS", parser=as_path
        ),
    ],
    model: Annotated[PathOrURL, typer.Option("--model", "-m", help="Model file to write.", parser=as_path)],
    data: Annotated[
        list[PathOrURL] | None,
        typer.Option(
            "--data",
            "-d",
            help="Rows that training has not seen, to choose the weights on; may be repeated.",
            parser=as_path,
        ),
    ] = None,
    weights: Annotated[
        str | None, typer.Option(metavar="W,W,…", help="A weight for each model, instead of --data.")
    ] = None,
    target: Target = None,
    format_: DataFormat = AUTO,
    jobs: Jobs = None,
) -> None:
    """Join classifiers into one model, whose scores are the weighted mean of theirs."""
    if (data is None) == (weights is None):
        raise ValueError("--data, --weights: wanted one of them: rows to choose weights on, or the weights.")
    given = None if weights is None else _numbers(weights, len(models))
    check_output(model, "--model", [*models, *(data or [])])

    import sparseleaf
    from sparseleaf import BlendClassifier
    from sparseleaf.data import Columns
    from sparseleaf.estimators.blend import blend_fitted

    members: list[Any] = [sparseleaf.load(path) for path in models]
    blended = BlendClassifier(members, weights="auto" if given is None else given, prefit=True, n_jobs=jobs)
    if data is None:
        blend_fitted(blended)
    else:
        rows = read_rows(members[0], data, Reading.of(format_, target, jobs), Columns.of_model(members[0]))
        blended.fit(rows.X, rows.y)
    save_model(blended, model)
    mix = ", ".join(f"{path.name} {w:.3g}" for path, w in zip(models, blended.weights_, strict=True))
    typer.echo(f"wrote {model}: {mix}; {readable_bytes(model.stat().st_size)}")


def _numbers(text: str, count: int) -> list[float]:
    try:
        found = [float(word) for word in text.split(",")]
    except ValueError:
        found = []
    if len(found) != count:
        raise ValueError(f"--weights {text!r}: wanted {count} numbers, with commas between them.")
    return found
