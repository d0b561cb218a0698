from __future__ import annotations

import errno
import json
import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import sparseleaf
import sparseleaf.data
from full_disk import run_with_small_disk


def test_trains_and_says_what_came_out(cli, files, tmp_path):
    model = tmp_path / "m.safetensors"
    done = cli("train", files.train, "-m", model, "--set", "n_trees=4", "--valid", files.test)
    assert done.code == 0
    assert f"wrote {model}: 4 trees in " in done.out
    assert "best valid precision@1" in done.out
    assert done.out.count("\n") == 1
    loaded = sparseleaf.load(model)
    assert loaded.model_.n_trees == 4
    assert len(loaded.history_["valid precision@1"]) == 4


def test_same_model_as_from_python_and_for_any_number_of_jobs(cli, files, tmp_path):
    X, Y = sparseleaf.data.load_xc(files.train)
    sparseleaf.SparseGBDTClassifier(n_trees=3, leaf_labels=7, random_state=5).fit(X, Y).save(tmp_path / "py")
    for jobs in (1, 2):
        arguments = ("--set", "n_trees=3", "-s", "leaf_labels=7", "--seed", 5, "-j", jobs)
        assert cli("train", files.train, "-m", tmp_path / "cli", *arguments).code == 0
        assert (tmp_path / "cli").read_bytes() == (tmp_path / "py").read_bytes()


def test_several_files_are_one_set(cli, files, tmp_path):
    both = tmp_path / "both.txt"
    train, test = sparseleaf.data.load_xc(files.train), sparseleaf.data.load_xc(files.test)
    sparseleaf.data.save_xc(
        both, *(sp.vstack([a, b], format="csr") for a, b in zip(train, test, strict=True))
    )
    for name, data in (("two", (files.train, files.test)), ("one", (both,))):
        assert cli("train", *data, "-m", tmp_path / name, "-s", "n_trees=2", "-q").code == 0
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_none_is_none(cli, files, tmp_path):
    model = tmp_path / "m"
    done = cli(
        "train", files.train, "-m", model, "-s", "n_trees=1", "-s", "max_depth=none", "-s", "projection=None"
    )
    assert done.code == 0
    parameters = sparseleaf.load(model).get_params()
    assert parameters["max_depth"] is None
    assert parameters["projection"] is None


def test_quiet_says_nothing_and_verbose_a_line_a_tree(cli, files, tmp_path):
    done = cli("train", files.train, "-m", tmp_path / "m", "-s", "n_trees=2", "--quiet")
    assert (done.code, done.out, done.err) == (0, "", "")
    done = cli("train", files.train, "-m", tmp_path / "m", "-s", "n_trees=2", "--verbose")
    assert "tree 2/2" in done.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-s", "n_tree=3"], "did you mean 'n_trees'?"),
        (["-s", "n_trees=0"], "must be an int >= 1"),
        (["-s", "n_trees"], "--set must be name=value"),
        (["-s", "loss=logistic"], "'squared', 'squared_hinge'"),
        (["-s", "early_stopping_rounds=3"], "requires --valid FILE"),
        (["--method", "gbdt-spars"], "Did you mean 'gbdt-sparse'?"),
        (["--method", "?"], "--method must be one of {'gbdt-sparse'"),
        (["--jobs", "-1"], "--jobs"),
        (["--jobs", "1", "-s", "n_jobs=2"], "also set by its own option"),
        (["-v", "-q"], "cannot be combined"),
        (["--valid", "nowhere.txt"], "nowhere.txt: No such file"),
        (["--seed", "x"], "--seed"),
    ],
)
def test_mistakes_are_one_line(cli, files, tmp_path, arguments, said):
    done = cli("train", files.train, "-m", tmp_path / "m", *arguments)
    assert done.code == 2
    assert done.err.startswith("sparseleaf: error: ")
    assert done.err.count("\n") == 1
    assert said in done.err
    assert not (tmp_path / "m").exists()


def test_the_place_of_the_model_is_checked_before_the_data_is_read(cli, files, tmp_path):
    for model, said in (
        (tmp_path / "no" / "m", "does not exist"),
        (tmp_path, "is not a file"),
        (files.train, "would be overwritten"),
    ):
        data = "nowhere.txt" if model != files.train else files.train
        done = cli("train", data, "-m", model)
        assert done.code == 2
        assert said in done.err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_folder_without_permission(cli, files, tmp_path):
    tmp_path.chmod(0o500)
    done = cli("train", files.train, "-m", tmp_path / "m")
    assert done.code == 2
    assert "cannot write" in done.err


