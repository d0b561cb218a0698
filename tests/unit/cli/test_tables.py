"""The commands on tables: CSV, Parquet, svmlight, and standard input."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import dump_svmlight_file
from typer.main import get_command

import sparseleaf
from sparseleaf.cli import app
from sparseleaf.cli._common import Reading, read_rows
from sparseleaf.cli.predict import output_lines
from sparseleaf.data import Columns, Rows
from sparseleaf.data.reading import READERS

NAMES = np.array(["low", "mid", "high"], dtype=object)
TREES = ("-s", "n_trees=20", "-s", "learning_rate=0.5", "-s", "colsample_bynode=1.0", "-q")


@dataclass(frozen=True)
class Tables:
    frame: pd.DataFrame
    csv: Path
    parquet: Path
    model: Path


@pytest.fixture(scope="module")
def tables(tmp_path_factory) -> Tables:
    """Three classes that the feature ``b`` tells apart, and a model of them."""
    folder = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.random(200), "b": rng.random(200), "c": rng.integers(0, 9, 200)})
    frame["kind"] = NAMES[(frame["b"] * 3).astype(int)]
    frame.loc[::17, "a"] = np.nan
    found = Tables(frame, folder / "t.csv", folder / "t.parquet", folder / "m.safetensors")
    frame.to_csv(found.csv, index=False)
    frame.to_parquet(found.parquet)
    sparseleaf.SparseGBDTClassifier(20, 0.5, advanced={"colsample_bynode": 1.0}).fit(
        frame[["a", "b", "c"]].to_numpy(np.float32), frame["kind"].to_numpy(object)
    ).save(found.model)
    return found


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_trains_the_same_model_as_from_python(cli, tables, tmp_path, kind):
    data = getattr(tables, kind)
    done = cli("train", data, "--target", "kind", "-m", tmp_path / "m", "--valid", data, *TREES)
    assert (done.code, done.err) == (0, "")
    found = sparseleaf.load(tmp_path / "m")
    frame = tables.frame[["a", "b", "c"]]
    wanted = sparseleaf.load(tables.model)
    assert found.classes_.tolist() == sorted(NAMES)
    assert found.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(found.predict(frame), wanted.predict(frame.to_numpy(np.float32)))
    assert found.history_["valid precision@1"][-1] > 0.99


def test_evaluates_by_name(cli, tables):
    found = json.loads(cli("evaluate", tables.model, tables.csv, "-t", "kind", "--json").out)
    rows = tables.frame[["a", "b", "c"]].to_numpy(np.float32)
    wanted = sparseleaf.load(tables.model).predict(rows) == tables.frame["kind"]
    assert found["precision@1"] == pytest.approx(wanted.mean())
    assert found["precision@1"] > 0.99
    assert found["rows"] == 200


def test_a_class_that_training_never_saw_is_missed(cli, tables, tmp_path):
    tables.frame.assign(kind="other").to_csv(tmp_path / "t.csv", index=False)
    done = cli("evaluate", tables.model, tmp_path / "t.csv", "-t", "kind", "--json")
    assert json.loads(done.out)["precision@3"] == 0


def test_predicts_with_and_without_the_target(cli, tables, tmp_path):
    tables.frame.drop(columns="kind").to_csv(tmp_path / "t.csv", index=False)
    done = cli("predict", tables.model, tmp_path / "t.csv", "-k", 1)
    assert (done.code, done.err) == (0, "")
    assert [line.partition(":")[0] for line in done.out.splitlines()] == tables.frame["kind"].tolist()
    assert cli("predict", tables.model, tmp_path / "t.csv", "-k", 1, "-t", "kind").out == done.out
    assert cli("predict", tables.model, tables.parquet, "-k", 1, "-t", "kind").out == done.out
    left_in = cli("predict", tables.model, tables.csv)
    assert left_in.code == 2
    assert "expected 3 features, as in training, got 4" in left_in.err


def test_svmlight_of_one_label(cli, tables, tmp_path):
    rows = tables.frame[["b", "c"]].to_numpy()
    classes = tables.frame["kind"].map({"low": 1, "mid": 2, "high": 3}).to_numpy()
    dump_svmlight_file(rows, classes, str(tmp_path / "t.svm"), zero_based=False)
    assert cli("train", tmp_path / "t.svm", "-m", tmp_path / "m", *TREES).code == 0
    done = cli("predict", tmp_path / "m", tmp_path / "t.svm", "-k", 1)
    found = [int(line.partition(":")[0]) for line in done.out.splitlines()]
    assert np.mean(found == classes) > 0.98
    done = cli("evaluate", tmp_path / "m", tmp_path / "t.svm", "--json")
    assert json.loads(done.out)["precision@1"] == pytest.approx(np.mean(found == classes))


def test_svmlight_of_several_labels(cli, tables, tmp_path):
    rows = tables.frame[["b", "c"]].to_numpy()
    lines = [f"{'70,90' if b > 0.5 else '80'} 0:{b} 3:{c}" for b, c in rows]
    (tmp_path / "data").write_text("\n".join(lines))
    how = ("--format", "svmlight")
    assert cli("train", tmp_path / "data", "-m", tmp_path / "m", *how, *TREES).code == 0
    done = cli("predict", tmp_path / "m", tmp_path / "data", "-k", 1, *how)
    assert {line.partition(":")[0] for line in done.out.splitlines()} <= {"70", "80", "90"}
    done = cli("evaluate", tmp_path / "m", tmp_path / "data", "--json", *how)
    assert json.loads(done.out)["precision@1"] > 0.98


def test_svmlight_files_may_be_narrower_and_what_training_never_saw_is_left_out(cli, tmp_path):
    (tmp_path / "t.svm").write_text("1 1:1 3:1\n2 1:2 3:0.5\n" * 10)
    assert cli("train", tmp_path / "t.svm", "-m", tmp_path / "m", *TREES).code == 0
    (tmp_path / "narrow.svm").write_text("0 1:1\n")
    (tmp_path / "wide.svm").write_text("0 1:1 9:1\n")
    narrow, wide = (cli("predict", tmp_path / "m", tmp_path / name) for name in ("narrow.svm", "wide.svm"))
    assert (narrow.code, narrow.err) == (0, "")
    assert wide.out == narrow.out
    assert "warning" in wide.err
    assert "features above 3 are ignored" in wide.err


def test_several_targets_of_0_and_1_are_labels_by_name(cli, tables, tmp_path):
    frame = tables.frame.drop(columns="kind").assign(hot=lambda t: t["b"] > 0.5, cold=lambda t: t["b"] < 0.3)
    frame.to_csv(tmp_path / "t.csv", index=False)
    done = cli("train", tmp_path / "t.csv", "-t", "hot,cold", "-m", tmp_path / "m", *TREES)
    assert (done.code, done.err) == (0, "")
    assert sparseleaf.load(tmp_path / "m").classes_.tolist() == ["hot", "cold"]
    found = cli("evaluate", tmp_path / "m", tmp_path / "t.csv", "-t", "hot", "-t", "cold", "--json")
    swapped = cli("evaluate", tmp_path / "m", tmp_path / "t.csv", "-t", "cold,hot", "--json")
    assert json.loads(found.out)["precision@1"] == json.loads(swapped.out)["precision@1"] > 0.7


# --- mistakes


@pytest.mark.parametrize(
    ("text", "arguments", "said"),
    [
        (
            "a,y\n1,2\n",
            [],
            "t.csv: CSV, Parquet and JSON lines files require --target COLUMN or --labels COLUMN",
        ),
        ("a,y\n1,2\n", ["-t", "z"], "t.csv: no column 'z' (target); columns: 'a', 'y'"),
        ("a,y\n1,2\n", ["-t", "y,y"], "'target' parameter must have distinct columns. Got 'y' twice"),
        (
            "a,colour,y\n1,red,2\n",
            ["-t", "y"],
            "t.csv: the column 'colour' contains text, such as 'red', but gbdt-sparse",
        ),
        (
            "a,y\n1,2\n",
            ["-t", "y", "--format", "svmlight"],
            "which is read as svmlight",
        ),
        ("a,y\n1,2\n", ["--format", "xml"], "--format"),
        ("a,y\n1,0.5\n2,0.7\n", ["-t", "y"], "use --method gbdt-mo"),
    ],
)
@pytest.mark.parametrize("before", [True, False])
def test_mistakes_are_one_line(cli, tmp_path, text, arguments, said, before):
    (tmp_path / "t.csv").write_text(text)
    model = ("-m", tmp_path / "m")
    given = (*model, *arguments) if before else (*arguments, *model)
    done = cli("train", tmp_path / "t.csv", *given)
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert said in done.err
    assert not (tmp_path / "m").exists()


def test_evaluate_needs_the_target(cli, tables, tmp_path):
    assert "--target" in cli("evaluate", tables.model, tables.csv).err
    tables.frame.drop(columns="kind").to_csv(tmp_path / "t.csv", index=False)
    assert "no column 'kind'" in cli("evaluate", tables.model, tmp_path / "t.csv", "-t", "kind").err
    tables.frame.assign(kind=1).to_csv(tmp_path / "t.csv", index=False)
    done = cli("evaluate", tables.model, tmp_path / "t.csv", "-t", "kind")
    assert done.code == 2
    assert f"{tmp_path / 't.csv'}: Y must have labels such as 'high', as in training. Got 1" in done.err


def test_text_columns_are_refused_at_prediction_too(cli, tables, tmp_path):
    tables.frame.drop(columns="kind").assign(a="x").to_csv(tmp_path / "t.csv", index=False)
    assert "the column 'a' contains text" in cli("predict", tables.model, tmp_path / "t.csv").err


def test_files_of_several_formats_are_refused(cli, files, tables, tmp_path):
    done = cli("train", files.train, tables.csv, "-m", tmp_path / "m")
    assert "must have the same format. Got csv for" in done.err


def test_a_missing_package_is_one_line(cli, tables, monkeypatch, tmp_path):
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyarrow"]:
        monkeypatch.setitem(sys.modules, name, None)
    done = cli("train", tables.csv, "-t", "kind", "-m", tmp_path / "m")
    assert done.code == 2
    assert "pip install 'sparseleaf[table]'" in done.err


def test_an_unknown_name_read_as_xc_hints_at_the_format(cli, tables, tmp_path):
    (tmp_path / "data.dat").write_text("a,y\n1,2\n")
    assert "set the format to read another" in cli("predict", tables.model, tmp_path / "data.dat").err
    (tmp_path / "data.txt").write_text("a,y\n1,2\n")
    assert "the format" not in cli("predict", tables.model, tmp_path / "data.txt").err


def test_xc_files_of_different_width_are_refused_in_words_of_the_command_line(cli, tmp_path):
    (tmp_path / "a").write_text("1 2 3\n0 1:1\n")
    (tmp_path / "b").write_text("1 2 4\n0 1:1\n")
    done = cli("train", tmp_path / "a", tmp_path / "b", "-m", tmp_path / "m")
    assert done.code == 2
    assert f"{tmp_path / 'b'}: line 1: expected 2 features and 3 labels" in done.err
    assert "n_labels" not in done.err


# --- reading


def test_the_formats_are_those_of_the_library():
    (option,) = (one for one in get_command(app).commands["train"].params if one.name == "format_")
    assert all(name in option.help for name in READERS)


@pytest.mark.parametrize("command", ["train", "predict", "evaluate"])
def test_commands_share_the_options(command):
    options = {name for option in get_command(app).commands[command].params for name in option.opts}
    assert {"--format", "--target"} <= options


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (None, []),
        (["a"], ["a"]),
        (["a,b", "c"], ["a", "b", "c"]),
        (['"a,b",c'], ["a,b", "c"]),
    ],
)
def test_targets(given, wanted):
    assert Reading.of("auto", given, None).target == wanted


def test_columns_are_brought_into_the_order_of_the_model(tables, tmp_path):
    model = sparseleaf.SparseGBDTClassifier()
    path = tmp_path / "t.csv"
    path.write_text("c,extra,a,b\n3,0,1,2\n")
    how = Reading.of("auto", None, None)
    X = read_rows(model, [path], how, Columns(3, ["a", "b", "c"]), labelled=False).X
    assert X.to_numpy().tolist() == [[1, 2, 3]]
    with pytest.raises(ValueError, match=r"t.csv: no column 'd', which is a feature of the model"):
        read_rows(model, [path], how, Columns(2, ["a", "d"]), labelled=False)


def test_an_estimator_that_takes_categories_gets_them(tables):
    class Takes(sparseleaf.SparseGBDTClassifier):
        def __sklearn_tags__(self):
            tags = super().__sklearn_tags__()
            tags.input_tags.categorical = True
            return tags

    how = Reading.of("auto", ["b"], None)
    rows = read_rows(Takes(), [tables.csv], how)
    X, y = rows.X, rows.y
    assert X["kind"].cat.categories.tolist() == sorted(NAMES)
    np.testing.assert_allclose(y, tables.frame["b"])


# --- standard input


def piped(data: Path, *arguments: object) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "sparseleaf", *map(str, arguments)]
    return subprocess.run(command, input=data.read_bytes(), capture_output=True, check=False)


def test_standard_input(files, cli):
    done = piped(files.test, "predict", files.model, "-")
    assert done.stdout.decode() == cli("predict", files.model, files.test).out


@pytest.mark.slow
def test_every_command_takes_standard_input(files, tables, tmp_path, cli):
    assert piped(files.train, "train", "-", "-m", tmp_path / "m", "-s", "n_trees=2", "-q").returncode == 0
    assert cli("train", files.train, "-m", tmp_path / "n", "-s", "n_trees=2", "-q").code == 0
    assert (tmp_path / "m").read_bytes() == (tmp_path / "n").read_bytes()
    found = json.loads(piped(files.test, "evaluate", files.model, "-", "--json").stdout)
    assert found["rows"] == 100
    for path, kind in ((tables.csv, "csv"), (tables.parquet, "parquet")):
        done = piped(path, "predict", tables.model, "-", "--format", kind, "-t", "kind")
        assert done.stdout.decode() == cli("predict", tables.model, tables.csv, "-t", "kind").out


def test_standard_input_twice_is_refused(cli, files):
    assert "at most once" in cli("predict", files.model, "-", "-").err


# --- outputs of a regressor


class Regressor:
    """Doubles what comes in."""

    def __init__(self, names=None):
        if names is not None:
            self.output_names_ = names

    def predict(self, X):
        return np.asarray(X, np.float32) * 2


def test_outputs_are_csv_with_a_column_for_each():
    X = np.random.default_rng(0).random((25_000, 2)).astype(np.float32)
    found = pd.read_csv(io.StringIO("".join(output_lines(Regressor(["x, y", "z"]), Rows(X, None), False))))
    assert list(found.columns) == ["x, y", "z"]
    np.testing.assert_array_equal(found.to_numpy(np.float32), X * 2)


def test_outputs_without_names_and_of_one_target():
    lines = "".join(output_lines(Regressor(), Rows(np.array([[0.05, 1]]), None), False))
    assert lines == "y0,y1\n0.1,2.0\n"
    assert "".join(output_lines(Regressor(), Rows(np.array([0.05, 1]), None), False)) == "y0\n0.1\n2.0\n"
    assert "".join(output_lines(Regressor(), Rows(np.empty((0, 2)), None), False)) == "y0,y1\n"


def test_outputs_as_json():
    lines = "".join(output_lines(Regressor(np.array(["a", "b"])), Rows(np.array([[0.05, 1]]), None), True))
    assert lines == '{"a": 0.1, "b": 2.0}\n'


def test_names_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="has 1 output names, but predicts 2 outputs"):
        list(output_lines(Regressor(["a"]), Rows(np.ones((1, 2)), None), False))


def test_predict_writes_outputs_where_there_are_no_labels(cli, tables, tmp_path, monkeypatch):
    class Loaded(Regressor):
        method = "stub"
        vectorizer = None
        n_features_in_ = 1

        def __sklearn_tags__(self):
            return sparseleaf.MultiGBDTRegressor().__sklearn_tags__()

    monkeypatch.setattr(sparseleaf, "load", lambda *_, **__: Loaded(["price"]))
    (tmp_path / "t.csv").write_text("a\n1\n2\n")
    assert cli("predict", "m", tmp_path / "t.csv").out == "price\n2.0\n4.0\n"
    cli("predict", "m", tmp_path / "t.csv", "-o", tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == "price\n2.0\n4.0\n"


@pytest.mark.parametrize(("labels", "depths"), [(["x", "y", "z"], [1, 3]), (["x", "y"], [1])])
def test_no_more_labels_are_ranked_than_there_are(cli, tables, tmp_path, labels, depths):
    table = tables.frame[["a", "b"]].assign(kind=np.array(labels)[np.arange(200) % len(labels)])
    table.to_csv(tmp_path / "t.csv", index=False)
    cli("train", tmp_path / "t.csv", "-t", "kind", "-m", tmp_path / "m", "-s", "n_trees=2", "-q")
    found = json.loads(cli("evaluate", tmp_path / "m", tmp_path / "t.csv", "-t", "kind", "--json").out)
    assert [key for key in found if key.startswith("precision@")] == [f"precision@{k}" for k in depths]
    done = cli("evaluate", tmp_path / "m", tmp_path / "t.csv", "-t", "kind")
    assert [f"@{k}" in done.out for k in (1, 3, 5)] == [k in depths for k in (1, 3, 5)]


@pytest.mark.parametrize("method", ["gbdt-sparse", "forest", "ldsm"])
@pytest.mark.parametrize(("target", "sample"), [("a", "0.25"), ("a,b", "0.25"), ("c,d", "3")])
def test_numbers_as_targets_want_another_method(cli, tmp_path, method, target, sample):
    pd.DataFrame({"x": [1, 2], "a": [0.25, 1], "b": [1, 0], "c": [3, 0], "d": [1, 0]}).to_csv(
        tmp_path / "t.csv", index=False
    )
    done = cli("train", tmp_path / "t.csv", "-t", target, "-m", tmp_path / "m", "--method", method)
    assert done.code == 2
    assert (
        f"{method} requires classes or labels as targets. Got continuous values, such as {sample}" in done.err
    )
    assert "use --method gbdt-mo." in done.err


def test_numbers_as_targets_want_another_task(cli, tmp_path):
    (tmp_path / "t.csv").write_text("x,y\n1,0.5\n2,1.5\n")
    arguments = ("train", tmp_path / "t.csv", "-t", "y", "-m", tmp_path / "m", "--method", "gbdt-mo")
    assert "use --method gbdt-mo --task regression." in cli(*arguments, "--task", "classification").err
    assert cli(*arguments).code == 0


def test_classes_that_are_numbers_are_classes(cli, tmp_path):
    (tmp_path / "t.csv").write_text("x,y,z\n1,0,1\n2,7,0\n3,0,1\n")
    for target in ("y", "z"):
        done = cli("train", tmp_path / "t.csv", "-t", target, "-m", tmp_path / "m", "-s", "n_trees=2", "-q")
        assert (done.code, done.err) == (0, "")


def test_text_wants_a_method_with_categories(cli, tmp_path):
    (tmp_path / "t.csv").write_text("x,y\nu,a\nv,b\n")
    done = cli("train", tmp_path / "t.csv", "-t", "y", "-m", tmp_path / "m")
    assert (
        "gbdt-sparse requires numeric features. Name columns of texts with --text; --method gbdt-mo supports"
        in done.err
    )
