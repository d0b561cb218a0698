"""Export to treelite."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from sparseleaf._files import as_path, replacing
from sparseleaf.export.common import (
    exportable,
    imported,
    is_categorical,
    labelled_leaves,
    require_values,
    warn_of_outputs,
)

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.model import Model


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
        If the model has a projection or re-ranker, too many leaf values (leaves are stored dense), or the logistic
        loss with one class per row.
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
    model = exportable(estimator)
    if model.link not in TREELITE_LINKS:
        raise ValueError(
            "treelite does not support loss='logistic' with one class per row, whose probabilities are divided by their"
            " sum. Use loss='softmax', or to_onnx."
        )
    parts = imported("treelite.model_builder", "to_treelite")
    warn_of_outputs(model)
    exported = _treelite_builder(model, parts).commit()
    if path is not None:
        with replacing(as_path(path)) as file:
            file.write(exported.serialize_bytes())
    return exported


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
    indptr, labels, values = labelled_leaves(model)
    single = _single_outputs(model, indptr, labels)
    if single is None:
        require_values((len(indptr) - 1) * d, ", or use to_onnx: treelite stores dense leaves")
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
    unordered = is_categorical(model).tolist()
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
