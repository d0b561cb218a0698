"""``sparseleaf calibrate``: probabilities and thresholds of a trained classifier."""

from __future__ import annotations

from typing import Annotated

import typer

from sparseleaf._files import as_path
from sparseleaf.cli._common import (
    AUTO,
    Data,
    DataFormat,
    Jobs,
    Labels,
    LabelSeparator,
    Model,
    PathOrURL,
    Reading,
    Target,
    TextField,
    check_output,
    read_rows,
    save_model,
)

NONE = "none"


def calibrate(
    model: Model,
    data: Data,
    output: Annotated[
        PathOrURL | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Model file to write; by default MODEL.", parser=as_path
        ),
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            metavar="METHOD",
            help="isotonic, platt, auto (isotonic, or platt with few rows), or none to keep the calibrator.",
        ),
    ] = AUTO,
    threshold: Annotated[
        str | None,
        typer.Option(
            metavar="TARGET",
            help="Also choose the thresholds of predict, for f1, macro-f1, balanced-f1 or precision:x.",
        ),
    ] = None,
    per_label: Annotated[bool, typer.Option("--per-label", help="One threshold per label.")] = False,
    labels: Labels = None,
    label_separator: LabelSeparator = None,
    target: Target = None,
    text: TextField = None,
    format_: DataFormat = AUTO,
    jobs: Jobs = None,
) -> None:
    """Calibrate a classifier on labelled data that was not used in training.

    Scores are mapped to probabilities, which sparseleaf predict --proba writes. The ranking of labels does not change.
    With --threshold, the thresholds of predict are chosen on the same data.
    """
    from sparseleaf.calibration.thresholds import parse_target

    if per_label and threshold is None:
        raise ValueError("--per-label requires --threshold.")
    if threshold is not None:
        parse_target(threshold)
    written = model if output is None else output
    check_output(written, "--output", data)

    import sparseleaf
    from sparseleaf.data import Columns
    from sparseleaf.estimators.probabilities import CalibrationMixin
    from sparseleaf.model.stage import Role

    estimator = sparseleaf.load(model, n_jobs=jobs)
    if not isinstance(estimator, CalibrationMixin):
        raise ValueError(f"sparseleaf calibrate requires a classifier. Got {estimator.method!r} instead.")
    how = Reading.of(format_, target, jobs, text=text, labels=labels, label_separator=label_separator)
    rows = read_rows(estimator, data, how, Columns.of_model(estimator))
    if method != NONE:
        estimator.fit_calibration(rows.X, rows.y, method=method)
    if threshold is not None:
        estimator.set_threshold(rows.X, rows.y, target=threshold, per_label=per_label)
    save_model(estimator, written)
    calibrator, decision = estimator.model_.calibrator, estimator.model_.stage(Role.DECISION)
    summary = (
        "no calibrator"
        if calibrator is None
        else f"{calibrator.kind}, {calibrator.n_groups} groups of labels"
    )
    if decision is not None:
        summary += f"; {len(decision.values):,} threshold{'s' * (len(decision.values) > 1)}"
    typer.echo(f"wrote {written}: {summary}")
