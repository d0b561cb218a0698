"""``--method rank``: svmlight with queries, and tables with a column of them."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import dump_svmlight_file

import sparseleaf
from sparseleaf import GBDTRanker
from sparseleaf.ranking import evaluate

TREES = ("--method", "rank", "-s", "n_trees=15", "-s", "learning_rate=0.3", "-q")


@dataclass(frozen=True)
class Data:
    X: np.ndarray
    y: np.ndarray
    qid: np.ndarray
    folder: Path

    @property
    def frame(self):
        columns = {name: self.X[:, i] for i, name in enumerate("abc")}
        return pd.DataFrame({"query": self.qid, **columns, "grade": self.y})


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Data:
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(400, 3)), 3).astype(np.float32)
    y = np.digitize(X[:, 0] + 0.2 * rng.normal(size=400), [-0.5, 0.5, 1.5])
    qid = np.repeat(np.arange(50) + 1_000, 8)
    folder = tmp_path_factory.mktemp("rank")
    found = Data(X, y, qid, folder)
    dump_svmlight_file(X, y, str(folder / "t.svm"), query_id=qid)
    found.frame.to_csv(folder / "t.csv", index=False)
    found.frame.to_parquet(folder / "t.parquet")
    return found


@pytest.mark.parametrize("kind", ["svm", "csv", "parquet"])
def test_from_files_to_metrics(cli, data, tmp_path, kind):
    file = data.folder / f"t.{kind}"
    how = () if kind == "svm" else ("--target", "grade", "--qid", "query")
    done = cli("train", file, *how, "-m", tmp_path / "m", "--valid", file, *TREES)
    assert (done.code, done.err) == (0, "")
    found = sparseleaf.load(tmp_path / "m")
    assert type(found) is GBDTRanker
    wanted = GBDTRanker(n_trees=15, learning_rate=0.3).fit(data.X, data.y, qid=data.qid)
    rows = data.frame[list("abc")] if kind != "svm" else data.X
    scores = found.predict(rows)
    np.testing.assert_allclose(scores, wanted.predict(data.X), atol=2e-3)  # leaves are saved in 16 bits
    done = cli("evaluate", tmp_path / "m", file, *how, "--json")
    result = json.loads(done.out)
    for name, value in evaluate(data.y, scores, data.qid).items():
        assert result[name] == pytest.approx(value, abs=1e-6)
    assert result["rows"] == 400
    assert found.history_["valid ndcg@5"][-1] == pytest.approx(result["ndcg@5"], abs=1e-3)
    shown = cli("evaluate", tmp_path / "m", file, *how)
    assert shown.code == 0
    assert all(name in shown.out.lower() for name in ("ndcg@1", "ndcg@10", "map", "mrr", "pair"))
    done = cli("predict", tmp_path / "m", file, *how)
    lines = list(csv.reader(io.StringIO(done.out)))
    np.testing.assert_allclose([float(line[0]) for line in lines[1:]], scores, rtol=1e-6)
    assert cli("inspect", tmp_path / "m").code == 0


def test_queries_of_text_and_large_numbers_stay_apart(cli, data, tmp_path):
    # 2^53 + small: in float32 these would all be one query; and more texts than a feature may have categories
    many = np.arange(400) // 2
    large = data.frame.assign(query=many + 2**53)
    text = data.frame.assign(query=[f"what is {q}?" for q in many])
    models = []
    for name, frame in (("large", large), ("text", text), ("small", data.frame.assign(query=many))):
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
        how = ("--target", "grade", "--qid", "query")
        done = cli("train", tmp_path / f"{name}.csv", *how, "-m", tmp_path / name, *TREES)
        assert (done.code, done.err) == (0, "")
        models.append((tmp_path / name).read_bytes())
        done = cli("evaluate", tmp_path / name, tmp_path / f"{name}.csv", *how, "--json")
        scores = sparseleaf.load(tmp_path / name).predict(data.frame[list("abc")])
        assert json.loads(done.out)["ndcg@1"] == pytest.approx(evaluate(data.y, scores, many)["ndcg@1"])
    assert models[0] == models[1] == models[2]


def test_rows_to_rank_need_no_grades_and_no_queries(cli, data, tmp_path):
    file, how = data.folder / "t.csv", ("--target", "grade", "--qid", "query")
    assert cli("train", file, *how, "-m", tmp_path / "m", *TREES).code == 0
    wanted = cli("predict", tmp_path / "m", file, *how)
    assert wanted.code == 0
    data.frame[["c", "a", "b"]].to_csv(tmp_path / "new.csv", index=False)
    for options in (how, ()):
        found = cli("predict", tmp_path / "m", tmp_path / "new.csv", *options)
        assert (found.code, found.out) == (0, wanted.out)


def test_several_files_are_one_set_whose_queries_go_on(cli, data, tmp_path):
    whole, how = data.folder / "t.csv", ("--target", "grade", "--qid", "query")
    data.frame[:203].to_csv(tmp_path / "a.csv", index=False)
    data.frame[203:].to_csv(tmp_path / "b.csv", index=False)
    assert cli("train", whole, *how, "-m", tmp_path / "one", *TREES).code == 0
    assert (
        cli("train", tmp_path / "a.csv", tmp_path / "b.csv", *how, "-m", tmp_path / "two", *TREES).code == 0
    )
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_parameters_are_set(cli, data, tmp_path):
    settings = ("loss=gbrank", "margin=0.5", "subsample=0.8", "subsample_by=query", "normalise=false")
    options = [part for setting in settings for part in ("-s", setting)]
    assert cli("train", data.folder / "t.svm", "-m", tmp_path / "m", *TREES, *options).code == 0
    found = sparseleaf.load(tmp_path / "m")
    assert (found.loss, found.subsample) == ("gbrank", 0.8)
    assert found.advanced == {"margin": 0.5, "subsample_by": "query", "normalise": False}


def test_mistakes_are_one_line(cli, data, tmp_path):
    csv_file, svm, target = data.folder / "t.csv", data.folder / "t.svm", ("--target", "grade")
    dump_svmlight_file(data.X, data.y, str(tmp_path / "bare.svm"))
    data.frame.assign(query=[None, *data.qid[1:]]).to_csv(tmp_path / "hole.csv", index=False)
    data.frame.assign(grade=data.y - 1).to_csv(tmp_path / "negative.csv", index=False)
    cases = [
        ((csv_file, *target), "Ranking requires queries: svmlight with qid:, or --qid COLUMN"),
        ((tmp_path / "bare.svm",), "Ranking requires queries: svmlight with qid:, or --qid COLUMN"),
        (
            (svm, "--valid", tmp_path / "bare.svm"),
            "Ranking requires queries: svmlight with qid:, or --qid COLUMN",
        ),
        ((csv_file, *target, "--qid", "quary"), "no column 'quary' (qid); did you mean 'query'?"),
        ((csv_file, *target, "--qid", "grade"), "'qid' parameter must not be 'grade', which is a target"),
        ((svm, "--qid", "query"), "'qid' parameter requires named columns"),
        ((tmp_path / "hole.csv", *target, "--qid", "query"), "row 1: missing value in 'query'"),
        ((tmp_path / "negative.csv", *target, "--qid", "query"), "y must have grades in the range [0, 30]"),
        (
            (svm, "-s", "loss=mse"),
            "'loss' parameter must be one of {'gbrank', 'lambdamart', 'smoothdcg'}. Got 'mse'",
        ),
        ((svm, "-s", "early_stopping_rounds=3"), "requires --valid FILE"),
    ]
    for arguments, message in cases:
        done = cli("train", *arguments, "-m", tmp_path / "m", *TREES)
        assert done.code == 2, arguments
        assert message in done.err, arguments
        assert done.err.count("\n") == 1
        assert not (tmp_path / "m").exists()
    cli("train", svm, "-m", tmp_path / "m", *TREES)
    done = cli("evaluate", tmp_path / "m", tmp_path / "bare.svm")
    assert done.code == 2
    assert "Ranking requires queries" in done.err
