from __future__ import annotations

import json

import pytest

import sparseleaf
from sparseleaf.data import load_xc
from sparseleaf.metrics import evaluate, propensities

KEYS = [f"{name}@{k}" for name in ("precision", "ndcg", "psp", "psndcg") for k in (1, 3, 5)]


def test_json_is_one_object_with_the_metrics_of_the_library(cli, files):
    done = cli("evaluate", files.model, files.test, "--json")
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out)
    sets = ["f1_micro", "f1_macro", "ece", "brier"]
    assert list(found) == [*KEYS, *sets, "rows", "seconds", "ms_per_row"]
    X, Y = load_xc(files.test)
    labels, _ = sparseleaf.load(files.model).predict_topk(X, k=5)
    wanted = evaluate(Y, labels, propensities(load_xc(files.train)[1]))
    assert {key: found[key] for key in KEYS} == pytest.approx(wanted, abs=1e-7)
    assert found["rows"] == 100
    assert found["ms_per_row"] == pytest.approx(10 * found["seconds"])


def test_constants_of_the_propensities(cli, files):
    done = cli("evaluate", files.model, files.test, "--json", "-A", 0.6, "-B", 2.6)
    X, Y = load_xc(files.test)
    labels, _ = sparseleaf.load(files.model).predict_topk(X, k=5)
    wanted = evaluate(Y, labels, propensities(load_xc(files.train)[1], 0.6, 2.6))
    assert json.loads(done.out)["psp@5"] == pytest.approx(wanted["psp@5"], abs=1e-7)


def test_table(cli, files):
    done = cli("evaluate", files.model, files.test)
    assert done.code == 0
    for text in ("precision", "ndcg", "psp", "psndcg", "@1", "@5", "100 rows", "ms per row"):
        assert text in done.out


def test_labels_that_training_never_saw_are_missed(cli, files, tmp_path):
    known = json.loads(cli("evaluate", files.model, files.test, "--json").out)
    lines = files.test.read_text().splitlines()
    wide = tmp_path / "wide"
    wide.write_text("\n".join(["100 40 31", *(f"30,{line}" for line in lines[1:])]) + "\n")
    found = json.loads(cli("evaluate", files.model, wide, "--json").out)
    assert found["precision@5"] == known["precision@5"]
    assert found["psp@5"] < known["psp@5"]


@pytest.mark.parametrize(
    ("content", "arguments", "said"),
    [
        ("0 40 30\n", [], "the data has no rows"),
        ("1 40 30\n0 1:1\n", ["-B", "0"], "'B' parameter must be a finite number > 0"),
        ("1 40 30\n0 1:1\n", ["-A", "nan"], "'A' parameter must be"),
        ("1 40\n", [], "line 1"),
    ],
)
def test_mistakes_are_one_line(cli, files, tmp_path, content, arguments, said):
    (tmp_path / "data").write_text(content)
    done = cli("evaluate", files.model, tmp_path / "data", *arguments)
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert said in done.err
