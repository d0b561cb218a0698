import gzip
import os
import re
import stat
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import naive
from sparseleaf import _kernels
from sparseleaf.data import load_xc, make_xc, save_xc

SMALL = b"4 5 6\n1,3 0:1 4:0.5\n 2:-3e-1\n5\n\n"


def write(folder, text, name="set.txt"):
    path = folder / name
    path.write_bytes(text)
    return path


def assert_same(a, b):
    assert a.shape == b.shape
    assert a.dtype == b.dtype
    np.testing.assert_array_equal(a.indptr, b.indptr)
    np.testing.assert_array_equal(a.indices, b.indices)
    np.testing.assert_array_equal(a.data, b.data)


def test_reads_rows_with_and_without_labels_and_features(tmp_path):
    X, Y = load_xc(write(tmp_path, SMALL))
    assert isinstance(X, sparse.csr_matrix)
    assert isinstance(Y, sparse.csr_matrix)
    assert X.dtype == Y.dtype == np.float32
    np.testing.assert_array_equal(
        X.toarray(),
        np.float32([[1, 0, 0, 0, 0.5], [0, 0, -0.3, 0, 0], [0] * 5, [0] * 5]),
    )
    np.testing.assert_array_equal(Y.toarray(), [[0, 1, 0, 1, 0, 0], [0] * 6, [0, 0, 0, 0, 0, 1], [0] * 6])
    for matrix in (X, Y):
        matrix.check_format(full_check=True)
        assert matrix.has_canonical_format


@pytest.mark.parametrize("n_threads", [1, 2, 7, 1000])
@pytest.mark.parametrize(
    "text",
    [
        SMALL,
        SMALL.replace(b"\n", b"\r\n"),
        SMALL.replace(b"\n", b" \t \n"),
        SMALL[:-1] + b" ",
        SMALL + b"\n \r\n",
        b"4\t5 6\n3,1,3\t4:0.5 0:1\n2:-0.1\t2:-0.2 1:0 3:-0.0\n 005\n\n",
    ],
)
def test_spellings_of_the_same_set(text, n_threads):
    for got, wanted in zip(_kernels.xc_parse(text, n_threads), naive.parse_xc(SMALL), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_array_of_bytes_is_accepted():
    assert _kernels.xc_parse(np.frombuffer(SMALL, dtype=np.uint8), 1)[:3] == (4, 5, 6)


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("nan", np.nan),
        ("-NaN", np.nan),
        (".5", 0.5),
        ("5.", 5),
        ("1E+2", 100),
        ("1e-45", 1e-45),
        ("3.4028235e38", 3.4028235e38),
        ("1" + "0" * 400 + "e-400", 1),
    ],
)
def test_values(value, wanted):
    np.testing.assert_array_equal(
        _kernels.xc_parse(f"1 1 1\n 0:{value}".encode(), 1)[-1], np.float32([wanted])
    )


@pytest.mark.parametrize(
    "value", ["0", "-0.0", "0e999", "1e-60", "1e-400", "0." + "0" * 400 + "1", "1e-99999999999999999999"]
)
def test_zeros_and_values_too_small_for_float32_are_not_stored(value):
    assert _kernels.xc_parse(f"1 1 1\n 0:{value}".encode(), 1)[-1].size == 0


def test_repeated_features_that_cancel_are_not_stored():
    assert _kernels.xc_parse(b"1 2 1\n 1:1 0:2 1:-1", 1)[-2].tolist() == [0]


