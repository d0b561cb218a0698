"""Model files of versions 1 to 4, translated to the header and the tensor names of version 5."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sparseleaf.data.targets import ONE_CLASS_PER_ROW
from sparseleaf.model.header import require, short
from sparseleaf.model.source import ModelFileError

if TYPE_CHECKING:
    from sparseleaf.model.source import Tensors

RERANKERS = ("centroid", "cosine", "log", "linear", "boosted", "bayes")
"""Kinds by the number in ``rerank.mix``."""

LEARNED = ("linear", "boosted")
"""Kinds whose tensors included those of the centroids."""


def translate(header: dict[str, Any], tensors: Tensors, prefix: str = "") -> dict[str, Any]:
    """The header in version 5; the tensors under ``prefix`` are renamed in place.

    Only what the translation needs is validated; the reader of version 5 validates the rest.
    """
    if header.get("method") == "blend":
        return _translate_blend(header, tensors)
    stages: list[dict[str, Any]] = []
    if f"{prefix}projection.components" in tensors:
        require(header, "keep_raw", int)
        keep_raw = np.array([header["keep_raw"] != 0], np.uint8)
        tensors[f"{prefix}projection.keep_raw"] = ("U8", keep_raw)
        stages.append({"kind": "projection"})
    dense = f"{prefix}base_score" in tensors
    if any(name.startswith(f"{prefix}routed.") for name in tensors):
        stages.append({"kind": "routed"})
    else:
        if dense:
            tensors[f"{prefix}trees.base_score"] = tensors.pop(f"{prefix}base_score")
        stages.append({"kind": "trees"})
    if any(name.startswith(f"{prefix}rerank.") for name in tensors):
        stages.append({"kind": _translate_reranker(tensors, prefix)})
    if f"{prefix}empty.known" in tensors:
        stages.append({"kind": "empty"})
    return {"link": _link(header, dense)} | header | {"stages": stages}


def _translate_blend(header: dict[str, Any], tensors: Tensors) -> dict[str, Any]:
    members = header.get("members")
    if not isinstance(members, list) or not all(isinstance(member, dict) for member in members):
        raise ModelFileError(f"metadata 'members' must be a list of headers, is {short(members)}")
    members = [translate(member, tensors, f"blend.{i}.") for i, member in enumerate(members)]
    stages = [{"kind": "blend", "members": members}]
    for name in list(tensors):  # a blend used those of its first member
        if name == "blend.0.label_counts" or name.startswith("blend.0.empty."):
            tensors[name.removeprefix("blend.0.")] = tensors[name]
    if "empty.known" in tensors:
        stages.append({"kind": "empty"})
    return {"link": "identity"} | header | {"stages": stages}


def _translate_reranker(tensors: Tensors, prefix: str) -> str:
    """The kind of the re-ranker."""
    _, mix = tensors.pop(f"{prefix}rerank.mix", ("", np.empty(0)))
    if mix.shape != (1,) or mix[0] not in range(len(RERANKERS)):
        raise ModelFileError(f"rerank.mix must be one number below {len(RERANKERS)}")
    kind = RERANKERS[int(mix[0])]
    start = f"{prefix}rerank."
    for name in [name for name in tensors if name.startswith(start)]:
        new_name = name.removeprefix(start)
        if kind in LEARNED:
            part, dot, rest = new_name.partition(".")
            if part == "linear":
                new_name = f"models.{rest}"
            elif not dot and new_name not in ("label_counts", "shares"):
                new_name = f"centroids.{new_name}"
        tensors[f"{prefix}{kind}.{new_name}"] = tensors.pop(name)
    return kind


def _link(header: dict[str, Any], dense: bool) -> Any:
    """The link, implied by the kind of targets and the loss."""
    parameters, kind = header.get("parameters"), header.get("target_kind")
    if not dense or not isinstance(kind, str):
        return "identity"
    loss = parameters.get("loss") if isinstance(parameters, dict) else None
    if kind.startswith("regression"):
        return "log" if loss == "poisson" else "identity"
    if kind not in ONE_CLASS_PER_ROW:
        return "logistic"
    return "one-vs-rest" if loss == "logistic" else "softmax"
