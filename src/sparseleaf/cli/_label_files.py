"""Files with a name or URI per label, and the output of predictions with them."""

from __future__ import annotations

import codecs
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparseleaf._files import AnyPath, as_path, read_bytes
from sparseleaf.cli._common import PathOrURL

if TYPE_CHECKING:
    from collections.abc import Iterator

LabelURIs = Annotated[
    PathOrURL | None,
    typer.Option(
        "--label-uris",
        metavar="FILE",
        help="URIs of the labels, stored in the model: lines of a label, a tab and a URI, a JSON object, or a"
        " vocabulary of Annif (lines of <URI>, a tab and a label).",
        parser=as_path,
    ),
]


@dataclass(frozen=True)
class Written:
    """What is written of labels besides themselves: names and URIs, where known."""

    names: dict[str, str] | None = None
    uris: dict[str, str] | None = None

    def columns(self, labels: list[Any]) -> dict[str, list[str | None]]:
        """Lists for a JSON object."""
        by_column = {"names": self.names, "uris": self.uris}
        return {
            column: [texts.get(str(label)) for label in labels]
            for column, texts in by_column.items()
            if texts is not None
        }

    def text(self, label: Any) -> str:
        """A label in a line of text."""
        shown = str(label) if self.uris is None else self.uris.get(str(label), str(label))
        name = None if self.names is None else self.names.get(str(label))
        return shown if name is None else f"{name} ({shown})"


def read_names(path: AnyPath, option: str = "--label-names") -> dict[str, str]:
    """Names by label: of a JSON object, or of lines with a label and a name separated by a tab."""
    text = read_bytes(path).removeprefix(codecs.BOM_UTF8)
    try:
        if text.lstrip().startswith(b"{"):
            return {label: str(name) for label, name in json.loads(text).items()}
        return dict(_pairs(text.decode()))
    except ValueError as error:  # includes invalid JSON and UTF-8
        raise ValueError(f"{option} {path}: {error}.") from None


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(text.split("\n"), start=1):
        label, tab, rest = line.rstrip("\r").partition("\t")
        if line.strip() and not tab:
            raise ValueError(
                f"line {number}: expected a label and a name separated by a tab, got {line!r:.60}"
            )
        yield label, rest.partition("\t")[0]


def read_uris(path: AnyPath, option: str = "--label-uris") -> dict[str, str]:
    """URIs by label, validated; see the help of the option."""
    from sparseleaf.model.uris import check_uri

    uris = {}
    for label, uri in read_names(path, option).items():
        if label.startswith("<") and label.endswith(">"):  # Annif has the URI first
            label, uri = uri, label
        if not label and not uri:  # an empty line
            continue
        uri = uri.removeprefix("<").removesuffix(">")
        try:
            check_uri(uri)
        except ValueError as error:
            raise ValueError(f"{option} {path}: label {label!r:.60}: {error}") from None
        uris[label] = uri
    if not uris:
        raise ValueError(f"{option} {path}: the file has no labels.")
    return uris


def uris_of(estimator: Any) -> dict[str, str]:
    """URIs in the model by label; ValueError if it has none."""
    uris = getattr(estimator, "label_uris_", None)
    if uris is None:
        raise ValueError("--uris requires a model with URIs: see sparseleaf label-uris.")
    names = estimator.model_.label_names
    labels = range(len(uris)) if names is None else names.tolist()
    return {str(label): uri for label, uri in zip(labels, uris.tolist(), strict=True) if uri is not None}
