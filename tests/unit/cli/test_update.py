"""``sparseleaf update``."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import sparseleaf
from sparseleaf import SketchForestClassifier
from sparseleaf.data import load_xc, save_xc


@pytest.fixture(scope="module")
def forest(files, tmp_path_factory):
    path = tmp_path_factory.mktemp("update") / "forest.safetensors"
    SketchForestClassifier(n_trees=3, rerank="cosine").fit(*load_xc(files.train)).save(path)
    return path


def test_new_rows_and_labels(cli, files, forest, tmp_path):
    X, Y = load_xc(files.test)
    wider = sp.hstack([Y, np.ones((Y.shape[0], 1))], "csr")
    save_xc(tmp_path / "new.txt", X, wider)
    out = tmp_path / "new.safetensors"
    done = cli("update", forest, tmp_path / "new.txt", "-o", out, "--forget", "0.1")
    assert (done.code, done.err) == (0, "")
    assert "100 new rows, 1 new labels" in done.out
    assert "precision@1/3/5 before the update" in done.out
    expected = sparseleaf.load(forest).update(X, wider, forget=0.1)
    updated = sparseleaf.load(out)
    assert updated.model_.n_labels == Y.shape[1] + 1
    assert np.array_equal(updated.predict_topk(X)[1], expected.predict_topk(X)[1])
    assert '"updates"' in cli("inspect", out, "--json").out


def test_the_model_file_is_replaced(cli, files, forest, tmp_path):
    path = tmp_path / "m.safetensors"
    path.write_bytes(forest.read_bytes())
    done = cli("update", path, files.test, files.test, "--json")
    assert done.code == 0
    assert json.loads(done.out)["n_rows"] == 200
    assert sparseleaf.load(path).model_.n_train_rows == 500


def test_few_rows_with_fewer_labels(cli, forest, tmp_path):
    (tmp_path / "new.txt").write_text("1 40 3\n0,2 3:1 7:1\n")
    assert cli("update", forest, tmp_path / "new.txt", "-o", tmp_path / "m").code == 0


def test_named_labels(cli, files, tmp_path):
    pytest.importorskip("pandas")
    X, _ = load_xc(files.train)
    path = tmp_path / "m.safetensors"
    SketchForestClassifier(n_trees=2).fit(X, [["a", "b"], ["c"]] * 150).save(path)
    (tmp_path / "new.txt").write_text("1 40 3\n0,2 3:1 7:1\n")
    assert cli("update", path, tmp_path / "new.txt").code == 0
    assert sparseleaf.load(path).model_.label_counts.tolist() == [151, 150, 151]
    (tmp_path / "new.txt").write_text("1 40 4\n3 3:1 7:1\n")
    done = cli("update", path, tmp_path / "new.txt")
    assert done.code == 2
    assert "Labels must be below 3" in done.err


@pytest.mark.parametrize(("options", "match"), [
    (["--forget", "1"], "The 'forget' parameter must be a float in the range [0, 1)"),
    (["-o", "no/such/folder"], "does not exist"),
])  # fmt: skip
def test_mistakes_are_named(cli, files, forest, options, match):
    before = forest.read_bytes()
    done = cli("update", forest, files.test, *options)
    assert done.code == 2
    assert match in done.err
    assert forest.read_bytes() == before


def test_data_without_rows(cli, forest, tmp_path):
    (tmp_path / "new.txt").write_text("0 40 30\n")
    done = cli("update", forest, tmp_path / "new.txt")
    assert done.code == 2
    assert "the data has no rows" in done.err


def test_records(cli, tmp_path):
    records = [{"title": f"a text on {word}", "subjects": [word]} for word in ("trees", "leaves") * 60]
    later = [{"title": f"about {word} and trees", "subjects": [word]} for word in ("leaves", "roots") * 20]
    for name, rows in (("old.jsonl", records), ("new.jsonl", later)):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    path, options = tmp_path / "m.safetensors", ["--labels", "subjects"]
    trained = ["-m", path, "--method", "forest", "--set", "n_trees=3", "--text", "title"]
    assert cli("train", tmp_path / "old.jsonl", *options, *trained).code == 0
    done = cli("update", path, tmp_path / "new.jsonl", *options)
    assert (done.code, done.err) == (0, "")
    assert "40 new rows, 1 new labels" in done.out
    model = sparseleaf.load(path)
    assert model.classes_.tolist() == ["leaves", "trees", "roots"]
    assert model.predict_topk([{"title": "about roots and trees"}], 3)[0].shape == (1, 3)
    assert cli("update", path, tmp_path / "new.jsonl").code == 0  # the column of training
    model.model_ = replace(model.model_, target_columns={})
    model.save(path)
    assert cli("update", path, tmp_path / "new.jsonl").code == 2
