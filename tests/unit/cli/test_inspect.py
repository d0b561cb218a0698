from __future__ import annotations

import json
import sys

import numpy as np
import pandas as pd

import sparseleaf
from sparseleaf.data import make_xc
from sparseleaf.model import Trees


def test_json_tells_what_the_model_is(cli, files):
    done = cli("inspect", files.model, "--json")
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out)
    assert found["method"] == "gbdt-sparse"
    assert (found["n_trees"], found["n_labels"], found["n_features"]) == (6, 30, 40)
    assert found["bytes"] == files.model.stat().st_size == sum(found["bytes_by_part"].values())
    assert found["parameters"]["n_trees"] == 6
    assert found["n_leaves"] == (found["n_nodes"] + found["n_trees"]) / 2  # trees are binary
    assert 1 <= found["depth_mean"] <= found["depth_max"] <= 10
    assert 1 <= found["labels_per_leaf"] <= 30
    assert found["projection_shape"] is None
    assert len(found["history"]["valid precision@1"]) == 6
    shares = [top["importance"] for top in found["top_features"]]
    assert len(shares) == 10
    assert shares == sorted(shares, reverse=True)


def test_table_and_curve(cli, files):
    done = cli("inspect", files.model)
    assert done.code == 0
    for text in ("gbdt-sparse", "300 rows, 40 features, 30 labels", "valid precision@1", "max_depth=10"):
        assert text in done.out


def test_projection(cli, tmp_path):
    X, Y = make_xc(200, 50, 20, labels_per_row=2, nnz_per_row=8)
    sparseleaf.SparseGBDTClassifier(n_trees=2, projection="pca", projection_dim=7).fit(X, Y).save(
        tmp_path / "m"
    )
    found = json.loads(cli("inspect", tmp_path / "m", "--json").out)
    assert found["projection_shape"] == [50, 7]
    assert found["bytes_by_part"]["projection"] == 2 * 50 * 7 + 1
    assert "50 → 7" in cli("inspect", tmp_path / "m").out


def _trees(offsets, feature, child):
    empty = np.zeros(0, np.float32)
    return Trees(
        np.array(offsets),
        np.array(feature, np.int32),
        empty,
        empty,
        np.array(child, np.int32),
        empty,
        empty,
        empty,
        empty,
        empty,
    )


def test_depths():
    # a single leaf; a root with two leaves; a chain of two cuts
    trees = _trees([0, 1, 4, 9], [-1, 0, -1, -1, 0, -1, 0, -1, -1], [0, 1, 1, 2, 1, 3, 3, 4, 5])
    assert trees.depths().tolist() == [0, 1, 2]
    assert _trees([0], [], []).depths().tolist() == []


def test_depth_of_nodes_with_shared_children_takes_no_longer():
    # node v has children v + 1 and v + 2: as many paths as Fibonacci has rabbits
    n = 200
    feature = [0] * (n - 2) + [-1, -1]
    child = [v + 1 for v in range(n - 2)] + [0, 1]
    assert _trees([0, n], feature, child).depths().tolist() == [n - 2]


def test_a_missing_model_is_one_line(cli, tmp_path):
    done = cli("inspect", tmp_path / "m")
    assert done.code == 2
    assert done.err.count("\n") == 1


EVIL = "\x1b]0;title\x07\x1b[2J\x9b31mred\u202e"


def test_control_characters_in_names_do_not_reach_the_terminal(cli, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.random((60, 2)), columns=["a", EVIL])
    Y = pd.DataFrame({"y" + EVIL: X[EVIL], "z" + EVIL: X["a"]})
    data, model = tmp_path / "data.csv", tmp_path / "model"
    pd.concat([X, Y], axis=1).to_csv(data, index=False)
    clf = sparseleaf.MultiGBDTRegressor(n_trees=2, eval_metric="rmse").fit(X, Y, eval_set=(X, Y))
    clf.model_.history["metric" + EVIL] = [1.0, 2.0]
    clf.save(model)
    targets = [word for name in Y.columns for word in ("--target", name)]
    for arguments in (
        ["inspect", model],
        ["inspect", model, "--json"],
        ["evaluate", model, data, *targets],
        ["predict", model, data],
        ["predict", model, data, "--json"],
        ["train", data, "--target", "no" + EVIL, "-m", tmp_path / "other", "--method", "gbdt-mo"],
    ):
        with monkeypatch.context() as patch:
            if arguments[0] == "predict":  # to a file, names are as they are
                patch.setattr(sys.stdout, "isatty", lambda: True)
            done = cli(*arguments)
        for sign in "\x1b\x07\x9b\u202e":
            assert sign not in done.out + done.err, arguments
        assert "1b" in done.out + done.err  # its escape


def test_features_that_drive_a_label(cli, tmp_path):
    texts = ["red rose", "blue sea", "red wine", "blue sky"] * 20
    labels = [["warm"], ["cold"], ["warm"], ["cold"]] * 20
    sparseleaf.SketchForestClassifier(n_trees=2, rerank="linear").fit(texts, labels).save(tmp_path / "m")
    done = cli("inspect", tmp_path / "m", "--label", "warm", "--label", "cold", "--json")
    first, second = json.loads(done.out)["labels"]
    assert (first["label"], second["label"]) == ("warm", "cold")
    assert "red" in {one["name"] for one in first["features"] if one["importance"] > 0}
    assert "blue" in {one["name"] for one in second["features"] if one["importance"] > 0}
    text = cli("inspect", tmp_path / "m", "--label", "warm").out
    assert text.startswith("warm\n")
    assert "  red\n" in text
    done = cli("inspect", tmp_path / "m", "--label", "lukewarm")
    assert (done.code, "must be a label of the model. Got 'lukewarm'" in done.err) == (2, True)
