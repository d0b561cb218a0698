"""``sparseleaf evaluate``: how good a model is on labelled rows, and how fast."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparseleaf.cli._common import (
    AsJson,
    Columns,
    Data,
    DataFormat,
    Format,
    Jobs,
    Model,
    Reading,
    Target,
    read_rows,
    topk_ids,
)

if TYPE_CHECKING:
    from pathlib import Path

    from scipy import sparse

KS = (1, 3, 5)


def evaluate(
    model: Model,
    data: Data,
    target: Target = None,
    format_: DataFormat = Format.AUTO,
    as_json: AsJson = False,
    a: Annotated[float, typer.Option("-A", help="Constant A of the propensities.")] = 0.55,
    b: Annotated[float, typer.Option("-B", help="Constant B of the propensities.")] = 1.5,
    jobs: Jobs = None,
) -> None:
    """Measure precision and nDCG at 1, 3 and 5, also weighted by propensity (PS), in percent.

    Propensities come from the label counts of training, which the model keeps. A and B are 0.5 and 0.4 for
    WikiLSHTC-325K and Wikipedia-500K, 0.6 and 2.6 for Amazon-670K and Amazon-3M, the defaults for other sets.
    """
    result = measure(model, data, Reading.of(format_, target, jobs), a, b)
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


def measure(model: Path, data: list[Path], how: Reading, a: float, b: float) -> dict[str, Any]:
    """All that ``--json`` prints."""
    import numpy as np

    import sparseleaf
    from sparseleaf import metrics

    estimator = sparseleaf.load(model)
    counts = np.asarray(estimator.model_.label_counts, np.int64)
    metrics.propensities_from_counts(counts[:0], 1, a, b)  # refuses bad A and B before rows are read
    X, Y = read_rows(estimator, data, how, Columns.of_model(estimator))
    if X.shape[0] == 0:
        raise ValueError(f"{', '.join(map(str, data))}: found no rows to measure on.")
    truth = _truth(estimator, X.shape[0], Y, data)
    began = time.perf_counter()
    ids, _ = topk_ids(estimator, X, max(KS), how.n_jobs)
    seconds = time.perf_counter() - began
    # a label that training never saw cannot be found, but it is a true label: its count is 0
    counts = np.concatenate([counts, np.zeros(truth.shape[1] - len(counts), np.int64)])
    propensity = metrics.propensities_from_counts(counts, estimator.model_.n_train_rows, a, b)
    result: dict[str, Any] = {
        name: round(value, 6) for name, value in metrics.evaluate(truth, ids, propensity, KS).items()
    }
    return result | {"rows": X.shape[0], "seconds": seconds, "ms_per_row": 1000 * seconds / X.shape[0]}


def _truth(estimator: Any, n_rows: int, Y: Any, data: list[Path]) -> sparse.csr_matrix:
    """True labels as columns of the model's, and behind them those that training never saw.

    XC text knows labels by their column, whatever the model calls them; other files by name.
    """
    from scipy import sparse

    from sparseleaf.estimators.base import encode_known

    model = estimator.model_
    if sparse.issparse(Y):
        width = max(model.n_labels, Y.shape[1])
        return sparse.csr_matrix((Y.data, Y.indices, Y.indptr), shape=(n_rows, width))
    try:
        return encode_known(Y, n_rows, model.known_labels)
    except ValueError as error:
        raise ValueError(f"{', '.join(map(str, data))}: {error}") from None
