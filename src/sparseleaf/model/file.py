"""The model file: safetensors with a JSON header, memory-mapped. ``docs/file-format.md`` is its specification.

A file may come from a stranger. Its frame is checked by the safetensors library, every tensor's type and shape
against the schema below, and every index, offset and number before a kernel walks it. All sizes are tied to
tensors that are really in the file, so a header cannot make us allocate what is not there.
"""

from __future__ import annotations

import itertools
import json
import math
import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import numpy as np
from safetensors import SafetensorError, safe_open

from sparseleaf._files import as_path, local_copy
from sparseleaf._steps import narrow
from sparseleaf._tensors import write_tensors
from sparseleaf.data.categories import MAX_CATEGORIES
from sparseleaf.data.targets import ONE_CLASS_A_ROW, Kind
from sparseleaf.links import LINKS
from sparseleaf.model.blend import BlendModel, blend_models
from sparseleaf.model.codec import UNSIGNED, decode_trees, encode_trees
from sparseleaf.model.empty import EmptyRows, decode_empty, encode_empty
from sparseleaf.model.model import Model
from sparseleaf.model.rerank import decode_rerank, encode_rerank
from sparseleaf.model.routed import RoutedModel, decode_routed, encode_routed
from sparseleaf.projection import Projection

if TYPE_CHECKING:
    from pathlib import Path

    from sparseleaf._arrays import Array
    from sparseleaf.model.codec import Take
    from sparseleaf.model.model import Trees
    from sparseleaf.rerank import Rerank

Decoded = TypeVar("Decoded")

FORMAT_VERSION = 4
METADATA_KEY = "sparseleaf"

MAX_HEADER = 2**24
"""Bytes of the layout and all metadata: parsed, they take some ten times as much memory."""

MAP_FROM = 2**22
"""Bytes from which on a file is mapped: processes then share its pages. A smaller one is read, and may be replaced in
any way."""

BULK = {
    "leaf_labels",
    "leaf_values",
    "router_steps",
    "router_weights",
    "steps",
    "values",
    "label_steps",
    "components",
}
"""Tensors that are used where they lie in the mapped file, by the last part of their names. Kernels check each index
that they take from them, each time."""

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

NAME_KINDS = {"i": "int", "u": "int", "f": "float", "b": "bool"}
"""How label names are told apart, by the kind of their numpy type; all others are text."""

READ_NAME: dict[str, Callable[[str], Any]] = {"int": int, "float": float, "bool": "True".__eq__}

NAMELESS_KINDS = ("multilabel-sparse", "multilabel-indicator", "regression", "regression-column")
"""Kinds of targets whose labels need no names."""

HEADER_TYPES: dict[str, type] = {
    "format_version": int,
    "method": str,
    "n_features": int,
    "n_labels": int,
    "n_train_rows": int,
    "target_kind": str,
    "label_name_kind": str,
    "keep_raw": int,
    "parameters": dict,
    "history": dict,
}


class ModelFileError(ValueError):
    """The file is not a model that this version can read."""


def save_model(model: Model, path: str | os.PathLike[str], *, compact: bool = True) -> None:
    """Write the model; the old file, if any, stays until the new one is complete.

    Nothing is rounded. ``compact`` writes numbers in the types that the model holds them in; otherwise as float32.
    """
    header = _header_of(model)
    if isinstance(model, BlendModel):
        tensors: dict[str, Array] = {"blend.weights": model.weights}
        for number, member in enumerate(model.members):
            tensors |= _prefixed(f"blend.{number}", _tensors_of(member, compact))
        header["members"] = [_header_of(member) for member in model.members]
    else:
        tensors = _tensors_of(model, compact)
    if model.label_names is not None:
        encoded = [str(name).encode() for name in model.label_names.tolist()]
        tensors["label_names.bytes"] = np.frombuffer(b"".join(encoded), np.uint8)
        tensors["label_names.offsets"] = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    text = json.dumps(header, sort_keys=True)
    if len(json.dumps(text)) > MAX_HEADER - 2**16:  # some room for the layout
        raise ValueError(
            f"the names of features and categories and the parameters take {len(text):,} bytes; a model file holds"
            f" fewer than {MAX_HEADER:,}."
        )
    write_tensors(as_path(path), tensors, {METADATA_KEY: text})


