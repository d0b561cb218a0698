"""``sparseleaf export``: a model in, a file for another runtime out."""

from __future__ import annotations

from typing import Annotated

import typer

from sparseleaf._files import as_path
from sparseleaf.cli._common import Model, PathOrURL, check_output, readable_bytes

FORMATS = {".onnx": "to_onnx", ".treelite": "to_treelite", ".tl": "to_treelite"}


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
    function = FORMATS.get(output.suffix.lower())
    if function is None:
        raise ValueError(f"--output {output}: wanted a name that ends in {', '.join(FORMATS)}.")
    check_output(output, "--output", [model])

    import sparseleaf
    from sparseleaf import export as formats

    estimator = sparseleaf.load(model)
    try:
        getattr(formats, function)(estimator, output)
    except ImportError as error:  # what is missing is the user's to install
        raise ValueError(str(error)) from None
    typer.echo(f"wrote {output} ({readable_bytes(output.stat().st_size)})")
