"""Helpers of the commands: common options, reading data, checking output paths."""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias

import typer

from sparseleaf._files import AnyPath, as_path
from sparseleaf._printable import readable_bytes as readable_bytes
from sparseleaf._remote import RemotePath

if TYPE_CHECKING:
    from sparseleaf import TextVectorizer
    from sparseleaf.data import Columns, Rows, Source


AUTO = "auto"
"""Detect the format of data files by suffix."""

# Paths may be fsspec URLs: see sparseleaf._files.as_path. typer converts values annotated as Path to pathlib.Path,
# which removes a slash from URLs.
if TYPE_CHECKING:
    PathOrURL: TypeAlias = Path
else:
    PathOrURL = RemotePath

Model = Annotated[
    PathOrURL,
    typer.Argument(help="Model file written by [bold]train[/bold].", metavar="MODEL", parser=as_path),
]
Data = Annotated[
    list[PathOrURL],
    typer.Argument(
        help="Data files (JSON lines, CSV, Parquet, XC text or svmlight), which are concatenated; - is standard input.",
        metavar="DATA",
        parser=as_path,
    ),
]
DataFormat = Annotated[
    str,
    typer.Option(
        "--format",
        metavar="NAME",
        help="Format of the data files: xc, csv, parquet, jsonl, svmlight, lines (plain texts), or auto: by suffix,"
        " else xc, or lines for models of texts.",
    ),
]
Target = Annotated[
    list[str] | None,
    typer.Option(
        "--target",
        "-t",
        metavar="COLUMN",
        help="Target column of tables and records; several as a,b or by repeating the option.",
    ),
]
Labels = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Column with the labels of each row: a list, or a string such as 'red;green'.",
    ),
]
LabelSeparator = Annotated[
    str | None,
    typer.Option(metavar="TEXT", help="Separator of labels in a string, ; by default; '' for one label."),
]
TextField = Annotated[
    list[str] | None,
    typer.Option(
        "--text",
        metavar="FIELD",
        help="Text field of the data, for models that were trained on texts without field names.",
    ),
]
Qid = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Query column of tables and records, for ranking."),
]
Weight = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Sample weight column of tables and records."),
]
Jobs = Annotated[
    int | None, typer.Option("--jobs", "-j", min=0, help="Number of threads; 0 for all cores (default).")
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", "-s", metavar="NAME=VALUE", help="Set a parameter, such as n_trees=200; may be repeated."
    ),
]
TextWeights = Annotated[
    list[str] | None,
    typer.Option(
        "--text",
        metavar="FIELD[:WEIGHT]",
        help="Text field of the records; several as title:2,abstract or by repeating the option; without weights,"
        " shorter fields get higher ones. Parameters of the vectorizer: --set vectorizer__ngram_range=1,2.",
    ),
]
NewModel = Annotated[
    PathOrURL, typer.Option("--model", "-m", help="Model file to write.", metavar="FILE", parser=as_path)
]
Seed = Annotated[int | None, typer.Option(min=0, help="Random seed.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print a JSON object.")]


@dataclass(frozen=True)
class Reading:
    """Options for reading data files."""

    format: str
    target: list[str]
    n_jobs: int | None
    qid: str | None = None
    weight: str | None = None
    labels: str | None = None
    label_separator: str | None = None
    text: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        format_: str,
        target: list[str] | None,
        n_jobs: int | None,
        qid: str | None = None,
        weight: str | None = None,
        *,
        text: list[str] | None = None,
        keep: list[str] | None = None,
        **options: Any,
    ) -> Reading:
        """From command-line options; ``a,b`` are two columns, ``"a,b"`` in quotes is one."""
        return cls(
            format_,
            names_of(target),
            n_jobs,
            qid,
            weight,
            text=tuple(names_of(text)),
            keep=tuple(names_of(keep)),
            **options,
        )

    @property
    def target_columns(self) -> dict[str, Any]:
        """The columns with labels, targets and queries, as a model stores them."""
        named = {
            "labels": self.labels,
            "label_separator": self.label_separator,
            "target": self.target,
            "qid": self.qid,
        }
        return {key: value for key, value in named.items() if value is not None and value != []}

    def like_training(self, estimator: Any) -> Reading:
        """With the columns of the training files, if neither ``--labels`` nor ``--target`` names others."""
        model = vars(estimator).get("model_")
        if model is None or self.target or self.labels is not None:
            return self
        return replace(self, **model.target_columns | self.target_columns)

    def source(
        self, estimator: Any, paths: Sequence[AnyPath], columns: Columns | None, labelled: bool
    ) -> Source:
        """Data files for an estimator, with the text fields of its vectorizer."""
        from sparseleaf import data
        from sparseleaf.data.categories import MAX_CATEGORIES

        source = data.Source(
            paths,
            self.format,
            tuple(self.target),
            self.qid,
            self.weight,
            labels=self.labels,
            label_separator=self.label_separator,
            keep=self.keep,
            features=columns,
            labelled=labelled,
            max_categories=MAX_CATEGORIES
            if columns is None
            else None,  # new rows may have unknown categories
            n_jobs=self.n_jobs,
        )
        if estimator.vectorizer is None:
            if self.text:
                raise ValueError("--text requires a model that was trained on texts.")
            return source
        fields = text_columns(estimator.vectorizer)
        if fields.text and self.text:
            raise ValueError(f"--text must not be given: the model reads {', '.join(fields.text)}.")
        source = replace(
            source,
            text=fields.text or self.text,
            numeric=fields.numeric,
            categorical=fields.categorical,
        )
        if data.reader_of(source).has_texts:
            return source
        return replace(source, text=None, numeric=(), categorical=())  # features that were vectorised before