def _header_of(model: Model) -> dict[str, Any]:
    names = model.label_names
    return {
        "format_version": FORMAT_VERSION,
        "method": model.method,
        "n_features": model.n_features,
        "n_labels": model.n_labels,
        "n_train_rows": model.n_train_rows,
        "target_kind": model.target_kind,
        "label_name_kind": "none" if names is None else NAME_KINDS.get(names.dtype.kind, "str"),
        "keep_raw": int(model.projection is not None and model.projection.keep_raw),
        "parameters": model.parameters,
        "history": model.history,
        "feature_names": model.feature_names,
        "categories": {str(feature): names for feature, names in model.categories.items()},
        "threshold": model.threshold,
        "link": model.link,
    }


def _tensors_of(model: Model, compact: bool) -> dict[str, Array]:
    """All but the label names."""
    if isinstance(model, RoutedModel):
        tensors = _prefixed("routed", encode_routed(model.trees, compact))
    else:
        tensors = _prefixed("trees", encode_trees(model.trees, compact))
    if model.rerank is not None:
        tensors |= _prefixed("rerank", encode_rerank(model.rerank, compact))
    tensors["label_counts"] = narrow(model.label_counts)
    if model.projection is not None:
        tensors["projection.components"] = model.projection.components
    if model.base_score is not None:
        tensors["base_score"] = model.base_score
    if model.empty is not None:
        tensors |= _prefixed("empty", encode_empty(model.empty))
    return tensors


def _prefixed(part: str, tensors: dict[str, Array]) -> dict[str, Array]:
    return {f"{part}.{name}": tensor for name, tensor in tensors.items()}


def load_model(path: str | os.PathLike[str]) -> Model:
    """Map a model file and check all of it; a remote one is fetched first."""
    place = as_path(path)
    if not place.is_file():
        raise FileNotFoundError(f"no model file at {os.fspath(path)!r}")
    try:
        with local_copy(place) as here:
            return _read(here)
    except ModelFileError as error:
        raise ModelFileError(f"{os.fspath(path)!r} is not a sound model file: {error}") from None


def _read(path: Path) -> Model:
    tensors, metadata = _map_tensors(path)
    header = _header(metadata)
    names = _label_names(tensors, header["label_name_kind"])
    if names is None and header["target_kind"] not in NAMELESS_KINDS:
        raise ModelFileError(f"target_kind {header['target_kind']!r} needs label names; found none")
    blended = header["method"] == "blend"
    model = _blend_of(tensors, header, names) if blended else _model_of(tensors, header, names)
    if tensors:
        raise ModelFileError(f"unknown tensor {min(tensors)!r}")
    if names is not None and len(names) != header["n_labels"]:
        raise ModelFileError(
            f"label_names has {len(names)} entries; wanted one for each of {header['n_labels']} labels"
        )
    return model