@pytest.mark.parametrize(("method", "estimators"), [
    ("gbdt-sparse", [sparseleaf.SparseGBDTClassifier]),
    ("gbdt-mo", [sparseleaf.MultiGBDTClassifier, sparseleaf.MultiGBDTRegressor]),
    ("forest", [sparseleaf.SketchForestClassifier]),
])  # fmt: skip
def test_parameters_are_listed_as_they_are_declared(cli, method, estimators):
    done = cli("train", "--parameters", method)
    assert (done.code, done.err) == (0, "")
    for estimator in estimators:
        assert f"{estimator.__name__}\n" in done.out
        for name, one in estimator.parameter_table.items():
            assert f"\n{name} : {one.type_text}, default={one.default!r}\n" in done.out
    assert "Did you mean 'forest'?" in cli("train", "--parameters", "forrest").err


def test_weights_of_rows(cli, tmp_path):
    rows = tmp_path / "t.csv"
    rows.write_text("a,y,w\n" + "".join(f"{i},{i % 7},{i % 3 + 1}\n" for i in range(80)))
    how = ("-t", "y", "--method", "gbdt-mo", "-s", "n_trees=3", "-q")
    assert cli("train", rows, "-m", tmp_path / "m", "--weight", "w", *how).code == 0
    found = sparseleaf.data.read(rows, target=("y",), weight="w")
    wanted = sparseleaf.MultiGBDTRegressor(n_trees=3).fit(found.X, found.y, sample_weight=found.sample_weight)
    np.testing.assert_array_equal(sparseleaf.load(tmp_path / "m").predict(found.X), wanted.predict(found.X))


def test_a_forest_for_several_outputs(cli, tmp_path):
    rows = tmp_path / "t.csv"
    rows.write_text("a,b,u,v\n" + "".join(f"{i},{i % 5},{i % 7},{i // 3}\n" for i in range(80)))
    how = ("-t", "u,v", "--method", "multi-forest", "-s", "n_trees=5", "-s", "splitter=random", "-q")
    assert cli("train", rows, "-m", tmp_path / "m", *how).code == 0
    table = sparseleaf.data.read(rows, target=("u", "v"))
    wanted = sparseleaf.MultiForestRegressor(n_trees=5, splitter="random").fit(table.X, table.y)
    np.testing.assert_array_equal(sparseleaf.load(tmp_path / "m").predict(table.X), wanted.predict(table.X))


@pytest.mark.parametrize("method", ["gbdt-sparse", "forest", "ldsm"])
def test_weights_of_rows_and_classes(cli, tmp_path, method):
    rows = tmp_path / "t.csv"
    rows.write_text("a,b,y,w\n" + "".join(f"{i},{i % 5},{'xyz'[i % 3]},{i % 4}\n" for i in range(80)))
    how = (
        "-t",
        "y",
        "--weight",
        "w",
        "--method",
        method,
        "-s",
        "n_trees=3",
        "-s",
        "class_weight=x:5,y:2",
        "-q",
    )
    assert cli("train", rows, "-m", tmp_path / "m", *how).code == 0
    found = sparseleaf.data.read(rows, target=("y",), weight="w")
    loaded = sparseleaf.load(tmp_path / "m")
    assert loaded.class_weight == {"x": 5.0, "y": 2.0}
    wanted = type(loaded)(n_trees=3, class_weight={"x": 5, "y": 2})
    wanted.fit(found.X, found.y, sample_weight=found.sample_weight)
    np.testing.assert_array_equal(loaded.decision_function(found.X), wanted.decision_function(found.X))
    wrong = cli("train", rows, "-m", tmp_path / "n", "-t", "y", "--method", method, "-s", "class_weight=no")
    assert "class_weight" in wrong.err
    assert "'balanced'" in wrong.err


def test_bad_data_names_file_and_line(cli, tmp_path):
    bad = tmp_path / "bad.txt"
    bad.write_text("2 3 4\n0 1:1\n9 1:1\n")
    done = cli("train", bad, "-m", tmp_path / "m")
    assert done.code == 2
    assert f"{bad}: line 3" in done.err


