"""``sparseleaf blend``: combine several models into one."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from sparseleaf._files import as_path
from sparseleaf.cli._common import (
    AUTO,
    DataFormat,
    Jobs,
    Labels,
    LabelSeparator,
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
            help="Model files of classifiers with the same features and labels.",
            metavar="MODELS",
            parser=as_path,
        ),
    ],
    model: Annotated[
        PathOrURL, typer.Option("--model", "-m", help="Model file to write.", metavar="FILE", parser=as_path)
    ],
    data: Annotated[
        list[PathOrURL] | None,
        typer.Option(
            "--data",
            "-d",
            metavar="FILE",
            help="Validation data to select the weights on, not used in training; may be repeated.",
            parser=as_path,
        ),
    ] = None,
    weights: Annotated[
        str | None, typer.Option(metavar="W,W,…", help="Weights of the models, instead of --data.")
    ] = None,
    labels: Labels = None,
    label_separator: LabelSeparator = None,
    target: Target = None,
    format_: DataFormat = AUTO,
    jobs: Jobs = None,
) -> None:
    """Combine classifiers into one model, the weighted mean of their scores."""
    if (data is None) == (weights is None):
        raise ValueError(
            "Either --data or --weights must be given: validation data to select the weights on, or the weights."
        )
    fixed = None if weights is None else _numbers(weights, len(models))
    check_output(model, "--model", [*models, *(data or [])])

    import sparseleaf
    from sparseleaf import BlendClassifier
    from sparseleaf.data import Columns
    from sparseleaf.estimators.blend import blend_fitted

    members: list[Any] = [sparseleaf.load(path) for path in models]
    blended = BlendClassifier(members, weights="auto" if fixed is None else fixed, prefit=True, n_jobs=jobs)
    if data is None:
        blend_fitted(blended)
    else:
        how = Reading.of(format_, target, jobs, labels=labels, label_separator=label_separator)
        rows = read_rows(members[0], data, how, Columns.of_model(members[0]))
        blended.fit(rows.X, rows.y)
    save_model(blended, model)
    mix = ", ".join(f"{path.name} {w:.3g}" for path, w in zip(models, blended.weights_, strict=True))
    typer.echo(f"wrote {model}: {mix}; {readable_bytes(model.stat().st_size)}")


def _numbers(text: str, count: int) -> list[float]:
    try:
        numbers = [float(word) for word in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != count:
        raise ValueError(f"--weights must be {count} numbers, separated by commas. Got {text!r} instead.")
    return numbers
