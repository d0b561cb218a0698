"""``explain``: attribute the scores of rows to their features, in blocks of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sparseleaf._arrays import effective_n_jobs, row_blocks
from sparseleaf.model.attribution import Attribution, Pairs, stacked
from sparseleaf.model.explain import output_numbers
from sparseleaf.model.explanation import Explanation, Names
from sparseleaf.progress import phase

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.estimators.similar import LabelledRows
    from sparseleaf.model import Model

BLOCK_ROWS = 512
"""Rows that are explained at a time, which bounds memory."""


def explain_rows(
    model: Model,
    X: Features,
    labels: Sequence[Any] | Array | None,
    k: int,
    names: Names,
    n_neighbours: int,
    n_jobs: int | None,
    among: LabelledRows | None = None,
) -> Explanation:
    """Explain validated rows; ``among`` are rows to find similar ones in, instead of the model's neighbours."""
    for name, value, least in (("k", k, 1), ("n_neighbours", n_neighbours, 0)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise ValueError(f"The {name!r} parameter must be an int >= {least}. Got {value!r} instead.")
    chosen = None if labels is None else output_numbers(model, labels, "labels")
    threads = effective_n_jobs(n_jobs)
    pairs, scores, predicted, parts = [], [], [], []
    with phase("explaining", X.shape[0]) as advance:
        for block, rows in row_blocks(X, BLOCK_ROWS):
            some, values, part = model.explain(rows, chosen, int(k), threads)
            if among is not None:
                part = replace(part, similar=among.similar(rows, some, int(n_neighbours)))
            pairs.append(Pairs(some.rows + block.start, some.labels))
            scores.append(values)
            parts.append(_finite(part, values))
            predicted.append(model.predictions_of(rows, some, threads))
            advance(block.stop, "")
    return Explanation(
        X.shape[0],
        Pairs(np.concatenate([one.rows for one in pairs]), np.concatenate([one.labels for one in pairs])),
        np.concatenate(scores),
        None if predicted[0] is None else np.concatenate([one for one in predicted if one is not None]),
        stacked(parts),
        sp.csr_matrix(X),
        names,
        int(n_neighbours),
    )


def _finite(part: Attribution, scores: Array) -> Attribution:
    """Pairs whose contributions overflow, because of huge features, have only a base."""
    usable = np.isfinite(part.scores)
    if usable.all():
        return part
    data = np.where(np.repeat(usable, np.diff(part.terms.indptr)), part.terms.data, 0)
    components = {name: np.where(usable, values, 0) for name, values in part.components.items()}
    return Attribution(
        np.where(usable, part.base, scores),
        replace(part.terms, data=data),
        components | {"score": np.where(usable, 0.0, scores)},
        part.similar,
    )


def make_names(model: Model, feature_names: Any, titles: Any, among: LabelledRows | None = None) -> Names:
    """Names for an explanation; ValueError for arguments of a wrong length."""
    if feature_names is not None:
        feature_names = _strings("feature_names", feature_names, model.n_features, "feature")
    if among is not None:  # other rows than those that the model has titles of
        titles = [None] * among.n_rows if titles is None else titles
        titles = _strings("titles", titles, among.n_rows, "training row")
    elif titles is not None:
        titles = check_titles(titles, model)
    return Names(model, feature_names, titles)


def check_titles(titles: Any, model: Model) -> Sequence[Any]:
    """Titles of the training rows; ValueError if their number is another one."""
    return _strings("titles", titles, model.indexed_rows, "training row of the re-ranker")


def _strings(argument: str, names: Any, count: int | None, what: str) -> Sequence[Any]:
    """A sequence with a name for each."""
    if isinstance(names, str | bytes) or not hasattr(names, "__len__") or not hasattr(names, "__getitem__"):
        raise ValueError(f"The {argument!r} parameter must be a list of names. Got {names!r:.60} instead.")
    values: Sequence[Any] = names.to_list() if hasattr(names, "to_list") else names
    if count is not None and len(values) != count:
        raise ValueError(
            f"The {argument!r} parameter must have a name for each {what}, {count:,}. Got {len(values):,} instead."
        )
    return values