BAD = [
    # line, text
    (1, b""),
    (1, b"\n"),
    (1, b"1 2"),
    (1, b"1 2 3 4\n"),
    (1, b"-1 2 3\n"),
    (1, b"-0 2 3\n"),
    (1, b"+1 2 3\n"),
    (1, b"1.0 2 3\n"),
    (1, b"1 2 2147483648\n"),
    (1, b"99999999999999999999 2 3\n"),
    (1, b"1 2 3\0\n"),
    (1, b"\xef\xbb\xbf1 2 3\n0 0:1\n"),
    (2, b"1 2 3\n\0\n"),
    (2, b"1 2 3\n3 0:1\n"),
    (2, b"1 2 3\n-1 0:1\n"),
    (2, b"1 2 3\n-0 0:1\n"),
    (2, b"1 2 3\n99999999999999999999 0:1\n"),
    (2, b"1 2 3\n0, 0:1\n"),
    (2, b"1 2 3\n,0 0:1\n"),
    (2, b"1 2 3\n0,,1 0:1\n"),
    (2, b"1 2 3\n1.5 0:1\n"),
    (2, b"1 2 3\n0 1 0:1\n"),
    (2, b"1 2 3\n0 0:1\0\n"),
    (2, b"1 2 3\n0 0:1 2:1\n"),
    (2, b"1 2 3\n0 -1:1\n"),
    (2, b"1 2 3\n0 4294967296:1\n"),
    (2, b"1 2 3\n0 0:\n"),
    (2, b"1 2 3\n0 :1\n"),
    (2, b"1 2 3\n0 0:1:2\n"),
    (2, b"1 2 3\n0 0:1,1:1\n"),
    (2, b"1 2 3\n0 0:+1\n"),
    (2, b"1 2 3\n0 0:0x1\n"),
    (2, b"1 2 3\n0 0:1e\n"),
    (2, b"1 2 3\n0 0:inf\n"),
    (2, b"1 2 3\n0 0:-Infinity\n"),
    (2, b"1 2 3\n0 0:nan(1)\n"),
    (2, b"1 2 3\n0 0:3.5e38\n"),
    (2, b"1 2 3\n0 0:1e400\n"),
    (2, b"1 2 3\n0 0:1e99999999999999999999\n"),
    (2, b"1 2 3\n0 0:1" + b"0" * 400 + b"\n"),
    (2, b"1 2 3\n0 0:3e38 0:3e38\n"),
    (2, b"1 2 3\n0\r0:1\n"),
    (2, b"0 2 3\n0 0:1\n"),
    (3, b"2 2 3\n0 0:1\n"),
    (3, b"1 2 3\n0 0:1\n\0\n"),
    (3, b"1000000000000000000 2 3\n0 0:1\n"),
    (4, b"3 2 3\n0 0:1\n\n9\n"),
]


@pytest.mark.parametrize(("line", "text"), BAD)
def test_bad_lines_are_named(line, text):
    with pytest.raises(naive.BadLine) as slow:
        naive.parse_xc(text)
    assert slow.value.line == line
    for n_threads in (1, 3):
        with pytest.raises(ValueError, match=f"^line {line}: "):
            _kernels.xc_parse(text, n_threads)


def test_first_bad_line_is_blamed_for_any_number_of_threads():
    rows = [b"0 0:1"] * 1000
    for bad in (700, 400, 999):
        rows[bad] = b"0 0:x%d" % bad
    text = b"1000 1 1\n" + b"\n".join(rows)
    messages = set()
    for n_threads in (1, 2, 3, 8, 64):
        with pytest.raises(ValueError) as error:
            _kernels.xc_parse(text, n_threads)
        messages.add(str(error.value))
    assert len(messages) == 1
    assert messages.pop().startswith("line 402: expected feature:value")


def test_message_shows_a_short_and_printable_excerpt():
    with pytest.raises(ValueError) as error:
        _kernels.xc_parse(b"1 1 1\n0 0:\x1b[2J'\\" + b"z" * 1000, 1)
    message = str(error.value)
    assert r"'0:\x1b[2J\x27\x5czzz" in message
    assert "...'" in message
    assert len(message) < 300
    assert message.isprintable()


def test_threads_must_be_positive():
    with pytest.raises(ValueError, match="n_threads"):
        _kernels.xc_parse(SMALL, 0)


def test_gzip_is_known_by_content(tmp_path):
    plain = load_xc(write(tmp_path, SMALL, "plain.gz"))
    packed = load_xc(write(tmp_path, gzip.compress(SMALL), "packed.txt"))
    members = load_xc(write(tmp_path, gzip.compress(SMALL[:20]) + gzip.compress(SMALL[20:]), "two.gz"))
    for other in (packed, members):
        for a, b in zip(plain, other, strict=True):
            assert_same(a, b)


@pytest.mark.parametrize("keep", [3, 10, 25, -4, -1])
def test_gzip_cut_short(tmp_path, keep):
    path = write(tmp_path, gzip.compress(SMALL)[:keep], "cut.gz")
    with pytest.raises(ValueError, match=re.escape(str(path)) + ".*truncated"):
        load_xc(path)


def test_gzip_damaged(tmp_path):
    packed = bytearray(gzip.compress(SMALL))
    packed[-6] ^= 1  # the checksum
    path = write(tmp_path, bytes(packed))
    with pytest.raises(ValueError, match=re.escape(str(path)) + ".*gzip"):
        load_xc(path)


