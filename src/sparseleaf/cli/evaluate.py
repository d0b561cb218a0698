"""``sparseleaf evaluate``: how good a model is on labelled rows, and how fast."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparseleaf._printable import printable
from sparseleaf.cli._common import (
    AUTO,
    AsJson,
    Data,
    DataFormat,
    Jobs,
    Model,
    Qid,
    Reading,
    Target,
    read_rows,
    topk,
)

if TYPE_CHECKING:
    from pathlib import Path

    from scipy import sparse

    from sparseleaf.data import Rows

KS = (1, 3, 5)
NUMBERS = ("rmse", "mae", "r2")
RANKS = ("ndcg@1", "ndcg@3", "ndcg@5", "ndcg@10", "map", "mrr", "pairwise")


def evaluate(
    model: Model,
    data: Data,
    target: Target = None,
    format_: DataFormat = AUTO,
    qid: Qid = None,
    as_json: AsJson = False,
    a: Annotated[float, typer.Option("-A", help="Constant A of the propensities.")] = 0.55,
    b: Annotated[float, typer.Option("-B", help="Constant B of the propensities.")] = 1.5,
    jobs: Jobs = None,
) -> None:
    """Measure a model on labelled rows.

    Classes and labels: precision and nDCG at 1, 3 and 5 (as far as there are so many labels), also weighted by
    propensity (psp, psndcg); in percent in the table, as fractions with --json. Propensities come from the label counts
    of training, which the model keeps. A and B are 0.5 and 0.4 for WikiLSHTC-325K and Wikipedia-500K, 0.6 and 2.6 for
    Amazon-670K and Amazon-3M, the defaults for other sets. Numbers: RMSE, MAE and R² of every output. Rankings: NDCG,
    MAP, MRR and pairs in the right order.
    """
    result = measure(model, data, Reading.of(format_, target, jobs, qid), a, b)
    if as_json:
        typer.echo(json.dumps(result))
        return

    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=escape(printable(model.name)), caption=_speed(result))
    if "precision@1" in result:
        table.add_column("%")
        depths = [k for k in KS if f"precision@{k}" in result]
        for k in depths:
            table.add_column(f"@{k}", justify="right")
        for name in ("precision", "ndcg", "psp", "psndcg"):
            table.add_row(name, *(f"{100 * result[f'{name}@{k}']:.2f}" for k in depths))
    elif "outputs" in result:
        table.add_column("output")
        for name in NUMBERS:
            table.add_column(name.upper(), justify="right")
        for output, found in {**result["outputs"], "all": result}.items():
            table.add_row(escape(printable(output)), *(f"{found[name]:.4g}" for name in NUMBERS))
    else:
        table.add_column("metric")
        table.add_column("mean over queries", justify="right")
        for name in RANKS:
            table.add_row(name, f"{result[name]:.4f}")
    Console().print(table)


def _speed(result: dict[str, Any]) -> str:
    return f"{result['rows']:,} rows, {result['ms_per_row']:.4f} ms a row"


def measure(model: Path, data: list[Path], how: Reading, a: float, b: float) -> dict[str, Any]:
    """All that ``--json`` prints."""
    import numpy as np
    from sklearn.base import is_classifier
    from sklearn.utils.validation import has_fit_parameter

    import sparseleaf
    from sparseleaf import metrics
    from sparseleaf.data import Columns

    estimator = sparseleaf.load(model, n_jobs=how.n_jobs)
    metrics.propensities_from_counts(
        np.empty(0, np.int64), 1, a, b
    )  # refuses bad A and B before rows are read
    rows = read_rows(estimator, data, how, Columns.of_model(estimator))
    if rows.X.shape[0] == 0:
        raise ValueError(f"{', '.join(map(str, data))}: found no rows to measure on.")
    began = time.perf_counter()
    labels = is_classifier(estimator)
    found = topk(estimator, rows.X, max(KS))[0] if labels else estimator.predict(rows.X)
    seconds = time.perf_counter() - began
    try:
        if labels:
            result = _labels(estimator, rows, found, a, b)
        elif has_fit_parameter(estimator, "qid"):
            result = _ranks(rows, found)
        else:
            result = _numbers(estimator, rows, found)
    except ValueError as error:
        raise ValueError(f"{', '.join(map(str, data))}: {error}") from None
    n_rows = rows.X.shape[0]
    return result | {"rows": n_rows, "seconds": seconds, "ms_per_row": 1000 * seconds / n_rows}


def _labels(estimator: Any, rows: Rows, labels: Any, a: float, b: float) -> dict[str, Any]:
    import numpy as np

    from sparseleaf import metrics
    from sparseleaf.data.targets import encode_labels

    ids = encode_labels(labels, estimator.model_.label_names)
    truth = _truth(estimator, rows.X.shape[0], rows.y)
    counts = np.asarray(estimator.model_.label_counts, np.int64)
    # a label that training never saw cannot be found, but it is a true label: its count is 0
    counts = np.concatenate([counts, np.zeros(truth.shape[1] - len(counts), np.int64)])
    propensity = metrics.propensities_from_counts(counts, estimator.model_.n_train_rows, a, b)
    depths = [k for k in KS if k <= max(1, estimator.model_.n_labels)]  # no more than there are to rank
    found = metrics.evaluate(truth, ids, propensity, depths)
    return {name: round(value, 8) for name, value in found.items()}


def _truth(estimator: Any, n_rows: int, Y: Any) -> sparse.csr_matrix:
    """True labels as columns of the model's, and behind them those that training never saw.

    XC text knows labels by their column, whatever the model calls them; other files by name.
    """
    from scipy import sparse

    from sparseleaf.data.targets import encode_known

    model = estimator.model_
    if sparse.issparse(Y):
        width = max(model.n_labels, Y.shape[1])
        return sparse.csr_matrix((Y.data, Y.indices, Y.indptr), shape=(n_rows, width))
    return encode_known(Y, n_rows, model.known_labels)


def _numbers(estimator: Any, rows: Rows, predicted: Any) -> dict[str, Any]:
    """RMSE, MAE and R² of every output, over the rows in which it is known, and their means."""
    import numpy as np

    from sparseleaf.training.dense_targets import in_order

    values = (
        rows.y.toarray() if hasattr(rows.y, "toarray") else in_order(rows.y, estimator.model_.label_names)
    )
    truth = np.asarray(values, np.float64).reshape(len(predicted), -1)
    predicted = np.asarray(predicted, np.float64).reshape(len(predicted), -1)
    if truth.shape != predicted.shape:
        raise ValueError(f"found {truth.shape[1]} targets; wanted {predicted.shape[1]}, as in training.")
    names = getattr(estimator, "output_names_", None)
    outputs = {}
    for j in range(truth.shape[1]):
        known = ~np.isnan(truth[:, j])
        error = predicted[known, j] - truth[known, j]
        around = ((truth[known, j] - truth[known, j].mean()) ** 2).sum() if known.any() else 0.0
        outputs[f"y{j}" if names is None else str(names[j])] = {
            "rmse": float(np.sqrt((error**2).mean())) if known.any() else float("nan"),
            "mae": float(np.abs(error).mean()) if known.any() else float("nan"),
            "r2": float(1 - (error**2).sum() / around) if around > 0 else float("nan"),
        }
    means = {name: float(np.nanmean([found[name] for found in outputs.values()])) for name in NUMBERS}
    return means | {"outputs": outputs}


def _ranks(rows: Rows, scores: Any) -> dict[str, Any]:
    from sparseleaf import ranking

    if rows.qid is None:
        raise ValueError("found no queries; wanted svmlight with qid:, or --qid COLUMN.")
    return dict(ranking.evaluate(rows.y, scores, rows.qid))
