"""A re-ranking stage to the tensors of the model file and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sparseleaf._steps import narrow
from sparseleaf._vectors import PackedLists, PackedVectors, no_leaps
from sparseleaf.model.codec import UNSIGNED, decode_trees, encode_trees
from sparseleaf.model.model import Model
from sparseleaf.rerank import BAYES, KINDS, LEARNED, BayesRerank, CentroidRerank, LearnedRerank
from sparseleaf.rerank.learned import COLUMNS, OPINIONS, Evidence
from sparseleaf.rerank.linear import LinearModels
from sparseleaf.rerank.neighbours import Neighbours

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.model.codec import Has, Take
    from sparseleaf.rerank import Rerank


def encode_rerank(rerank: Rerank, compact: bool) -> dict[str, Array]:
    """Tensors by name; without ``compact`` entries of vectors are written as float32."""
    if isinstance(rerank, CentroidRerank):
        return _encode_centroids(rerank, compact)
    if isinstance(rerank, BayesRerank):
        return _encode_bayes(rerank, compact)
    evidence = rerank.evidence
    assert evidence.linear is not None
    tensors = _encode_centroids(evidence.centroids, compact)
    tensors |= {
        "mix": np.array([KINDS.index(rerank.mix)], np.uint8),
        "label_counts": narrow(evidence.label_counts),
        "linear.bias": evidence.linear.bias,
    }
    tensors |= _prefixed("linear", _encode_vectors(evidence.linear.weights, compact))
    if evidence.neighbours is not None:
        tensors |= _prefixed("neighbours", _encode_vectors(evidence.neighbours.postings, compact))
        theirs = evidence.neighbours.labels
        tensors |= {
            "neighbours.label_sizes": narrow(np.diff(theirs.indptr)),
            "neighbours.label_steps": theirs.steps,
        }
    if rerank.booster is None:
        return tensors | {"shares": rerank.shares}
    assert rerank.booster.base_score is not None
    tensors["booster.base_score"] = rerank.booster.base_score
    return tensors | _prefixed("booster", encode_trees(rerank.booster.trees, compact))


def decode_rerank(take: Take, has: Has, n_features: int, n_labels: int) -> Rerank:
    """The stage from its tensors; ValueError where they are not sound."""
    mix = take("mix", ("U8",), 1)
    if len(mix) != 1 or mix[0] >= len(KINDS):
        raise ValueError(f"mix: wanted one number below {len(KINDS)}")
    kind = KINDS[mix[0]]
    if kind == BAYES:
        return _decode_bayes(take, has, n_features, n_labels)
    centroids = _decode_centroids(take, has, kind, n_features, n_labels)
    if kind not in LEARNED:
        return centroids
    counts, bias = take("label_counts", (*UNSIGNED, "U64"), 1), take("linear.bias", ("F32",), 1)
    if len(counts) != n_labels or len(bias) != n_labels:
        raise ValueError(f"label_counts and linear.bias must have a number for each of {n_labels} labels")
    if not np.isfinite(bias).all():
        raise ValueError("linear.bias: must be finite")
    linear = LinearModels(_decode_vectors(take, has, "linear.", n_labels, n_features), bias)
    _ = linear.kernel  # checks that indices exist and numbers are finite
    neighbours = _decode_neighbours(take, has, n_features, n_labels) if has("neighbours.sizes") else None
    evidence = Evidence(centroids, linear, neighbours, counts)
    if kind == "boosted":
        return LearnedRerank(kind, evidence, np.empty(0, np.float32), _decode_booster(take, has))
    shares = take("shares", ("F32",), 1)
    if len(shares) != len(OPINIONS) or not ((shares >= 0) & (shares <= 1)).all():
        raise ValueError(f"shares: wanted {len(OPINIONS)} numbers from 0 to 1")
    return LearnedRerank(kind, evidence, shares, None)


def _encode_centroids(rerank: CentroidRerank, compact: bool) -> dict[str, Array]:
    return {
        "mix": np.array([KINDS.index(rerank.mix)], np.uint8),
        "settings": np.array([rerank.weight, rerank.scale], np.float32),
        "squared_norms": rerank.squared_norms,
        "feature_weights": rerank.feature_weights,
        **_encode_vectors(rerank.centroids, compact),
    }


def _decode_centroids(take: Take, has: Has, mix: str, n_features: int, n_labels: int) -> CentroidRerank:
    learned = mix in LEARNED  # which want the cosine alone
    mix = "cosine" if learned else mix
    settings, norms = take("settings", ("F32",), 1), take("squared_norms", ("F32",), 1)
    if len(settings) != 2 or not (0 <= settings[0] <= 1 and 0 <= settings[1] < np.inf):
        raise ValueError("settings: wanted a weight from 0 to 1 and a scale of at least 0")
    if len(norms) != n_labels:
        raise ValueError(f"squared_norms must have a number for each of {n_labels} labels")
    centroids = _decode_vectors(take, has, "", n_labels, n_features)
    weights = take("feature_weights", ("F32",), 1)
    if len(weights) not in (0, n_features) or not np.isfinite(weights).all():
        raise ValueError(
            f"feature_weights: wanted a finite number for each of {n_features} features, or none"
        )
    weight = 0.0 if learned else float(settings[0])
    rerank = CentroidRerank(centroids, norms, mix, weight, float(settings[1]), weights)
    _ = rerank.kernel  # checks that indices exist and numbers are finite
    return rerank


def _encode_bayes(rerank: BayesRerank, compact: bool) -> dict[str, Array]:
    return {
        "mix": np.array([KINDS.index(BAYES)], np.uint8),
        "settings": np.array([rerank.weight, rerank.most, rerank.power, *rerank.sureness], np.float32),
        "absent": rerank.absent,
        "log_shares": rerank.log_shares,
        **_encode_vectors(rerank.telling, compact),
    }


def _decode_bayes(take: Take, has: Has, n_features: int, n_labels: int) -> BayesRerank:
    settings = take("settings", ("F32",), 1)
    if len(settings) != 5 or not np.isfinite(settings).all():
        raise ValueError("settings: wanted five finite numbers")
    weight, most, power, slope, offset = settings.tolist()
    if not (0 <= weight <= 1 and most >= 1 and power >= 0 and slope > 0):
        raise ValueError("settings: wanted a weight from 0 to 1, a number of features, a power and a slope")
    absent, log_shares = take("absent", ("F32",), 1), take("log_shares", ("F32",), 1)
    if len(absent) != n_labels or len(log_shares) != n_labels:
        raise ValueError(f"absent and log_shares must have a number for each of {n_labels} labels")
    telling = _decode_vectors(take, has, "", n_labels, n_features)
    _ = telling.kernel  # checks that indices exist
    rerank = BayesRerank(telling, absent, log_shares, int(most), power, weight, (slope, offset))
    _ = rerank.kernel  # checks that indices exist and numbers are finite
    return rerank


def _decode_neighbours(take: Take, has: Has, n_features: int, n_labels: int) -> Neighbours:
    indptr = _indptr(take("neighbours.label_sizes", UNSIGNED, 1))
    theirs = PackedLists(indptr, take("neighbours.label_steps", UNSIGNED, 1), n_labels)
    postings = _decode_vectors(take, has, "neighbours.", n_features, theirs.n_lists)
    neighbours = Neighbours(postings, theirs)
    _ = neighbours.kernel, theirs.kernel  # checks that indices exist and numbers are finite
    return neighbours


def _decode_booster(take: Take, has: Has) -> Model:
    base = take("booster.base_score", ("F32",), 1)
    if len(base) != 1 or not np.isfinite(base).all():
        raise ValueError("booster.base_score: wanted one finite number")
    trees = decode_trees(
        lambda name, dtypes, ndim: take(f"booster.{name}", dtypes, ndim),
        lambda name: has(f"booster.{name}"),
        1,
    )
    if not np.isfinite(trees.feature_gain).all():
        raise ValueError("booster.feature_gain: must be finite")
    booster = Model(
        method="rank",
        n_features=len(COLUMNS),
        n_labels=1,
        trees=trees,
        projection=None,
        label_names=None,
        target_kind="regression-column",
        label_counts=np.zeros(1, np.int64),
        n_train_rows=0,
        parameters={},
        history={},
        base_score=base,
    )
    _ = booster.predictor  # checks that indices exist and numbers are finite
    return booster


def _encode_vectors(vectors: PackedVectors, compact: bool) -> dict[str, Array]:
    tensors = {"sizes": narrow(np.diff(vectors.indptr)), "steps": vectors.steps}
    if len(vectors.leaps):
        tensors["leaps"] = vectors.leaps
    if not compact or not len(vectors.scale):
        return tensors | {"values": vectors.whole_values}
    return tensors | {"values": vectors.values, "value_scale": vectors.scale}


def _decode_vectors(take: Take, has: Has, part: str, n_vectors: int, width: int) -> PackedVectors:
    """Vectors whose indices and numbers their kernel checks."""
    sizes = take(f"{part}sizes", UNSIGNED, 1)
    if len(sizes) != n_vectors:
        raise ValueError(f"{part}sizes: found {len(sizes)}; wanted {n_vectors}")
    steps = take(f"{part}steps", UNSIGNED, 1)
    leaps = take(f"{part}leaps", ("U32",), 2) if has(f"{part}leaps") else no_leaps()
    values = take(f"{part}values", ("F32", "I8"), 1)
    if len(values) != len(steps):
        raise ValueError(f"{part}values: found {len(values)}; wanted {len(steps)}")
    scale = np.empty(0, np.float32)
    if values.dtype != np.float32:
        scale = take(f"{part}value_scale", ("F32",), 1)
    return PackedVectors(_indptr(sizes), steps, width, leaps, values, scale)


def _indptr(sizes: Array) -> Array:
    return np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))


def _prefixed(part: str, tensors: dict[str, Array]) -> dict[str, Array]:
    return {f"{part}.{name}": tensor for name, tensor in tensors.items()}
