"""``sparseleaf evaluate``: how good a model is on labelled rows, and how fast."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparseleaf.cli._common import AsJson, Data, Jobs, Model, read_rows, topk_ids

if TYPE_CHECKING:
    from pathlib import Path

KS = (1, 3, 5)


def evaluate(
    model: Model,
    data: Data,
    as_json: AsJson = False,
    a: Annotated[float, typer.Option("-A", help="Constant A of the propensities.")] = 0.55,
    b: Annotated[float, typer.Option("-B", help="Constant B of the propensities.")] = 1.5,
    jobs: Jobs = None,
) -> None:
    """Measure precision and nDCG at 1, 3 and 5, also weighted by propensity (PS), in percent.

    Propensities come from the label counts of training, which the model keeps. A and B are 0.5 and 0.4 for
    WikiLSHTC-325K and Wikipedia-500K, 0.6 and 2.6 for Amazon-670K and Amazon-3M, the defaults for other sets.
    """
    result = measure(model, data, a, b, jobs)
    if as_json:
        typer.echo(json.dumps(result))
        return

    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=escape(model.name), caption=_speed(result))
    table.add_column("%")
    for k in KS:
        table.add_column(f"@{k}", justify="right")
    for name in ("P", "nDCG", "PSP", "PSnDCG"):
        table.add_row(name, *(f"{result[f'{name}@{k}']:.2f}" for k in KS))
    Console().print(table)


def _speed(result: dict[str, Any]) -> str:
    return f"{result['rows']:,} rows, {result['ms_per_row']:.4f} ms a row"


def measure(model: Path, data: list[Path], a: float, b: float, n_jobs: int | None) -> dict[str, Any]:
    """All that ``--json`` prints."""
    import numpy as np
    from scipy import sparse

    import sparseleaf
    from sparseleaf import metrics

    estimator = sparseleaf.load(model)
    known = estimator.model_.n_labels
    counts = np.asarray(estimator.model_.label_counts, np.int64)
    metrics.propensities_from_counts(counts[:0], 1, a, b)  # refuses bad A and B before rows are read
    X, Y = read_rows(data, estimator.model_.n_features, n_jobs)
    if X.shape[0] == 0:
        raise ValueError(f"{', '.join(map(str, data))}: found no rows to measure on.")
    began = time.perf_counter()
    ids, _ = topk_ids(estimator, X, max(KS), n_jobs)
    seconds = time.perf_counter() - began
    # a label that training never saw cannot be found, but it is a true label: its count is 0
    n_labels = max(known, Y.shape[1])
    truth = sparse.csr_matrix((Y.data, Y.indices, Y.indptr), shape=(Y.shape[0], n_labels))
    counts = np.concatenate([counts, np.zeros(n_labels - known, np.int64)])
    propensity = metrics.propensities_from_counts(counts, estimator.model_.n_train_rows, a, b)
    result: dict[str, Any] = {
        name: round(value, 6) for name, value in metrics.evaluate(truth, ids, propensity, KS).items()
    }
    return result | {"rows": X.shape[0], "seconds": seconds, "ms_per_row": 1000 * seconds / X.shape[0]}
