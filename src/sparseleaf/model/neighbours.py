"""Training rows that vote, to the tensors of the model file and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from sparseleaf.model.codec import UNSIGNED
from sparseleaf.model.steps import decode_steps, encode_steps, join_leaps, split_leaps
from sparseleaf.routed.neighbours import NeighbourVotes

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.model.codec import Take

MOST_NEIGHBOURS = 2**16


def encode_neighbours(votes: NeighbourVotes) -> dict[str, Array]:
    """Tensors by name; the features' weights are those of the trees."""
    sizes, steps = encode_steps(votes.rows.indices, votes.rows.indptr)
    steps, leaps = split_leaps(steps)
    label_sizes, label_steps = encode_steps(votes.labels.indices, votes.labels.indptr)
    return {
        "settings": np.array([votes.n_neighbours, votes.weight], np.float32),
        "sizes": sizes,
        "steps": steps,
        "leaps": leaps,
        "values": votes.rows.data,
        "scale": votes.scale,
        "label_sizes": label_sizes,
        "label_steps": label_steps,
    }


def decode_neighbours(take: Take, feature_weights: Array, n_features: int, n_labels: int) -> NeighbourVotes:
    """The rows from their tensors; ValueError where they are not sound."""
    settings = take("settings", ("F32",), 1)
    sound = len(settings) == 2 and 1 <= settings[0] <= MOST_NEIGHBOURS and settings[0] == np.rint(settings[0])
    if not (sound and 0 <= settings[1] <= 1):
        raise ValueError(
            f"settings: wanted a number of rows up to {MOST_NEIGHBOURS} and a weight from 0 to 1"
        )
    sizes, label_sizes = take("sizes", UNSIGNED, 1), take("label_sizes", UNSIGNED, 1)
    if len(sizes) != len(label_sizes):
        raise ValueError(f"label_sizes: found {len(label_sizes)}; wanted one for each of {len(sizes)} rows")
    steps = join_leaps(take("steps", UNSIGNED, 1), take("leaps", ("U32",), 2))
    indices, indptr = decode_steps(sizes, steps, n_features)
    labels, label_indptr = decode_steps(label_sizes, take("label_steps", UNSIGNED, 1), n_labels)
    values = take("values", ("I8",), 1)
    if len(values) != len(indices):
        raise ValueError(f"values: found {len(values)}; wanted {len(indices)}")
    rows = sp.csr_matrix((len(sizes), n_features), dtype=np.int8)
    rows.data, rows.indices, rows.indptr = values, indices, indptr
    known = sp.csr_matrix((len(sizes), n_labels), dtype=np.int8)
    known.data, known.indices, known.indptr = np.ones(len(labels), np.int8), labels, label_indptr
    votes = NeighbourVotes(
        rows, take("scale", ("F32",), 1), known, feature_weights, int(settings[0]), float(settings[1])
    )
    _ = votes.kernel  # checks that indices exist and numbers are finite
    return votes
