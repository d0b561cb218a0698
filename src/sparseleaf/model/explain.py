"""Exact path-dependent TreeSHAP values: the contribution of every feature to every score.

Missing features of a coalition are averaged over the training rows of each node (``cover``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sparseleaf import _kernels
from sparseleaf._arrays import row_blocks
from sparseleaf.model.attribution import Attribution, Pairs, stacked
from sparseleaf.model.leaves import leaf_vectors
from sparseleaf.model.shap_tables import mean_leaf

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.model.axis import AxisScorer
    from sparseleaf.model.model import Model
    from sparseleaf.model.stage import Rows
    from sparseleaf.model.trees import Trees

BLOCK_ROWS = 16_384
"""Rows that are explained at a time."""

BLOCK_VALUES = 2**23
"""Values of pairs and columns that are computed at a time."""

MEMORY_MB = 4096
"""Default limit of the result in MiB."""


def shap_values(
    model: Model,
    X: Features,
    chosen: Sequence[Any] | Array | None,
    n_jobs: int,
    *,
    memory_mb: int = MEMORY_MB,
    argument: str = "labels",
) -> tuple[Array, Array]:
    """Contributions of the columns of the trees to the chosen scores.

    Parameters
    ----------
    model : Model
    X : float32 array or CSR matrix, shape (n_rows, n_features)
    chosen : sequence or None
        Names of outputs, or indices if they have no names; None for all.
    n_jobs : int
    memory_mb : int
        Limit of the result in MiB.
    argument : str
        Name of ``chosen`` in error messages.

    Returns
    -------
    values : float64 array, shape (n_rows, n_columns, n_chosen)
        Columns are the features or, with a projection, its columns followed by the features it keeps.
    expected : float64 array, shape (n_chosen,)
        Expected scores: ``values.sum(axis=1) + expected`` are the scores.
    """
    trees: Trees | None = model.scorer.axis_trees
    if trees is None:
        raise ValueError(
            "Shapley values are only available for trees that split on one feature. Got trees with linear routers"
            " instead."
        )
    if model.rescored:
        raise ValueError(
            "Shapley values are not available for models with a re-ranker. Train with rerank=None."
        )
    require_cover(trees)
    if isinstance(memory_mb, bool) or not isinstance(memory_mb, int | np.integer) or memory_mb < 1:
        raise ValueError(f"The 'memory_mb' parameter must be an int >= 1. Got {memory_mb!r} instead.")
    outputs = None if chosen is None else output_numbers(model, chosen, argument)
    n_outputs = model.n_labels if outputs is None else len(outputs)
    shape = (X.shape[0], len(trees.feature_gain), n_outputs)
    n_bytes = 8 * shape[0] * shape[1] * shape[2]
    if n_bytes > int(memory_mb) << 20:
        raise MemoryError(
            f"{argument}: {shape[0]:,} rows × {shape[1]:,} columns × {shape[2]:,} outputs take"
            f" {n_bytes / 2**20:,.0f} MiB; memory_mb={memory_mb} allows less. Use fewer rows,"
            f" {argument}=[...] with fewer outputs, or a larger memory_mb."
        )
    _ = model.scorer.predictor  # checks the trees
    indptr, labels, values = leaf_vectors(model, outputs)
    contributions = np.zeros(shape)
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
            contributions[begin : begin + BLOCK_ROWS],
            n_jobs,
        )
    expected = mean_leaf(trees, indptr, labels, values, n_outputs)
    if model.base_score is not None:
        expected += model.base_score if outputs is None else model.base_score[outputs]
    return contributions, expected


def attribute_trees(scorer: AxisScorer, rows: Rows, pairs: Pairs) -> Attribution:
    """Exact Shapley values of pairs, for the columns that the trees split on."""
    require_cover(scorer.trees)
    _ = scorer.predictor  # checks the trees
    tables = scorer.shap_tables
    columns = tables.columns
    expected = tables.expected[pairs.labels]
    if scorer.base_score is not None:
        expected += scorer.base_score[pairs.labels]
    labels = np.ascontiguousarray(pairs.labels, np.int32)
    starts = pairs.starts(rows.n_rows)
    parts = []
    for begin, used in _blocks(rows, columns, int(np.diff(starts).max(initial=0))):
        end = begin + used.shape[0]
        block = slice(starts[begin], starts[end])
        contributions = np.zeros((block.stop - block.start, len(columns)))
        of_block = starts[begin : end + 1] - starts[begin]
        tables.trees.pairs(used, of_block, labels[block], contributions, rows.threads)
        terms, rest = rows.to_features(Pairs(pairs.rows[block], pairs.labels[block]), columns, contributions)
        parts.append(Attribution(expected[block] + rest, terms, {}).named("trees"))
    return stacked(parts)


def _blocks(rows: Rows, columns: Array, most_pairs: int) -> Iterator[tuple[int, Array]]:
    """Blocks of rows, which bound memory: the first row, and the values of these columns."""
    most = max(1, BLOCK_VALUES // max(1, len(columns) * most_pairs))
    begin = 0
    for _, block, _ in rows.columns():
        for _, part in row_blocks(block, most):
            used = part[:, columns]
            yield begin, np.ascontiguousarray(used.toarray() if sp.issparse(used) else used, np.float32)
            begin += part.shape[0]


def require_cover(trees: Trees) -> None:
    """Raise ValueError for trees of old model files, whose nodes have no number of rows."""
    if len(trees.cover) != len(trees.feature):
        raise ValueError(
            "Shapley values require the number of training rows per node, which model files of version 1 do not have."
            " Train the model again."
        )


def output_numbers(model: Model, chosen: Sequence[Any] | Array, argument: str) -> Array:
    """Indices of the chosen outputs, int64: by name if they have names, otherwise by index."""
    if isinstance(chosen, str) or np.ndim(chosen) != 1:
        raise ValueError(f"The {argument!r} parameter must be a list of outputs. Got {chosen!r} instead.")
    outputs = [value.item() if isinstance(value, np.generic) else value for value in chosen]
    if not outputs or len(set(outputs)) < len(outputs):
        raise ValueError(
            f"The {argument!r} parameter must be a non-empty list of distinct outputs. Got {outputs!r:.60} instead."
        )
    names = range(model.n_labels) if model.label_names is None else model.label_names.tolist()
    position = {name: i for i, name in enumerate(names)}
    for value in outputs:
        if value not in position:
            known = (
                f"indices below {model.n_labels}" if model.label_names is None else "label names of the model"
            )
            raise ValueError(f"The {argument!r} parameter must have {known}. Got {value!r} instead.")
    return np.array([position[value] for value in outputs], np.int64)