def test_errors_name_the_file(tmp_path):
    good, bad = write(tmp_path, SMALL, "a"), write(tmp_path, SMALL.replace(b"5\n", b"6\n"), "b")
    bad.write_bytes(b"1 1 1\n1\n")
    with pytest.raises(ValueError, match=re.escape(str(bad)) + ": line 2: expected a label id"):
        load_xc([good, bad], n_features=9, n_labels=9)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load_xc(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="At least one file is required"):
        load_xc([])


def test_several_files_are_one_set(tmp_path):
    first, second = write(tmp_path, SMALL, "a"), write(tmp_path, b"1 5 6\n0 1:2\n", "b")
    X, Y = load_xc([str(second), first])
    X1, Y1 = load_xc(first)
    X2, Y2 = load_xc(second)
    assert_same(X, sparse.vstack([X2, X1], format="csr"))
    assert_same(Y, sparse.vstack([Y2, Y1], format="csr"))
    assert isinstance(X, sparse.csr_matrix)


def test_files_of_other_widths(tmp_path):
    first, second = write(tmp_path, SMALL, "a"), write(tmp_path, b"1 7 6\n0 6:2\n", "b")
    with pytest.raises(ValueError, match=r"b: expected 5 features and 6 labels, as in .*a, got 7 and 6"):
        load_xc([first, second])
    X, Y = load_xc([first, second], n_features=8)
    assert X.shape == (5, 8)
    assert Y.shape == (5, 6)
    with pytest.raises(ValueError, match=r"'n_features' parameter must be at least 7, as in .*b. Got 6"):
        load_xc([first, second], n_features=6)
    with pytest.raises(ValueError, match=r"'n_labels' parameter must be an int .* Got -1"):
        load_xc(first, n_labels=-1)


def test_widths_can_be_widened(tmp_path):
    X, Y = load_xc(write(tmp_path, SMALL), n_features=10, n_labels=1_000_000)
    assert X.shape == (4, 10)
    assert Y.shape == (4, 1_000_000)


def test_n_jobs_changes_nothing(tmp_path):
    save_xc(tmp_path / "set", *make_xc(500, 100, 50, 3.0, 10.0))
    one = load_xc(tmp_path / "set", n_jobs=1)
    for n_jobs in (0, 3):
        for a, b in zip(one, load_xc(tmp_path / "set", n_jobs=n_jobs), strict=True):
            assert_same(a, b)


@pytest.mark.parametrize("name", ["set.txt", "set.txt.gz"])
def test_saved_sets_come_back_bit_for_bit(tmp_path, name):
    X, Y = make_xc(3000, 200, 100, 2.0, 10.0, seed=3)
    X.data[::7] = np.nan
    X.data[1::7] = np.float32(1e-45)
    X.data[2::7] = np.finfo(np.float32).max
    path = tmp_path / name
    save_xc(path, X, Y)
    assert (path.read_bytes()[:2] == b"\x1f\x8b") == name.endswith(".gz")
    back = load_xc(path)
    assert_same(back[0], X)
    assert_same(back[1], Y)


def test_save_in_many_blocks(tmp_path, monkeypatch):
    X, Y = make_xc(300, 20, 10, 2.0, 5.0)
    save_xc(tmp_path / "whole", X, Y)
    monkeypatch.setattr("sparseleaf.data.xc._ENTRIES_PER_BLOCK", 50)
    save_xc(tmp_path / "blocks", X, Y)
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "blocks").read_bytes()


def test_saved_text_is_as_described(tmp_path):
    X = sparse.csr_array(np.array([[1, 0, 0.1], [0, 0, 0], [0, np.nan, 0]]))
    save_xc(tmp_path / "set", X, np.array([[1, 1], [0, 1], [0, 0]]))
    assert (tmp_path / "set").read_bytes() == b"3 3 2\n0,1 0:1 2:0.1\n1\n 1:nan\n"
    save_xc(tmp_path / "dense", X.toarray(), sparse.coo_array([[1, 1], [0, 1], [0, 0]]))
    assert (tmp_path / "dense").read_bytes() == (tmp_path / "set").read_bytes()


def test_empty_sets(tmp_path):
    for shape in ((0, 3, 2), (2, 0, 0), (0, 0, 0)):
        X, Y = (sparse.csr_matrix((shape[0], width), dtype=np.float32) for width in shape[1:])
        save_xc(tmp_path / "set", X, Y)
        back = load_xc(tmp_path / "set")
        assert_same(back[0], X)
        assert_same(back[1], Y)


