"""Shapley values: what every feature adds to every score of a row, exact for path-dependent TreeSHAP.

Features that are not known are averaged over the training rows of each cut (``cover``), as the trees saw them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sparseleaf import _kernels
from sparseleaf.model.axis import BLOCK_ROWS
from sparseleaf.model.leaves import leaf_vectors

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.model.model import Model
    from sparseleaf.model.trees import Trees

MEMORY_MB = 4096
"""What the answer may take, in MiB, unless the caller says otherwise."""


def shap_values(
    model: Model,
    X: Features,
    wanted: Sequence[Any] | Array | None,
    n_jobs: int,
    *,
    memory_mb: int = MEMORY_MB,
    argument: str = "labels",
) -> tuple[Array, Array]:
    """What every column of the trees adds to every wanted score.

    Parameters
    ----------
    model : Model
    X : float32 array or CSR matrix, shape (n_rows, n_features)
    wanted : sequence or None
        Names of outputs, or their numbers where they have no names; None for all.
    n_jobs : int
    memory_mb : int
        The answer may take so many MiB.
    argument : str
        What the caller calls ``wanted``.

    Returns
    -------
    values : float64 array, shape (n_rows, n_columns, n_wanted)
        Columns are features, or what the projection makes of them, followed by the features it keeps.
    expected : float64 array, shape (n_wanted,)
        Scores with no feature known: ``values.sum(axis=1) + expected`` are the scores.
    """
    trees: Trees | None = model.scorer.axis_trees
    if trees is None:
        raise ValueError("trees with linear routers have no Shapley values here; wanted boosted trees.")
    if model.rescored:
        raise ValueError(
            "the model re-ranks its trees' candidates, which Shapley values do not see; wanted one without rerank."
        )
    if len(trees.cover) != len(trees.feature):
        raise ValueError(
            "the model does not say how many rows came to each node (its file has format version 1), which Shapley"
            " values need; train it again with this version."
        )
    if isinstance(memory_mb, bool) or not isinstance(memory_mb, int | np.integer) or memory_mb < 1:
        raise ValueError(f"memory_mb: found {memory_mb!r}; wanted an int of at least 1.")
    outputs = None if wanted is None else output_numbers(model, wanted, argument)
    n_outputs = model.n_labels if outputs is None else len(outputs)
    shape = (X.shape[0], len(trees.feature_gain), n_outputs)
    n_bytes = 8 * shape[0] * shape[1] * shape[2]
    if n_bytes > int(memory_mb) << 20:
        raise MemoryError(
            f"{argument}: {shape[0]:,} rows × {shape[1]:,} columns × {shape[2]:,} outputs take"
            f" {n_bytes / 2**20:,.0f} MiB; memory_mb={memory_mb} allows less. Wanted fewer rows, or"
            f" {argument}=[...] with fewer outputs, or more memory_mb."
        )
    _ = model.scorer.predictor  # checks the trees
    indptr, labels, values = leaf_vectors(model, outputs)
    found = np.zeros(shape)
    for begin in range(0, X.shape[0], BLOCK_ROWS):
        rows = X[begin : begin + BLOCK_ROWS]
        if model.projection is not None:
            rows = model.projection.transform(rows, n_jobs)
        elif sp.issparse(rows):
            rows = rows.toarray()
        _kernels.shap_values(
            trees.tree_offsets,
            trees.feature,
            trees.threshold,
            trees.missing_left,
            trees.child,
            trees.cover,
            trees.categorical,
            trees.sets,
            indptr,
            labels,
            values,
            np.ascontiguousarray(rows, np.float32),
            found[begin : begin + BLOCK_ROWS],
            n_jobs,
        )
    expected = _mean_leaf(trees, indptr, labels, values, n_outputs)
    if model.base_score is not None:
        expected += model.base_score if outputs is None else model.base_score[outputs]
    return found, expected


def output_numbers(model: Model, wanted: Sequence[Any] | Array, argument: str) -> Array:
    """Which outputs are meant, int64: by name where they have names, else by number."""
    if isinstance(wanted, str) or np.ndim(wanted) != 1:
        raise ValueError(f"{argument}: found {wanted!r}; wanted a list of outputs.")
    asked = [value.item() if isinstance(value, np.generic) else value for value in wanted]
    if not asked or len(set(asked)) < len(asked):
        raise ValueError(
            f"{argument}: found {'none' if not asked else 'one twice'}; wanted different outputs."
        )
    names = range(model.n_labels) if model.label_names is None else model.label_names.tolist()
    position = {name: i for i, name in enumerate(names)}
    for value in asked:
        if value not in position:
            known = f"numbers below {model.n_labels}" if model.label_names is None else "names of training"
            raise ValueError(f"{argument}: found {value!r}, which is no output of the model; wanted {known}.")
    return np.array([position[value] for value in asked], np.int64)


def _mean_leaf(trees: Trees, indptr: Array, labels: Array, values: Array, n_outputs: int) -> Array:
    """Σ over trees of the mean of their leaves by cover, float64 (n_outputs,)."""
    leaf = trees.feature < 0
    roots = np.repeat(trees.cover[trees.tree_offsets[:-1]], np.diff(trees.tree_offsets))
    share = trees.cover[leaf] / roots[leaf].astype(np.float64)  # leaves are numbered in order of node
    terms = values * np.repeat(share, np.diff(indptr))
    if len(labels) or not len(values):
        return np.bincount(labels, terms, n_outputs).astype(np.float64)
    mean: Array = terms.reshape(-1, n_outputs).sum(axis=0)
    return mean
