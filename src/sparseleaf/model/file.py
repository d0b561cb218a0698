"""The model file: safetensors with a JSON header, memory-mapped. ``docs/file-format.md`` is its specification.

Files are untrusted. The safetensors library validates the container; types and shapes of tensors are validated against
the schema below, and every index, offset and value before a kernel reads it. All sizes derive from tensors in the file,
so that a header cannot cause large allocations.
"""

from __future__ import annotations

import itertools
import json
import math
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError, safe_open

from sparseleaf._files import as_path, local_copy
from sparseleaf._tensors import write_tensors
from sparseleaf.model import header as headers
from sparseleaf.model.legacy import translate
from sparseleaf.model.model import Model
from sparseleaf.model.source import ModelFileError, StageSource

if TYPE_CHECKING:
    from pathlib import Path

    from sparseleaf._arrays import Array
    from sparseleaf.model.source import Tensors

FORMAT_VERSION = 5
METADATA_KEY = "sparseleaf"

MAX_HEADER = 2**24
"""Maximum size of the JSON header in bytes: parsed, it takes about ten times as much memory."""

MAP_FROM = 2**22
"""File size in bytes from which a file is memory-mapped, so that processes share its pages. Smaller files are read and
may then be overwritten."""

DTYPES: dict[str, np.dtype[Any]] = {
    "U8": np.dtype("<u1"),
    "U16": np.dtype("<u2"),
    "U32": np.dtype("<u4"),
    "U64": np.dtype("<u8"),
    "I8": np.dtype("<i1"),
    "I16": np.dtype("<i2"),
    "I64": np.dtype("<i8"),
    "F16": np.dtype("<f2"),
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
}

READ_NAME: dict[str, Callable[[str], Any]] = {"int": int, "float": float, "bool": "True".__eq__}

NAMELESS_KINDS = ("multilabel-sparse", "multilabel-indicator", "regression", "regression-column")
"""Kinds of targets whose labels may have no names."""


def save_model(model: Model, path: str | os.PathLike[str], *, compact: bool = True) -> None:
    """Write the model; an existing file is replaced once the new one is complete.

    Nothing is rounded. ``compact`` writes values in the model's own types, otherwise as float32.
    """
    tensors = model.tensors(compact)
    if model.label_names is not None:
        encoded = [str(name).encode() for name in model.label_names.tolist()]
        tensors["label_names.bytes"] = np.frombuffer(b"".join(encoded), np.uint8)
        tensors["label_names.offsets"] = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    text = json.dumps({"format_version": FORMAT_VERSION} | model.header(), sort_keys=True)
    if len(json.dumps(text)) > MAX_HEADER - 2**16:  # reserve for the layout
        raise ValueError(
            f"The names of features and categories and the parameters must take less than {MAX_HEADER:,} bytes."
            f" Got {len(text):,} instead."
        )
    write_tensors(as_path(path), tensors, {METADATA_KEY: text})


def load_model(path: str | os.PathLike[str]) -> Model:
    """Memory-map and validate a model file; remote files are downloaded first."""
    place = as_path(path)
    if not place.is_file():
        raise FileNotFoundError(f"no model file at {os.fspath(path)!r}")
    try:
        with local_copy(place) as here:
            return _read(here)
    except ModelFileError as error:
        raise ModelFileError(f"{os.fspath(path)!r} is not a valid model file: {error}") from None


def _read(path: Path) -> Model:
    tensors, metadata = _map_tensors(path)
    header = _header(metadata)
    if header["format_version"] < FORMAT_VERSION:
        header = translate(header, tensors)
    headers.check(header)
    names = _label_names(tensors, header["label_name_kind"])
    if names is None and header["target_kind"] not in NAMELESS_KINDS:
        raise ModelFileError(f"target_kind {header['target_kind']!r} requires label names")
    model = Model.from_tensors(header, tensors, "", names)
    if tensors:
        raise ModelFileError(f"unknown tensor {min(tensors)!r}")
    if names is not None and len(names) != model.n_labels:
        raise ModelFileError(
            f"label_names must have one entry for each of {model.n_labels} labels, has {len(names)}"
        )
    return model


