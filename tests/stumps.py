"""The split search on its own: trees of one split, grown by the compiled builder on the rows of a node."""

from __future__ import annotations

import numpy as np

from sparseleaf import _kernels
from sparseleaf.distributed.communicator import LocalCommunicator
from sparseleaf.training.builder import (
    BinnedColumns,
    ExactTrees,
    Growth,
    HistogramTrees,
    TreeSample,
    gradient_columns,
)
from sparseleaf.training.columns import COUNT, DIAGONAL, MATRIX, SHARED, Columns, padded_width

KINDS = {"count": COUNT, "shared": SHARED, "diagonal": DIAGONAL, "matrix": MATRIX}


def find_splits(bins, columns, nodes, missing_bin, scoring, *, categorical=None, directions=None, min_samples=1,
                min_hessian=0.0, n_threads=2, features=None):  # fmt: skip
    """The best split of every node, a list of rows: None, or a dictionary; columns that only pad hold rubbish."""
    n_features, width = bins.shape[1], columns.shape[1]
    has_missing = np.array([(bins[:, f] == missing_bin[f]).any() for f in range(n_features)], np.uint8)
    trees = HistogramTrees(
        Growth("depth-wise", 2, None, min_samples, -np.inf), np.array(missing_bin) + has_missing, has_missing,
        np.zeros(n_features, np.uint8) if categorical is None else np.asarray(categorical, np.uint8),
        len(bins), scoring.l2, 1 << 24, 4, min_hessian,
        None if directions is None else np.asarray(directions, np.int8), scoring.top, scoring.shared,
    )  # fmt: skip
    binned = BinnedColumns(np.ascontiguousarray(bins, np.uint8), np.asarray(missing_bin, np.int32))
    builder = trees.make_builder(binned, n_threads)
    values = np.random.default_rng(0).integers(-1000, 1000, (len(bins), padded_width(width)))
    values[:, :width] = columns
    scales = Columns(KINDS[scoring.kind], scoring.weight, scoring.lambda_, scoring.step)
    fitted = gradient_columns(values.astype(np.int16), -1, scales)
    features = np.arange(n_features) if features is None else np.array(features)
    return [found_by(builder, fitted, rows, features.astype(np.int32)) for rows in nodes]


def found_by(builder, fitted, rows, features):
    """The one split of a tree on the given rows."""
    rows = np.array(rows, np.int32)
    sample = TreeSample(rows, np.empty(0, np.int32), features, len(features), 0)
    grown = builder.build(fitted, sample, LocalCommunicator(), by_rows=True)
    nodes = grown.nodes
    if nodes.feature[0] < 0:
        return None
    sets = nodes.sets[0] if len(nodes.sets) else np.zeros(32, np.uint8)
    return {
        "gain": float(nodes.gain[0]), "feature": int(nodes.feature[0]), "bin": int(nodes.bin[0]),
        "missing_left": bool(nodes.missing_left[0]), "left": int(nodes.count[1]), "set": sets,
        "bounds": nodes.leaf_bounds, "rows": [rows[a:b] for a, b in zip(grown.starts, grown.ends, strict=True)],
    }  # fmt: skip


def find_exact_splits(blocks, bins, nodes, missing_bin, n_labels, loss, *, k, step, l2, min_samples, features,
                      n_threads):  # fmt: skip
    """The same by the exact search, on sparse residuals."""
    trees = ExactTrees(Growth("depth-wise", 2, None, min_samples, -np.inf), k, step, l2, len(bins))
    binned = BinnedColumns(np.ascontiguousarray(bins, np.uint32), np.asarray(missing_bin, np.int32))
    builder = trees.make_builder(binned, n_threads)
    fitted = _kernels.ResidualBlocks(blocks, n_labels, loss)
    return [found_by(builder, fitted, rows, np.array(features, np.int32)) for rows in nodes]
