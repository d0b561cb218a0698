"""``sparseleaf report``: an HTML report on a model and labelled data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparseleaf._files import as_path, read_bytes
from sparseleaf.cli._common import (
    AUTO,
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
    check_output,
    read_rows,
    readable_bytes,
)

if TYPE_CHECKING:
    from sparseleaf.data import Rows


def report(
    model: Model,
    data: Data,
    output: Annotated[
        PathOrURL, typer.Option("--output", "-o", metavar="FILE", help="HTML file to write.", parser=as_path)
    ],
    text: TextField = None,
    labels: Labels = None,
    label_separator: LabelSeparator = None,
    target: Target = None,
    format_: DataFormat = AUTO,
    qid: Qid = None,
    title: Annotated[str | None, typer.Option(help="Title of the report.")] = None,
    label_names: Annotated[
        PathOrURL | None,
        typer.Option(
            metavar="FILE",
            help="Names of the labels: lines of a label, a tab and a name, or a JSON object.",
            parser=as_path,
        ),
    ] = None,
    feature_names: Annotated[
        PathOrURL | None,
        typer.Option(metavar="FILE", help="Names of the features, one per line.", parser=as_path),
    ] = None,
    decode: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Labels that count as predicted in the table of labels, such as top:5."
        ),
    ] = None,
    examples: Annotated[int, typer.Option(min=0, help="Number of example rows.")] = 20,
    importances: Annotated[
        int,
        typer.Option(min=0, help="Number of labels with discriminative features, the most frequent ones."),
    ] = 1_000,
    trees: Annotated[int, typer.Option(min=0, help="Maximum number of trees in the tree browser.")] = 10,
    latency: Annotated[bool, typer.Option(help="Measure the time of predictions.")] = True,
    jobs: Jobs = None,
) -> None:
    """Write an HTML report on a model, evaluated on labelled data.

    One file that works offline: accuracy by number of predictions and by frequency of the labels, learning curve,
    reliability diagram, a searchable table of labels with their features and confusions, a tree browser, explained
    example rows, size, latency and parameters. For regression and ranking: errors per output or query.
    """
    check_output(output, "--output", [model, *data])

    import sparseleaf
    from sparseleaf.cli._label_files import read_names
    from sparseleaf.data import Columns
    from sparseleaf.report.build import build_report
    from sparseleaf.report.options import Options

    names = None if feature_names is None else read_bytes(feature_names).decode().splitlines()
    options = Options(
        title=title,
        decode=decode,
        feature_names=names,
        label_names=None if label_names is None else read_names(label_names),
        n_examples=examples,
        n_importances=importances,
        n_trees=trees,
        latency=latency,
    )
    how = Reading.of(format_, target, jobs, qid, text=text, labels=labels, label_separator=label_separator)
    estimator = sparseleaf.load(model, n_jobs=jobs)
    rows = read_rows(estimator, data, how, Columns.of_model(estimator))
    try:
        made = build_report(estimator, rows.X, _targets(estimator, rows), options, qid=rows.qid)
    except ValueError as error:
        raise ValueError(f"{', '.join(map(str, data))}: {error}") from None
    made.save(output)
    typer.echo(f"wrote {output} ({readable_bytes(len(made.to_html().encode()))})")


def _targets(estimator: Any, rows: Rows) -> Any:
    """Targets of files; label ids of XC text are columns of the model even if its labels have names."""
    import numpy as np
    from scipy import sparse
    from sklearn.base import is_classifier

    from sparseleaf.data.targets import Targets

    model, y = estimator.model_, rows.y
    if not is_classifier(estimator) or not sparse.issparse(y) or model.label_names is None:
        return y
    width = max(model.n_labels, y.shape[1])
    names = np.empty(width, object)
    names[: model.n_labels] = model.label_names
    names[model.n_labels :] = [f"label {number}" for number in range(model.n_labels, width)]
    matrix = sparse.csr_matrix((y.data, y.indices, y.indptr), shape=(rows.n_rows, width))
    return Targets(matrix, names, model.target_kind)
