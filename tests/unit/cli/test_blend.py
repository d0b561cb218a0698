from __future__ import annotations

import json

import numpy as np
import pytest

import sparseleaf
from sparseleaf import LdSMClassifier
from sparseleaf.data import load_xc


@pytest.fixture(scope="module")
def other(files, tmp_path_factory):
    path = tmp_path_factory.mktemp("blend") / "ldsm.safetensors"
    LdSMClassifier(n_trees=2, max_nodes=20).fit(*load_xc(files.train)).save(path)
    return path


def test_two_models_become_one(cli, files, other, tmp_path):
    out = tmp_path / "blend.safetensors"
    done = cli("blend", files.model, other, "--data", files.test, "-m", out)
    assert (done.code, done.err) == (0, "")
    assert "m.safetensors" in done.out
    blend = sparseleaf.load(out)
    assert blend.weights_.sum() == pytest.approx(1)
    assert [one.method for one in blend.estimators_] == ["gbdt-sparse", "ldsm"]
    measured = json.loads(cli("evaluate", out, files.test, "--json").out)
    alone = [json.loads(cli("evaluate", path, files.test, "--json").out) for path in (files.model, other)]
    total = [sum(found[f"precision@{k}"] for k in (1, 3, 5)) for found in (measured, *alone)]
    assert total[0] >= max(total[1:]) - 1e-6
    assert cli("predict", out, files.test, "-k", 3).code == 0
    found = json.loads(cli("inspect", out, "--json").out)
    assert found["method"] == "blend"
    assert [member["n_trees"] for member in found["members"]] == [6, 2]
    assert "ldsm, 2 trees" in cli("inspect", out).out


def test_given_weights_need_no_rows(cli, files, other, tmp_path):
    out = tmp_path / "blend.safetensors"
    assert cli("blend", files.model, other, "--weights", "3,1", "-m", out).code == 0
    assert sparseleaf.load(out).weights_ == pytest.approx([0.75, 0.25])


@pytest.mark.parametrize(("options", "match"), [
    ([], "Either --data or --weights must be given"),
    (["--weights", "1"], "--weights must be 2 numbers, separated by commas. Got '1'"),
    (["--weights", "1,x"], "--weights must be 2 numbers, separated by commas. Got '1,x'"),
    (["--weights", "0,0"], "must have at least one value above 0"),
])  # fmt: skip
def test_mistakes_are_named(cli, files, other, tmp_path, options, match):
    done = cli("blend", files.model, other, "-m", tmp_path / "b", *options)
    assert done.code == 2
    assert match in done.err
    assert not (tmp_path / "b").exists()


def test_learned_re_ranking_from_the_command_line(cli, files, tmp_path):
    for kind in ("linear", "boosted", "bayes", "auto"):
        out = tmp_path / kind
        options = ("--method", "ldsm", "-s", "n_trees=2", "-s", f"rerank={kind}")
        assert cli("train", files.train, "-m", out, "-q", *options).code == 0
        found = json.loads(cli("inspect", out, "--json").out)
        assert kind == "auto" or found["rerank"]["mix"] == kind
        assert cli("inspect", out).code == 0
    done = cli("train", files.train, "-m", out, "--method", "blend")
    assert "--method must not be 'blend'; train the classifiers first" in done.err
    assert np.isfinite(
        json.loads(cli("evaluate", tmp_path / "boosted", files.test, "--json").out)["precision@1"]
    )