def _blend_of(
    tensors: dict[str, tuple[str, Array]], header: dict[str, Any], names: Array | None
) -> BlendModel:
    """A blend, whose members have the header's features and labels."""
    weights = _take(tensors, "blend.weights", ("F32",), 1)
    found = header.get("members")
    if not isinstance(found, list) or not found or len(found) != len(weights):
        raise ModelFileError(f"metadata 'members' is not a list of {len(weights)} headers, one a weight")
    members = []
    for number, one in enumerate(found):
        try:
            if not isinstance(one, dict):
                raise ModelFileError("its header is not a JSON object")
            _check_header(one)
            for key in ("n_features", "n_labels", "target_kind", "label_name_kind"):
                if one[key] != header[key]:
                    raise ModelFileError(
                        f"{key} is {_short(one[key])}; wanted {_short(header[key])}, the blend's"
                    )
            start = f"blend.{number}."
            own = {n.removeprefix(start): tensors.pop(n) for n in sorted(tensors) if n.startswith(start)}
            members.append(_model_of(own, one, names))
            if own:
                raise ModelFileError(f"unknown tensor {min(own)!r}")
        except ModelFileError as error:
            raise ModelFileError(f"member {number + 1}: {error}") from None
    try:
        blend = blend_models(members, weights, header["parameters"], _feature_names(header))
        return replace(blend, threshold=_threshold(header))
    except ValueError as error:
        raise ModelFileError(f"blend: {error}") from None


def _model_of(tensors: dict[str, tuple[str, Array]], header: dict[str, Any], names: Array | None) -> Model:
    """A model from its tensors, each of which is taken off the list."""
    counts = _take(tensors, "label_counts", (*UNSIGNED, "U64"), 1)
    routed = any(name.startswith("routed.") for name in tensors)

    def boosted(take: Take) -> Trees:
        return decode_trees(take, lambda name: f"trees.{name}" in tensors, header["n_labels"])

    trees: Any = _decoded("routed", tensors, decode_routed) if routed else _decoded("trees", tensors, boosted)
    rerank = _rerank(tensors, header)
    projection = None
    if "projection.components" in tensors:
        components = _take(tensors, "projection.components", ("F16",), 2)
        if components.shape[0] != header["n_features"] or components.shape[1] < 1:
            raise ModelFileError(
                f"projection.components has shape {components.shape}; wanted ({header['n_features']}, at least 1)"
            )
        _require_finite("projection.components", components)
        projection = Projection(components, bool(header["keep_raw"]))
    base_score = _take(tensors, "base_score", ("F32",), 1) if "base_score" in tensors else None
    for name, found in (
        ("label_counts", len(counts)),
        ("base_score", None if base_score is None else len(base_score)),
    ):
        if found is not None and found != header["n_labels"]:
            raise ModelFileError(
                f"{name} has {found} entries; wanted one for each of {header['n_labels']} labels"
            )
    if base_score is not None:
        _require_finite("base_score", base_score)
    if not routed:
        _require_finite("trees.feature_gain", trees.feature_gain)
        if base_score is None and not len(trees.leaf_labels) and len(trees.leaf_values):
            raise ModelFileError("base_score is missing: leaves with a value for every label need it")
    model = (RoutedModel if routed else Model)(
        header["method"],
        header["n_features"],
        header["n_labels"],
        trees,
        projection,
        names,
        header["target_kind"],
        counts,
        header["n_train_rows"],
        header["parameters"],
        header["history"],
        base_score,
        _feature_names(header),
        _categories(header),
        rerank,
        _empty(tensors, header),
        _threshold(header),
        _link(header, base_score is not None),
    )
    try:
        _ = model.predictor
    except ValueError as error:
        raise ModelFileError(f"{'routed' if routed else 'trees'}: {error}") from None
    return model


def _decoded(part: str, tensors: dict[str, tuple[str, Array]], decode: Callable[[Take], Decoded]) -> Decoded:
    """What ``decode`` makes of the tensors of a part; each that it takes is taken off the list."""
    try:
        return decode(lambda name, dtypes, ndim: _take(tensors, f"{part}.{name}", dtypes, ndim))
    except ModelFileError:
        raise
    except ValueError as error:
        raise ModelFileError(f"{part}: {error}") from None


def _rerank(tensors: dict[str, tuple[str, Array]], header: dict[str, Any]) -> Rerank | None:
    if not any(name.startswith("rerank.") for name in tensors):
        return None
    n_features, n_labels = header["n_features"], header["n_labels"]

    def has(name: str) -> bool:
        return f"rerank.{name}" in tensors

    return _decoded("rerank", tensors, lambda take: decode_rerank(take, has, n_features, n_labels))