class TextColumns(NamedTuple):
    """Columns that a vectorizer reads; without names, it reads plain texts."""

    text: tuple[str, ...]
    numeric: tuple[str, ...]
    categorical: tuple[str, ...]


def text_columns(vectorizer: TextVectorizer) -> TextColumns:
    """Columns that a vectorizer, fitted or not, reads; ValueError if its parameters are not valid."""
    from sparseleaf.features.settings import TextSettings

    settings = TextSettings.of(vectorizer.get_params(deep=False))
    named = (settings.fields, settings.numeric, settings.categorical)
    return TextColumns(*(tuple(columns or ()) for columns in named))


def names_of(options: list[str] | None) -> list[str]:
    """Columns of options with several ones, separated by commas; names with commas are in quotes."""
    return [name for text in options or [] for name in next(csv.reader([text], skipinitialspace=True), [])]


def read_rows(
    estimator: Any,
    paths: Sequence[AnyPath],
    how: Reading,
    columns: Columns | None = None,
    *,
    labelled: bool = True,
) -> Rows:
    """Read data files for an estimator: see :func:`sparseleaf.data.read`.

    Raises ValueError for text columns if the estimator does not support categorical features. If ``labelled`` is False,
    target columns are optional. Without options, they are those of the training files.
    """
    from sparseleaf import data

    if how.format != AUTO and how.format not in data.READERS:
        raise ValueError(
            f"--format must be one of {{{', '.join(map(repr, data.READERS))}}}. Got {how.format!r} instead."
        )
    source = how.source(estimator, paths, columns, labelled)
    if labelled and data.reader_of(source).named_columns:
        how = how.like_training(estimator)
        source = how.source(estimator, paths, columns, labelled)
    if labelled and not how.target and how.labels is None and data.reader_of(source).named_columns:
        raise ValueError(
            f"{source.files}: CSV, Parquet and JSON lines files require --target COLUMN or --labels COLUMN."
        )
    rows = data.read(source)
    _refuse_text(estimator, rows.X, source.files)
    return rows if source.text is None else _texts(rows, estimator, source)


def _texts(rows: Rows, estimator: Any, source: Source) -> Rows:
    """Texts in the form of the vectorizer: plain lines are the field of the longest texts, a single field is plain."""
    from sparseleaf.model.stage import Role

    fields = text_columns(estimator.vectorizer).text
    plain = rows.n_rows > 0 and isinstance(rows.X[0], str)
    if fields and plain:
        field = estimator.model_.stage(Role.VECTORIZER).parameters.plain_field
        return replace(rows, X=[{field: text} for text in rows.X])
    if fields or plain or not source.text:
        return rows
    if len(source.text) > 1:
        raise ValueError("--text must be one field: the model was trained on texts without fields.")
    return replace(rows, X=[record[source.text[0]] for record in rows.X])


def columns_of(rows: Rows) -> Columns | None:
    """The features of rows, for further rows; None for texts."""
    from sparseleaf.data import Columns

    return Columns.of_rows(rows.X) if hasattr(rows.X, "shape") else None


def _refuse_text(estimator: Any, X: Any, files: str) -> None:
    from sklearn.utils import get_tags

    from sparseleaf.data.columns import text_sample

    if not hasattr(X, "columns") or get_tags(estimator).input_tags.categorical:
        return
    for name in X.columns[X.dtypes == "category"]:
        raise ValueError(
            f"{files}: the column {name!r} contains text, such as {text_sample(X[name].cat.categories)!r}, but"
            f" {estimator.method} requires numeric features. Name columns of texts with --text; --method gbdt-mo"
            " supports categories."
        )


def topk(estimator: Any, rows: Rows, k: int, *, proba: bool = False) -> tuple[Any, Any]:
    """The k best labels of each row and their scores, or probabilities; also for zero rows."""
    import numpy as np

    from sparseleaf.estimators.topk import topk

    if rows.n_rows == 0:  # scikit-learn's checks require a row
        return np.empty((0, k), np.int32), np.empty((0, k), np.float32)
    return topk(estimator, rows.X, k, probabilities=proba)


def decoded(estimator: Any, rows: Rows, decode: str) -> tuple[Any, Any]:
    """The labels of each row that a decoder returns, in the form of :func:`topk`."""
    import numpy as np

    from sparseleaf.estimators.topk import decoded

    if rows.n_rows == 0:
        return np.empty((0, 1), np.int32), np.empty((0, 1), np.float32)
    return decoded(estimator, rows.X, decode)


def check_output(path: AnyPath, option: str, inputs: Iterable[AnyPath] = ()) -> None:
    """Raise ValueError, before the work starts, if the output cannot be written."""
    inputs = list(inputs)
    if path in inputs:
        raise ValueError(f"{option} {path}: the file is an input, too, and would be overwritten.")
    if isinstance(path, RemotePath):
        path.check_writable()
        return
    folder = path.parent
    if not folder.is_dir():
        raise ValueError(f"{option} {path}: the directory {folder} does not exist.")
    if path.exists() and not path.is_file():
        raise ValueError(f"{option} {path}: the path exists and is not a file.")
    if any(path.exists() and one.exists() and path.samefile(one) for one in inputs if isinstance(one, Path)):
        raise ValueError(f"{option} {path}: the file is an input, too, and would be overwritten.")
    check_folder(folder, option)


def save_model(estimator: Any, path: AnyPath) -> None:
    """Save a trained model; if that fails, in another directory, so that the model is not lost."""
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
    except FileNotFoundError:  # no writable one
        return Path.cwd()


def check_folder(folder: Path, option: str) -> None:
    """Raise ValueError if files cannot be created in the directory."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ValueError(f"{option}: cannot write to the directory {folder} ({error.strerror}).") from None
