"""Side information of labels: their names, and which labels are broader than others."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sparseleaf._files import AnyPath, as_path
from sparseleaf.data.pairs import (
    Pairs,
    from_object,
    grouped,
    parse_json,
    read_text,
    strings,
    suffix_of,
    two_columns,
)
from sparseleaf.data.skos import KEYS, SUFFIXES, read_concepts
from sparseleaf.data.targets import ONE_CLASS_PER_ROW, Targets, relabelled

if TYPE_CHECKING:
    from sparseleaf.data.dictionary import Dictionary

Label = str | int


@dataclass(frozen=True, init=False)
class LabelInfo:
    """Names of labels and their hierarchy, for ``fit``: labels whose names occur in a text become candidates.

    Labels that are not in the training set can be suggested, too. Names may be in several languages.

    Parameters
    ----------
    names : mapping of label to str or list of str, optional
        Names of the labels, including alternative ones.
    broader : mapping of label to label or list of labels, optional
        Broader labels of the labels.

    Attributes
    ----------
    names : dict of label to tuple of str
        Names.
    broader : dict of label to tuple of labels
        Broader labels.

    Examples
    --------
    >>> from sparseleaf.data import LabelInfo
    >>> info = LabelInfo({"s1": ["timber frames", "Fachwerk"], "s2": "buildings"}, broader={"s1": "s2"})
    >>> info.names["s1"], info.broader["s1"]
    (('timber frames', 'Fachwerk'), ('s2',))
    """

    names: dict[Label, tuple[str, ...]]
    broader: dict[Label, tuple[Label, ...]]

    def __init__(
        self, names: Mapping[Any, Any] | None = None, broader: Mapping[Any, Any] | None = None
    ) -> None:
        object.__setattr__(self, "names", _checked("names", names, str, "str or a list of str"))
        object.__setattr__(
            self,
            "broader",
            _checked("broader", broader, (str, int, np.integer), "a label or a list of labels"),
        )

    @property
    def labels(self) -> set[Label]:
        """All labels that have a name or a broader label."""
        return {*self.names, *self.broader}

    @classmethod
    def read(
        cls, path: str | os.PathLike[str], broader: str | os.PathLike[str] | None = None, *, key: str = "uri"
    ) -> LabelInfo:
        """Read names and hierarchy from files; gzipped ones are detected by content.

        Parameters
        ----------
        path : path-like
            By its suffix:

            - ``.tsv``, ``.txt`` or ``.csv``: two columns, a label and a name; a label may have several lines. A first
              line that starts with "label" is a header.
            - ``.json``: an object of labels and names, or lists of names.
            - ``.jsonl``: objects with the fields ``label``, ``name`` and, optionally, ``broader``; the latter two may
              be lists.
            - ``.nt``, ``.ttl``, ``.rdf`` or ``.xml``: SKOS, with ``prefLabel``, ``altLabel``,
              ``hiddenLabel``, ``broader`` and ``narrower``. Except for ``.nt``, this requires the extra "skos".
        broader : path-like, optional
            Two columns as above: a label and a broader one.
        key : {"uri", "notation", "last"}, default="uri"
            What a SKOS concept is called in the training data: its URI, its ``notation``, or the last part of its URI,
            after / or #.

        Returns
        -------
        info : LabelInfo
            Names and hierarchy.
        """
        if key not in KEYS:
            raise ValueError(
                f"The 'key' parameter must be one of {{{', '.join(map(repr, KEYS))}}}. Got {key!r} instead."
            )
        file = as_path(path)
        names, related = _read(file, key)
        if broader is not None:
            related = [*related, *two_columns(as_path(broader), read_text(as_path(broader)))]
        if not names and not related:
            raise ValueError(f"{file}: the file has no label names.")
        return cls(grouped(names), grouped(related))

    def translated(self, dictionary: Dictionary) -> LabelInfo:
        """With the translations of the names as further names.

        Parameters
        ----------
        dictionary : Dictionary

        Returns
        -------
        info : LabelInfo
            Names, their translations, and the same hierarchy.
        """
        names = {
            label: [*several, *(text for name in several for text in dictionary.translate(name))]
            for label, several in self.names.items()
        }
        return LabelInfo(names, self.broader)

    def of_type(self, kind: type) -> LabelInfo:
        """With integers in place of labels that are written as integers, if ``kind`` is int."""
        if kind is not int or all(isinstance(label, int) for label in self.labels):
            return self
        try:
            return LabelInfo(
                {int(label): names for label, names in self.names.items()},
                {int(label): [int(one) for one in several] for label, several in self.broader.items()},
            )
        except ValueError as error:
            raise ValueError(f"label_info must have labels of type int, as y ({error}).") from None


def with_labels_of(info: LabelInfo, targets: Targets) -> tuple[Targets, LabelInfo]:
    """Targets with the labels of side information, those of the training rows included; and the information of these.

    Lists of label names get additional labels. The columns of a matrix are all labels.
    """
    if targets.kind in ONE_CLASS_PER_ROW:
        raise ValueError(
            "The 'label_info' parameter must be None for targets with one class per row; use lists of labels."
        )
    known = list(range(targets.n_labels)) if targets.names is None else targets.names.tolist()
    info = info.of_type(int if known and isinstance(known[0], int) else str)
    if not info.labels.intersection(known):
        example = f", such as {known[0]!r}" if known else ""
        raise ValueError(
            f"The 'label_info' parameter must have labels of y{example}. Got"
            f" {next(iter(info.labels), None)!r:.60} and other labels instead."
        )
    if targets.kind != "label-lists" or targets.names is None:
        return targets, info
    if len({isinstance(label, str) for label in {*info.labels, *known}}) > 1:
        raise ValueError("The 'label_info' parameter must have labels of one type, that of y.")
    names = np.empty(len(info.labels.union(known)), targets.names.dtype)
    names[:] = sorted(info.labels.union(known))
    return relabelled(targets, replace(targets.form(), names=names)), info


def _checked(argument: str, values: Any, kind: Any, text: str) -> dict[Label, tuple[Any, ...]]:
    """Tuples by label; ValueError in scikit-learn's form."""
    if values is None:
        return {}
    if not isinstance(values, Mapping):
        raise ValueError(
            f"The {argument!r} parameter must be a mapping by label. Got {values!r:.60} instead."
        )
    checked = {}
    for label, given in values.items():
        if not isinstance(label, str | int | np.integer) or isinstance(label, bool):
            raise ValueError(
                f"The {argument!r} parameter must have labels of type str or int. Got {label!r:.60} instead."
            )
        several = given if isinstance(given, list | tuple | set | frozenset | np.ndarray) else [given]
        for one in several:
            if not isinstance(one, kind) or isinstance(one, bool):
                raise ValueError(
                    f"The {argument!r} parameter must have {text} for {label!r:.60}. Got {given!r:.60} instead."
                )
        ordered = sorted(several) if isinstance(several, set | frozenset) else several
        plain = dict.fromkeys(one.item() if isinstance(one, np.generic) else one for one in ordered)
        checked[label.item() if isinstance(label, np.generic) else label] = tuple(plain)
    return checked


# --- files


def _read(path: AnyPath, key: str) -> tuple[Pairs, Pairs]:
    """Pairs of a label and a name, and of a label and a broader one."""
    suffix = suffix_of(path)
    if suffix in SUFFIXES:
        return read_concepts(path, suffix, key)
    if suffix == ".json":
        return list(from_object(path, read_text(path))), []
    if suffix in (".jsonl", ".ndjson"):
        return _from_records(path)
    return two_columns(path, read_text(path)), []


def _from_records(path: AnyPath) -> tuple[Pairs, Pairs]:
    names, broader = [], []
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        place = f"{path}: line {number}"
        record = parse_json(place, line)
        label = record.get("label") if isinstance(record, dict) else None
        if not isinstance(label, str | int) or isinstance(label, bool):
            raise ValueError(f"{place}: expected a JSON object with the fields label and name.")
        names += [(str(label), name) for name in strings(place, record.get("name"))]
        broader += [(str(label), one) for one in strings(place, record.get("broader"))]
    return names, broader
