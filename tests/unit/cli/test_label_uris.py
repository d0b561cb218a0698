"""``sparseleaf label-uris``, ``train --label-uris`` and ``predict --uris``."""

from __future__ import annotations

import json

import pytest

import sparseleaf
from sparseleaf.cli._label_files import read_uris

RECORDS = [("red rose", ["warm"]), ("blue sea", ["cold"])] * 20
OPTIONS = ("--text", "text", "--labels", "subjects", "--set", "n_trees=2", "-q")


@pytest.fixture
def records(tmp_path):
    lines = (json.dumps({"text": text, "subjects": labels}) + "\n" for text, labels in RECORDS)
    (tmp_path / "r.jsonl").write_text("".join(lines))
    (tmp_path / "uris.tsv").write_text("warm\thttps://example.org/w\ncold\turn:c\nother\turn:o\n")
    return tmp_path / "r.jsonl"


def test_train_and_predict_with_uris(cli, records, tmp_path):
    done = cli("train", records, "-m", tmp_path / "m", *OPTIONS, "--label-uris", tmp_path / "uris.tsv")
    assert (done.code, done.err) == (0, "")
    assert sparseleaf.load(tmp_path / "m").label_uris_.tolist() == ["urn:c", "https://example.org/w"]
    (tmp_path / "new.txt").write_text("a red rose\n")
    done = cli("predict", tmp_path / "m", tmp_path / "new.txt", "-k", 1, "--uris")
    assert done.out.startswith('"https://example.org/w":')
    done = cli("predict", tmp_path / "m", tmp_path / "new.txt", "-k", 1, "--uris", "--json")
    line = json.loads(done.out)
    assert (line["labels"], line["uris"]) == (["warm"], ["https://example.org/w"])
    assert json.loads(cli("inspect", tmp_path / "m", "--json").out)["label_uris"] == 2
    assert "2 URIs" in " ".join(cli("inspect", tmp_path / "m").out.split())


def test_uris_are_added_and_removed_afterwards(cli, records, tmp_path):
    cli("train", records, "-m", tmp_path / "m", *OPTIONS)
    done = cli("predict", tmp_path / "m", records, "--uris")
    assert (done.code, "--uris requires a model with URIs" in done.err) == (2, True)
    (tmp_path / "vocab.tsv").write_text("<urn:w>\twarm\t1\n<urn:c>\tcold\n")
    done = cli("label-uris", tmp_path / "m", tmp_path / "vocab.tsv", "-o", tmp_path / "with")
    assert (done.code, "URIs of 2 of 2 labels" in done.out) == (0, True)
    assert sparseleaf.load(tmp_path / "with").label_uris_.tolist() == ["urn:c", "urn:w"]
    assert sparseleaf.load(tmp_path / "m").label_uris_ is None
    assert cli("label-uris", tmp_path / "with", "--remove").code == 0
    assert (tmp_path / "with").read_bytes() == (tmp_path / "m").read_bytes()


@pytest.mark.parametrize(("text", "message"), [
    ("warm urn:w\n", "separated by a tab"),
    ("warm\tw\n", "label 'warm': A URI must be absolute"),
    ("\n", "the file has no labels"),
    ('{"warm": 3}', "A URI must be absolute"),
    ("eel\turn:e\n", "must have labels of the model"),
])  # fmt: skip
def test_invalid_files_are_refused(cli, records, tmp_path, text, message):
    cli("train", records, "-m", tmp_path / "m", *OPTIONS)
    (tmp_path / "bad").write_text(text)
    done = cli("label-uris", tmp_path / "m", tmp_path / "bad")
    assert (done.code, message in done.err) == (2, True), done.err


def test_what_does_not_fit_the_model_is_said(cli, records, files, tmp_path):
    (tmp_path / "eel").write_text("eel\turn:e\n")
    done = cli("train", records, "-m", tmp_path / "m", *OPTIONS, "--label-uris", tmp_path / "eel")
    assert done.code == 0
    assert "The URIs were not stored" in done.err
    for arguments in (
        ("label-uris", tmp_path / "m"),
        ("label-uris", tmp_path / "m", tmp_path / "eel", "--remove"),
        ("predict", tmp_path / "m", records, "--uris", "--explain"),
        ("train", files.train, "-m", tmp_path / "r", "--method", "rank", "--label-uris", tmp_path / "eel"),
    ):
        assert cli(*arguments).code == 2


def test_json_objects_are_read(tmp_path):
    (tmp_path / "u.json").write_text('{"a": "<urn:a>", "b": "urn:b"}')
    assert read_uris(tmp_path / "u.json") == {"a": "urn:a", "b": "urn:b"}
