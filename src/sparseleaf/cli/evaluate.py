"""``sparseleaf evaluate``: metrics and prediction time of a model on labelled data."""

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
    Labels,
    LabelSeparator,
    Model,
    Qid,
    Reading,
    Target,
    TextField,
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
    text: TextField = None,
    labels: Labels = None,
    label_separator: LabelSeparator = None,
    target: Target = None,
    format_: DataFormat = AUTO,
    qid: Qid = None,
    as_json: AsJson = False,
    a: Annotated[float, typer.Option("-A", help="Parameter A of the propensity model.")] = 0.55,
    b: Annotated[float, typer.Option("-B", help="Parameter B of the propensity model.")] = 1.5,
    jobs: Jobs = None,
) -> None:
    """Evaluate a model on labelled data.

    Classification: precision and nDCG at 1, 3 and 5, and their propensity-scored variants (psp, psndcg), which give
    more weight to rare labels; in percent in the table, as fractions with --json. Propensities are computed from the
    label counts of the training set. Use -A 0.5 -B 0.4 for WikiLSHTC-325K and Wikipedia-500K, -A 0.6 -B 2.6 for
    Amazon-670K and Amazon-3M, and the defaults for other datasets.

    Also micro- and macro-averaged F1 of the labels that predict returns (f1_micro, f1_macro) and, if the model has
    probabilities, the expected calibration error and the Brier score of the five best labels (ece, brier).

    Regression: RMSE, MAE and R² of each output.

    Ranking: NDCG, MAP, MRR and pairwise accuracy.
    """
    how = Reading.of(format_, target, jobs, qid, text=text, labels=labels, label_separator=label_separator)
    result = measure(model, data, how, a, b)
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
        table.caption = "\n".join([*_set_lines(result), _speed(result)])
    elif "outputs" in result:
        table.add_column("output")
        for name in NUMBERS:
            table.add_column(name.upper(), justify="right")
        for output, scores in {**result["outputs"], "all": result}.items():
            table.add_row(escape(printable(output)), *(f"{scores[name]:.4g}" for name in NUMBERS))
    else:
        table.add_column("metric")
        table.add_column("mean over queries", justify="right")
        for name in RANKS:
            table.add_row(name, f"{result[name]:.4f}")
    Console().print(table)


def _set_lines(result: dict[str, Any]) -> list[str]:
    """Metrics of label sets and probabilities, if there are some."""
    lines = []
    if "f1_micro" in result:
        lines.append(f"F1 of predict: micro {result['f1_micro']:.4f}, macro {result['f1_macro']:.4f}")
    if "ece" in result:
        lines.append(f"probabilities @{max(KS)}: ECE {result['ece']:.4f}, Brier {result['brier']:.4f}")
    return lines


def _speed(result: dict[str, Any]) -> str:
    return f"{result['rows']:,} rows, {result['ms_per_row']:.4f} ms per row"


def measure(model: Path, data: list[Path], how: Reading, a: float, b: float) -> dict[str, Any]:
    """The object that ``--json`` prints."""
    import numpy as np
    from sklearn.base import is_classifier
    from sklearn.utils.validation import has_fit_parameter

    import sparseleaf
    from sparseleaf import metrics
    from sparseleaf.data import Columns

    estimator = sparseleaf.load(model, n_jobs=how.n_jobs)
    metrics.propensities_from_counts(np.empty(0, np.int64), 1, a, b)  # validates A and B before reading
    rows = read_rows(estimator, data, how, Columns.of_model(estimator))
    if rows.n_rows == 0:
        raise ValueError(f"{', '.join(map(str, data))}: the data has no rows.")
    began = time.perf_counter()
    labels = is_classifier(estimator)
    predicted = topk(estimator, rows, max(KS))[0] if labels else estimator.predict(rows.X)
    seconds = time.perf_counter() - began
    try:
        if labels:
            result = _labels(estimator, rows, predicted, a, b)
        elif has_fit_parameter(estimator, "qid"):
            result = _ranks(rows, predicted)
        else:
            result = _numbers(estimator, rows, predicted)
    except ValueError as error:
        raise ValueError(f"{', '.join(map(str, data))}: {error}") from None
    n_rows = rows.n_rows
    return result | {"rows": n_rows, "seconds": seconds, "ms_per_row": 1000 * seconds / n_rows}


