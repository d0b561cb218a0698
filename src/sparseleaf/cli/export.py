"""``sparseleaf export``: convert a model to ONNX or treelite."""

from __future__ import annotations

from typing import Annotated

import typer

from sparseleaf._files import as_path
from sparseleaf.cli._common import Model, PathOrURL, check_output, readable_bytes


def export(
    model: Model,
    output: Annotated[
        PathOrURL,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="File to write; the suffix selects the format: .onnx, .treelite or .tl.",
            parser=as_path,
        ),
    ],
) -> None:
    """Export a model to ONNX or treelite."""
    import sparseleaf
    from sparseleaf.export import EXPORTERS

    write = EXPORTERS.get(output.suffix.lower())
    if write is None:
        raise ValueError(f"--output must end in {', '.join(EXPORTERS)}. Got {output} instead.")
    check_output(output, "--output", [model])
    estimator = sparseleaf.load(model)
    try:
        write(estimator, output)
    except ImportError as error:  # an optional package is not installed
        raise ValueError(str(error)) from None
    typer.echo(f"wrote {output} ({readable_bytes(output.stat().st_size)})")
