"""Partitions as they travel: what is told is the shorter of bits and places, and gives the bits back."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sparseleaf.engine.partitions import bit_sizes, lengthen, shorten, told_sizes

nodes = st.lists(
    st.integers(0, 400).flatmap(
        lambda n: st.tuples(
            st.just(n), st.sets(st.integers(0, max(n - 1, 0)), max_size=n and 12), st.booleans()
        )
    ),
    max_size=6,
)


def bits_of(ways):
    return [np.packbits(way, bitorder="little") for way in ways]


def ways_of(nodes):
    """One array a node: 1 for rows that go left, which are few or all but a few."""
    ways = []
    for n, few, are_left in nodes:
        way = np.full(n, not are_left, np.uint8)
        way[sorted(few)] = are_left
        ways.append(way)
    return ways


@given(nodes, st.booleans())
def test_what_is_told_gives_the_bits_back(nodes, known):
    ways = ways_of(nodes)
    rows = np.array([len(way) for way in ways], np.int64)
    lefts = np.array([way.sum() for way in ways], np.int64) if known else None
    told = shorten(np.concatenate([np.empty(0, np.uint8), *bits_of(ways)]), rows, lefts)
    sizes = told_sizes(rows, lefts)
    assert len(told) == sizes.sum()
    bits, offsets = lengthen(told, np.cumsum(sizes) - sizes, rows, lefts)
    for way, at, size in zip(bits_of(ways), offsets, bit_sizes(rows), strict=True):
        assert np.array_equal(bits[at : at + size], way)


def test_few_rows_are_listed():
    way = np.zeros(1000, np.uint8)
    way[[3, 999]] = 1
    for ways, left in ((way, 2), (1 - way, 998)):
        told = shorten(np.packbits(ways, bitorder="little"), np.array([1000]), np.array([left]))
        assert told.view("<u4").tolist() == [3, 999]
    assert told_sizes(np.array([1000, 1000, 1000]), np.array([31, 32, 500])).tolist() == [124, 125, 125]
