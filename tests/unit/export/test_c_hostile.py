"""Truncated and altered ``model.bin`` files must be refused, or read without errors of memory or arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

from cpredictor import row_lines, run, write_model
from sparseleaf import LdSMClassifier, MultiGBDTClassifier, SketchForestClassifier, SparseGBDTClassifier
from sparseleaf.data import LabelInfo, make_xc
from sparseleaf.export.c_file import ENTRY, HEADER

X, Y = make_xc(120, 30, 12, labels_per_row=2, nnz_per_row=6, seed=3)
TEXTS = [f"{['red', 'green', 'blue'][i % 3]} {['café', 'Σας', '東京'][i % 3]} word{i % 7}" for i in range(90)]
LABELS = [[f"l{i % 3}", f"w{i % 7}"] for i in range(90)]
INFO = LabelInfo({"l0": "red", "l1": "green tea"}, broader={"l0": "l1", "w1": "group", "w2": "group"})

MODELS = {
    "linear": lambda: SketchForestClassifier(n_trees=2, rerank="linear").fit(X, Y),
    "bayes": lambda: SketchForestClassifier(n_trees=2, rerank="bayes").fit(X, Y),
    "ldsm": lambda: LdSMClassifier(n_trees=2, rerank="log").fit(X, Y),
    "projection": lambda: SparseGBDTClassifier(n_trees=3, projection="leml", projection_dim=3).fit(X, Y),
    "dense": lambda: MultiGBDTClassifier(n_trees=3).fit(X.toarray(), Y.toarray().astype(int)),
    "texts": lambda: SketchForestClassifier(n_trees=2, rerank="boosted").fit(TEXTS, LABELS, label_info=INFO),
}
CRASHES = ("AddressSanitizer", "runtime error", "LeakSanitizer")


def attempt(program, path, content, name):
    """Predict with these bytes; the program may refuse them, but not crash."""
    path.write_bytes(content)
    rows = (["red café", "Σας 東京\u0301 word1"], "-t") if name == "texts" else (row_lines(X[:4]),)
    done = run(program, path, *rows)
    message = done.stderr.decode(errors="replace")
    assert done.returncode in (0, 1), message
    assert not any(crash in message for crash in CRASHES), message
    return done


def whole(name, tmp_path):
    return write_model(MODELS[name]().model_, tmp_path / "model.bin").read_bytes()


def test_truncated_files_are_refused(program, tmp_path):
    content = whole("linear", tmp_path)
    for size in (0, 7, 8, 31, 32, 63, 200, 5000, len(content) // 2, len(content) - 1):
        assert attempt(program, tmp_path / "m", content[:size], "linear").returncode == 1
    assert attempt(program, tmp_path / "m", content + b"\0", "linear").returncode == 1
    assert attempt(program, tmp_path / "m", content, "linear").returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_altered_files(program, name, tmp_path):
    """Bytes of header, directory and every array, set to what indices and sizes must not be."""
    content, rng = whole(name, tmp_path), np.random.default_rng(0)
    n_arrays = HEADER.unpack_from(content)[3]
    entries = [ENTRY.unpack_from(content, HEADER.size + i * ENTRY.size) for i in range(n_arrays)]
    sizes = [1, 1, 2, 2, 4, 4, 8, 4, 8, 2]
    places = [*rng.integers(0, HEADER.size + n_arrays * ENTRY.size, 60).tolist()]
    for _, kind, _, start, length in entries:
        if length:
            items = {length - 1, *rng.integers(0, length, 2).tolist()}
            places += [start + sizes[kind] * item + int(rng.integers(sizes[kind])) for item in items]
    refused = 0
    for place in places:
        altered = bytearray(content)
        altered[place] = rng.choice([0x00, 0x7F, 0x80, 0xFF, altered[place] ^ 1])
        refused += attempt(program, tmp_path / "m", bytes(altered), name).returncode
    assert refused > len(places) / 20


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_missing_arrays_are_refused(program, name, tmp_path):
    content = whole(name, tmp_path)
    optional = 0
    n_arrays = HEADER.unpack_from(content)[3]
    for i in range(n_arrays):
        altered = bytearray(content)
        altered[HEADER.size + i * ENTRY.size] = ord("~")
        optional += attempt(program, tmp_path / "m", bytes(altered), name).returncode == 0
    assert optional < n_arrays / 4  # weights of features and the like, without which other models are valid