def test_save_leaves_its_arguments_alone(tmp_path):
    X = sparse.csr_matrix((np.float32([1, 2, 0]), [1, 1, 0], [0, 3]), shape=(1, 2))
    save_xc(tmp_path / "set", X, sparse.csr_matrix([[1]]))
    assert X.nnz == 3
    assert (tmp_path / "set").read_bytes() == b"1 2 1\n0 1:3\n"


def test_same_data_same_gzip_bytes(tmp_path):
    X, Y = make_xc(100, 20, 10, 2.0, 5.0)
    save_xc(tmp_path / "a.gz", X, Y)
    save_xc(tmp_path / "b.gz", X, Y)
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = write(tmp_path, SMALL)

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        save_xc(path, sparse.csr_matrix((1, 1)), sparse.csr_matrix((1, 1)))
    assert path.read_bytes() == SMALL
    assert list(tmp_path.iterdir()) == [path]


def test_save_replaces_the_target_of_a_link_with_usual_permissions(tmp_path):
    real, link, fresh = tmp_path / "real", tmp_path / "link", tmp_path / "fresh"
    real.write_bytes(b"old")
    link.symlink_to(real)
    fresh.touch()
    save_xc(link, sparse.csr_matrix((1, 1)), sparse.csr_matrix((1, 1)))
    assert link.is_symlink()
    assert real.read_bytes() == b"1 1 1\n\n"
    assert stat.S_IMODE(real.stat().st_mode) == stat.S_IMODE(fresh.stat().st_mode)


@pytest.mark.parametrize(
    ("X", "Y", "message"),
    [
        (np.ones((2, 1)), np.ones((3, 2)), "Y must have 2 rows, as X. Got 3"),
        (np.array([[np.inf], [1]]), np.eye(2), "X contains infinity"),
        (np.array([[1e39], [1]]), np.eye(2), "X contains infinity"),
        (sparse.csr_matrix([[1e39], [1]]), np.eye(2), "X contains infinity"),
        (np.ones((2, 1)), 2 * np.eye(2), "Y must have values 0 and 1 .* Got 2.0"),
    ],
)
def test_save_refuses(tmp_path, X, Y, message):
    with pytest.raises(ValueError, match=message):
        save_xc(tmp_path / "set", X, Y)
    assert not list(tmp_path.iterdir())


def test_save_refuses_broken_and_overflowing_matrices(tmp_path):
    broken = sparse.csr_matrix(np.eye(2, dtype=np.float32))
    broken.indices[0] = 1000
    with pytest.raises(ValueError, match="X is not a valid sparse matrix"):
        save_xc(tmp_path / "set", broken, np.eye(2))
    huge = sparse.csr_matrix((np.float32([3e38, 3e38]), [0, 0], [0, 2]), shape=(1, 1))
    with pytest.raises(ValueError, match="repeated entries add up to infinity"):
        save_xc(tmp_path / "set", huge, sparse.csr_matrix((1, 1)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label_indptr": np.int64([0, 5])}, "beyond the ids"),
        ({"label_indptr": np.int64([-1, 1])}, "beyond the ids"),
        ({"feature_indptr": np.int64([0])}, "beyond the end of indptr"),
        ({"feature_indptr": np.int64([1, 0])}, "must not descend"),
        ({"values": np.float32([1, 2])}, "one entry per feature id"),
        ({"row_begin": -1}, "row_begin"),
        ({"row_end": 2}, "beyond the end of indptr"),
        ({"n_threads": 0}, "n_threads"),
    ],
)
def test_format_checks_its_arrays(change, message):
    arguments = {
        "label_indptr": np.int64([0, 1]),
        "label_ids": np.int32([0]),
        "feature_indptr": np.int64([0, 1]),
        "feature_ids": np.int32([0]),
        "values": np.float32([1]),
        "row_begin": 0,
        "row_end": 1,
        "n_threads": 2,
    }
    assert _kernels.xc_format(**arguments).tobytes() == b"0 0:1\n"
    with pytest.raises(ValueError, match=message):
        _kernels.xc_format(**arguments | change)


def test_paths_may_be_an_iterator(tmp_path):
    path = write(tmp_path, SMALL)
    assert load_xc(Path(p) for p in [path, path])[0].shape == (8, 5)