def _labels(estimator: Any, rows: Rows, labels: Any, a: float, b: float) -> dict[str, Any]:
    import numpy as np

    from sparseleaf import metrics
    from sparseleaf.data.targets import encode_labels

    ids = encode_labels(labels, estimator.model_.label_names)
    truth = _truth(estimator, rows.n_rows, rows.y)
    counts = np.asarray(estimator.model_.label_counts, np.int64)
    # labels not seen in training cannot be predicted, but they are true labels: their count is 0
    counts = np.concatenate([counts, np.zeros(truth.shape[1] - len(counts), np.int64)])
    propensity = metrics.propensities_from_counts(counts, estimator.model_.n_train_rows, a, b)
    depths = [k for k in KS if k <= max(1, estimator.model_.n_labels)]  # at most the number of labels
    scores = metrics.evaluate(truth, ids, propensity, depths)
    scores = dict(scores) | _sets(estimator, rows.X, truth)
    return {name: round(value, 8) for name, value in scores.items()}


def _sets(estimator: Any, X: Any, truth: sparse.csr_matrix) -> dict[str, float]:
    """F1 of the labels that predict returns, and, if the model has probabilities, their calibration."""
    from scipy import sparse

    from sparseleaf import metrics
    from sparseleaf.data.targets import ONE_CLASS_PER_ROW
    from sparseleaf.model.calibrator import all_entries

    model = estimator.model_
    if model.target_kind in ONE_CLASS_PER_ROW:
        return {}

    def widened(matrix: Any) -> sparse.csr_matrix:  # labels not seen in training are never predicted
        return sparse.csr_matrix((matrix.data, matrix.indices, matrix.indptr), shape=truth.shape)

    chosen = widened(estimator._decoded(X, None))
    chosen.data[:] = 1
    result = {f"f1_{average}": metrics.f1_score(truth, chosen, average) for average in ("micro", "macro")}
    if hasattr(estimator, "predict_proba"):
        best = estimator.predict_proba(X, max(KS))
        best = widened(best if sparse.issparse(best) else all_entries(best))
        result["ece"] = metrics.expected_calibration_error(truth, best)
        result["brier"] = metrics.brier_score(truth, best)
    return result


def _truth(estimator: Any, n_rows: int, Y: Any) -> sparse.csr_matrix:
    """True labels as columns of the model, followed by labels not seen in training.

    XC text has label ids, which are columns; labels of other files are matched by name.
    """
    from scipy import sparse

    from sparseleaf.data.targets import encode_known

    model = estimator.model_
    if sparse.issparse(Y):
        width = max(model.n_labels, Y.shape[1])
        return sparse.csr_matrix((Y.data, Y.indices, Y.indptr), shape=(n_rows, width))
    return encode_known(Y, n_rows, model.known_labels)


def _numbers(estimator: Any, rows: Rows, predicted: Any) -> dict[str, Any]:
    """RMSE, MAE and R² of each output, on the rows in which it is known, and their means."""
    import numpy as np

    from sparseleaf._errors import output_errors
    from sparseleaf.training.dense_targets import in_order

    values = (
        rows.y.toarray() if hasattr(rows.y, "toarray") else in_order(rows.y, estimator.model_.label_names)
    )
    truth = np.asarray(values, np.float64).reshape(len(predicted), -1)
    predicted = np.asarray(predicted, np.float64).reshape(len(predicted), -1)
    if truth.shape != predicted.shape:
        raise ValueError(f"expected {predicted.shape[1]} targets, as in training, got {truth.shape[1]}.")
    names = getattr(estimator, "output_names_", None)
    errors = output_errors(truth, predicted)
    outputs = {
        f"y{j}" if names is None else str(names[j]): {name: float(errors[name][j]) for name in NUMBERS}
        for j in range(truth.shape[1])
    }
    means = {name: float(np.nanmean([scores[name] for scores in outputs.values()])) for name in NUMBERS}
    return means | {"outputs": outputs}


def _ranks(rows: Rows, scores: Any) -> dict[str, Any]:
    from sparseleaf import ranking

    if rows.qid is None:
        raise ValueError("Ranking requires queries: svmlight with qid:, or --qid COLUMN.")
    return dict(ranking.evaluate(rows.y, scores, rows.qid))
