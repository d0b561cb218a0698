"""Export to C: a folder with a dependency-free C99 predictor and the model's data."""

from __future__ import annotations

import os
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from sparseleaf._files import as_path, replacing
from sparseleaf.export.c_arrays import model_arrays
from sparseleaf.export.c_file import write_arrays
from sparseleaf.export.common import model_of

SOURCES = "csource"
"""Package folder of the C sources."""

TEMPLATE = "README.md"
"""The file among them that has placeholders."""

DATA = "model.bin"


def to_c(estimator: Any, path: str | os.PathLike[str]) -> Path:
    """Export a model to C: a folder with sources, data and a Makefile.

    The program ``predict`` and the functions of ``predictor.h`` return what ``predict_topk`` does, to the bit, for all
    estimators, re-rankers, projections and blends, and for texts. They need a C99 compiler, and no library.

    Parameters
    ----------
    estimator : fitted estimator
        Any estimator. A calibrator is not exported: scores are those of ``predict_topk``.
    path : path-like
        Folder to write, created if it does not exist. Files of an earlier export are replaced.

    Returns
    -------
    path : Path
        The folder.

    Raises
    ------
    ValueError
        If ``path`` is a file or remote, or the model has a stage that the predictor does not support.

    Examples
    --------
    >>> from sparseleaf import SketchForestClassifier
    >>> from sparseleaf.data import make_xc
    >>> from sparseleaf.export import to_c
    >>> X, Y = make_xc(200, 50, 10)
    >>> folder = to_c(SketchForestClassifier(n_trees=3).fit(X, Y), "exported")
    >>> (folder / "predictor.h").exists()
    True
    """
    model = model_of(estimator)
    folder = as_path(path)
    if not isinstance(folder, Path):
        raise ValueError(f"The 'path' parameter must be a local folder. Got {path!s} instead.")
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"The 'path' parameter must be a folder. Got the file {path!s} instead.")
    arrays = model_arrays(model)
    about = {
        "estimator": type(estimator).__name__,
        "version": version("sparseleaf"),
        "n_features": f"{model.n_features:,}",
        "n_labels": f"{model.n_labels:,}",
        "flag": "-t " if model.vectorizer is not None else "",
        "rows": "texts.txt" if model.vectorizer is not None else "rows.txt",
        "stages": ", ".join(stage.kind for stage in model.stages),
    }
    folder.mkdir(exist_ok=True)
    for source in files("sparseleaf.export").joinpath(SOURCES).iterdir():
        text = source.read_text("utf-8")
        if source.name == TEMPLATE:
            text = Template(text).substitute(about)
        with replacing(folder / source.name) as file:
            file.write(text.encode())
    with replacing(folder / DATA) as file:
        write_arrays(file, arrays)
    return folder
