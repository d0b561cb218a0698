"""Kernels of label names and hierarchies, compared with naive twins."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import naive_names as naive
from sparseleaf import _kernels
from sparseleaf._arrays import csr_parts
from sparseleaf._vectors import PackedLists, PackedVectors

N_FEATURES, N_WORDS, N_LABELS = 9, 7, 6


def csr_of(lists, width):
    indices = [index for one in lists for index in sorted(one)]
    starts = np.cumsum([0, *map(len, lists)])
    return sp.csr_matrix((np.ones(len(indices), np.float32), indices, starts), shape=(len(lists), width))


def random_names(rng):
    """A matcher, and what it is made of: similarities, names of every label, and weights."""
    similar = rng.choice([0, 0, 0, 0.625, 0.75, 1.0], (N_FEATURES, N_WORDS)).astype(np.float32)
    names = [
        [
            set(rng.choice(N_WORDS, rng.integers(0, 4), replace=False).tolist())
            for _ in range(rng.integers(0, 3))
        ]
        for _ in range(N_LABELS)
    ]
    weights = rng.integers(1, 9, N_WORDS).astype(np.float32)
    packed = PackedVectors.of(sp.csr_matrix(similar))
    similar = packed.unpacked().toarray()
    lists = PackedLists.of(csr_of([name for several in names for name in several], N_WORDS))
    starts = np.cumsum([0, *map(len, names)], dtype=np.int64)
    matcher = _kernels.NameMatcher(packed.kernel, lists.kernel, weights, starts)
    return matcher, similar, names, weights, (packed, lists)


@given(st.integers(0, 1000))
def test_names_are_matched_as_by_the_twin(seed):
    rng = np.random.default_rng(seed)
    matcher, similar, names, weights, _ = random_names(rng)
    X = (rng.random((70, N_FEATURES)) * (rng.random((70, N_FEATURES)) < 0.4)).astype(np.float32)
    parts = csr_parts(sp.csr_matrix(X))
    starts, labels = np.arange(71) * N_LABELS, np.tile(np.arange(N_LABELS, dtype=np.int32), 70)
    results = []
    for n_threads in (1, 3):
        proposed, table = np.empty((70, 4), np.int32), np.full((len(labels), 8), -1, np.float32)
        matcher.propose(*parts, proposed, n_threads)
        matcher.evidence(*parts, starts, labels, proposed, table, 1, n_threads)
        results.append((proposed, table))
    assert all(np.array_equal(a, b) for a, b in zip(*results, strict=True))
    assert (table[:, 0] == -1).all()
    heads = [
        max(sorted(name), key=lambda word: weights[word]) for several in names for name in several if name
    ]
    for row in range(70):
        scores = naive.propose(X[row], names, similar, weights)
        found = [label for label in proposed[row].tolist() if label >= 0]
        assert len(found) == min(4, len(scores))
        assert set(found) <= set(scores)
        values = [scores[label] for label in found]
        assert values == pytest.approx(sorted(scores.values(), reverse=True)[: len(found)], abs=1e-5)
        for label in range(N_LABELS):
            line = table[row * N_LABELS + label, 1:]
            place = found.index(label) if label in found else 4
            best = naive.best_name(X[row], names[label], similar, weights)
            number, (share, equal, mass, words, weight, _) = best or (None, (0, 0, 0, 0, 0, {}))
            name = set() if best is None else names[label][number]
            alike = heads.count(max(sorted(name), key=lambda word: weights[word])) if name else 0
            wanted = share, equal, mass, words, weight, np.log1p(alike), np.log1p(place)
            assert line == pytest.approx(wanted, abs=1e-4)


@given(st.integers(0, 1000))
def test_terms_of_a_match_add_up_to_its_share(seed):
    rng = np.random.default_rng(seed)
    matcher, similar, names, weights, _ = random_names(rng)
    X = (rng.random((5, N_FEATURES)) * (rng.random((5, N_FEATURES)) < 0.5)).astype(np.float32)
    rows = sp.csr_matrix(X)
    labels = np.tile(np.arange(N_LABELS, dtype=np.int32), 5)
    sizes = np.repeat(np.diff(rows.indptr), N_LABELS)
    offsets = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
    out = np.full(offsets[-1], np.nan)
    matcher.terms(*csr_parts(rows), np.arange(6) * N_LABELS, labels, offsets, out, 2)
    for pair, label in enumerate(labels.tolist()):
        terms = out[offsets[pair] : offsets[pair + 1]]
        best = naive.best_name(X[pair // N_LABELS], names[label], similar, weights)
        share, by = (best[1][0], best[1][5]) if best else (0, {})
        assert terms.sum() == pytest.approx(share, abs=1e-5)
        assert set(np.flatnonzero(terms).tolist()) == set(by.values())


TEXT = st.text("abcdä ß東", min_size=1, max_size=8)


@given(st.sets(TEXT), st.sets(TEXT.map(lambda text: text.replace(" ", "x"))))
def test_similar_terms_are_those_of_the_twin(terms, words):
    terms, words = sorted(terms, key=str.encode), sorted(words, key=str.encode)

    def packed(strings):
        encoded = [one.encode() for one in strings]
        return np.frombuffer(b"".join(encoded), np.uint8), np.array([*map(len, encoded)], np.uint32)

    for n_threads in (1, 2):
        indptr, columns, values = _kernels.similar_terms(*packed(terms), *packed(words), 3, 0.6, n_threads)
        for number, word in enumerate(words):
            own = slice(indptr[number], indptr[number + 1])
            wanted = [naive.similarity(word, term, 3, 0.6) for term in terms]
            assert columns[own].tolist() == [place for place, value in enumerate(wanted) if value]
            assert values[own] == pytest.approx([value for value in wanted if value])


@given(st.integers(0, 1000))
def test_related_values_are_those_of_the_twin(seed):
    rng = np.random.default_rng(seed)
    broader = [
        sorted(rng.choice(N_LABELS, rng.integers(0, 3), replace=False).tolist()) for _ in range(N_LABELS)
    ]
    broader = [[other for other in several if other != label] for label, several in enumerate(broader)]
    lists = PackedLists.of(csr_of(broader, N_LABELS))
    chosen = [np.sort(rng.choice(N_LABELS, rng.integers(0, N_LABELS), replace=False)) for _ in range(8)]
    labels = np.concatenate(chosen).astype(np.int32)
    starts = np.cumsum([0, *map(len, chosen)], dtype=np.int64)
    values = rng.integers(1, 5, len(labels)).astype(np.float32)  # with ties
    for n_threads in (1, 3):
        table = np.full((len(labels), 4), np.nan, np.float32)
        _kernels.related_values(starts, labels, values, lists.kernel, table, 1, n_threads)
        for row in range(8):
            own = slice(starts[row], starts[row + 1])
            lines = naive.related(dict(zip(labels[own].tolist(), values[own].tolist(), strict=True)), broader)
            assert table[own, 1:].tolist() == [list(lines[label]) for label in labels[own].tolist()]


def test_bad_names_are_refused():
    _, _, _, weights, (similar, lists) = random_names(np.random.default_rng(0))
    starts = np.array([0, lists.n_lists], np.int64)
    with pytest.raises(ValueError, match="one per word"):
        _kernels.NameMatcher(similar.kernel, lists.kernel, weights[:-1], starts)
    for bad in (np.nan, np.inf, 0.0, -1.0):
        wrong = weights.copy()
        wrong[2] = bad
        with pytest.raises(ValueError, match="finite and positive"):
            _kernels.NameMatcher(similar.kernel, lists.kernel, wrong, starts)
    with pytest.raises(ValueError, match="indptr"):
        _kernels.NameMatcher(similar.kernel, lists.kernel, weights, starts + 1)
    matcher = _kernels.NameMatcher(similar.kernel, lists.kernel, weights, starts)
    row = np.array([0, 1], np.int64), np.array([N_FEATURES], np.int32), np.ones(1, np.float32)
    with pytest.raises(ValueError, match="a feature that the model does not have"):
        matcher.propose(*row, np.empty((1, 2), np.int32), 1)
    row = row[0], np.array([0], np.int32), row[2]
    first, second = np.array([0], np.int32), np.array([1], np.int32)
    with pytest.raises(ValueError, match="no such label"):
        matcher.evidence(*row, row[0], second, np.empty((1, 2), np.int32), np.empty((1, 7), np.float32), 0, 1)
    with pytest.raises(ValueError, match="candidates, columns"):
        matcher.evidence(*row, row[0], first, np.empty((1, 2), np.int32), np.empty((1, 6), np.float32), 0, 1)
    with pytest.raises(ValueError, match="no such label"):
        _kernels.related_values(
            row[0], np.array([N_WORDS], np.int32), row[2], lists.kernel, np.empty((1, 3), np.float32), 0, 1
        )
