from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import sparseleaf
from sparseleaf.data import load_xc, save_xc


@pytest.fixture(scope="module")
def expected(files):
    X, _ = load_xc(files.test)
    return sparseleaf.load(files.model).predict_topk(X, k=3)


@pytest.fixture(scope="module")
def named(tmp_path_factory):
    """A model with awkward names, and rows that it knows."""
    folder = tmp_path_factory.mktemp("named")
    names = ["plain", "two words", "a:b", 'quo"te', "tab\there", "", "ünïcode"]
    X = np.eye(7, dtype=np.float32).repeat(20, axis=0)
    Y = [[name] for name in names for _ in range(20)]
    sparseleaf.SparseGBDTClassifier(
        n_trees=20, learning_rate=0.5, min_samples_leaf=1, advanced={"colsample_bynode": 1.0}
    ).fit(X, Y).save(folder / "m")
    save_xc(folder / "rows.txt", np.eye(7), np.zeros((7, 2)))
    return folder / "m", folder / "rows.txt", names


def parse(text):
    rows = [[pair.rpartition(":") for pair in line.split(" ")] for line in text.splitlines()]
    return [[(label, float(score)) for label, _, score in row] for row in rows]


def test_writes_labels_and_scores_best_first(cli, files, expected):
    done = cli("predict", files.model, files.test, "-k", 3)
    assert (done.code, done.err) == (0, "")
    labels, scores = expected
    found = parse(done.out)
    assert [[int(label) for label, _ in row] for row in found] == labels.tolist()
    np.testing.assert_allclose([[score for _, score in row] for row in found], scores, rtol=1e-5)


def test_stdout_files_and_gzip_hold_the_same(cli, files, tmp_path):
    text = cli("predict", files.model, files.test).out
    assert cli("predict", files.model, files.test, "-o", "-").out == text
    assert cli("predict", files.model, files.test, "-o", tmp_path / "top.txt").out == ""
    assert (tmp_path / "top.txt").read_text() == text
    cli("predict", files.model, files.test, "-o", tmp_path / "top.txt.gz")
    assert gzip.decompress((tmp_path / "top.txt.gz").read_bytes()).decode() == text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["top.txt", "top.txt.gz"]


def test_json_lines(cli, files, expected):
    done = cli("predict", files.model, files.test, "-k", 3, "--json")
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert [row["labels"] for row in rows] == expected[0].tolist()
    np.testing.assert_allclose([row["scores"] for row in rows], expected[1], rtol=1e-5)


def test_several_files_follow_each_other(cli, files):
    one = cli("predict", files.model, files.test).out
    assert cli("predict", files.model, files.test, files.test).out == one + one


def test_names_come_back_and_awkward_ones_are_quoted(cli, named):
    model, rows, names = named
    lines = cli("predict", model, rows, "-k", 1).out.splitlines()
    found = [line.rpartition(":")[0] for line in lines]
    assert found == ["plain", '"two words"', '"a:b"', '"quo\\"te"', '"tab\\there"', '""', "ünïcode"]
    assert [json.loads(name) if name.startswith('"') else name for name in found] == names
    lines = cli("predict", model, rows, "-k", 1, "--json").out.splitlines()
    assert [json.loads(line)["labels"] for line in lines] == [[name] for name in names]


def test_more_labels_than_there_are_is_a_shorter_line(cli, files):
    done = cli("predict", files.model, files.test, "-k", 1000)
    assert done.code == 0
    assert all(0 < len(row) <= 30 for row in parse(done.out))


def test_files_may_be_narrower_but_not_wider_than_the_model(cli, files, tmp_path):
    (tmp_path / "narrow").write_text("1 2 1\n0 1:1\n")
    assert cli("predict", files.model, tmp_path / "narrow", files.test).out.count("\n") == 101
    (tmp_path / "wide").write_text("1 41 1\n0 1:1\n")
    done = cli("predict", files.model, tmp_path / "wide")
    assert done.code == 2
    assert "found 41 features; wanted at most the 40 of training" in done.err


def test_no_rows_are_no_lines(cli, files, tmp_path):
    (tmp_path / "empty").write_text("0 40 30\n")
    done = cli("predict", files.model, tmp_path / "empty")
    assert (done.code, done.out) == (0, "")


@pytest.mark.parametrize(
    ("model", "data", "arguments", "said"),
    [
        ("nowhere", None, [], "no model file at 'nowhere'"),
        (None, "nowhere", [], "nowhere: No such file"),
        (None, None, ["-k", "0"], "-k"),
        (None, None, ["--format", "xml"], "--format"),
        (None, None, ["-o", "no/folder/x"], "there is no folder"),
    ],
)
def test_mistakes_are_one_line(cli, files, model, data, arguments, said):
    done = cli("predict", model or files.model, data or files.test, *arguments)
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert said in done.err


def test_a_broken_model_is_one_line(cli, files, tmp_path):
    whole = files.model.read_bytes()
    for content in (b"", b"hello", whole[: len(whole) // 2]):
        (tmp_path / "m").write_bytes(content)
        done = cli("predict", tmp_path / "m", files.test)
        assert done.code == 2
        assert done.err.count("\n") == 1
        assert "is not a sound model file: it is truncated, or no model file at all" in done.err


def test_output_may_not_be_an_input(cli, files):
    before = files.test.read_bytes()
    assert cli("predict", files.model, files.test, "-o", files.test).code == 2
    assert files.test.read_bytes() == before


def test_what_is_no_file_is_written_to_and_stays(cli, files):
    assert cli("predict", files.model, files.test, "-o", "/dev/null").code == 0
    assert not os.path.isfile("/dev/null")  # noqa: PTH113


def test_a_closed_pipe_is_quiet(files):
    many = [str(files.test)] * 400  # more than a pipe holds
    command = [sys.executable, "-m", "sparseleaf", "predict", str(files.model), *many]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        running.stdout.readline()
        running.stdout.close()
        assert running.stderr.read() == b""
        running.wait(timeout=60)
