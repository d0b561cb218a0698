"""Synthetic multi-label data with properties of real datasets, for tests, demos and benchmarks.

Every row is a mixture of up to three *topics*. A topic has its own labels and features with Zipf-distributed
frequencies and shares some with three related topics; a label also has a few features of its own. Label frequencies
follow a power law, topics overlap, and labels can be predicted from the features, but not perfectly.

Random draws are raw 64-bit numbers of a generator keyed by (seed, block of rows), and all arithmetic on them is exact
or a single rounded operation (no logarithms, no powers, no sums in an unspecified order): the same arguments give
identical bits on every machine, and the first rows do not depend on the number of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isqrt
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

__all__ = ["make_xc"]

# Changing these constants changes the data of every seed.
_BLOCK_ROWS = 1024
_TOPICS_PER_ROW = 3
_RELATED = 3
_LABEL_FEATURES = 4
# Probabilities of drawing from a related topic, and from the features of a label.
_RELATED_SHARE = 0.15
_LABEL_SHARE = 0.3
# Duplicate draws are rejected, so rows are filled in rounds: the first by frequency, later ones more and more
# uniformly, since the rare labels of a topic would take too many draws.
_EVEN_AFTER = 6
_ANYWHERE_AFTER = 10
_MAX_ROUNDS = 60

# Fractional parts of the golden ratio and of the square roots of 3, 2 and 7, as 64-bit fixed point.
_GOLDEN = 0x9E3779B97F4A7C15
_LABEL_STEPS = (_GOLDEN, 0xBB67AE8584CAA73B)
_FEATURE_STEPS = (0x6A09E667F3BCC909, 0xA54FF53A5F1D36F1)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def make_xc(
    n_rows: int = 10_000,
    n_features: int = 1_000,
    n_labels: int = 1_000,
    labels_per_row: float = 5.0,
    nnz_per_row: float = 50.0,
    seed: int = 0,
    *,
    dense_features: bool = False,
    n_topics: int | None = None,
    noise: float = 0.1,
) -> tuple[sparse.csr_matrix | NDArray[np.float32], sparse.csr_matrix]:
    """Generate a synthetic multi-label dataset with a power-law label distribution.

    Features and labels of a row depend on its latent topics. Rows are independent and identically distributed, so
    slices can be used as training and test sets. The first rows do not depend on ``n_rows``.

    Parameters
    ----------
    n_rows : int, default=10_000
        Number of rows.
    n_features : int, default=1_000
        Number of features.
    n_labels : int, default=1_000
        Number of labels.
    labels_per_row : float, default=5.0
        Mean number of labels per row. Rows have between about a quarter and two and a half times as many; no row is
        empty if the mean is at least 1.
    nnz_per_row : float, default=50.0
        Mean number of nonzero features per row. Ignored for dense features.
    seed : int, default=0
        Random seed >= 0. The same arguments generate the same dataset on every machine.
    dense_features : bool, default=False
        Whether X is dense: each topic is a random point, and a row is the weighted mean of its topics plus noise.
    n_topics : int, optional
        Number of topics. By default the square root of ``n_labels``, or fewer if topics would have too few labels.
    noise : float, default=0.1
        Fraction of labels and features that do not depend on the topics, in [0, 1]. For dense features, a third of the
        standard deviation of the noise.

    Returns
    -------
    X : csr_matrix or ndarray of float32, shape (n_rows, n_features)
        Features. Sparse rows are positive with unit Euclidean norm, with tf-idf-like weights.
    Y : csr_matrix of float32, shape (n_rows, n_labels)
        Labels as ones.

    Examples
    --------
    >>> from sparseleaf.data import make_xc
    >>> X, Y = make_xc(1_000, 200, 50, labels_per_row=3, nnz_per_row=10, seed=1)
    >>> X.shape, Y.shape
    ((1000, 200), (1000, 50))
    """
    _check_integer("n_rows", n_rows, 0)
    _check_integer("n_features", n_features, 1)
    _check_integer("n_labels", n_labels, 1)
    _check_integer("seed", seed, 0)
    _check_real("labels_per_row", labels_per_row, 0, n_labels)
    _check_real("noise", noise, 0, 1)
    if not dense_features:
        _check_real("nnz_per_row", nnz_per_row, 0, n_features)
    if n_topics is not None:
        _check_integer("n_topics", n_topics, 1)
        _check_real("n_topics", n_topics, 1, n_labels)

    world = _World.make(n_features, n_labels, labels_per_row, seed, n_topics, noise)
    points = world.topic_points() if dense_features else None
    dense = np.empty((n_rows if dense_features else 0, n_features), dtype=np.float32)
    X_parts: list[_Rows] = []
    Y_parts: list[_Rows] = []
    for block, begin in enumerate(range(0, n_rows, _BLOCK_ROWS)):
        # Whole blocks are drawn and then truncated, so that rows do not depend on n_rows.
        kept = min(_BLOCK_ROWS, n_rows - begin)
        stream = _Stream(seed, 1 + block)
        mixture = world.draw_mixture(stream)
        sizes = _row_sizes(begin, _LABEL_STEPS, labels_per_row, n_labels, seed)
        labels = world.draw_labels(stream, mixture, sizes)
        Y_parts.append(labels.renamed(world.label_names).head(kept))
        if points is not None:
            dense[begin : begin + kept] = world.draw_dense(stream, mixture, points)[:kept]
        else:
            sizes = _row_sizes(begin, _FEATURE_STEPS, nnz_per_row, n_features, seed)
            features = world.draw_features(stream, mixture, labels, sizes)
            features = replace(features, values=world.weigh(stream, features))
            X_parts.append(features.renamed(world.feature_names).head(kept))
    Y = _join(Y_parts, n_rows, n_labels)
    return (dense if dense_features else _join(X_parts, n_rows, n_features)), Y


# ------------------------------------------------------------------------------------------------ checks


def _check_integer(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral) or not least <= int(value) < 2**31:
        raise ValueError(
            f"The {name!r} parameter must be an int in the range [{least}, 2147483648). Got {value!r} instead."
        )


def _check_real(name: str, value: Any, least: float, most: float) -> None:
    if isinstance(value, bool) or not isinstance(value, Real) or not least <= float(value) <= most:
        raise ValueError(
            f"The {name!r} parameter must be a number in the range [{least}, {most}]. Got {value!r} instead."
        )


# ------------------------------------------------------------------------------------------------ drawing


class _Stream:
    """Random numbers keyed by (seed, key); only raw bits, whose stream numpy guarantees."""

    def __init__(self, seed: int, key: int) -> None:
        self._bits = np.random.PCG64(np.random.SeedSequence([int(seed), key]))

    def raw(self, size: int) -> NDArray[np.uint64]:
        return self._bits.random_raw(size)

    def uniform(self, size: int) -> Floats:
        """In [0, 1), multiples of 2⁻⁵³."""
        return _unit(self.raw(size))

    def below(self, limit: int | Ints, size: int) -> Ints:
        """Integers in [0, limit)."""
        return (self.uniform(size) * limit).astype(np.int64)

    def bells(self, size: int) -> Floats:
        """Nearly normal numbers of mean 0 and variance 1: sums of four 16-bit uniforms."""
        quarters = self.raw(size).view(np.uint16).reshape(size, 4).astype(np.int64)
        total = quarters[:, 0] + quarters[:, 1] + quarters[:, 2] + quarters[:, 3]
        # Each has variance 2³²/12, so four of them have standard deviation 2¹⁶/√3.
        return (total - 131070).astype(np.float64) * (1.7320508075688772 / 65536)

    def permutation(self, size: int) -> NDArray[np.int32]:
        return np.argsort(self.raw(size), kind="stable").astype(np.int32)


@dataclass(frozen=True)
class _Zipf:
    """Ranks 0, 1, … with probability in proportion to 1 / (rank + offset)."""

    cumulative: Floats

    @classmethod
    def make(cls, size: int, offset: float) -> _Zipf:
        # cumsum adds from left to right, always; sum may not.
        return cls(np.cumsum(1.0 / (np.arange(size) + offset)))

    def draw(self, stream: _Stream, size: int) -> Ints:
        at = stream.uniform(size) * self.cumulative[-1]
        # A product that rounds up to the last entry would fall off the end.
        ranks: Ints = np.minimum(np.searchsorted(self.cumulative, at, side="right"), self.cumulative.size - 1)
        return ranks


def _unit(bits: NDArray[np.uint64]) -> Floats:
    """64-bit fixed point to [0, 1), exactly: the upper 53 bits are what a float64 holds."""
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mix(key: Ints | NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A well mixed 64-bit hash of each key (splitmix64's finaliser)."""
    bits = key.astype(np.uint64) + np.uint64(_GOLDEN)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def _row_sizes(begin: int, steps: tuple[int, int], mean: float, most: int, seed: int) -> Ints:
    """Number of entries of each row of a block: skewed, with the given mean, in [0, most].

    A low-discrepancy sequence (fractional parts of multiples of an irrational number) keeps the mean accurate for small
    datasets and slices.
    """
    numbers = np.arange(begin, begin + _BLOCK_ROWS, dtype=np.uint64)
    shift = _mix(np.full(1, seed))
    spread, rounding = (_unit(numbers * np.uint64(step) + shift) for step in steps)
    base = 1.0 if mean >= 1 else 0.0  # from 1 on, every row has an entry
    rest = float(mean) - base
    # In [-3/4, 3/2] with mean 0; the largest row has 2.5 times the mean, or all there is.
    skew = 2.25 * spread * spread - 0.75
    room = min(1.0, (most - mean) / (1.5 * rest)) if rest > 0 else 0.0
    exact = base + rest * (1.0 + room * skew)
    return np.minimum((exact + rounding).astype(np.int64), most)