def test_ctrl_c_keeps_the_trees_so_far(process, files, tmp_path):
    model = tmp_path / "m.safetensors"
    # a warning turned into an error must not cost the model
    environment = {**os.environ, "PYTHONWARNINGS": "error::UserWarning"}
    running = process("train", files.train, "-m", model, "-s", "n_trees=1000000", "-v", env=environment)
    for line in running.stderr:
        if line.startswith("tree 3/"):
            break
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "interrupted; the model has the" in err
    assert "Traceback" not in err
    assert f"wrote {model}" in out
    assert sparseleaf.load(model).model_.n_trees >= 3


def test_ctrl_c_before_the_first_tree_leaves_nothing(process, files, tmp_path):
    pipe = tmp_path / "data"
    os.mkfifo(pipe)  # reading waits for a writer that never comes
    running = process("train", pipe, files.train, "-m", tmp_path / "m")
    with pipe.open("w"):  # opens as soon as the other side reads
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "Traceback" not in err
    assert not (tmp_path / "m").exists()


def test_ldsm_trains_predicts_and_is_inspected(cli, files, tmp_path):
    model = tmp_path / "m.safetensors"
    settings = ("-s", "n_trees=3", "-s", "max_nodes=40", "-s", "rerank=log", "-s", "rerank_weight=auto")
    done = cli("train", files.train, "-m", model, "--method", "ldsm", *settings, "--valid", files.test)
    assert done.code == 0
    assert "3 trees in " in done.out
    assert "best valid precision@1" in done.out
    assert isinstance(sparseleaf.load(model), sparseleaf.LdSMClassifier)
    assert cli("predict", model, files.test, "-k", 2).out.count("\n") == 100
    assert '"precision@1"' in cli("evaluate", model, files.test, "--json").out
    found = json.loads(cli("inspect", model, "--json").out)
    assert found["method"] == "ldsm"
    assert found["rerank"]["mix"] == "log"
    assert found["features_per_router"] > 0
    assert found["depth_max"] >= 2
    assert set(found["bytes_by_part"]) >= {"routed", "rerank", "leaves"}
    shown = cli("inspect", model).out
    assert "re-ranking" in shown
    assert "routers" in shown


def test_a_forest_trains_and_predicts(cli, files, tmp_path):
    model = tmp_path / "m.safetensors"
    settings = ("-s", "n_trees=3", "-s", "bootstrap=true", "-s", "rerank=cosine")
    done = cli("train", files.train, "-m", model, "--method", "forest", *settings, "--valid", files.test)
    assert done.code == 0, done.err
    assert isinstance(sparseleaf.load(model), sparseleaf.SketchForestClassifier)
    assert cli("predict", model, files.test, "-k", "3", "-o", tmp_path / "top").code == 0
    assert cli("evaluate", model, files.test).code == 0
    assert cli("inspect", model).code == 0


def test_an_unknown_setting_of_ldsm_is_refused(cli, files, tmp_path):
    done = cli("train", files.train, "-m", tmp_path / "m", "--method", "ldsm", "-s", "leaf_label=3")
    assert done.code == 2
    assert "leaf_labels" in done.err


def test_a_model_that_does_not_fit_on_the_disk_is_saved_elsewhere(cli, files, tmp_path):
    small, elsewhere = tmp_path / "small", tmp_path / "elsewhere"
    for folder in (small, elsewhere):
        folder.mkdir()
    train = ("train", files.train, "-s", "n_trees=4", "-q")
    done = run_with_small_disk(
        small,
        4,
        *("-m", "sparseleaf", *train, "-m", small / "m.safetensors"),
        env={**os.environ, "TMPDIR": str(elsewhere), "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 2
    said = f"sparseleaf: error: {small / 'm.safetensors'}: {os.strerror(errno.ENOSPC)}; the trained model was saved as "
    assert done.stderr.startswith(said)
    assert done.stderr.endswith("m.safetensors instead.\n")
    assert done.stderr.count("\n") == 1
    assert cli(*train, "-m", tmp_path / "wanted").code == 0
    kept = Path(done.stderr.removeprefix(said).removesuffix(" instead.\n"))
    assert kept.parent.parent == elsewhere
    assert kept.read_bytes() == (tmp_path / "wanted").read_bytes()
