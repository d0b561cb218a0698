"""``sparseleaf export``: a model in, a file for another runtime out."""

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
            help="File to write: .onnx, or .treelite (.tl) for treelite's own.",
            parser=as_path,
        ),
    ],
) -> None:
    """Write a model for ONNX or treelite, whichever the name of the file says."""
    import sparseleaf
    from sparseleaf.export import EXPORTERS

    write = EXPORTERS.get(output.suffix.lower())
    if write is None:
        raise ValueError(f"--output {output}: wanted a name that ends in {', '.join(EXPORTERS)}.")
    check_output(output, "--output", [model])
    estimator = sparseleaf.load(model)
    try:
        write(estimator, output)
    except ImportError as error:  # what is missing is the user's to install
        raise ValueError(str(error)) from None
    typer.echo(f"wrote {output} ({readable_bytes(output.stat().st_size)})")
