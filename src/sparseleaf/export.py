"""Models for other runtimes: ONNX and treelite.

Both hold trees over numbers. Features with categories go in as the trees see them: category ``c`` of training as the
number c, what training did not know as NaN. What a format cannot hold is refused here, in words, not approximated.
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
"""Other runtimes answer a dense row of scores; a model with more labels is better served by ``predict_topk``."""

MOST_VALUES = 2**26
"""Leaf values that a file may hold: an ONNX file must stay below 2 GiB, at up to 20 bytes each."""

ONNX_OPSETS = {"": 17, "ai.onnx.ml": 3}
ONNX_IR_VERSION = 8

MOST_CATEGORIES = 8 * SET_BYTES
INT64 = 7
"""ONNX's number of the type."""


def to_onnx(estimator: Any, path: str | os.PathLike[str] | None = None) -> Any:
    """The model as ONNX: a ``TreeEnsembleRegressor`` (``ai.onnx.ml`` 3) and what makes probabilities of scores.

    The input ``X`` is float32 (n_rows, n_features), NaN for what is missing. Outputs, all float32 (n_rows, n_outputs):
    ``predictions`` of a regressor; ``scores`` and ``probabilities`` of :class:`~sparseleaf.MultiGBDTClassifier`;
    ``scores`` of :class:`~sparseleaf.SparseGBDTClassifier`. Names of outputs, features and categories are in the
    metadata, as JSON under ``sparseleaf``.

    Parameters
    ----------
    estimator : fitted estimator
    path : path-like, optional
        File to write, complete or not at all.

    Returns
    -------
    onnx.ModelProto

    Raises
    ------
    ValueError
        If the format cannot hold the model: a projection, too many labels or leaf values.
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
    model = _held(estimator)
    onnx = _imported("onnx", "to_onnx")
    helper, float32 = onnx.helper, onnx.TensorProto.FLOAT
    regression, raw = _is_regression(model), model.link == "identity"
    answers = ["predictions"] if regression else ["scores"] if raw else ["scores", "probabilities"]
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
        # not as base_values: onnxruntime forgets those of an output that no leaf of a row names
        graph.add("Add", [summed, graph.constant("base_score", model.base_score)], scores)
    ONNX_LINKS[model.link](graph, scores, answers[-1])
    whole = helper.make_graph(
        graph.nodes,
        "sparseleaf",
        [helper.make_tensor_value_info("X", float32, ["n_rows", model.n_features])],
        [helper.make_tensor_value_info(name, float32, ["n_rows", model.n_labels]) for name in answers],
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
    """The model as a ``treelite.Model``: for GTIL, TL2cgen and other things that read treelite.

    A regressor is a model of ``n_outputs`` targets; :class:`~sparseleaf.MultiGBDTClassifier` one of classes (softmax)
    or of as many binary targets (logistic); :class:`~sparseleaf.SparseGBDTClassifier` one of scores.

    Parameters
    ----------
    estimator : fitted estimator
    path : path-like, optional
        File to write (treelite's own format), complete or not at all.

    Returns
    -------
    treelite.Model

    Raises
    ------
    ValueError
        If the format cannot hold the model: a projection, too many labels or leaf values, or probabilities that are
        shares of logistic ones.
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
    model = _held(estimator)
    if model.link not in TREELITE_LINKS:
        raise ValueError(
            "estimator: with loss='logistic' and one class per row, probabilities are divided by their sum, which"
            " treelite cannot do; wanted loss='softmax', or to_onnx."
        )
    parts = _imported("treelite.model_builder", "to_treelite")
    found = _treelite_builder(model, parts).commit()
    if path is not None:
        with replacing(as_path(path)) as file:
            file.write(found.serialize_bytes())
    return found


# --- what both formats need


def _imported(name: str, function: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(
            f"{function} needs {name.partition('.')[0]}, which is not installed: pip install 'sparseleaf[export]'"
        ) from error


def _held(estimator: Any) -> Model:
    """The model of an estimator, if a format of trees over numbers can hold it."""
    from sparseleaf.estimators import ESTIMATORS
    from sparseleaf.estimators.base import ModelEstimator

    if not isinstance(estimator, ModelEstimator):
        raise TypeError(f"estimator: found {type(estimator).__name__}; wanted a fitted sparseleaf estimator.")
    model = estimator._model()
    if model.method not in ESTIMATORS or model.scorer.axis_trees is None:
        raise ValueError(
            f"estimator: a model of {model.method!r} cannot be exported; wanted trees that cut one feature at a time."
        )
    if model.rescored:
        raise ValueError(
            "estimator: it ends with re-ranking, which the format does not hold; wanted rerank=None."
        )
    if model.projection is not None:
        raise ValueError(
            "estimator: its trees are grown on a projection of the features, which the format does not hold; wanted"
            " projection=None."
        )
    if model.n_labels > MOST_OUTPUTS:
        raise ValueError(
            f"estimator: found {model.n_labels:,} labels; other runtimes answer dense scores, wanted at most"
            f" {MOST_OUTPUTS:,}."
        )
    if model.n_trees == 0:
        raise ValueError("estimator: the model has no trees; wanted at least one.")
    return model


def _require_values(n_values: int) -> None:
    if n_values > MOST_VALUES:
        raise ValueError(
            f"estimator: its leaves have {n_values:,} values; wanted at most {MOST_VALUES:,}, with fewer trees, leaves"
            " or labels a leaf."
        )


def _is_regression(model: Model) -> bool:
    return model.target_kind.startswith("regression")


def _names(model: Model) -> dict[str, Any]:
    return {
        "method": model.method,
        "outputs": None if model.label_names is None else model.label_names.tolist(),
        "features": model.feature_names,
        "categories": {str(feature): names for feature, names in model.categories.items()},
    }


def _labelled(model: Model) -> tuple[Array, Array, Array]:
    """Leaves as ``(indptr, labels, values)``, with a label for every value."""
    indptr, labels, values = leaf_vectors(model)
    if not len(labels):
        labels = np.tile(np.arange(model.n_labels), len(values) // max(model.n_labels, 1))
    return indptr, labels, values


def _is_categorical(model: Model) -> Array:
    """Whether a node is a cut of categories."""
    trees = model.trees
    if not len(trees.categorical):
        return np.zeros(len(trees.feature), bool)
    unordered: Array = (trees.feature >= 0) & (trees.categorical[trees.feature] > 0)
    return unordered


# --- ONNX


class _OnnxGraph:
    """Nodes and constants while they are put together."""

    def __init__(self, onnx: Any) -> None:
        self._onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        """A node; answers the name of its output."""
        self.nodes.append(self._onnx.helper.make_node(kind, inputs, [output], **attributes))
        return output

    def constant(self, name: str, value: Any) -> str:
        """A constant; answers its name."""
        self.constants.append(self._onnx.numpy_helper.from_array(np.asarray(value), name))
        return name


def _number_sets(model: Model) -> dict[int, dict[bytes, int]]:
    """By feature with categories, the different sets of its cuts and the column that each gets behind the features."""
    trees = model.trees
    sets: dict[int, dict[bytes, int]] = {}
    n_columns = model.n_features
    cuts = np.flatnonzero(_is_categorical(model))
    # a feature's columns lie side by side
    for node in cuts[np.argsort(trees.feature[cuts], kind="stable")].tolist():
        own = sets.setdefault(int(trees.feature[node]), {})
        key = trees.sets[int(trees.threshold[node])].tobytes()
        if key not in own:
            own[key] = n_columns
            n_columns += 1
    return sets


def _onnx_columns(model: Model, sets: dict[int, dict[bytes, int]], graph: _OnnxGraph) -> str:
    """X, followed by a column for every set of categories: 0 inside it, 1 outside, NaN for what is no category.

    The operator's trees know no sets, and chains of questions "is it this one?" that meet in one child are no longer
    trees, which onnxruntime takes in some versions only. Looking a category up in a table takes any.
    """
    columns = ["X"]
    if sets:
        graph.constant("lowest", np.float32(0))
        graph.constant("beyond", np.float32(MOST_CATEGORIES))
    for feature, own in sets.items():
        table = np.full((MOST_CATEGORIES + 1, len(own)), np.nan, np.float32)
        for column, key in enumerate(own):
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
    """The attributes that describe nodes."""
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
    """The attributes that describe leaves; an empty one adds 0, for runtimes want every leaf to say something."""
    trees = model.trees
    indptr, labels, values = _labelled(model)
    _require_values(len(values))
    sizes = np.diff(indptr)
    at = indptr[:-1][sizes == 0]
    labels, values = np.insert(labels, at, 0), np.insert(values, at, 0)
    node = np.repeat(np.flatnonzero(trees.feature < 0), np.maximum(sizes, 1))  # leaves are in order of node
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
    tiny = graph.constant("tiny", np.finfo(np.float32).tiny)  # instead of a sum of 0
    graph.add("Div", ["each", graph.add("Max", ["all", tiny], "total")], into)


ONNX_LINKS: dict[str, Callable[[_OnnxGraph, str, str], Any]] = {
    "identity": lambda graph, scores, into: None,
    "log": lambda graph, scores, into: graph.add("Exp", [scores], into),
    "logistic": lambda graph, scores, into: graph.add("Sigmoid", [scores], into),
    "softmax": lambda graph, scores, into: graph.add("Softmax", [scores], into, axis=1),
    "one-vs-rest": _onnx_one_vs_rest,
}
"""By link, the nodes that make predictions of scores."""


# --- treelite

TREELITE_LINKS = {
    "identity": ("kRegressor", "identity"),
    "log": ("kRegressor", "exponential"),
    "logistic": ("kBinaryClf", "sigmoid"),
    "softmax": ("kMultiClf", "softmax"),
}
"""By link, treelite's task and post-processor."""


def _treelite_builder(model: Model, parts: Any) -> Any:
    """A builder with all trees in it."""
    trees, d = model.trees, model.n_labels
    indptr, labels, values = _labelled(model)
    single = _single_outputs(model, indptr, labels)
    if single is None:
        _require_values((len(indptr) - 1) * d)
    by_class = model.link == "softmax"
    task, postprocessor = TREELITE_LINKS[model.link]
    n_targets, n_classes = (1, d) if by_class else (d, 1)
    zeros = [0] * trees.n_trees
    outputs = [-1] * trees.n_trees if single is None else single  # -1: all of them
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
            cut: dict[str, Any] = {
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
                    builder.leaf(float(values[entries].sum()))  # one value, or none
            elif unordered[node]:
                left_set = np.unpackbits(trees.sets[int(trees.threshold[node])], bitorder="little")
                builder.categorical_test(
                    feature,
                    category_list=np.flatnonzero(left_set).tolist(),
                    category_list_right_child=False,
                    **cut,
                )
            else:
                builder.numerical_test(feature, float(trees.threshold[node]), opname="<=", **cut)
            builder.end_node()
        builder.end_tree()
    return builder


def _single_outputs(model: Model, indptr: Array, labels: Array) -> list[int] | None:
    """The output of every tree, where each tree has but one; else None."""
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
"""Functions that write a model, by the suffix of the file."""
