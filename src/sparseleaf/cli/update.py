"""``sparseleaf update``: update a model with new rows and labels."""

from __future__ import annotations

import inspect
import json
import math
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparseleaf._files import as_path
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
    PathOrURL,
    Qid,
    Reading,
    Target,
    TextField,
    Weight,
    check_output,
    read_rows,
    readable_bytes,
    save_model,
)

if TYPE_CHECKING:
    from sparseleaf.model.drift import Drift


class How(StrEnum):
    """How boosted trees are updated."""

    LEAVES = "leaves"
    TREES = "trees"


def update(
    model: Model,
    data: Data,
    output: Annotated[
        PathOrURL | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Model file to write; by default, MODEL is replaced.",
            parser=as_path,
        ),
    ] = None,
    forget: Annotated[
        float,
        typer.Option(metavar="F", help="Forgetting factor: earlier rows are weighted by 1 - F, 0 <= F < 1."),
    ] = 0.0,
    how: Annotated[
        How | None,
        typer.Option(help="How boosted trees are updated: refreshed leaves, or more trees on the new rows."),
    ] = None,
    n_trees: Annotated[
        int | None,
        typer.Option("--n-trees", min=1, metavar="N", help="Number of trees to add with --how trees."),
    ] = None,
    target: Target = None,
    labels: Labels = None,
    label_separator: LabelSeparator = None,
    text: TextField = None,
    format_: DataFormat = AUTO,
    qid: Qid = None,
    weight: Weight = None,
    as_json: AsJson = False,
    jobs: Jobs = None,
) -> None:
    """Update a model with new rows, which may have new labels, without regrowing its trees.

    First, the model is evaluated on the new rows. The result shows whether it still fits, or should be retrained.
    """
    from sparseleaf.estimators.updating import check_forget

    check_forget(forget)
    written = model if output is None else output
    check_output(written, "--output", data if output is None else [*data, model])

    import sparseleaf
    from sparseleaf.data import Columns

    estimator = sparseleaf.load(model, n_jobs=jobs)
    reading = Reading.of(
        format_, target, jobs, qid, weight, text=text, labels=labels, label_separator=label_separator
    )
    rows = read_rows(estimator, data, reading, Columns.of_model(estimator))
    if rows.n_rows == 0:
        raise ValueError(f"{', '.join(map(str, data))}: the data has no rows.")
    try:
        options = {"how": how, "n_trees": n_trees, "sample_weight": rows.sample_weight}
        options = _accepted(estimator, options, rows.qid)
        estimator.update(rows.X, _targets(estimator, rows.y), forget=forget, **options)
    except ValueError as error:
        raise ValueError(f"{', '.join(map(str, data))}: {error}") from None
    save_model(estimator, written)
    if as_json:
        typer.echo(json.dumps(estimator.drift_.as_dict() | {"reasons": estimator.drift_.reasons}))
        return
    for line in _lines(estimator.drift_):
        typer.echo(line)
    typer.echo(printable(f"wrote {written}: {_counts(estimator)}; {readable_bytes(written.stat().st_size)}"))


def _accepted(estimator: Any, options: dict[str, Any], qid: Any) -> dict[str, Any]:
    """Arguments of ``update``; ValueError for given ones that the estimator does not have."""
    options = {name: value for name, value in options.items() if value is not None}
    accepted = inspect.signature(estimator.update).parameters
    for name in options:
        if name not in accepted:
            raise ValueError(f"{name!r} is not supported for models of the method {estimator.method!r}.")
    return options | ({"qid": qid} if "qid" in accepted else {})


def _targets(estimator: Any, Y: Any) -> Any:
    """Targets as ``update`` takes them. XC text has label ids, which are columns of the model."""
    from scipy import sparse

    model = estimator.model_
    if not sparse.issparse(Y):
        return Y
    if model.label_names is None:  # a file of few rows may have fewer columns
        return sparse.csr_matrix(
            (Y.data, Y.indices, Y.indptr), shape=(Y.shape[0], max(Y.shape[1], model.n_labels))
        )
    if Y.shape[1] > model.n_labels and Y.indices.max(initial=0) >= model.n_labels:
        raise ValueError(
            f"Labels must be below {model.n_labels}: the labels of the model have names, which new ones would lack. Got"
            f" {Y.indices.max()}."
        )
    lists = zip(Y.indptr[:-1], Y.indptr[1:], strict=True)
    return [model.label_names[Y.indices[begin:end]].tolist() for begin, end in lists]


def _counts(estimator: Any) -> str:
    return f"{estimator.model_.n_train_rows:,} rows, {estimator.model_.n_labels:,} labels"


def _lines(drift: Drift) -> list[str]:
    """Drift in words."""
    lines = [
        f"{drift.n_rows:,} new rows, {drift.n_new_labels:,} new labels"
        f" ({100 * drift.new_label_rate:.1f} % of label occurrences),"
        f" {100 * drift.unknown_features:.1f} % unknown feature values"
    ]
    if drift.metric != "precision@1":
        expected = "" if math.isnan(drift.expected_value) else f"; expected {drift.expected_value:.4g}"
        lines.append(f"{drift.metric} before the update: {drift.value:.4g}{expected}")
    elif drift.n_evaluated:
        at = "/".join(f"{100 * value:.1f}" for value in drift.precision)
        before = ""
        if drift.n_expected:
            before = f"; expected {'/'.join(f'{100 * value:.1f}' for value in drift.expected)}"
        lines.append(f"precision@1/3/5 before the update: {at}{before}")
    lines += [f"retraining is recommended: {reason}" for reason in drift.reasons]
    return lines
