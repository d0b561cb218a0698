"""``sparseleaf train --label-info``: names and a hierarchy of the labels."""

import json
from dataclasses import replace

import pytest

import sparseleaf
from sparseleaf import SketchForestClassifier, TextVectorizer
from sparseleaf.data import Dictionary, LabelInfo

TEXTS = [
    f"{word} text{i % 7} more{i % 5}" for i in range(20) for word in ("bread", "soups", "football", "cycling")
]
TAGS = [[tag] for _ in range(20) for tag in ("t1", "t2", "t3", "t4")]
NAMES = "label\tname\nt1\tbread\nt2\tsoup\nt3\tfootball\nt4\tcycling\nt5\tswimming\n"
BROADER = "t1\tfood\nt2\tfood\nt3\tsport\nt4\tsport\nt5\tsport\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("info")
    records = [{"title": text, "tags": tags} for text, tags in zip(TEXTS, TAGS, strict=True)]
    (folder / "r.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    (folder / "names.tsv").write_text(NAMES)
    (folder / "broader.tsv").write_text(BROADER)
    return folder


def train(cli, folder, model, *more):
    fields = "--text", "title", "--labels", "tags"
    return cli("train", folder / "r.jsonl", *fields, "-s", "n_trees=2", "-q", "-m", model, *more)


def test_train_is_fit(cli, folder, tmp_path):
    model, wanted = tmp_path / "m.safetensors", tmp_path / "wanted.safetensors"
    names, broader = folder / "names.tsv", folder / "broader.tsv"
    done = train(cli, folder, model, "--label-info", names, "--broader", broader)
    assert (done.code, done.err) == (0, "")
    forest = SketchForestClassifier(n_trees=2, vectorizer=TextVectorizer(fields=["title"]))
    records = [{"title": text} for text in TEXTS]
    forest.fit(records, TAGS, label_info=LabelInfo.read(names, broader)).save(wanted)
    trained = sparseleaf.load(model)
    trained.model_ = replace(trained.model_, target_columns={})  # unknown to fit
    trained.save(tmp_path / "same.safetensors")
    assert (tmp_path / "same.safetensors").read_bytes() == wanted.read_bytes()
    assert trained.classes_.tolist() == ["t1", "t2", "t3", "t4", "t5"]
    (tmp_path / "new.txt").write_text("swimming text1\n")
    done = cli("predict", model, tmp_path / "new.txt", "-k", "5", "--label-names", names)
    assert done.code == 0
    assert "swimming (t5)" in done.out


def test_names_are_translated_by_a_dictionary(cli, folder, tmp_path):
    model, words = tmp_path / "m.safetensors", tmp_path / "words.tsv"
    words.write_text("swimming\tSchwimmen\n")
    names = folder / "names.tsv"
    done = train(cli, folder, model, "--label-info", names, "--dictionary", words)
    assert (done.code, done.err) == (0, "")
    forest = SketchForestClassifier(n_trees=2)
    info = LabelInfo.read(names).translated(Dictionary.read(words))
    forest.fit(TEXTS, TAGS, label_info=info)
    (tmp_path / "new.txt").write_text("schwimmen text1\n")
    done = cli("predict", model, tmp_path / "new.txt", "-k", "5")
    assert done.code == 0
    labels, _ = forest.predict_topk(["schwimmen text1"], k=5)
    assert [pair.split(":")[0] for pair in done.out.split()] == labels[0].tolist()
    assert "t5" in labels[0]


def test_bad_options(cli, folder, tmp_path):
    model, names = tmp_path / "m.safetensors", folder / "names.tsv"
    done = train(cli, folder, model, "--broader", folder / "broader.tsv")
    assert done.code
    assert "--broader requires --label-info" in done.err
    done = train(cli, folder, model, "--dictionary", names)
    assert done.code
    assert "--dictionary requires --label-info" in done.err
    (tmp_path / "words.tsv").write_text("no columns\n")
    done = train(cli, folder, model, "--label-info", names, "--dictionary", tmp_path / "words.tsv")
    assert done.code
    assert "line 1: expected a word and a translation" in done.err
    done = train(cli, folder, model, "--label-info", names, "--engine", "dask")
    assert done.code
    assert "--label-info requires --engine local" in done.err
    done = train(cli, folder, model, "--label-info", names, "--method", "gbdt-mo")
    assert done.code
    assert "--label-info requires --method forest, ldsm or gbdt-sparse" in done.err
    done = train(cli, folder, model, "--label-info", names, "--label-key", "x")
    assert done.code
    assert "must be one of {'uri', 'notation', 'last'}" in done.err
    done = train(cli, folder, model, "--label-info", tmp_path / "none.tsv")
    assert done.code
    assert "none.tsv" in done.err
    assert not model.exists()
