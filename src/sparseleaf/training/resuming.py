"""What estimators tell a checkpoint of the data they train on, and what they take from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sparseleaf.fingerprint import describe, describe_arrays, describe_names
from sparseleaf.projection import Projection

if TYPE_CHECKING:
    import scipy.sparse as sp

    from sparseleaf._arrays import Array, Features
    from sparseleaf.checkpoint import Checkpoint
    from sparseleaf.data.targets import Targets
    from sparseleaf.model import Model
    from sparseleaf.objectives.queries import Queries
    from sparseleaf.objectives.targets import DenseTargets
    from sparseleaf.training.dense import Problem, Watched


def describe_targets(X: Features, targets: Targets) -> dict[str, str]:
    """Fingerprints of training rows and their labels."""
    return {"X": describe(X), "y": describe(targets.matrix)} | describe_names_of(targets.names)


def describe_names_of(names: Array | None) -> dict[str, str]:
    """Fingerprint of label names, where there are any."""
    return {} if names is None else {"label names": describe_names(names.tolist())}


def describe_watched(watched: Sequence[tuple[Features, sp.csr_matrix]]) -> dict[str, str]:
    """Fingerprints of validation sets."""
    found: dict[str, str] = {}
    for name, (X, Y) in zip(_set_names(len(watched)), watched, strict=True):
        found |= {f"{name} X": describe(X), f"{name} y": describe(Y)}
    return found


def _set_names(count: int) -> list[str]:
    return ["eval_set"] if count == 1 else [f"eval_set[{number}]" for number in range(count)]


def describe_problem(problem: Problem, sets: Sequence[Watched], before: Model | None) -> dict[str, str]:
    """Fingerprints of what a dense model is trained on beside its rows."""
    found = describe_names_of(problem.known.names)
    if problem.categories:
        found["categories"] = describe_names(sorted(problem.categories.items()))
    for name, watched in zip(_set_names(len(sets)), sets, strict=True):
        found[f"{name} X"] = describe(watched.features)
        found |= _describe_dense(f"{name} ", watched.targets, watched.queries)
    return found | describe_before(before)


def describe_before(before: Model | None) -> dict[str, str]:
    """Fingerprint of the model that training goes on from, where there is one."""
    if before is None:
        return {}
    trees = before.trees
    arrays = (trees.feature, trees.threshold, trees.leaf_values, before.base_score)
    return {"init_model": describe_arrays([array for array in arrays if array is not None])}


def _describe_dense(whose: str, targets: DenseTargets, queries: Queries | None) -> dict[str, str]:
    found = {f"{whose}y": describe(targets.values if len(targets.values) else targets.classes)}
    if len(targets.weights):
        found[f"{whose}sample_weight"] = describe(targets.weights)
    if queries is not None:
        found[f"{whose}qid"] = describe(queries.of_rows())
        if len(queries.weights):
            found[f"{whose}sample_weight"] = describe(queries.weights)
    return found


def kept_projection(checkpoint: Checkpoint, n_features: int, keep_raw: bool) -> Projection | None:
    """The projection that a checkpoint holds."""
    components = checkpoint.part("projection").get("components")
    if components is None:
        return None
    with checkpoint.refusing():
        if components.dtype != np.float16 or components.ndim != 2 or components.shape[0] != n_features:
            raise ValueError("projection.components is of another type or shape")
        if not np.isfinite(components).all():
            raise ValueError("projection.components holds a number that is not finite")
    return Projection(components, keep_raw)