@dataclass(frozen=True)
class _Rows:
    """Ids of each row of a block, ascending: row r has ids[indptr[r]:indptr[r + 1]]."""

    indptr: Ints
    ids: NDArray[np.int32]
    values: NDArray[np.float32]

    @property
    def rows(self) -> Ints:
        return np.repeat(np.arange(self.indptr.size - 1), np.diff(self.indptr))

    def head(self, n_rows: int) -> _Rows:
        end = self.indptr[n_rows]
        return _Rows(self.indptr[: n_rows + 1], self.ids[:end], self.values[:end])

    def renamed(self, names: NDArray[np.int32]) -> _Rows:
        """Replace each id by ``names[id]`` and sort the rows again."""
        ids = names[self.ids]
        order = np.argsort((self.rows << 32) + ids, kind="stable")
        return _Rows(self.indptr, ids[order], self.values[order])


def _fill_rows(sizes: Ints, n_ids: int, draw: Callable[[Ints, int], Ints]) -> _Rows:
    """Draw ``sizes[r]`` distinct ids for each row r.

    ``draw(rows, round)`` returns an id in [0, n_ids) for each entry of ``rows``, or n_ids for none. Each round draws
    the missing entries.
    """
    n_rows = sizes.size
    keys = np.empty(0, dtype=np.int64)  # row · n_ids + id, ascending
    missing = sizes
    for round_ in range(_MAX_ROUNDS):
        rows = np.repeat(np.arange(n_rows), missing)
        if rows.size == 0:
            break
        ids = draw(rows, round_)
        new = rows * n_ids + ids
        # Two ascending runs: the stable sort merges them in one pass, several times faster than np.unique.
        keys = np.sort(np.concatenate([keys, np.sort(new[ids < n_ids])]), kind="stable")
        keys = keys[np.diff(keys, prepend=-1) > 0]
        missing = sizes - np.bincount(keys // n_ids, minlength=n_rows)
    counts = np.bincount(keys // n_ids, minlength=n_rows)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    return _Rows(indptr, (keys % n_ids).astype(np.int32), np.ones(keys.size, dtype=np.float32))


def _join(parts: list[_Rows], n_rows: int, n_columns: int) -> sparse.csr_matrix:
    indptr = np.zeros(n_rows + 1, dtype=np.int64)
    at, entries = 0, 0
    for part in parts:
        size = part.indptr.size - 1
        indptr[at + 1 : at + size + 1] = part.indptr[1:] + entries
        at, entries = at + size, entries + part.ids.size
    ids = np.concatenate([part.ids for part in parts] or [np.empty(0, dtype=np.int32)])
    values = np.concatenate([part.values for part in parts] or [np.empty(0, dtype=np.float32)])
    matrix = sparse.csr_matrix((values, ids, indptr), shape=(n_rows, n_columns))
    matrix.has_canonical_format = True
    return matrix


# ------------------------------------------------------------------------------------------------ topics


@dataclass(frozen=True)
class _Mixture:
    """Topics of each row of a block, int64 (rows, 3), and their weights, float64 (rows, 3), of sum 1."""

    topics: Ints
    weights: Floats

    def pick(self, stream: _Stream, rows: Ints) -> Ints:
        """Draw a topic of each row by weight."""
        u = stream.uniform(rows.size)
        first = self.weights[rows, 0]
        which = (u >= first).astype(np.int64) + (u >= first + self.weights[rows, 1])
        topics: Ints = self.topics[rows, which]
        return topics


@dataclass(frozen=True)
class _World:
    """Distribution that all rows are drawn from.

    Labels and features are frequency ranks here; random ids are assigned at the end. Ranks are assigned to topics round
    robin, so nothing is stored per topic:

        topic           0    1    2   …
        most frequent   0    1    2   … T-1
        next            T   T+1  T+2  …
    """

    n_features: int
    n_labels: int
    n_topics: int
    noise: float
    seed: int
    related: Ints  # (n_topics, 3)
    topic_ranks: _Zipf
    label_ranks: _Zipf  # within a topic
    feature_ranks: _Zipf  # within a topic
    background: _Zipf  # all features
    label_names: NDArray[np.int32]
    feature_names: NDArray[np.int32]

    @classmethod
    def make(
        cls,
        n_features: int,
        n_labels: int,
        labels_per_row: float,
        seed: int,
        n_topics: int | None,
        noise: float,
    ) -> _World:
        if n_topics is None:
            n_topics = max(1, min(isqrt(n_labels), int(n_labels / (2 * labels_per_row + 1))))
        stream = _Stream(seed, 0)
        per_topic = -(-n_labels // n_topics)
        return cls(
            n_features=int(n_features),
            n_labels=int(n_labels),
            n_topics=int(n_topics),
            noise=float(noise),
            seed=int(seed),
            related=stream.below(n_topics, n_topics * _RELATED).reshape(n_topics, _RELATED),
            topic_ranks=_Zipf.make(n_topics, 5.0),
            label_ranks=_Zipf.make(per_topic, 1.0),
            feature_ranks=_Zipf.make(max(1, min(n_features, 10 + 2 * n_features // n_topics)), 3.0),
            background=_Zipf.make(n_features, 10.0),
            label_names=stream.permutation(n_labels),
            feature_names=stream.permutation(n_features),
        )

    def draw_mixture(self, stream: _Stream) -> _Mixture:
        n = _BLOCK_ROWS
        main = self.topic_ranks.draw(stream, n)
        near = self.related[main, stream.below(_RELATED, n)]
        far = self.topic_ranks.draw(stream, n)
        # The second topic is often absent and the third mostly: the degree of mixing varies.
        u, v = stream.uniform(n), stream.uniform(n)
        second, third = u * (u > 0.3), 0.5 * v * (v > 0.6)
        total = 1.0 + second + third
        weights = np.stack([1.0 / total, second / total, third / total], axis=1)
        return _Mixture(np.stack([main, near, far], axis=1), weights)

    def draw_labels(self, stream: _Stream, mixture: _Mixture, sizes: Ints) -> _Rows:
        per_topic = self.label_ranks.cumulative.size

        def draw(rows: Ints, round_: int) -> Ints:
            n = rows.size
            if round_ >= _ANYWHERE_AFTER:
                return stream.below(self.n_labels, n)
            topic = self._replace_topics(stream, mixture.pick(stream, rows))
            even = round_ >= _EVEN_AFTER
            rank = stream.below(per_topic, n) if even else self.label_ranks.draw(stream, n)
            # The last topics may have one label less: n_labels stands for no label.
            dealt: Ints = np.minimum(rank * self.n_topics + topic, self.n_labels)
            return dealt

        return _fill_rows(sizes, self.n_labels, draw)

    def draw_features(self, stream: _Stream, mixture: _Mixture, labels: _Rows, sizes: Ints) -> _Rows:
        n_labels = np.diff(labels.indptr)

        def draw(rows: Ints, round_: int) -> Ints:
            n = rows.size
            if round_ >= _ANYWHERE_AFTER:
                return stream.below(self.n_features, n)
            topic = self._replace_topics(stream, mixture.pick(stream, rows))
            rank = self.feature_ranks.draw(stream, n)
            drawn = self._hashed(topic, rank, 0)
            # Features of one of the row's labels, in place of the topic's.
            from_label = (stream.uniform(n) < _LABEL_SHARE) & (n_labels[rows] > 0)
            at = labels.indptr[rows] + stream.below(n_labels[rows], n)
            chosen = labels.ids[at[from_label]].astype(np.int64)
            drawn[from_label] = self._hashed(chosen, stream.below(_LABEL_FEATURES, n)[from_label], 1)
            # Noise: features of all topics, by frequency.
            common = stream.uniform(n) < self.noise + (0.2 if round_ < _EVEN_AFTER else 0.5)
            drawn[common] = self.background.draw(stream, n)[common]
            return drawn

        return _fill_rows(sizes, self.n_features, draw)

    def weigh(self, stream: _Stream, features: _Rows) -> NDArray[np.float32]:
        """Values of the features of a block: integer tf-idf, divided by the norm of the row."""
        # The bit length of the rank replaces the logarithm of the inverse frequency: it is exact.
        idf = np.frexp((features.ids + 1).astype(np.float64))[1].astype(np.int64)
        tf = 1 + stream.below(4, features.ids.size) // 2
        weight = tf * idf
        rows = features.rows
        squares = np.bincount(rows, weights=weight * weight, minlength=features.indptr.size - 1)
        return (weight / np.sqrt(squares)[rows]).astype(np.float32)

    def topic_points(self) -> NDArray[np.float32]:
        stream = _Stream(self.seed, 2**40)
        return stream.bells(self.n_topics * self.n_features).reshape(self.n_topics, -1).astype(np.float32)

    def draw_dense(
        self, stream: _Stream, mixture: _Mixture, points: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        X = stream.bells(_BLOCK_ROWS * self.n_features).reshape(_BLOCK_ROWS, -1).astype(np.float32)
        X *= np.float32(3 * self.noise)
        weights = mixture.weights.astype(np.float32)
        # A matrix product would have an unspecified summation order.
        for k in range(_TOPICS_PER_ROW):
            X += weights[:, k, None] * points[mixture.topics[:, k]]
        return X

    def _replace_topics(self, stream: _Stream, topic: Ints) -> Ints:
        """Replace some topics by a related topic, and some (noise) by any topic."""
        u = stream.uniform(topic.size)
        other = self.related[topic, stream.below(_RELATED, topic.size)]
        anywhere = stream.below(self.n_topics, topic.size)
        borrowed = np.where(u < self.noise + _RELATED_SHARE, other, topic)
        return np.where(u < self.noise, anywhere, borrowed)

    def _hashed(self, owner: Ints, number: Ints, salt: int) -> Ints:
        """Feature ``number`` of a topic (salt 0) or of a label (salt 1), by hashing."""
        key = (((owner << 31) + number) << 1) + salt
        hashed: NDArray[np.uint64] = _mix(_mix(np.full(1, self.seed)) ^ _mix(key))
        return (hashed % np.uint64(self.n_features)).astype(np.int64)
