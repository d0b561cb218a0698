"""The partition as bits: made in one place, applied in another, the same as made and applied at once."""

import numpy as np
import pytest

from sparseleaf import _kernels


def make(seed, n_rows, n_nodes, kind):
    rng = np.random.default_rng(seed)
    bins = rng.integers(0, 12, (n_rows, 3)).astype(kind)
    rows = rng.permutation(n_rows).astype(np.int32)
    borders = np.sort(np.concatenate(([0, n_rows], rng.integers(0, n_rows + 1, n_nodes - 1)))).astype(
        np.int64
    )
    cuts = {
        "feature": rng.integers(0, 3, n_nodes).astype(np.int32),
        "cut": rng.integers(-1, 12, n_nodes).astype(np.int32),
        "missing_bin": np.full(n_nodes, 11, np.int32),
        "missing_left": rng.integers(0, 2, n_nodes).astype(np.uint8),
        "set_of": np.where(rng.random(n_nodes) < 0.3, 0, -1).astype(np.int32),
        "sets": rng.integers(0, 256, (1, 32)).astype(np.uint8),
    }
    return bins, rows, borders[:-1].copy(), borders[1:].copy(), cuts


@pytest.mark.parametrize("kind", [np.uint8, np.uint32])
@pytest.mark.parametrize("n_jobs", [1, 3])
@pytest.mark.parametrize(("n_rows", "n_nodes"), [(1, 1), (7, 3), (40, 9), (30_000, 2), (30_000, 40)])
def test_bits_part_rows_as_the_cuts_do(n_rows, n_nodes, n_jobs, kind):
    bins, rows, starts, ends, cuts = make(n_rows + n_nodes, n_rows, n_nodes, kind)
    wanted, middles = rows.copy(), np.empty(n_nodes, np.int64)
    _kernels.partition(bins, wanted, starts, ends, **cuts, middles=middles, n_threads=n_jobs)
    # any place will do for a node's bits: here they stand in reverse order
    sizes = (ends - starts + 7) // 8
    offsets = (np.cumsum(sizes[::-1]) - sizes[::-1])[::-1].copy()
    bits = np.full(int(sizes.sum()), 255, np.uint8)
    _kernels.left_bits(bins, rows, starts, ends, **cuts, offsets=offsets, bits=bits, n_threads=n_jobs)
    found, parted = rows.copy(), np.empty(n_nodes, np.int64)
    _kernels.partition_by_bits(found, starts, ends, offsets, bits, parted, n_jobs)
    assert found.tolist() == wanted.tolist()
    assert parted.tolist() == middles.tolist()
    for k in range(n_nodes):  # and bit by bit
        own = np.unpackbits(bits[offsets[k] : offsets[k] + sizes[k]], bitorder="little")
        left = set(wanted[starts[k] : middles[k]].tolist())
        assert own[: ends[k] - starts[k]].tolist() == [
            row in left for row in rows[starts[k] : ends[k]].tolist()
        ]
        assert not own[ends[k] - starts[k] :].any()


def test_bits_that_are_too_few_are_refused():
    bins, rows, starts, ends, cuts = make(0, 40, 3, np.uint8)
    offsets, bits = np.array([0, 1, 4]), np.zeros(4, np.uint8)
    with pytest.raises(ValueError, match="offsets: beyond bits"):
        _kernels.left_bits(bins, rows, starts, ends, **cuts, offsets=offsets, bits=bits, n_threads=1)
    with pytest.raises(ValueError, match="offsets: beyond bits"):
        _kernels.partition_by_bits(rows, starts, ends, offsets, bits, np.empty(3, np.int64), 1)