def _map_tensors(path: Path) -> tuple[Tensors, dict[str, str]]:
    """Every tensor as (dtype name, read-only array), and the metadata; large files are memory-mapped."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
        if length > MAX_HEADER:
            raise ValueError(f"the header has {length:,} bytes, at most {MAX_HEADER:,} are allowed")
        with safe_open(path, framework="np") as file:  # validates header, offsets and sizes
            metadata = file.metadata() or {}
    except (SafetensorError, OSError, ValueError) as error:
        raise ModelFileError(f"it is truncated or not a model file ({error})") from None
    mapped = path.stat().st_size >= MAP_FROM
    raw = np.memmap(path, np.uint8, mode="r") if mapped else np.fromfile(path, np.uint8)
    try:
        return _views(raw, length), metadata
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError("it was modified while it was read") from None


def _views(raw: Array, length: int) -> Tensors:
    """Views of the tensors of a valid safetensors file."""
    layout = json.loads(raw[8 : 8 + length].tobytes())
    tensors = {}
    for name, entry in layout.items():
        if name == "__metadata__":
            continue
        if entry["dtype"] not in DTYPES:
            raise ModelFileError(f"tensor {name!r} has unsupported type {entry['dtype']}")
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        tensor = np.asarray(raw[begin:end]).view(DTYPES[entry["dtype"]]).reshape(entry["shape"])
        tensor = tensor if tensor.flags.aligned else tensor.copy()
        tensor.flags.writeable = False
        tensors[name] = (entry["dtype"], tensor)
    return tensors


def _header(metadata: dict[str, str]) -> dict[str, Any]:
    try:
        header = json.loads(metadata[METADATA_KEY])
    except KeyError:
        raise ModelFileError(f"its metadata has no {METADATA_KEY!r}") from None
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"its metadata is not JSON ({error})") from None
    if not isinstance(header, dict):
        raise ModelFileError("its metadata is not a JSON object")
    headers.require_shallow(header)
    version = header.get("format_version")
    if isinstance(version, int) and not isinstance(version, bool) and version > FORMAT_VERSION:
        raise ModelFileError(f"format version {version} is newer than {FORMAT_VERSION}; update sparseleaf")
    headers.require(header, "format_version", int)
    if header["format_version"] < 1:
        raise ModelFileError(f"format version must be 1 to {FORMAT_VERSION}, is {version}")
    return header


def _label_names(tensors: Tensors, kind: str) -> Array | None:
    if kind == "none":
        return None
    if kind not in ("str", *headers.NAME_KINDS.values()):
        raise ModelFileError(
            f"label_name_kind must be 'none', 'str', 'int', 'float' or 'bool', is {headers.short(kind)}"
        )
    source = StageSource(tensors, "label_names.", 0, 0, 0)
    text, offsets = source.take("bytes", ("U8",), 1), source.take("offsets", ("I64",), 1)
    if len(offsets) < 1 or offsets[0] != 0 or offsets[-1] != len(text) or np.any(np.diff(offsets) < 0):
        raise ModelFileError("label_names.offsets must increase from 0 to the size of label_names.bytes")
    whole, ends = text.tobytes(), offsets.tolist()
    try:
        names: list[Any] = [whole[a:b].decode() for a, b in itertools.pairwise(ends)]
        if kind in READ_NAME:
            names = [READ_NAME[kind](name) for name in names]
        if len(set(names)) < len(names):  # as numbers: "1" and "01" are equal
            raise ValueError("they are not distinct")
        if kind == "float" and not all(map(math.isfinite, names)):
            raise ValueError("they are not finite")
        if kind == "int":
            return np.array(names, np.int64 if max(names, default=0) < 2**63 else np.uint64)
        return np.array(names, {"float": np.float64, "bool": np.bool_}.get(kind, object))
    except (ValueError, OverflowError) as error:
        raise ModelFileError(f"label names are invalid ({error})") from None
