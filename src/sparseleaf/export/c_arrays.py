"""A model as the arrays that the C predictor reads: those of the kernels, without narrow or implicit forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from sparseleaf._steps import split_leaps
from sparseleaf.export.c_text import text_arrays
from sparseleaf.model.source import prefixed
from sparseleaf.rerank.bayes import MAX_ADDED
from sparseleaf.rerank.centroids import MIXES
from sparseleaf.rerank.neighbours import NEIGHBOURS

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf._vectors import PackedLists, PackedVectors
    from sparseleaf.model import Model

Arrays = dict[str, "Array"]

LINKS = ("identity", "log", "logistic", "softmax", "one-vs-rest")
"""Numbers of link functions, by position, as in ``csource/predictor.c``."""

RERANKERS = {"centroid": 1, "cosine": 1, "log": 1, "linear": 2, "boosted": 3, "bayes": 4}
SCORERS = {"trees": 0, "routed": 1, "blend": 2}


def model_arrays(model: Model) -> Arrays:
    """All arrays of ``model.bin``; ValueError if the predictor does not support the model."""
    if model.n_labels < 1:
        raise ValueError("Exported models must have at least one label.")
    arrays = {"model": _integers(LINKS.index(model.link), model.takes_nan, model.vectorizer is not None)}
    arrays |= stage_arrays(model)
    if model.vectorizer is not None:
        arrays |= prefixed("text", text_arrays(model.vectorizer))
    if model.label_names is not None:
        names = [str(name).encode() for name in model.label_names.tolist()]
        arrays["label_names"] = np.frombuffer(b"".join(names), np.uint8)
        arrays["label_starts"] = np.cumsum([0, *map(len, names)], dtype=np.int64)
    return arrays


def stage_arrays(model: Model) -> Arrays:
    """Arrays of the stages between vectoriser and calibrator; of a model, or of a member of a blend."""
    scorer, rerank, projection = model.scorer, model.rerank, model.projection
    for stage, known in ((scorer, SCORERS), (rerank, RERANKERS)):
        if stage is not None and stage.kind not in known:
            raise ValueError(f"Models with the stage {stage.kind!r} cannot be exported to C.")
    arrays = {
        "header": _integers(
            model.n_features,
            model.n_labels,
            SCORERS[scorer.kind],
            0 if rerank is None else RERANKERS[rerank.kind],
            0 if rerank is None else rerank.places,
            projection is not None,
            model.empty is not None,
        )
    }
    if projection is not None:
        width = projection.components.shape[1]
        arrays["projection.shape"] = _integers(width, projection.keep_raw)
        arrays["projection.weights"] = projection.components.ravel()
    arrays |= SCORER_ARRAYS[scorer.kind](scorer)
    if rerank is not None:
        arrays |= prefixed("rerank", RERANKER_ARRAYS[rerank.kind](rerank))
    if model.empty is not None:
        arrays |= prefixed("empty", _prior_arrays(model))
    return arrays


def _integers(*values: int) -> Array:
    return np.array(values, np.int64)


def _prior_arrays(model: Model) -> Arrays:
    """Known features, and the best labels of a row without any, with their scores."""
    stage, base = model.empty, model.base_score if model.rerank is None else None
    if base is None:
        labels, scores = stage.labels, np.clip(stage.scores, 0, 1)
    else:
        labels = np.argsort(-base, kind="stable")
        scores = base[labels]
    return {
        "known": np.packbits(stage.known),
        "labels": labels.astype(np.int32),
        "scores": scores.astype(np.float32),
    }


# --- scorers


def _tree_arrays(scorer: Any) -> Arrays:
    trees, base = scorer.trees, scorer.base_score
    arrays = {
        "shape": _integers(trees.n_trees, len(trees.feature), len(trees.feature_gain), scorer.n_labels),
        "offsets": trees.tree_offsets,
        "feature": trees.feature,
        "threshold": trees.threshold,
        "missing_left": trees.missing_left,
        "child": trees.child,
        "leaf_starts": trees.leaf_indptr,
        "leaf_values": trees.leaf_values,
    }
    if len(trees.leaf_labels) or base is None:
        arrays["leaf_labels"] = trees.leaf_labels
    if len(trees.value_scale):
        arrays["scale"] = trees.value_scale
    if base is not None:
        arrays["base"] = base
    if len(trees.sets):
        arrays |= {"categorical": trees.categorical, "sets": trees.sets.ravel()}
    return arrays


def _routed_arrays(scorer: Any) -> Arrays:
    trees = scorer.trees
    weights = trees.router_weights
    arrays = {
        "shape": _integers(
            trees.n_trees,
            len(trees.child),
            len(trees.router_indptr) - 1,
            trees.arity,
            8 * weights.dtype.itemsize,
            trees.unit_rows,
        ),
        "offsets": trees.tree_offsets,
        "child": trees.child,
        "inner": trees.inner,
        "router_starts": trees.router_indptr,
        "weights": weights.ravel(),
        "bias": trees.router_bias.ravel(),
        "threshold": np.array([trees.threshold], np.float32),
        "leaf_starts": trees.leaf_indptr,
        "leaf_labels": trees.leaf_labels,
        "leaf_values": trees.leaf_values,
    }
    if weights.dtype == np.int8:
        steps = trees.router_steps
        arrays["steps"] = steps.astype(np.uint16 if steps.max(initial=0) < 2**16 else np.uint32)
    else:
        arrays["features"] = trees.router_features
    if len(trees.router_scale):
        arrays["scale"] = trees.router_scale
    if len(trees.feature_weights):
        arrays["feature_weights"] = trees.feature_weights
    return arrays


def _blend_arrays(scorer: Any) -> Arrays:
    arrays: Arrays = {"weights": scorer.weights}
    for number, member in enumerate(scorer.members):
        arrays |= prefixed(f"m{number}", stage_arrays(member))
    return arrays


SCORER_ARRAYS: dict[str, Callable[[Any], Arrays]] = {
    "trees": lambda scorer: prefixed("trees", _tree_arrays(scorer)),
    "routed": lambda scorer: prefixed("trees", _routed_arrays(scorer)),
    "blend": _blend_arrays,
}


# --- re-rankers


def _list_arrays(lists: PackedLists) -> Arrays:
    """Steps in 16 bits, with leaps for larger ones."""
    steps, leaps = lists.steps, lists.leaps
    if not len(leaps):
        steps, leaps = split_leaps(steps)
    arrays = {"starts": lists.indptr, "steps": steps.astype(np.uint16)}
    return arrays | {"leaps": leaps.ravel()} if len(leaps) else arrays


def _vector_arrays(vectors: PackedVectors) -> Arrays:
    arrays = _list_arrays(vectors) | {"values": vectors.values}
    return arrays | {"scale": vectors.scale} if len(vectors.scale) else arrays


def _centroid_arrays(stage: Any) -> Arrays:
    arrays = {
        "settings": np.array([MIXES.index(stage.kind), stage.weight, stage.scale], np.float32),
        "squared_norms": stage.squared_norms,
        **prefixed("vectors", _vector_arrays(stage.centroids)),
    }
    return arrays | {"feature_weights": stage.feature_weights} if len(stage.feature_weights) else arrays


def _evidence_arrays(evidence: Any) -> Arrays:
    index, side = evidence.neighbours, evidence.side
    names = None if side is None else side.names
    hierarchy = None if side is None else side.hierarchy
    parts = None if side is None else side.parts
    arrays = {
        "shape": _integers(
            evidence.places,
            NEIGHBOURS,
            0 if index is None else index.query_features,
            index is not None,
            names is not None,
            hierarchy is not None,
            0 if parts is None else parts.parts.width,
        ),
        "bias": evidence.models.bias,
        # as the columns of evidence are computed: numpy's logarithm may differ from that of the C library
        "log_rows": np.log1p(evidence.label_counts, dtype=np.float64).astype(np.float32),
        **prefixed("centroids", _centroid_arrays(evidence.centroids)),
        **prefixed("models", _vector_arrays(evidence.models.weights)),
    }
    if index is not None:
        arrays |= prefixed("postings", _vector_arrays(index.postings))
        arrays |= prefixed("row_labels", _list_arrays(index.labels))
    if names is not None:
        arrays |= prefixed("names", _name_arrays(names))
    if hierarchy is not None:
        arrays |= prefixed("broader", _list_arrays(hierarchy.broader))
    if parts is not None:
        arrays |= {"part_bias": parts.models.bias, **prefixed("parts", _list_arrays(parts.parts))}
        arrays |= prefixed("part_models", _vector_arrays(parts.models.weights))
    return arrays


def _name_arrays(names: Any) -> Arrays:
    return {
        "places": _integers(names.places),
        "weights": names.weights,
        "starts": names.starts,
        **prefixed("similar", _vector_arrays(names.similar)),
        **prefixed("names", _list_arrays(names.names)),
    }


def _linear_arrays(stage: Any) -> Arrays:
    return _evidence_arrays(stage.evidence) | {"weights": stage.weights}


def _boosted_arrays(stage: Any) -> Arrays:
    return _evidence_arrays(stage.evidence) | prefixed("booster", _tree_arrays(stage.booster))


def _bayes_arrays(stage: Any) -> Arrays:
    names = ("features", "starts", "labels", "weights", "bias")
    return dict(zip(names, stage.index(), strict=True)) | {
        "settings": np.array([stage.weight, *stage.platt], np.float32),
        "most": _integers(MAX_ADDED),
    }


RERANKER_ARRAYS: dict[str, Callable[[Any], Arrays]] = {
    **dict.fromkeys(MIXES, _centroid_arrays),
    "linear": _linear_arrays,
    "boosted": _boosted_arrays,
    "bayes": _bayes_arrays,
}
