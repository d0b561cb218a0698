"""Export to ONNX."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from sparseleaf._files import as_path, replacing
from sparseleaf.export.common import (
    exportable,
    imported,
    is_categorical,
    is_regression,
    labelled_leaves,
    names_of,
    require_values,
    warn_of_outputs,
)
from sparseleaf.model.trees import SET_BYTES

if TYPE_CHECKING:
    from sparseleaf.model import Model

ONNX_OPSETS = {"": 17, "ai.onnx.ml": 3}
ONNX_IR_VERSION = 8

MOST_CATEGORIES = 8 * SET_BYTES
INT64 = 7
"""ONNX type code."""


def to_onnx(estimator: Any, path: str | os.PathLike[str] | None = None) -> Any:
    """Export a model to ONNX: a ``TreeEnsembleRegressor`` (``ai.onnx.ml`` 3) followed by the link function.

    The input ``X`` is float32 (n_rows, n_features), NaN if missing. The outputs are float32 (n_rows, n_outputs):
    ``predictions`` of a regressor; ``scores`` and ``probabilities`` of :class:`~sparseleaf.MultiGBDTClassifier`;
    ``scores`` of :class:`~sparseleaf.SparseGBDTClassifier`. Names of outputs, features and categories are in the
    metadata as JSON, with key ``sparseleaf``.

    Parameters
    ----------
    estimator : fitted estimator
        Estimator with axis-aligned trees, without projection and re-ranking.
    path : path-like, optional
        File to write.

    Returns
    -------
    model : onnx.ModelProto
        The ONNX model.

    Raises
    ------
    ValueError
        If the model has a projection or re-ranker, or too many leaf values.
    ImportError
        If onnx is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> from sparseleaf import MultiGBDTRegressor
    >>> from sparseleaf.export import to_onnx
    >>> X = np.random.default_rng(0).uniform(size=(100, 3))
    >>> model = MultiGBDTRegressor(n_trees=3).fit(X, X[:, :2])
    >>> _ = to_onnx(model, "model.onnx")
    """
    model = exportable(estimator)
    onnx = imported("onnx", "to_onnx")
    warn_of_outputs(model)
    helper, float32 = onnx.helper, onnx.TensorProto.FLOAT
    regression, raw = is_regression(model), model.link == "identity"
    outputs = ["predictions"] if regression else ["scores"] if raw else ["scores", "probabilities"]
    scores = "predictions" if regression and raw else "scores"
    graph = _OnnxGraph(onnx)
    set_columns = _number_sets(model)
    columns = _onnx_columns(model, set_columns, graph)
    summed = scores if model.base_score is None else "sum"
    graph.add(
        "TreeEnsembleRegressor",
        [columns],
        summed,
        domain="ai.onnx.ml",
        n_targets=model.n_labels,
        aggregate_function="SUM",
        post_transform="NONE",
        **_onnx_nodes(model, set_columns),
        **_onnx_leaves(model),
    )
    if model.base_score is not None:
        # not as base_values: onnxruntime ignores those of outputs without a leaf value in the row
        graph.add("Add", [summed, graph.constant("base_score", model.base_score)], scores)
    ONNX_LINKS[model.link](graph, scores, outputs[-1])
    whole = helper.make_graph(
        graph.nodes,
        "sparseleaf",
        [helper.make_tensor_value_info("X", float32, ["n_rows", model.n_features])],
        [helper.make_tensor_value_info(name, float32, ["n_rows", model.n_labels]) for name in outputs],
        graph.constants,
    )
    opsets = [helper.make_opsetid(domain, version) for domain, version in ONNX_OPSETS.items()]
    proto = helper.make_model(whole, opset_imports=opsets, producer_name="sparseleaf")
    proto.ir_version = ONNX_IR_VERSION
    helper.set_model_props(proto, {"sparseleaf": json.dumps(names_of(model))})
    onnx.checker.check_model(proto)
    if path is not None:
        with replacing(as_path(path)) as file:
            file.write(proto.SerializeToString(deterministic=True))
    return proto


class _OnnxGraph:
    """Nodes and constants of an ONNX graph under construction."""

    def __init__(self, onnx: Any) -> None:
        self._onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        """Add a node; returns the name of its output."""
        self.nodes.append(self._onnx.helper.make_node(kind, inputs, [output], **attributes))
        return output

    def constant(self, name: str, value: Any) -> str:
        """Add a constant; returns its name."""
        self.constants.append(self._onnx.numpy_helper.from_array(np.asarray(value), name))
        return name


def _number_sets(model: Model) -> dict[int, dict[bytes, int]]:
    """Distinct category sets of the splits of each categorical feature, and a new column number for each set."""
    trees = model.trees
    sets: dict[int, dict[bytes, int]] = {}
    n_columns = model.n_features
    splits = np.flatnonzero(is_categorical(model))
    # the columns of a feature are adjacent
    for node in splits[np.argsort(trees.feature[splits], kind="stable")].tolist():
        columns = sets.setdefault(int(trees.feature[node]), {})
        key = trees.sets[int(trees.threshold[node])].tobytes()
        if key not in columns:
            columns[key] = n_columns
            n_columns += 1
    return sets


def _onnx_columns(model: Model, sets: dict[int, dict[bytes, int]], graph: _OnnxGraph) -> str:
    """X, followed by one column per category set: 0 for members, 1 for others, NaN for unknown categories.

    The ONNX operator has no set splits, and chains of equality splits that share a child are not trees, which only some
    versions of onnxruntime accept. A table lookup works in all versions.
    """
    columns = ["X"]
    if sets:
        graph.constant("lowest", np.float32(0))
        graph.constant("beyond", np.float32(MOST_CATEGORIES))
    for feature, members in sets.items():
        table = np.full((MOST_CATEGORIES + 1, len(members)), np.nan, np.float32)
        for column, key in enumerate(members):
            bits = np.unpackbits(np.frombuffer(key, np.uint8), bitorder="little")
            table[:MOST_CATEGORIES, column] = 1 - bits
        name = f"feature_{feature}"
        graph.add("Gather", ["X", graph.constant(f"{name}_at", np.int64(feature))], name, axis=1)
        graph.add("GreaterOrEqual", [name, "lowest"], f"{name}_low")
        graph.add("Less", [name, "beyond"], f"{name}_high")
        graph.add("And", [f"{name}_low", f"{name}_high"], f"{name}_known")  # NaN is neither
        graph.add("Where", [f"{name}_known", name, "beyond"], f"{name}_row")
        graph.add("Cast", [f"{name}_row"], f"{name}_index", to=INT64)
        rows = graph.add(
            "Gather", [graph.constant(f"{name}_sets", table), f"{name}_index"], f"{name}_in", axis=0
        )
        columns.append(rows)
    return graph.add("Concat", columns, "columns", axis=1) if sets else "X"


def _onnx_nodes(model: Model, sets: dict[int, dict[bytes, int]]) -> dict[str, list[Any]]:
    """Node attributes of the tree ensemble operator."""
    trees = model.trees
    n_nodes = np.diff(trees.tree_offsets)
    inner = trees.feature >= 0
    left = np.where(inner, trees.child, 0)
    feature = np.where(inner, trees.feature, 0)
    threshold = np.where(inner, trees.threshold, np.float32(0))
    for node in np.flatnonzero(is_categorical(model)).tolist():
        feature[node] = sets[int(trees.feature[node])][trees.sets[int(trees.threshold[node])].tobytes()]
        threshold[node] = 0.5
    return {
        "nodes_treeids": np.repeat(np.arange(trees.n_trees), n_nodes).tolist(),
        "nodes_nodeids": (np.arange(len(inner)) - np.repeat(trees.tree_offsets[:-1], n_nodes)).tolist(),
        "nodes_featureids": feature.tolist(),
        "nodes_values": threshold.tolist(),
        "nodes_modes": np.where(inner, "BRANCH_LEQ", "LEAF").tolist(),
        "nodes_truenodeids": left.tolist(),
        "nodes_falsenodeids": np.where(inner, left + 1, 0).tolist(),
        "nodes_missing_value_tracks_true": np.where(inner, trees.missing_left, 0).tolist(),
    }


def _onnx_leaves(model: Model) -> dict[str, list[Any]]:
    """Leaf attributes of the tree ensemble operator; empty leaves get a value of 0, which runtimes require."""
    trees = model.trees
    indptr, labels, values = labelled_leaves(model)
    require_values(len(values))
    sizes = np.diff(indptr)
    at = indptr[:-1][sizes == 0]
    labels, values = np.insert(labels, at, 0), np.insert(values, at, 0)
    node = np.repeat(np.flatnonzero(trees.feature < 0), np.maximum(sizes, 1))  # leaves are ordered by node
    tree = np.searchsorted(trees.tree_offsets, node, side="right") - 1
    return {
        "target_treeids": tree.tolist(),
        "target_nodeids": (node - trees.tree_offsets[tree]).tolist(),
        "target_ids": labels.tolist(),
        "target_weights": values.tolist(),
    }


def _onnx_one_vs_rest(graph: _OnnxGraph, scores: str, into: str) -> None:
    """Logistic probabilities divided by their sum."""
    graph.add("Sigmoid", [scores], "each")
    graph.add("ReduceSum", ["each", graph.constant("axes", np.array([1]))], "all", keepdims=1)
    tiny = graph.constant("tiny", np.finfo(np.float32).tiny)  # avoids division by 0
    graph.add("Div", ["each", graph.add("Max", ["all", tiny], "total")], into)


ONNX_LINKS: dict[str, Callable[[_OnnxGraph, str, str], Any]] = {
    "identity": lambda graph, scores, into: None,
    "log": lambda graph, scores, into: graph.add("Exp", [scores], into),
    "logistic": lambda graph, scores, into: graph.add("Sigmoid", [scores], into),
    "softmax": lambda graph, scores, into: graph.add("Softmax", [scores], into, axis=1),
    "one-vs-rest": _onnx_one_vs_rest,
}
"""Graph nodes of each link function."""