def _empty(tensors: dict[str, tuple[str, Array]], header: dict[str, Any]) -> EmptyRows | None:
    if "empty.known" not in tensors:
        return None
    n_features, n_labels = header["n_features"], header["n_labels"]
    return _decoded("empty", tensors, lambda take: decode_empty(take, n_features, n_labels))


def _threshold(header: dict[str, Any]) -> float | None:
    value = header.get("threshold")
    if value is not None and not (isinstance(value, float) and math.isfinite(value)):
        raise ModelFileError(f"metadata 'threshold' is {_short(value)}; wanted a finite number, or null")
    return value


def _link(header: dict[str, Any], dense: bool) -> str:
    """The link; files that do not have it had it in the loss's name and the kind of targets."""
    if "link" in header:
        if not isinstance(header["link"], str) or header["link"] not in LINKS:
            raise ModelFileError(f"metadata 'link' is {_short(header['link'])}; wanted one of {tuple(LINKS)}")
        return str(header["link"])
    loss, kind = header["parameters"].get("loss"), header["target_kind"]
    if not dense:
        return "identity"
    if kind.startswith("regression"):
        return "log" if loss == "poisson" else "identity"
    if kind not in ONE_CLASS_A_ROW:
        return "logistic"
    return "one-vs-rest" if loss == "logistic" else "softmax"


def _map_tensors(path: Path) -> tuple[dict[str, tuple[str, Array]], dict[str, str]]:
    """Every tensor as (dtype name, read-only array), and the metadata.

    The bulk of a large file stays where it is, mapped. All else is copied: a file that is written to while it is in use
    can then change numbers, but no walk.
    """
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
        if length > MAX_HEADER:
            raise ValueError(f"a header of {length:,} bytes; wanted at most {MAX_HEADER:,}")
        with safe_open(path, framework="np") as file:  # checks the frame: header, offsets, sizes
            metadata = file.metadata() or {}
    except (SafetensorError, OSError, ValueError) as error:
        raise ModelFileError(f"it is truncated, or no model file at all ({error})") from None
    shared = path.stat().st_size >= MAP_FROM
    raw = np.memmap(path, np.uint8, mode="r") if shared else np.fromfile(path, np.uint8)
    try:
        return _views(raw, length, shared), metadata
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError("it was written to while it was read") from None


def _views(raw: Array, length: int, shared: bool) -> dict[str, tuple[str, Array]]:
    """The tensors of a file whose frame is sound; where it is shared, only the bulk."""
    layout = json.loads(raw[8 : 8 + length].tobytes())
    tensors = {}
    for name, entry in layout.items():
        if name == "__metadata__":
            continue
        if entry["dtype"] not in DTYPES:
            raise ModelFileError(f"tensor {name!r} has type {entry['dtype']}, which no part of a model has")
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        tensor = np.asarray(raw[begin:end]).view(DTYPES[entry["dtype"]]).reshape(entry["shape"])
        stays = tensor.flags.aligned and (not shared or name.rpartition(".")[2] in BULK)
        tensor = tensor if stays else tensor.copy()
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
    _check_header(header)
    return header


def _check_header(header: dict[str, Any]) -> None:
    version = header.get("format_version")
    if isinstance(version, int) and not isinstance(version, bool) and version > FORMAT_VERSION:
        raise ModelFileError(f"format version {version} is newer than {FORMAT_VERSION}; update sparseleaf")
    for key, kind in HEADER_TYPES.items():
        value = header.get(key)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ModelFileError(f"metadata {key!r} is {_short(value)}; wanted {kind.__name__}")
        if kind is int and not 0 <= header[key] < 2**63:
            raise ModelFileError(f"metadata {key!r} is {_short(value)}; wanted 0 or more, in 63 bits")
    if header["format_version"] < 1:
        raise ModelFileError(f"format version {version} does not exist; wanted 1 to {FORMAT_VERSION}")
    if header["target_kind"] not in get_args(Kind):
        raise ModelFileError(
            f"target_kind is {_short(header['target_kind'])}; wanted one of {get_args(Kind)}"
        )
    for name, values in header["history"].items():
        if not isinstance(values, list) or not all(isinstance(value, int | float) for value in values):
            raise ModelFileError(f"metadata 'history' of {_short(name)} is not a list of numbers")


