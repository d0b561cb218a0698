"""Export of models to ONNX and treelite.

Inputs are numeric: categorical features are passed as category indices, NaN for unknown categories. Models that a
format cannot represent raise ValueError.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from sparseleaf._files import as_path, replacing
from sparseleaf.model import Model
from sparseleaf.model.leaves import leaf_vectors
from sparseleaf.model.trees import SET_BYTES

if TYPE_CHECKING:
    from sparseleaf._arrays import Array

MOST_OUTPUTS = 4096
"""Maximum number of outputs: other runtimes return dense scores."""

MOST_VALUES = 2**26
"""Maximum number of leaf values: an ONNX file must be smaller than 2 GiB, at up to 20 bytes per value."""

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
        If the model has a projection or re-ranker, or too many labels or leaf values.
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
    model = _exportable(estimator)
    onnx = _imported("onnx", "to_onnx")
    helper, float32 = onnx.helper, onnx.TensorProto.FLOAT
    regression, raw = _is_regression(model), model.link == "identity"
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
    helper.set_model_props(proto, {"sparseleaf": json.dumps(_names(model))})
    onnx.checker.check_model(proto)
    if path is not None:
        with replacing(as_path(path)) as file:
            file.write(proto.SerializeToString(deterministic=True))
    return proto


def to_treelite(estimator: Any, path: str | os.PathLike[str] | None = None) -> Any:
    """Export a model to treelite, for GTIL and TL2cgen.

    A regressor becomes a multi-target regressor; :class:`~sparseleaf.MultiGBDTClassifier` a multi-class classifier
    (softmax) or a multi-target binary classifier (logistic); :class:`~sparseleaf.SparseGBDTClassifier` a multi-target
    regressor of scores.

    Parameters
    ----------
    estimator : fitted estimator
        Estimator with axis-aligned trees, without projection and re-ranking.
    path : path-like, optional
        File to write, in treelite's binary format.

    Returns
    -------
    model : treelite.Model
        The treelite model.

    Raises
    ------
    ValueError
        If the model has a projection or re-ranker, too many labels or leaf values, or the logistic loss with one class
        per row.
    ImportError
        If treelite is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> from sparseleaf import MultiGBDTRegressor
    >>> from sparseleaf.export import to_treelite
    >>> X = np.random.default_rng(0).uniform(size=(100, 3))
    >>> model = MultiGBDTRegressor(n_trees=3).fit(X, X[:, :2])
    >>> _ = to_treelite(model, "model.tl")
    """
    model = _exportable(estimator)
    if model.link not in TREELITE_LINKS:
        raise ValueError(
            "treelite does not support loss='logistic' with one class per row, whose probabilities are divided by their"
            " sum. Use loss='softmax', or to_onnx."
        )
    parts = _imported("treelite.model_builder", "to_treelite")
    exported = _treelite_builder(model, parts).commit()
    if path is not None:
        with replacing(as_path(path)) as file:
            file.write(exported.serialize_bytes())
    return exported


# --- common to both formats


def _imported(name: str, function: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(
            f"{function} requires {name.partition('.')[0]}. Install it with: pip install 'sparseleaf[export]'"
        ) from error


def _exportable(estimator: Any) -> Model:
    """The model of an estimator; ValueError if it cannot be exported."""
    from sparseleaf.estimators import ESTIMATORS
    from sparseleaf.estimators.base import ModelEstimator

    if not isinstance(estimator, ModelEstimator):
        raise TypeError(
            "The 'estimator' parameter must be a fitted estimator of sparseleaf. Got"
            f" {type(estimator).__name__} instead."
        )
    model = estimator._model()
    if model.method not in ESTIMATORS or model.scorer.axis_trees is None:
        raise ValueError(
            f"Models of {model.method!r} cannot be exported; only axis-aligned trees (gbdt-sparse, gbdt-mo, rank) can."
        )
    if model.rescored:
        raise ValueError("Models with re-ranking cannot be exported. Train with rerank=None.")
    if model.projection is not None:
        raise ValueError(
            "Models with a projection of the features cannot be exported. Train with projection=None."
        )
    if model.n_labels > MOST_OUTPUTS:
        raise ValueError(
            f"Exported models must have at most {MOST_OUTPUTS:,} labels, since other runtimes return dense scores. Got"
            f" {model.n_labels:,} instead."
        )
    if model.n_trees == 0:
        raise ValueError("Exported models must have at least one tree.")
    return model


def _require_values(n_values: int) -> None:
    if n_values > MOST_VALUES:
        raise ValueError(
            f"Exported models must have at most {MOST_VALUES:,} leaf values. Got {n_values:,} instead; train with"
            " fewer trees,"
            " leaves or labels per leaf."
        )


def _is_regression(model: Model) -> bool:
    return model.target_kind.startswith("regression")


def _names(model: Model) -> dict[str, Any]:
    return {
        "method": model.method,
        "outputs": None if model.label_names is None else model.label_names.tolist(),
        "features": model.names_of(np.arange(model.n_features)),
        "categories": {str(feature): names for feature, names in model.categories.items()},
    }


def _labelled(model: Model) -> tuple[Array, Array, Array]:
    """Leaf vectors as ``(indptr, labels, values)``, with a label for every value."""
    indptr, labels, values = leaf_vectors(model)
    if not len(labels):
        labels = np.tile(np.arange(model.n_labels), len(values) // max(model.n_labels, 1))
    return indptr, labels, values


def _is_categorical(model: Model) -> Array:
    """Whether each node is a categorical split."""
    trees = model.trees
    if not len(trees.categorical):
        return np.zeros(len(trees.feature), bool)
    unordered: Array = (trees.feature >= 0) & (trees.categorical[trees.feature] > 0)
    return unordered


# --- ONNX


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
    splits = np.flatnonzero(_is_categorical(model))
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
    for node in np.flatnonzero(_is_categorical(model)).tolist():
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
    indptr, labels, values = _labelled(model)
    _require_values(len(values))
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


# --- treelite

TREELITE_LINKS = {
    "identity": ("kRegressor", "identity"),
    "log": ("kRegressor", "exponential"),
    "logistic": ("kBinaryClf", "sigmoid"),
    "softmax": ("kMultiClf", "softmax"),
}
"""treelite task and post-processor of each link function."""


def _treelite_builder(model: Model, parts: Any) -> Any:
    """Create a treelite builder with all trees."""
    trees, d = model.trees, model.n_labels
    indptr, labels, values = _labelled(model)
    single = _single_outputs(model, indptr, labels)
    if single is None:
        _require_values((len(indptr) - 1) * d)
    by_class = model.link == "softmax"
    task, postprocessor = TREELITE_LINKS[model.link]
    n_targets, n_classes = (1, d) if by_class else (d, 1)
    zeros = [0] * trees.n_trees
    outputs = [-1] * trees.n_trees if single is None else single  # -1: all outputs
    builder = parts.ModelBuilder(
        threshold_type="float32",
        leaf_output_type="float32",
        metadata=parts.Metadata(
            num_feature=model.n_features,
            task_type=task,
            average_tree_output=False,
            num_target=n_targets,
            num_class=[n_classes] * n_targets,
            leaf_vector_shape=(n_targets, n_classes) if single is None else (1, 1),
        ),
        tree_annotation=parts.TreeAnnotation(
            num_tree=trees.n_trees,
            target_id=zeros if by_class else outputs,
            class_id=outputs if by_class else zeros,
        ),
        postprocessor=parts.PostProcessorFunc(name=postprocessor),
        base_scores=[0.0] * d if model.base_score is None else model.base_score.tolist(),
    )
    unordered = _is_categorical(model).tolist()
    vector = np.zeros(d, np.float32)
    for begin, end in zip(trees.tree_offsets[:-1].tolist(), trees.tree_offsets[1:].tolist(), strict=True):
        builder.start_tree()
        for node in range(begin, end):
            builder.start_node(node - begin)
            feature, child = int(trees.feature[node]), int(trees.child[node])
            children: dict[str, Any] = {
                "default_left": bool(trees.missing_left[node]),
                "left_child_key": child,
                "right_child_key": child + 1,
            }
            if feature < 0:
                entries = slice(indptr[child], indptr[child + 1])
                if single is None:
                    vector[:] = 0
                    vector[labels[entries]] = values[entries]
                    builder.leaf(vector.tolist())
                else:
                    builder.leaf(float(values[entries].sum()))  # at most one value
            elif unordered[node]:
                left_set = np.unpackbits(trees.sets[int(trees.threshold[node])], bitorder="little")
                builder.categorical_test(
                    feature,
                    category_list=np.flatnonzero(left_set).tolist(),
                    category_list_right_child=False,
                    **children,
                )
            else:
                builder.numerical_test(feature, float(trees.threshold[node]), opname="<=", **children)
            builder.end_node()
        builder.end_tree()
    return builder


def _single_outputs(model: Model, indptr: Array, labels: Array) -> list[int] | None:
    """The output of each tree if every tree has a single output, else None."""
    trees = model.trees
    first = np.concatenate(([0], np.cumsum(trees.feature < 0)))[trees.tree_offsets]
    tree = np.repeat(np.arange(trees.n_trees), np.diff(indptr[first]))
    least = np.full(trees.n_trees, model.n_labels)
    most = np.full(trees.n_trees, -1)
    np.minimum.at(least, tree, labels)
    np.maximum.at(most, tree, labels)
    empty = most < 0
    return None if (least < most).any() else np.where(empty, 0, most).tolist()


EXPORTERS: dict[str, Callable[[Any, Any], Any]] = {
    ".onnx": to_onnx,
    ".treelite": to_treelite,
    ".tl": to_treelite,
}
"""Export functions by file suffix."""
