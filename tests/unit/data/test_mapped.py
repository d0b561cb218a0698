"""Sets on disk: what goes in is mapped as it was, and what is not a set is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

from sparseleaf import LdSMClassifier
from sparseleaf.data import load_mapped, load_xc, make_xc, map_xc, mapped, save_mapped, save_xc


@pytest.fixture
def rows():
    X, Y = make_xc(300, 40, 30, labels_per_row=3, nnz_per_row=8, seed=2)
    X, Y = X.tolil(), Y.tolil()
    X[5], Y[7] = 0, 0
    return X.tocsr(), Y.tocsr()


def same(a, b):
    return a.shape == b.shape and (a != b).nnz == 0


def is_mapped(array):
    while array is not None and not isinstance(array, np.memmap):
        array = array.base
    return array is not None


def test_what_is_saved_is_mapped(rows, tmp_path):
    save_mapped(tmp_path / "new" / "set", *rows)
    X, Y = load_mapped(tmp_path / "new" / "set")
    assert same(X, rows[0])
    assert same(Y, rows[1])
    assert is_mapped(X.data)
    assert is_mapped(X.indices)


@pytest.mark.parametrize("name", ["rows.txt", "rows.txt.gz"])
def test_xc_text_is_mapped_block_by_block(rows, name, tmp_path, monkeypatch):
    monkeypatch.setattr(mapped, "BLOCK_LINES", 7)
    save_xc(tmp_path / name, *rows)
    map_xc(tmp_path / name, tmp_path / "set")
    for found, wanted in zip(load_mapped(tmp_path / "set"), load_xc(tmp_path / name), strict=True):
        assert same(found, wanted)


def test_training_reads_the_mapped_rows_themselves(rows, tmp_path):
    save_mapped(tmp_path, *rows)
    X, _ = load_mapped(tmp_path)
    assert is_mapped(LdSMClassifier()._validate_features(X, reset=True).data)


def test_no_rows(tmp_path):
    (tmp_path / "none.txt").write_text("0 3 2\n")
    map_xc(tmp_path / "none.txt", tmp_path / "set")
    X, Y = load_mapped(tmp_path / "set")
    assert X.shape == (0, 3)
    assert Y.shape == (0, 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("what\n", "expected three integers N D L"),
        ("", "expected three integers N D L"),
        ("3 2 2\n0 0:1\n", "expected 3 rows, as in the header, got 1"),
        ("1 2 2\n5 0:1\n", "counted from line 1"),
    ],
)
def test_bad_text_is_refused_and_leaves_no_set(text, message, tmp_path):
    (tmp_path / "bad.txt").write_text(text)
    with pytest.raises(ValueError, match=message):
        map_xc(tmp_path / "bad.txt", tmp_path / "set")
    with pytest.raises(ValueError, match="is not a memory-mapped dataset"):
        load_mapped(tmp_path / "set")


def test_a_cut_gzip_stream_is_refused(rows, tmp_path):
    save_xc(tmp_path / "rows.txt.gz", *rows)
    whole = (tmp_path / "rows.txt.gz").read_bytes()
    (tmp_path / "rows.txt.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="gzip"):
        map_xc(tmp_path / "rows.txt.gz", tmp_path / "set")


@pytest.mark.parametrize(
    ("name", "at", "value"),
    [
        ("x_indptr", 3, 10**6),
        ("x_indptr", -1, 5),
        ("x_indices", 0, 40),
        ("y_indices", 2, -1),
        ("y_indptr", 0, 1),
    ],
)
def test_damaged_sets_are_refused(rows, name, at, value, tmp_path):
    save_mapped(tmp_path, *rows)
    numbers = np.fromfile(tmp_path / f"{name}.bin", mapped.ARRAYS[name])
    numbers[at] = value
    numbers.tofile(tmp_path / f"{name}.bin")
    with pytest.raises(ValueError, match="are inconsistent"):
        load_mapped(tmp_path)


def test_missing_and_cut_files_are_refused(rows, tmp_path):
    save_mapped(tmp_path, *rows)
    whole = (tmp_path / "x_data.bin").read_bytes()
    (tmp_path / "x_data.bin").write_bytes(whole[:-4])
    with pytest.raises(ValueError, match="differ in length"):
        load_mapped(tmp_path)
    (tmp_path / "x_data.bin").write_bytes(whole[:-3])
    with pytest.raises(ValueError, match="truncated"):
        load_mapped(tmp_path)
    (tmp_path / "x_data.bin").unlink()
    with pytest.raises(ValueError, match="missing"):
        load_mapped(tmp_path)
    (tmp_path / "set.json").write_text(json.dumps({"rows": "many"}))
    with pytest.raises(ValueError, match="is not a memory-mapped dataset"):
        load_mapped(tmp_path)
