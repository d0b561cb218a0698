"""What the trials of a study depend on, in a form to compare: data, splits, metric, spaces and seed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sparseleaf._settings import plain_settings
from sparseleaf.fingerprint import describe, describe_arrays, describe_names
from sparseleaf.tuning.trials import TrialData, make_estimator

if TYPE_CHECKING:
    from sparseleaf.tuning.candidates import Candidate


def identity_of(data: TrialData, candidates: Mapping[str, Candidate], seed: int) -> dict[str, Any]:
    """Identity of a study: a file with another one is refused."""
    problem = data.problem
    named = {"X": problem.X, "y": problem.y, "qid": problem.qid, "sample_weight": problem.sample_weight}
    if problem.eval_set is not None:
        named["eval_set"] = list(problem.eval_set)
    rows = {name: describe_data(value) for name, value in named.items() if value is not None}
    splits = [part for split in data.validation.splits for part in (split.train, split.valid)]
    return {
        **rows,
        "task": problem.task,
        "validation": f"{data.validation.text}, {describe_arrays(splits)}"
        if splits
        else data.validation.text,
        "metric": data.metric.name,
        "seed": seed,
        "space": {
            candidate.key(name): dimension.text
            for candidate in candidates.values()
            for name, dimension in candidate.space.items()
        },
        "params": {
            method: plain_settings(make_estimator(candidate.kind, candidate.params), ())
            for method, candidate in candidates.items()
        },
    }


def describe_data(value: Any) -> str:
    """Size and fingerprint of features or targets in any form."""
    if hasattr(value, "columns"):
        parts = [f"{name}: {describe_data(value[name].to_numpy())}" for name in value.columns]
        return f"{' × '.join(map(str, value.shape))}, {describe_names(parts)}"
    if sp.issparse(value):
        return describe(sp.csr_matrix(value))
    if isinstance(value, list) and len(value) <= 3 and any(hasattr(one, "shape") for one in value):
        return "; ".join(describe_data(one) for one in value)  # an eval_set
    if hasattr(value, "dtype") or hasattr(value, "to_numpy"):
        array = np.asarray(value)
        if array.dtype.kind in "fiub" and array.ndim in (1, 2):
            return describe(array.astype(np.uint8) if array.dtype.kind == "b" else array)
        return describe_names(array.ravel().tolist())
    return describe_names(value)
