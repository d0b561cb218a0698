import itertools

import numpy as np
import pytest
import scipy.sparse as sp

from sparseleaf.fingerprint import BLOCK_ROWS, describe, describe_arrays, describe_names, fingerprint

RNG = np.random.default_rng(0)
DENSE = RNG.normal(size=(2 * BLOCK_ROWS + 7, 3)).astype(np.float32)
SPARSE = sp.random(DENSE.shape[0], 9, 0.3, "csr", np.float32, 1)


@pytest.mark.parametrize("rows", [DENSE, SPARSE, DENSE[:, 0].astype(np.float64), np.arange(40_000)])
def test_parts_add_up_wherever_they_are_cut(rows):
    whole = fingerprint(rows)
    for ends in ([0, 1, 5, BLOCK_ROWS, rows.shape[0]], [0, 3 * BLOCK_ROWS // 2, rows.shape[0]]):
        parts = [fingerprint(rows[a:b], a) for a, b in itertools.pairwise(ends)]
        assert sum(parts) % 2**64 == whole
    assert fingerprint(rows[:0]) == 0


@pytest.mark.parametrize("rows", [DENSE[:50], SPARSE[:50]])
def test_any_change_is_seen(rows):
    dense = rows.toarray() if sp.issparse(rows) else rows
    seen = {fingerprint(rows)}
    changes = [dense[::-1], dense[:, ::-1], dense[1:], -dense, np.roll(dense, 1), np.hstack([dense, dense])]
    for row, column in RNG.integers(0, (50, dense.shape[1]), (30, 2)).tolist():
        other = dense.copy()
        other[row, column] = np.nextafter(other[row, column], 9, dtype=np.float32)
        changes.append(other)
    distinct = {np.ascontiguousarray(other).tobytes() for other in changes}
    for other in changes:
        seen.add(fingerprint(sp.csr_matrix(other) if sp.issparse(rows) else other))
    assert len(seen) == 1 + len(distinct)


def test_how_a_matrix_is_stored_does_not_matter():
    shuffled = SPARSE.copy()
    for a, b in zip(shuffled.indptr[:100], shuffled.indptr[1:101], strict=True):
        order = RNG.permutation(b - a)
        shuffled.indices[a:b], shuffled.data[a:b] = shuffled.indices[a:b][order], shuffled.data[a:b][order]
    assert fingerprint(shuffled) == fingerprint(SPARSE)
    assert fingerprint(np.asfortranarray(DENSE)) == fingerprint(DENSE)
    assert fingerprint(np.array([True, False])) == fingerprint(np.array([1, 0], np.int8))


def test_descriptions_hold_the_shape():
    assert describe(DENSE[:5]).startswith("5 × 3 (fingerprint ")
    assert describe(DENSE[:5, 0]).startswith("5 (fingerprint ")
    assert describe_names(["a", "b"]).startswith("2 (fingerprint ")
    assert describe_names(["a", "b"]) != describe_names(["b", "a"])
    assert describe_names(["1"]) != describe_names([1])
    assert describe_arrays([DENSE, SPARSE.data]) != describe_arrays([SPARSE.data, DENSE])
