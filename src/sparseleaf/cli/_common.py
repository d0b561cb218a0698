"""What commands share: reading rows for a model, checking where results go, sizes in words."""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from sparseleaf._files import AnyPath, as_path, expand
from sparseleaf._remote import RemotePath

if TYPE_CHECKING:
    from scipy import sparse

STDIN = Path("/dev/stdin")


class Format(StrEnum):
    """What data files hold."""

    AUTO = "auto"
    XC = "xc"
    CSV = "csv"
    PARQUET = "parquet"
    SVMLIGHT = "svmlight"


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
    Format,
    typer.Option("--format", help="What the data files hold; their names tell by default, or XC text."),
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
Jobs = Annotated[
    int | None, typer.Option("--jobs", "-j", min=0, help="Threads; 0 for all cores, the default.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@dataclass(frozen=True)
class Reading:
    """How data files are to be read: the options of that."""

    format: Format
    target: list[str]
    n_jobs: int | None
    qid: str | None = None

    @classmethod
    def of(
        cls, format_: Format, target: list[str] | None, n_jobs: int | None, qid: str | None = None
    ) -> Reading:
        """From the options; ``a,b`` are two columns, ``"a,b"`` in quotes is one."""
        names = [name for text in target or [] for name in next(csv.reader([text]), [])]
        return cls(format_, names, n_jobs, qid)


@dataclass(frozen=True)
class Rows:
    """What data files hold, as estimators take it.

    Attributes
    ----------
    X : CSR matrix or pandas.DataFrame
    Y : CSR matrix, array, list of lists, DataFrame or None
        Several targets are a DataFrame, for the sake of their names; None where a table is without targets.
    qid : array or None
        The query of every row, where the files tell.
    """

    X: Any
    Y: Any
    qid: Any = None


@dataclass(frozen=True)
class Columns:
    """Features that rows must have."""

    count: int
    names: Sequence[str] | None

    @classmethod
    def of_rows(cls, X: Any) -> Columns:
        """Those of other rows."""
        return cls(X.shape[1], list(X.columns) if hasattr(X, "columns") else None)

    @classmethod
    def of_model(cls, estimator: Any) -> Columns:
        """Those that a model was trained on."""
        return cls(estimator.n_features_in_, getattr(estimator, "feature_names_in_", None))


def read_rows(
    estimator: Any,
    paths: Sequence[AnyPath],
    how: Reading,
    columns: Columns | None = None,
    *,
    labelled: bool = True,
) -> Rows:
    """The rows of several files, as an estimator takes them.

    Sparse files may know fewer features than ``columns`` has; a table's columns are brought into its order
    where it has names. Text columns are refused for an estimator that does not take categories. Where
    ``labelled`` is false a table may be without targets.
    """
    if sum(str(path) == "-" for path in paths) > 1:
        raise ValueError("-: standard input is given twice; wanted once.")
    paths = [STDIN if str(path) == "-" else path for path in expand(paths)]
    formats = [_format_of(path, how) for path in paths]
    for path, found in zip(paths, formats, strict=True):
        if found != formats[0]:
            raise ValueError(
                f"{path}: is read as {found}, but {paths[0]} as {formats[0]}; wanted one format."
            )
    if how.target and formats[0] not in (Format.CSV, Format.PARQUET):
        raise ValueError(
            f"--target {how.target[0]}: {paths[0]} is read as {formats[0]}, whose rows hold their labels;"
            " wanted CSV or Parquet (see --format)."
        )
    if how.qid is not None and formats[0] not in (Format.CSV, Format.PARQUET):
        raise ValueError(f"--qid {how.qid}: {paths[0]} is read as {formats[0]}, which has no such columns.")
    if formats[0] == Format.XC:
        return Rows(*_read_xc(paths, how, columns))
    return _read_table(estimator, paths, formats[0], how, columns, labelled)


def _format_of(path: AnyPath, how: Reading) -> Format:
    from sparseleaf.data.tables import guess_format

    return Format(guess_format(path) or Format.XC) if how.format is Format.AUTO else how.format


def _read_xc(paths: Sequence[AnyPath], how: Reading, columns: Columns | None) -> tuple[Any, Any]:
    """X as wide as ``columns``, Y as wide as the widest file; without ``columns`` the files must agree."""
    from scipy import sparse

    from sparseleaf.data import load_xc
    from sparseleaf.data.tables import guess_format

    parts = []
    for path in paths:
        try:
            parts.append(load_xc(path, n_jobs=how.n_jobs))
        except ValueError as error:
            if how.format is Format.AUTO and guess_format(path) is None:
                raise ValueError(f"{error} (read as XC text; for another format give --format)") from None
            raise
    first_X, first_Y = parts[0]
    for path, (X, Y) in zip(paths, parts, strict=True):
        if columns is not None and X.shape[1] > columns.count:
            raise ValueError(
                f"{path}: found {X.shape[1]} features; wanted at most the {columns.count} of training."
            )
        if columns is None and (X.shape[1], Y.shape[1]) != (first_X.shape[1], first_Y.shape[1]):
            raise ValueError(
                f"{path}: found {X.shape[1]} features and {Y.shape[1]} labels in its first line; wanted"
                f" {first_X.shape[1]} and {first_Y.shape[1]} as in {paths[0]}: files to train on must agree."
            )
    n_features = first_X.shape[1] if columns is None else columns.count
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


def _read_table(
    estimator: Any,
    paths: Sequence[AnyPath],
    format_: Format,
    how: Reading,
    columns: Columns | None,
    labelled: bool,
) -> Rows:
    from sparseleaf.data.categories import MAX_CATEGORIES
    from sparseleaf.data.tables import load_table

    files = ", ".join(map(str, paths))
    if labelled and not how.target and format_ is not Format.SVMLIGHT:
        raise ValueError(f"{files}: which column is to be predicted? wanted --target COLUMN.")
    table = load_table(
        paths,
        how.target or None,
        format=format_.value,
        qid=how.qid,
        require_target=labelled,
        max_categories=MAX_CATEGORIES if columns is None else None,  # new rows may hold levels of their own
    )
    X, Y, qid = table.X, table.y, table.qid
    if format_ is Format.SVMLIGHT:
        return Rows(X if columns is None else _resized(X, columns.count, files), Y, qid)
    if columns is not None:
        X = _in_order(X, columns, files)
    _refuse_text(estimator, X, files)
    if columns is not None and columns.names is None and not (X.dtypes == "category").any():
        X = X.to_numpy("float32")  # the model knows its columns by place
    if Y is not None and Y.ndim == 2:
        import pandas as pd

        Y = pd.DataFrame(Y, columns=list(table.target_names))
    return Rows(X, Y, qid)


def _resized(X: sparse.csr_matrix, n_features: int, files: str) -> sparse.csr_matrix:
    # svmlight has no header: a feature that training never saw is an ordinary day, and cannot matter to the model
    if X.shape[1] > n_features:
        typer.echo(
            f"sparseleaf: warning: {files}: features above {n_features - 1} are left out; training had none",
            err=True,
        )
        return X[:, :n_features]
    X.resize(X.shape[0], n_features)
    return X


def _in_order(X: Any, columns: Columns, files: str) -> Any:
    if columns.names is not None:
        for name in columns.names:
            if name not in X.columns:
                raise ValueError(f"{files}: found no column {name!r}, which training had.")
        return X[list(columns.names)]
    if X.shape[1] != columns.count:
        raise ValueError(
            f"{files}: found {X.shape[1]} features; wanted the {columns.count} of training (--target names"
            " columns that are no features)."
        )
    return X


def _refuse_text(estimator: Any, X: Any, files: str) -> None:
    from sklearn.utils import get_tags

    from sparseleaf.data.tables import text_sample

    if get_tags(estimator).input_tags.categorical:
        return
    for name in X.columns[X.dtypes == "category"]:
        raise ValueError(
            f"{files}: the column {name!r} holds text, such as {text_sample(X[name].cat.categories)!r};"
            f" {estimator.method} takes numbers only. --method gbdt-mo takes text as categories."
        )


def topk_ids(estimator: Any, X: Any, k: int, n_jobs: int | None) -> tuple[Any, Any]:
    """Label ids and scores of the k best labels, for models with label names too."""
    import numpy as np

    if X.shape[0] == 0:  # which scikit-learn's checks refuse
        return np.empty((0, k), np.int32), np.empty((0, k), np.float32)
    estimator.n_jobs = n_jobs
    return estimator._topk_ids(X, k, None)  # type: ignore[no-any-return]


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
