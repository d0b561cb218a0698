"""Fingerprints of the training data for checkpoints, and what is restored from a checkpoint."""

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
    from sparseleaf.training.dense import Problem, ValidationSet


def describe_targets(X: Features, targets: Targets) -> dict[str, str]:
    """Fingerprints of training rows and their labels."""
    return {"X": describe(X), "y": describe(targets.matrix)} | describe_names_of(targets.names)


def describe_names_of(names: Array | None) -> dict[str, str]:
    """Fingerprint of the label names, if any."""
    return {} if names is None else {"label names": describe_names(names.tolist())}


def describe_validation_sets(sets: Sequence[tuple[Features, sp.csr_matrix]]) -> dict[str, str]:
    """Fingerprints of validation sets."""
    prints: dict[str, str] = {}
    for name, (X, Y) in zip(_set_names(len(sets)), sets, strict=True):
        prints |= {f"{name} X": describe(X), f"{name} y": describe(Y)}
    return prints


def _set_names(count: int) -> list[str]:
    return ["eval_set"] if count == 1 else [f"eval_set[{number}]" for number in range(count)]


def describe_problem(
    problem: Problem, sets: Sequence[ValidationSet], init_model: Model | None
) -> dict[str, str]:
    """Fingerprints of what a dense model is trained on besides its rows."""
    prints = describe_names_of(problem.known.names)
    if problem.categories:
        prints["categories"] = describe_names(sorted(problem.categories.items()))
    for name, one in zip(_set_names(len(sets)), sets, strict=True):
        prints[f"{name} X"] = describe(one.features)
        prints |= _describe_dense(f"{name} ", one.targets, one.queries)
    return prints | describe_init_model(init_model)


def describe_init_model(init_model: Model | None) -> dict[str, str]:
    """Fingerprint of the initial model, if any."""
    if init_model is None:
        return {}
    trees = init_model.trees
    arrays = (trees.feature, trees.threshold, trees.leaf_values, init_model.base_score)
    return {"init_model": describe_arrays([array for array in arrays if array is not None])}


def _describe_dense(whose: str, targets: DenseTargets, queries: Queries | None) -> dict[str, str]:
    prints = {f"{whose}y": describe(targets.values if len(targets.values) else targets.classes)}
    if len(targets.weights):
        prints[f"{whose}sample_weight"] = describe(targets.weights)
    if queries is not None:
        prints[f"{whose}qid"] = describe(queries.of_rows())
        if len(queries.weights):
            prints[f"{whose}sample_weight"] = describe(queries.weights)
    return prints


def kept_projection(checkpoint: Checkpoint, n_features: int, keep_raw: bool) -> Projection | None:
    """The projection of a checkpoint, if any."""
    components = checkpoint.part("projection").get("components")
    if components is None:
        return None
    with checkpoint.refusing():
        if components.dtype != np.float16 or components.ndim != 2 or components.shape[0] != n_features:
            raise ValueError("projection.components has the wrong type or shape")
        if not np.isfinite(components).all():
            raise ValueError("projection.components has values that are not finite")
    return Projection(components, keep_raw)
