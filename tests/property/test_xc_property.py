import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scipy import sparse

import naive
from sparseleaf import _kernels
from sparseleaf.data import load_xc, save_xc

threads = st.integers(1, 5)
# Pieces that make texts which are nearly valid: random bytes alone hardly ever get past the header.
pieces = st.sampled_from(
    [
        *(
            b"0",
            b"1",
            b"2",
            b"3",
            b"17",
            b",",
            b":",
            b" ",
            b"\t",
            b"\n",
            b"\r\n",
            b"-",
            b"+",
            b".",
            b"e",
            b"\0",
        ),
        *(b"nan", b"inf", b"0:1", b" 1:0.5", b"1:-0.5", b"2:1e-50", b"0:3e38", b"1,2", b"9999999999"),
    ]
)
headers = st.sampled_from([b"", b"1 3 3\n", b"2 3 3\n", b"3 4 2\n", b"0 1 1\n", b"1000000000000 3 3\n"])
texts = st.one_of(
    st.binary(max_size=200),
    st.builds(lambda header, body: header + b"".join(body), headers, st.lists(pieces, max_size=30)),
)


@settings(max_examples=500, deadline=None)
@given(text=texts, n_threads=threads)
@example(text=b"1 3 3\n0 0:3e38 0:3e38 0:-3e38", n_threads=1)
def test_any_bytes_are_read_or_refused_as_the_slow_parser_does(text, n_threads):
    try:
        wanted = naive.parse_xc(text)
    except naive.BadLine as bad:
        with pytest.raises(ValueError, match=f"^line {bad.line}: "):
            _kernels.xc_parse(text, n_threads)
        return
    for got, expected in zip(_kernels.xc_parse(text, n_threads), wanted, strict=True):
        np.testing.assert_array_equal(got, expected)


@settings(max_examples=200, deadline=None)
@given(value=st.floats(width=32, allow_infinity=False), style=st.sampled_from(["{!r}", "{:.3e}", "{:.60f}"]))
def test_values_are_rounded_as_python_does(value, style):
    token = style.format(value)
    assume(not abs(float(token)) > 3.4e38)  # rounded to three digits, the largest are beyond float32
    _, _, _, _, _, _, _, values = _kernels.xc_parse(f"1 1 1\n 0:{token}".encode(), 1)
    wanted = np.float32(float(token))
    np.testing.assert_array_equal(values, wanted[None] if wanted != 0 else [])


@st.composite
def sets(draw):
    n, d, k = (draw(st.integers(0, 6)) for _ in range(3))
    values = st.floats(width=32, allow_infinity=False)
    X = sparse.lil_matrix((n, d), dtype=np.float32)
    Y = sparse.lil_matrix((n, k), dtype=np.float32)
    for row in range(n):
        for column in draw(st.sets(st.integers(0, d - 1))) if d else ():
            X[row, column] = draw(values)
        for column in draw(st.sets(st.integers(0, k - 1))) if k else ():
            Y[row, column] = 1
    return X.tocsr(), Y.tocsr()


@settings(max_examples=100, deadline=None)
@given(data=sets(), suffix=st.sampled_from(["", ".gz"]))
def test_round_trip(data, suffix, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / f"round-trip{suffix}"
    save_xc(path, *data)
    for got, wanted in zip(load_xc(path), data, strict=True):
        assert got.shape == wanted.shape
        np.testing.assert_array_equal(got.toarray(), wanted.toarray())
        assert got.nnz == np.count_nonzero(wanted.toarray())