def _take(tensors: dict[str, tuple[str, Array]], name: str, dtypes: tuple[str, ...], ndim: int) -> Array:
    if name not in tensors:
        raise ModelFileError(f"tensor {name!r} is missing")
    dtype, tensor = tensors.pop(name)
    if dtype not in dtypes or tensor.ndim != ndim:
        raise ModelFileError(
            f"tensor {name!r} is {dtype} with {tensor.ndim} dimensions; wanted {' or '.join(dtypes)} with {ndim}"
        )
    return tensor


def _label_names(tensors: dict[str, tuple[str, Array]], kind: str) -> Array | None:
    if kind == "none":
        return None
    if kind not in ("str", *NAME_KINDS.values()):
        raise ModelFileError(
            f"label_name_kind is {_short(kind)}; wanted 'none', 'str', 'int', 'float' or 'bool'"
        )
    text = _take(tensors, "label_names.bytes", ("U8",), 1)
    offsets = _take(tensors, "label_names.offsets", ("I64",), 1)
    if len(offsets) < 1 or offsets[0] != 0 or offsets[-1] != len(text) or np.any(np.diff(offsets) < 0):
        raise ModelFileError("label_names.offsets must rise from 0 to the size of label_names.bytes")
    whole, ends = text.tobytes(), offsets.tolist()
    try:
        names: list[Any] = [whole[a:b].decode() for a, b in itertools.pairwise(ends)]
        if kind in READ_NAME:
            names = [READ_NAME[kind](name) for name in names]
        if len(set(names)) < len(names):  # as numbers: "1" and "01" are one
            raise ValueError("one of them is there twice")
        if kind == "float" and not all(map(math.isfinite, names)):
            raise ValueError("one of them is not finite")
        if kind == "int":
            return np.array(names, np.int64 if max(names, default=0) < 2**63 else np.uint64)
        return np.array(names, {"float": np.float64, "bool": np.bool_}.get(kind, object))
    except (ValueError, OverflowError) as error:
        raise ModelFileError(f"label names cannot be read ({error})") from None


def _feature_names(header: dict[str, Any]) -> list[str] | None:
    names = header.get("feature_names")
    if names is None:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ModelFileError(f"metadata 'feature_names' is {_short(names)}; wanted a list of names")
    if len(names) != header["n_features"]:
        raise ModelFileError(f"{len(names)} feature names; wanted one for each of {header['n_features']}")
    return names


def _categories(header: dict[str, Any]) -> dict[int, list[Any]]:
    found = header.get("categories", {})
    if not isinstance(found, dict):
        raise ModelFileError(f"metadata 'categories' is {_short(found)}; wanted an object")
    categories = {}
    for feature, names in found.items():
        if not feature.isdecimal() or len(feature) > 9 or int(feature) >= header["n_features"]:
            raise ModelFileError(f"metadata 'categories' of {_short(feature)}: no such feature")
        if not isinstance(names, list) or not all(isinstance(name, str | int | float) for name in names):
            raise ModelFileError(f"metadata 'categories' of {_short(feature)} is not a list of names")
        if len(names) > MAX_CATEGORIES or len(set(names)) < len(names):
            raise ModelFileError(f"categories of feature {feature}: too many, or one is there twice")
        categories[int(feature)] = names
    return categories


def _require_finite(name: str, values: Array) -> None:
    if not np.isfinite(values).all():
        raise ModelFileError(f"{name} holds a number that is not finite")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
