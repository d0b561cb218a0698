from __future__ import annotations

import sys

import numpy as np
import onnxruntime
import pytest
import treelite

import sparseleaf
from sparseleaf.data import load_xc


@pytest.fixture(scope="module")
def plain(files, tmp_path_factory):
    """A model without a projection, and rows for it."""
    X, Y = load_xc(files.train)
    path = tmp_path_factory.mktemp("export") / "m.safetensors"
    model = sparseleaf.SparseGBDTClassifier(n_trees=4, projection=None).fit(X, Y)
    model.save(path)
    return path, X.toarray(), sparseleaf.load(path).decision_function(X).toarray()


@pytest.mark.parametrize("name", ["m.onnx", "m.ONNX", "m.treelite", "m.tl"])
def test_writes_what_the_suffix_says(cli, plain, name, tmp_path):
    model, X, wanted = plain
    done = cli("export", model, "-o", tmp_path / name)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"wrote {tmp_path / name} (")
    assert [path.name for path in tmp_path.iterdir()] == [name]
    if name.lower().endswith("onnx"):
        session = onnxruntime.InferenceSession(tmp_path / name, providers=["CPUExecutionProvider"])
        (found,) = session.run(["scores"], {"X": X})
    else:
        found = treelite.gtil.predict(treelite.Model.deserialize(tmp_path / name), X).reshape(len(X), -1)
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)


def test_mistakes_are_one_line_and_leave_what_was_there(cli, files, plain, tmp_path, monkeypatch):
    there = tmp_path / "m.onnx"
    there.write_text("old")
    done = cli("export", plain[0], "-o", tmp_path / "m.pkl")
    assert done.code == 2
    assert "--output must end in .onnx, .treelite, .tl" in done.err
    done = cli("export", plain[0], "-o", tmp_path / "m.pkl", "--format", "pickle")
    assert done.code == 2
    assert "--format must be one of {'onnx', 'treelite', 'c'}. Got 'pickle' instead." in done.err
    done = cli("export", files.train, "-o", there)
    assert (done.code, done.err.count("\n")) == (2, 1)
    done = cli("export", plain[0], "-o", tmp_path / "nowhere" / "m.onnx")
    assert (done.code, done.err.count("\n")) == (2, 1)
    monkeypatch.setitem(sys.modules, "onnx", None)
    done = cli("export", plain[0], "-o", there)
    assert done.code == 2
    assert "pip install 'sparseleaf[export]'" in done.err
    assert there.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


def test_a_projection_is_refused(cli, files, tmp_path):
    X, Y = load_xc(files.train)
    path = tmp_path / "m"
    sparseleaf.SparseGBDTClassifier(n_trees=1, projection="pca", projection_dim=3).fit(X, Y).save(path)
    done = cli("export", path, "-o", tmp_path / "m.onnx")
    assert done.code == 2
    assert "projection=None" in done.err


def test_c_writes_a_folder(cli, files, plain, tmp_path):
    X, Y = load_xc(files.train)
    path = tmp_path / "m"
    sparseleaf.SketchForestClassifier(n_trees=2).fit(X, Y).save(path)
    done = cli("export", path, "-o", tmp_path / "predictor", "--format", "c")
    assert (done.code, done.err) == (0, "")
    written = {file.name for file in (tmp_path / "predictor").iterdir()}
    assert {"predictor.h", "predictor.c", "main.c", "Makefile", "README.md", "model.bin"} <= written
    assert done.out.startswith(f"wrote {tmp_path / 'predictor'} (")


@pytest.mark.parametrize(("output", "message"), [("m", "Got the file"), ("nowhere/m", "does not exist")])
def test_c_needs_a_folder(cli, plain, tmp_path, output, message):
    (tmp_path / "m").write_text("old")
    done = cli("export", plain[0], "-o", tmp_path / output, "--format", "c")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert message in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
    assert cli("export", plain[0], "-o", "memory://m", "--format", "c").code == 2
