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
    assert "expected at most 40 features, as in training, got 41" in done.err


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
        (None, None, ["-o", "no/folder/x"], "does not exist"),
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
        assert "is not a valid model file: it is truncated or not a model file" in done.err


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


def test_explanations(cli, files, expected, tmp_path):
    done = cli("predict", files.model, files.test, "-k", 3, "--explain", "--features", 2)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("row 0\n  ")
    assert f"  {expected[0][1][0]}: " in done.out
    rows = cli("predict", files.model, files.test, "-k", 3, "--explain", "--json", "-o", tmp_path / "e.jsonl")
    assert rows.code == 0
    lines = [json.loads(line) for line in (tmp_path / "e.jsonl").read_text().splitlines()]
    assert [line["row"] for line in lines] == list(range(len(expected[0])))
    assert [[one["label"] for one in line["labels"]] for line in lines] == expected[0].tolist()
    for one in lines[3]["labels"]:
        assert len(one["features"]) <= 10
        total = one["base"] + sum(each["contribution"] for each in one["features"]) + one["other_features"]
        assert total == pytest.approx(one["score"], abs=1e-5)


def test_explanations_with_titles_and_awkward_names(cli, named, tmp_path):
    model, rows, names = named
    done = cli("predict", model, rows, "-k", 1, "--explain", "--json")
    assert [json.loads(line)["labels"][0]["label"] for line in done.out.splitlines()] == names
    X, Y = np.eye(3, dtype=np.float32).repeat(20, axis=0), [[name] for name in "abc" for _ in range(20)]
    sparseleaf.SketchForestClassifier(n_trees=2, rerank="linear").fit(X, Y).save(tmp_path / "m")
    save_xc(tmp_path / "rows.txt", np.eye(3), np.zeros((3, 2)))
    (tmp_path / "titles.txt").write_text("".join(f"title {row}\r\n" for row in range(60)))
    done = cli(
        "predict", tmp_path / "m", tmp_path / "rows.txt", "--explain", "--titles", tmp_path / "titles.txt"
    )
    assert "training row 0: title 0\n" in done.out
    (tmp_path / "titles.txt").write_text("one\n")
    done = cli(
        "predict", tmp_path / "m", tmp_path / "rows.txt", "--explain", "--titles", tmp_path / "titles.txt"
    )
    assert (done.code, "60. Got 1 instead" in done.err) == (2, True)
    done = cli("predict", model, rows, "--features", 3)
    assert (done.code, "require --explain" in done.err) == (2, True)


def test_explanations_of_texts(cli, tmp_path):
    texts = ["red rose", "blue sea", "red wine", "blue sky"] * 20
    labels = [["warm"], ["cold"], ["warm"], ["cold"]] * 20
    sparseleaf.SketchForestClassifier(n_trees=2, rerank="linear").fit(texts, labels).save(tmp_path / "m")
    (tmp_path / "new.jsonl").write_text('{"id": "a", "text": "a red cup"}\n{"id": "b", "text": "blue"}\n')
    (tmp_path / "names.tsv").write_text("warm\tWarm colours\n")
    options = ("--text", "text", "--id", "id", "--label-names", tmp_path / "names.tsv", "--explain", "-k", 1)
    done = cli("predict", tmp_path / "m", tmp_path / "new.jsonl", *options)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("a\trow 0\n  Warm colours (warm): ")
    assert "  red = " in done.out
    done = cli("predict", tmp_path / "m", tmp_path / "new.jsonl", *options, "--json")
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert [line["id"] for line in lines] == ["a", "b"]
    assert lines[0]["labels"][0]["name"] == "Warm colours"
    assert lines[1]["labels"][0]["features"][0]["name"] == "blue"


def test_titles_of_training_records(cli, tmp_path):
    records = [
        {"title": f"{colour} {i}", "text": f"{colour} {word}", "subjects": [label]}
        for i in range(20)
        for colour, word, label in (("red", "rose", "warm"), ("blue", "sea", "cold"))
    ]
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    options = ("--text", "text", "--labels", "subjects", "--titles", "title", "--set", "n_trees=2", "-q")
    done = cli("train", tmp_path / "r.jsonl", "-m", tmp_path / "m", *options, "--set", "rerank=linear")
    assert (done.code, done.err) == (0, "")
    done = cli("predict", tmp_path / "m", tmp_path / "r.jsonl", "--explain", "-k", 1)
    assert "training row 0: red 0\n" in done.out
    done = cli("train", tmp_path / "r.jsonl", "-m", tmp_path / "m", *options, "--set", "rerank=none")
    assert done.code == 0
    assert "titles were not stored" in done.err
    done = cli("train", tmp_path / "r.jsonl", "-m", tmp_path / "m", *options, "--engine", "dask")
    assert (done.code, "--titles requires --engine local" in done.err) == (2, True)
