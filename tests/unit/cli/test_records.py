"""The commands on records: JSON lines, CSV and Parquet with texts and label lists, and plain lines."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import sparseleaf
from sparseleaf import SketchForestClassifier, TextVectorizer
from sparseleaf.cli._label_files import read_names

TEXTS = [
    "bake the bread in a hot oven",
    "knead the dough and let the bread rise",
    "a thick soup of onions and stock",
    "the striker scored a goal in the final match",
    "the keeper saved the goal and the match",
    "she won the race on her new bicycle",
] * 5
TAGS = [["food", "home baking"], ["food", "home baking"], ["food"], ["sport"], ["sport"], ["sport"]] * 5
RECORDS = [
    {"id": f"r{i}", "title": text.split()[-1], "abstract": text, "year": 1990 + i, "lang": "en", "tags": tags}
    for i, (text, tags) in enumerate(zip(TEXTS, TAGS, strict=True))
]
FIELDS = {"title": 2.0, "abstract": 1.0}
SMALL = ("-s", "n_trees=3", "-q")


@dataclass(frozen=True)
class Files:
    jsonl: Path
    csv: Path
    parquet: Path
    model: Path


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Files:
    folder = tmp_path_factory.mktemp("records")
    made = Files(folder / "r.jsonl.gz", folder / "r.csv", folder / "r.parquet", folder / "m.safetensors")
    with gzip.open(made.jsonl, "wt") as file:
        file.writelines(json.dumps(record) + "\n" for record in RECORDS)
    frame = pd.DataFrame(RECORDS)
    frame.to_parquet(made.parquet)
    frame.assign(tags=frame["tags"].map("|".join)).to_csv(made.csv, index=False)
    forest = SketchForestClassifier(n_trees=3, vectorizer=TextVectorizer(fields=FIELDS))
    forest.fit(RECORDS, TAGS).save(made.model)
    return made


@pytest.mark.parametrize("name", ["jsonl", "csv", "parquet"])
def test_train_is_fit(cli, files, tmp_path, name):
    path, model = getattr(files, name), tmp_path / "m.safetensors"
    separator = ("--label-separator", "|") if name == "csv" else ()
    done = cli(
        "train", path, "--text", "title:2,abstract", "--labels", "tags", *separator, *SMALL, "-m", model
    )
    assert (done.code, done.err) == (0, "")
    trained = sparseleaf.load(model)
    assert trained.model_.target_columns["labels"] == "tags"
    trained.model_ = replace(trained.model_, target_columns={})  # unknown to fit
    trained.save(model)
    assert model.read_bytes() == files.model.read_bytes()


def test_further_files_have_the_label_column_of_training(cli, files, tmp_path):
    model = tmp_path / "m.safetensors"
    labels = ("--labels", "tags", "--label-separator", "|")
    assert cli("train", files.csv, "--text", "title,abstract", *labels, *SMALL, "-m", model).code == 0
    named = cli("evaluate", model, files.csv, *labels, "--json")
    done = cli("evaluate", model, files.csv, "--json")
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out)["f1_micro"] == json.loads(named.out)["f1_micro"] == 1
    done = cli("calibrate", model, files.jsonl, "--threshold", "f1")  # lists need no separator
    assert (done.code, done.err) == (0, "")
    done = cli("update", model, files.parquet, "--json")
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out)["n_new_labels"] == 0
    assert sparseleaf.load(model).model_.target_columns == {"labels": "tags", "label_separator": "|"}
    done = cli("evaluate", model, files.csv, "--labels", "lang", "--json")  # an option is preferred
    assert json.loads(done.out)["precision@1"] == 0


def test_a_label_column_without_labels(cli, files, tmp_path):
    (tmp_path / "r.jsonl").write_text('{"t": "a b", "tags": []}\n{"t": "c d", "tags": null}\n')
    done = cli("train", tmp_path / "r.jsonl", "--text", "t", "--labels", "tags", "-m", tmp_path / "m")
    assert done.code == 2
    assert "no row has a label in the column 'tags'" in done.err


def test_parameters_of_the_vectorizer(cli, files, tmp_path):
    settings = [
        "ngram_range=1,2",
        "min_df=2",
        "numeric=year",
        "categorical=lang",
        "norm=none",
        "stop_words=the,a",
    ]
    settings += ["max_df=0.9", "sublinear_tf=false"]
    options = [word for one in settings for word in ("-s", f"vectorizer__{one}")]
    done = cli(
        "train", files.jsonl, "--text", "title", "--labels", "tags", *options, *SMALL, "-m", tmp_path / "m", "--method",
        "ldsm",
    )  # fmt: skip
    assert (done.code, done.err) == (0, "")
    clf = sparseleaf.load(tmp_path / "m")
    assert clf.method == "ldsm"
    parameters = clf.vectorizer.get_params()
    assert parameters["ngram_range"] == (1, 2)
    assert (parameters["min_df"], parameters["max_df"]) == (2, 0.9)
    assert (parameters["norm"], parameters["sublinear_tf"]) == (None, False)
    assert parameters["stop_words"] == ("a", "the")
    assert (parameters["numeric"], parameters["categorical"]) == ({"year": 1.0}, {"lang": 1.0})
    done = cli("predict", tmp_path / "m", files.csv, "-k", 1)
    assert (done.code, len(done.out.splitlines())) == (0, 30)
    listed = cli("train", "--parameters", "forest")
    assert "vectorizer__NAME=VALUE" in listed.out
    assert "\nchar_ngram_range : " in listed.out


def test_predictions_of_every_format_agree(cli, files):
    expected = sparseleaf.load(files.model).predict_topk(RECORDS, 2)
    outputs = {
        cli("predict", files.model, path, "-k", 2).out for path in (files.jsonl, files.csv, files.parquet)
    }
    (out,) = outputs
    first = " ".join(
        f"{json.dumps(label) if ' ' in label else label}:{score:.6g}"
        for label, score in zip(expected[0][0], expected[1][0], strict=True)
    )
    assert out.splitlines()[0] == first


def test_ids_and_names(cli, files, tmp_path):
    (tmp_path / "names.tsv").write_text("food\tEssen und Trinken\t7\nsport\tSport\n")
    lines = cli("predict", files.model, files.jsonl, "-k", 1, "--id", "id,year", "--json").out.splitlines()
    assert {key: json.loads(lines[3])[key] for key in ("id", "year")} == {"id": "r3", "year": 1993}
    named = cli(
        "predict", files.model, files.csv, "-k", 2, "--id", "id", "--label-names", tmp_path / "names.tsv"
    )
    assert named.out.splitlines()[2].startswith('r2\t"Essen und Trinken (food)":')
    done = cli(
        "predict",
        files.model,
        files.csv,
        "-k",
        2,
        "--json",
        "--label-names",
        tmp_path / "names.tsv",
        "--id",
        "title",
    )
    row = json.loads(done.out.splitlines()[0])
    assert dict(zip(row["labels"], row["names"], strict=True)) == {
        "food": "Essen und Trinken",
        "home baking": None,
    }
    assert row["title"] == "oven"


def test_names_of_labels(tmp_path):
    (tmp_path / "n.json.gz").write_bytes(gzip.compress(b'\xef\xbb\xbf{"1": "one", "2": "zwei"}'))
    assert read_names(tmp_path / "n.json.gz") == {"1": "one", "2": "zwei"}
    for content, message in (
        (b'{"a": ', "Expecting value"), (b"a\tb\nc d\n", "line 2: expected a label and a name"), (b"\xff\tb", "utf-8"),
    ):  # fmt: skip
        (tmp_path / "n").write_bytes(content)
        with pytest.raises(ValueError, match=rf"--label-names .*{message}"):
            read_names(tmp_path / "n")


def test_plain_lines(cli, files, tmp_path):
    (tmp_path / "new.txt").write_text("bread from the oven\n\nthe goal of the match\n")
    done = cli("predict", files.model, tmp_path / "new.txt", "-k", 1)
    assert [line.rpartition(":")[0] for line in done.out.splitlines()][2] == "sport"
    assert len(done.out.splitlines()) == 3
    first = sparseleaf.load(files.model).predict_topk([{"abstract": "bread from the oven"}], 1)
    assert done.out.splitlines()[0].endswith(f":{first[1][0, 0]:.6g}")
    piped = subprocess.run(
        [sys.executable, "-m", "sparseleaf", "predict", str(files.model), "-", "-k", "1"],
        input="the goal of the match", text=True, capture_output=True, check=True,
    )  # fmt: skip
    assert piped.stdout == done.out.splitlines()[2] + "\n"


def test_models_of_plain_texts(cli, files, tmp_path):
    SketchForestClassifier(n_trees=3).fit(TEXTS, TAGS).save(tmp_path / "m")
    (tmp_path / "new.txt").write_text("\n".join(TEXTS))
    lines = cli("predict", tmp_path / "m", tmp_path / "new.txt")
    assert lines.out == cli("predict", tmp_path / "m", files.csv, "--text", "abstract").out
    done = cli("predict", tmp_path / "m", files.csv)
    assert "the 'text' parameter (--text) must name the text fields; fields: 'id', 'title'" in done.err
    assert (
        "--text must be one field"
        in cli("predict", tmp_path / "m", files.csv, "--text", "title,abstract").err
    )
    done = cli("evaluate", tmp_path / "m", files.jsonl, "--text", "abstract", "--labels", "tags", "--json")
    assert json.loads(done.out)["precision@1"] == 1


def test_features_that_were_vectorised_before(cli, files, tmp_path):
    clf = sparseleaf.load(files.model)
    features = clf.vectorizer_.transform(RECORDS)
    lines = [
        "0 " + " ".join(f"{i}:{v:.9g}" for i, v in zip(row.indices, row.data, strict=True))
        for row in features
    ]
    (tmp_path / "f.svm").write_text("\n".join(lines) + "\n")
    expected = cli("predict", files.model, files.jsonl, "-k", 2)
    assert cli("predict", files.model, tmp_path / "f.svm", "-k", 2).out == expected.out


def test_evaluate_inspect_and_blend(cli, files, tmp_path):
    done = cli("evaluate", files.model, files.csv, "--labels", "tags", "--label-separator", "|", "--json")
    assert json.loads(done.out)["precision@1"] == 1
    assert "title:2,abstract:1" in "".join(cli("inspect", files.model).out.split())
    description = json.loads(cli("inspect", files.model, "--json").out)
    assert description["stages"][0] == "text"
    assert (
        description["top_features"][0]["name"]
        in sparseleaf.load(files.model).vectorizer_.get_feature_names_out()
    )
    blended = tmp_path / "b.safetensors"
    done = cli("blend", files.model, files.model, "-d", files.jsonl, "--labels", "tags", "-m", blended)
    assert (done.code, done.err) == (0, "")
    assert "word" in cli("inspect", blended).out
    best = sparseleaf.load(files.model).predict_topk(RECORDS, 1)[0]
    assert sparseleaf.load(blended).predict_topk(RECORDS, 1)[0].tolist() == best.tolist()
    assert cli("predict", blended, files.csv, "-k", 1).code == 0


def test_one_class_and_validation(cli, files, tmp_path):
    done = cli(
        "train", files.jsonl, "--text", "abstract", "-t", "lang", "--valid", files.csv, "--method", "gbdt-mo", *SMALL,
        "-m", tmp_path / "m",
    )  # fmt: skip
    assert done.code == 0
    assert cli("predict", tmp_path / "m", files.csv, "-k", 1).out.startswith("en:")
    done = cli(
        "train",
        files.jsonl,
        "--text",
        "abstract",
        "-t",
        "year",
        "--method",
        "gbdt-mo",
        *SMALL,
        "-m",
        tmp_path / "m",
    )
    assert done.code == 0
    assert cli("predict", tmp_path / "m", files.csv, "--id", "id").out.startswith("id,y0\nr0,")
    done = cli("predict", tmp_path / "m", files.csv, "--id", "id", "--json")
    assert json.loads(done.out.splitlines()[1])["id"] == "r1"


@pytest.mark.parametrize(("arguments", "message"), [
    (("--text", "title"), "files require --target COLUMN or --labels COLUMN"),
    (("--text", "title:x", "--labels", "tags"), "--text must be FIELD or FIELD:WEIGHT. Got 'title:x'"),
    (("--text", "titel", "--labels", "tags"), "no field 'titel' (text); did you mean 'title'?"),
    (("--labels", "tags", "-s", "vectorizer__min_df=2"), "--set vectorizer__… requires --text FIELD"),
    (("--text", "title", "--labels", "tags", "-s", "vectorizer__ngram_rang=2"),
     "unknown parameter 'ngram_rang'; did you mean 'ngram_range'?"),
    (("--text", "title", "--labels", "tags", "-s", "vectorizer__norm=l3"), "the 'norm' parameter must be"),
    (("--text", "title", "--labels", "tags", "-s", "vectorizer__fields=abstract"), "cannot be combined"),
    (("--text", "title", "--labels", "tags", "-s", "n_trees__x=1"), "an int >= 1 has no parameters"),
    (("--text", "title", "--labels", "tags", "-s", "vectorizer=x"), "must be a TextVectorizer or None. Got 'x'"),
    (("--text", "title:-1", "--labels", "tags"), "fields"),
])  # fmt: skip
def test_mistakes_are_one_line(cli, files, tmp_path, arguments, message):
    done = cli("train", files.jsonl, *arguments, *SMALL, "-m", tmp_path / "m")
    assert done.code == 2
    assert message in done.err
    assert len(done.err.splitlines()) == 1


def test_mistakes_of_predictions(cli, files, tmp_path):
    assert (
        "--text must not be given: the model reads title, abstract"
        in cli("predict", files.model, files.csv, "--text", "title").err
    )
    assert "no field 'nr' (keep)" in cli("predict", files.model, files.csv, "--id", "nr").err
    (tmp_path / "bad.jsonl").write_text('{"title": "x"\n')
    assert "bad.jsonl: line 1: invalid JSON" in cli("predict", files.model, tmp_path / "bad.jsonl").err
    SketchForestClassifier(n_trees=1).fit(np.eye(5), [[0], [1], [0], [1], [2]]).save(tmp_path / "m")
    assert (
        "--text requires a model that was trained on texts"
        in cli("predict", tmp_path / "m", files.csv, "--text", "title").err
    )


def test_similar_records_of_a_model_without_neighbours(cli, files, tmp_path):
    model = tmp_path / "m.safetensors"
    options = ("--text", "abstract", "--labels", "tags", "--method", "ldsm", *SMALL)
    assert cli("train", files.jsonl, *options, "-m", model).code == 0
    (tmp_path / "titles.txt").write_text("".join(f"about {record['id']}\n" for record in RECORDS))
    shown = ("--explain", "--json", "-k", 1)
    done = cli("predict", model, files.jsonl, *shown)
    assert json.loads(done.out.splitlines()[0])["labels"][0]["neighbours"] == []
    titles = ("--titles", tmp_path / "titles.txt")
    done = cli("predict", model, files.jsonl, *shown, "--training", files.parquet, *titles, "--id", "id")
    assert (done.code, done.err) == (0, "")
    near = json.loads(done.out.splitlines()[0])["labels"][0]["neighbours"][0]
    assert (near["row"], near["title"]) == (0, "about r0")
    assert near["similarity"] == pytest.approx(1, abs=1e-6)
    done = cli("predict", model, files.jsonl, "--training", files.parquet)
    assert "--training require --explain" in done.err
