"""``sparseleaf label-uris``: URIs of the labels of a trained classifier."""

from __future__ import annotations

from typing import Annotated

import typer

from sparseleaf._files import as_path
from sparseleaf._printable import printable
from sparseleaf.cli._common import Model, PathOrURL, check_output, save_model
from sparseleaf.cli._label_files import read_uris


def label_uris(
    model: Model,
    uris: Annotated[
        PathOrURL | None,
        typer.Argument(
            metavar="URIS",
            help="Lines of a label, a tab and a URI; a JSON object; or a vocabulary of Annif (lines of <URI>, a tab and"
            " a label).",
            parser=as_path,
        ),
    ] = None,
    output: Annotated[
        PathOrURL | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Model file to write; by default MODEL.", parser=as_path
        ),
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the URIs of the model.")] = False,
) -> None:
    """Store URIs of the labels in a model, replacing those it has.

    sparseleaf serve returns them, for Annif and other systems that identify labels by URI; sparseleaf predict --uris
    writes them.
    """
    if (uris is None) != remove:
        raise ValueError("Exactly one of URIS and --remove must be given.")
    written = model if output is None else output
    check_output(written, "--output", [] if uris is None else [uris])

    import sparseleaf
    from sparseleaf.estimators.uris import LabelURIsMixin

    mapping = None if uris is None else read_uris(uris, "URIS")
    estimator = sparseleaf.load(model)
    if not isinstance(estimator, LabelURIsMixin):
        raise ValueError(f"sparseleaf label-uris requires a classifier. Got {estimator.method!r} instead.")
    estimator.set_label_uris(mapping)
    save_model(estimator, written)
    stored = estimator.label_uris_
    n_uris = 0 if stored is None else sum(uri is not None for uri in stored)
    typer.echo(printable(f"wrote {written}: URIs of {n_uris:,} of {estimator.model_.n_labels:,} labels"))
