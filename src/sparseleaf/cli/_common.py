"""What commands share: reading rows for a model, checking where results go, sizes in words."""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from sparseleaf._files import AnyPath, as_path
from sparseleaf._remote import RemotePath

if TYPE_CHECKING:
    from sparseleaf.data import Columns, Rows


AUTO = "auto"
"""Format of data files where their names tell."""

# URLs of fsspec are paths too: see sparseleaf._files.as_path. What is annotated as a Path, typer makes one of, whatever
# the parser returned, and that takes a slash from every URL.
if TYPE_CHECKING:
    PathOrURL: TypeAlias = Path
else:
    PathOrURL = RemotePath

Model = Annotated[
    PathOrURL,
    typer.Argument(help="Model file, as [bold]train[/bold] wrote it.", metavar="MODEL", parser=as_path),
]
Data = Annotated[
    list[PathOrURL],
    typer.Argument(
        help="XC text, CSV, Parquet or svmlight; several files are one set, - is standard input.",
        metavar="DATA",
        parser=as_path,
    ),
]
DataFormat = Annotated[
    str,
    typer.Option(
        "--format",
        metavar="NAME",
        help="What the data files hold: xc, csv, parquet or svmlight. Their names tell by default, or it is XC text.",
    ),
]
Target = Annotated[
    list[str] | None,
    typer.Option(
        "--target",
        "-t",
        metavar="COLUMN",
        help="Column to predict, for CSV and Parquet; a,b or repeated for several.",
    ),
]
Qid = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Column with the query of every row, for ranking CSV and Parquet."),
]
Weight = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Column with the weight of every row, for CSV and Parquet."),
]
Jobs = Annotated[
    int | None, typer.Option("--jobs", "-j", min=0, help="Threads; 0 for all cores, the default.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@dataclass(frozen=True)
class Reading:
    """How data files are to be read: the options of that."""

    format: str
    target: list[str]
    n_jobs: int | None
    qid: str | None = None
    weight: str | None = None

    @classmethod
    def of(
        cls,
        format_: str,
        target: list[str] | None,
        n_jobs: int | None,
        qid: str | None = None,
        weight: str | None = None,
    ) -> Reading:
        """From the options; ``a,b`` are two columns, ``"a,b"`` in quotes is one."""
        names = [name for text in target or [] for name in next(csv.reader([text]), [])]
        return cls(format_, names, n_jobs, qid, weight)


def read_rows(
    estimator: Any,
    paths: Sequence[AnyPath],
    how: Reading,
    columns: Columns | None = None,
    *,
    labelled: bool = True,
) -> Rows:
    """The rows of several files, as an estimator takes them: see :func:`sparseleaf.data.read`.

    Text columns are refused for an estimator that does not take categories. Where ``labelled`` is false a table may be
    without targets.
    """
    from sparseleaf import data
    from sparseleaf.data.categories import MAX_CATEGORIES

    if how.format != AUTO and how.format not in data.READERS:
        raise ValueError(
            f"--format {how.format!r}: there is no such format; known: {', '.join(data.READERS)}."
        )
    source = data.Source(
        paths,
        how.format,
        tuple(how.target),
        how.qid,
        how.weight,
        features=columns,
        labelled=labelled,
        max_categories=MAX_CATEGORIES if columns is None else None,  # new rows may hold levels of their own
        n_jobs=how.n_jobs,
    )
    if labelled and not how.target and data.reader_of(source).named_columns:
        raise ValueError(f"{source.files}: which column is to be predicted? wanted --target COLUMN.")
    rows = data.read(source)
    _refuse_text(estimator, rows.X, source.files)
    return rows


def _refuse_text(estimator: Any, X: Any, files: str) -> None:
    from sklearn.utils import get_tags

    from sparseleaf.data.columns import text_sample

    if not hasattr(X, "columns") or get_tags(estimator).input_tags.categorical:
        return
    for name in X.columns[X.dtypes == "category"]:
        raise ValueError(
            f"{files}: the column {name!r} holds text, such as {text_sample(X[name].cat.categories)!r};"
            f" {estimator.method} takes numbers only. --method gbdt-mo takes text as categories."
        )


def topk(estimator: Any, X: Any, k: int) -> tuple[Any, Any]:
    """The k best labels of every row and their scores; there may be no rows."""
    import numpy as np

    if X.shape[0] == 0:  # which scikit-learn's checks refuse
        return np.empty((0, k), np.int32), np.empty((0, k), np.float32)
    found: tuple[Any, Any] = estimator.predict_topk(X, k)
    return found


def check_output(path: AnyPath, option: str, inputs: Iterable[AnyPath] = ()) -> None:
    """Refuse, before the work, a place where its result could not be written."""
    inputs = list(inputs)
    if path in inputs:
        raise ValueError(f"{option} {path}: is read too, and would be overwritten.")
    if isinstance(path, RemotePath):
        path.check_writable()
        return
    folder = path.parent
    if not folder.is_dir():
        raise ValueError(f"{option} {path}: there is no folder {folder}.")
    if path.exists() and not path.is_file():
        raise ValueError(f"{option} {path}: exists and is not a file.")
    if any(path.exists() and one.exists() and path.samefile(one) for one in inputs if isinstance(one, Path)):
        raise ValueError(f"{option} {path}: is read too, and would be overwritten.")
    check_folder(folder, option)


def save_model(estimator: Any, path: AnyPath) -> None:
    """Save a trained model; where the disk is full, in another folder, so that the training is not lost."""
    try:
        estimator.save(path)
        return
    except OSError as error:
        reason = error.strerror or str(error)
    for folder in dict.fromkeys((_temporary_folder(), Path.cwd(), Path.home())):
        with suppress(OSError):
            kept = Path(tempfile.mkdtemp(prefix="sparseleaf-", dir=folder)) / path.name
            try:
                estimator.save(kept)
            except OSError:
                kept.parent.rmdir()
                raise
            reason += f"; the trained model was saved as {kept} instead"
            break
    raise OSError(f"{path}: {reason}.")


def _temporary_folder() -> Path:
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError:  # there is none that can be written to
        return Path.cwd()


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
