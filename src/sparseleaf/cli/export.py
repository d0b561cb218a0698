"""``sparseleaf export``: convert a model to ONNX, treelite or C."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sparseleaf._files import AnyPath, as_path
from sparseleaf.cli._common import Model, PathOrURL, check_folder, check_output, readable_bytes


def export(
    model: Model,
    output: Annotated[
        PathOrURL,
        typer.Option(
            "--output",
            "-o",
            metavar="PATH",
            help="File to write, or folder for [bold]--format c[/bold].",
            parser=as_path,
        ),
    ],
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="NAME",
            help="onnx, treelite or c (sources and data of a predictor). Default: by suffix (.onnx, .treelite, .tl).",
        ),
    ] = None,
) -> None:
    """Export a model to ONNX, treelite or C.

    Examples
    --------
    sparseleaf export model.safetensors -o model.onnx
    sparseleaf export model.safetensors -o predictor --format c
    """
    import sparseleaf
    from sparseleaf.export import FORMATS, SUFFIXES

    name = SUFFIXES.get(output.suffix.lower()) if format_ is None else format_
    if name is None:
        raise ValueError(
            f"--output must end in {', '.join(SUFFIXES)}, or --format must be given. Got {output} instead."
        )
    if name not in FORMATS:
        raise ValueError(
            f"--format must be one of {{{', '.join(map(repr, FORMATS))}}}. Got {name!r} instead."
        )
    if name == "c":
        _check_folder(output)
    else:
        check_output(output, "--output", [model])
    estimator = sparseleaf.load(model)
    try:
        FORMATS[name](estimator, output)
    except ImportError as error:  # an optional package is not installed
        raise ValueError(str(error)) from None
    files = sorted(output.iterdir()) if isinstance(output, Path) and output.is_dir() else [output]
    typer.echo(f"wrote {output} ({readable_bytes(sum(file.stat().st_size for file in files))})")


def _check_folder(folder: AnyPath) -> None:
    """Raise ValueError, before the model is loaded, if files cannot be written to the folder."""
    if not isinstance(folder, Path):
        raise ValueError(f"--output must be a local folder with --format c. Got {folder} instead.")
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--output must be a folder with --format c. Got the file {folder} instead.")
    parent = folder if folder.is_dir() else folder.parent
    if not parent.is_dir():
        raise ValueError(f"--output {folder}: the directory {parent} does not exist.")
    check_folder(parent, "--output")
