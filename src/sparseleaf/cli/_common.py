"""What commands share: reading rows for a model, checking where results go, sizes in words."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from scipy import sparse

Model = Annotated[Path, typer.Argument(help="Model file, as [bold]train[/bold] wrote it.", metavar="MODEL")]
Data = Annotated[
    list[Path], typer.Argument(help="XC text, plain or gzipped; several files are one set.", metavar="DATA")
]
Jobs = Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Threads; all cores by default.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def read_rows(
    paths: Sequence[Path], n_features: int, n_jobs: int | None
) -> tuple[sparse.csr_matrix, sparse.csr_matrix]:
    """X and Y of several files, X as wide as the model wants it.

    Files may know fewer features and labels than the model does; more features are refused. Y is as wide as
    the widest file.
    """
    from scipy import sparse

    from sparseleaf.data import load_xc

    parts = [load_xc(path, n_jobs=n_jobs) for path in paths]
    for path, (X, _) in zip(paths, parts, strict=True):
        if X.shape[1] > n_features:
            raise ValueError(
                f"{path}: found {X.shape[1]} features; wanted at most the {n_features} of training."
            )
    n_labels = max(Y.shape[1] for _, Y in parts)
    for X, Y in parts:
        X.resize(X.shape[0], n_features)
        Y.resize(Y.shape[0], n_labels)
    if len(parts) == 1:
        return parts[0]
    return (
        sparse.vstack([X for X, _ in parts], format="csr"),
        sparse.vstack([Y for _, Y in parts], format="csr"),
    )


def topk_ids(estimator: Any, X: sparse.csr_matrix, k: int, n_jobs: int | None) -> tuple[Any, Any]:
    """Label ids and scores of the k best labels, for models with label names too."""
    from sparseleaf._arrays import effective_n_jobs
    from sparseleaf.estimators.base import refuse_nan

    model = estimator.model_
    if not model.takes_nan:
        refuse_nan(X)
    return model.topk(X, k, None, effective_n_jobs(n_jobs))  # type: ignore[no-any-return]


def check_output(path: Path, option: str, inputs: Iterable[Path] = ()) -> None:
    """Refuse, before the work, a place where its result could not be written."""
    folder = path.parent
    if not folder.is_dir():
        raise ValueError(f"{option} {path}: there is no folder {folder}.")
    if path.exists() and not path.is_file():
        raise ValueError(f"{option} {path}: exists and is not a file.")
    if any(path.exists() and one.exists() and path.samefile(one) for one in inputs):
        raise ValueError(f"{option} {path}: is read too, and would be overwritten.")
    check_folder(folder, option)


def check_folder(folder: Path, option: str) -> None:
    """Refuse a folder that files cannot be made in."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ValueError(f"{option}: cannot write to the folder {folder} ({error.strerror}).") from None


def readable_bytes(n_bytes: float) -> str:
    """Bytes in words, decimal: 1.9 MB."""
    for unit in ("B", "kB", "MB"):
        if n_bytes < 1000:
            return f"{n_bytes:.0f} {unit}" if unit == "B" else f"{n_bytes:.1f} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.2f} GB"
