"""Memory of a Spark worker, by the formulas with which training estimates it."""

from __future__ import annotations

from benchmarks.tables.common import DOCS, table, with_tables
from sparseleaf import MultiGBDTRegressor, SparseGBDTClassifier, memory

PAGE = DOCS / "spark.md"

NUMBERS = (("10⁶", 10**6, 50, 2), ("10⁷", 10**7, 100, 8), ("10⁸", 10**8, 100, 64))
"""Rows in words and as a number, features, workers; 32 outputs."""

TEXTS = (("10⁶", 10**6, 4), ("10⁷", 10**7, 16))
"""Rows in words and as a number, workers; 50 words of 2¹⁸ and 5 labels of 10⁵ per row."""

LIST, NAME = 56, 68
"""Bytes of a list of labels, and of a label in it: the pointer and a short text."""

N_OUTPUTS, N_WORDS, VOCABULARY, N_LABELS, LABELS_PER_ROW = 32, 50, 1 << 18, 10**5, 5


def page() -> str:
    """The page on Spark with its table regenerated."""
    heads = ["training set", "estimator", "P", "reading", "training"]
    return with_tables(PAGE, table(heads, [*numbers(), *texts()]) + "\n")


def numbers() -> list[list[str]]:
    settings = MultiGBDTRegressor(n_trees=100, max_leaves=31)._settings()
    rows = []
    for words, n_rows, n_features, n_workers in NUMBERS:
        estimated = memory.estimate_dense(
            n_rows // n_workers, n_features, N_OUTPUTS, hessian_columns=0, width=N_OUTPUTS, sketch_width=0,
            max_bins=settings.max_bins, n_trees=settings.n_trees, n_models=1, leaf_outputs=None,
            max_leaves=settings.max_leaves, histogram_budget=settings.histogram_mb << 20,
        )  # fmt: skip
        read = 2 * 4 * n_rows * (n_features + N_OUTPUTS) // n_workers
        what = f"{words} rows × {n_features} numbers, {N_OUTPUTS} outputs"
        rows.append(
            [what, "`MultiGBDTRegressor`", str(n_workers), gigabytes(read), gigabytes(estimated.total)]
        )
    return rows


def texts() -> list[list[str]]:
    rows = []
    for words, n_rows, n_workers in TEXTS:
        part = n_rows // n_workers
        estimated = SparseGBDTClassifier()._estimate(
            part, VOCABULARY, N_LABELS, part * LABELS_PER_ROW, "leml", False
        )
        read = part * (2 * 8 * N_WORDS + LIST + LABELS_PER_ROW * NAME)
        what = f"{words} texts of {N_WORDS} words, 10⁵ labels, {LABELS_PER_ROW} per row"
        training = f"{gigabytes(estimated.certain)} + scores"
        rows.append([what, "`SparseGBDTClassifier`", str(n_workers), gigabytes(read), training])
    return rows


def gigabytes(n_bytes: float) -> str:
    return f"{n_bytes / memory.GIB:.1f} GiB"
