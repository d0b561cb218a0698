"""A re-ranking stage to the tensors of the model file and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from sparseleaf.model.codec import UNSIGNED
from sparseleaf.model.steps import decode_steps, encode_steps, quantise, restored
from sparseleaf.rerank.centroids import MIXES, CentroidRerank

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.model.codec import Take

LARGEST_ENTRY = 2**7 - 1


def encode_rerank(rerank: CentroidRerank, compact: bool) -> dict[str, Array]:
    """Tensors by name; ``compact`` keeps entries in 8 bits, with a scale for every label."""
    matrix = rerank.centroids
    sizes, steps = encode_steps(matrix.indices, matrix.indptr)
    tensors: dict[str, Array] = {
        "mix": np.array([MIXES.index(rerank.mix)], np.uint8),
        "settings": np.array([rerank.weight, rerank.scale], np.float32),
        "squared_norms": rerank.squared_norms,
        "sizes": sizes,
        "steps": steps,
        "feature_weights": rerank.feature_weights,
    }
    if not compact:
        return tensors | {"values": matrix.data}
    label = np.repeat(np.arange(matrix.shape[0]), sizes)
    values, scale = quantise(matrix.data, label, matrix.shape[0], LARGEST_ENTRY)
    return tensors | {"values": values, "value_scale": scale}


def decode_rerank(take: Take, n_features: int, n_labels: int) -> CentroidRerank:
    """The stage from its tensors; ValueError where they are not sound."""
    mix, settings = take("mix", ("U8",), 1), take("settings", ("F32",), 1)
    if len(mix) != 1 or mix[0] >= len(MIXES):
        raise ValueError(f"mix: wanted one number below {len(MIXES)}")
    if len(settings) != 2 or not (0 <= settings[0] <= 1 and 0 <= settings[1] < np.inf):
        raise ValueError("settings: wanted a weight from 0 to 1 and a scale of at least 0")
    norms, sizes = take("squared_norms", ("F32",), 1), take("sizes", UNSIGNED, 1)
    if len(norms) != n_labels or len(sizes) != n_labels:
        raise ValueError(f"sizes and squared_norms must have a number for each of {n_labels} labels")
    indices, indptr = decode_steps(sizes, take("steps", UNSIGNED, 1), n_features)
    values = take("values", ("F32", "I8"), 1)
    if len(values) != len(indices):
        raise ValueError(f"values: found {len(values)}; wanted {len(indices)}")
    if values.dtype != np.float32:
        values = restored(values, take("value_scale", ("F32",), 1), sizes)
    weights = take("feature_weights", ("F32",), 1)
    if len(weights) not in (0, n_features) or not np.isfinite(weights).all():
        raise ValueError(
            f"feature_weights: wanted a finite number for each of {n_features} features, or none"
        )
    centroids = sp.csr_matrix((n_labels, n_features), dtype=np.float32)
    centroids.data, centroids.indices, centroids.indptr = values, indices, indptr
    rerank = CentroidRerank(centroids, norms, MIXES[mix[0]], float(settings[0]), float(settings[1]), weights)
    _ = rerank.kernel  # checks that indices exist and numbers are finite
    return rerank
