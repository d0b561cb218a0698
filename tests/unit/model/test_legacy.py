"""Files of versions 1 to 4: translated to stages, saved again in version 5, and refused where they lie."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import sparseleaf
from sparseleaf import ModelFileError
from sparseleaf.model import load_model, save_model

COMPAT = Path(__file__).parents[2] / "compat"
OLD = sorted(path.stem for path in COMPAT.glob("*-v[1-4]*.safetensors"))

STAGES = {
    "gbdt-sparse-v1": ["projection", "trees"],
    "gbdt-mo-v2-regression": ["trees"],
    "gbdt-sparse-v2-rerank": ["trees", "cosine"],
    "ldsm-v2": ["routed", "log"],
    "forest-v3": ["routed", "cosine"],
    "ldsm-v3-linear": ["routed", "linear"],
    "sparse-v3-boosted": ["trees", "boosted"],
    "blend-v3": ["blend"],
    "bayes-v4-forest": ["routed", "bayes"],
}


def read(name):
    path = COMPAT / f"{name}.safetensors"
    with safe_open(path, framework="np") as file:
        return load_file(path), json.loads(file.metadata()["sparseleaf"])


def rows_for(model):
    return np.random.default_rng(0).normal(size=(20, model.n_features)).astype(np.float32)


@pytest.mark.parametrize("name", OLD)
def test_an_old_file_saved_again_predicts_the_same(name, tmp_path):
    old = load_model(COMPAT / f"{name}.safetensors")
    assert name not in STAGES or [stage.kind for stage in old.stages] == STAGES[name]
    save_model(old, tmp_path / "m.safetensors")
    new = load_model(tmp_path / "m.safetensors")
    assert [stage.kind for stage in new.stages] == [stage.kind for stage in old.stages]
    assert new.link == old.link
    for found, wanted in zip(*(m.topk(rows_for(m), 4, None, 1) for m in (new, old)), strict=True):
        np.testing.assert_array_equal(found, wanted)
    save_model(new, tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == (tmp_path / "m.safetensors").read_bytes()


def say(**changes):
    return lambda tensors, header: header.update(changes)


def put(name, value):
    return lambda tensors, header: tensors.update({name: value})


def drop(name):
    return lambda tensors, header: tensors.pop(name)


def nested(levels):
    """A member in a member in a member."""
    header = {}
    for _ in range(levels // 2):
        header = {"method": "blend", "members": [header]}
    return header


@pytest.mark.parametrize(("name", "change", "match"), [
    ("blend-v3", say(members=3), "'members' must be a list of headers, is 3"),
    ("blend-v3", say(members=[1, 2]), "must be a list of headers"),
    ("blend-v3", say(members=[]), "'members' must be a list of 2 headers"),
    ("blend-v3", say(members=[{"method": "blend", "members": []}] * 2), "member 1: "),
    ("blend-v3", say(parameters=nested(70)), "nested more than 64 levels"),
    ("blend-v3", say(method="ldsm"), "'label_counts' is missing"),
    ("blend-v3", drop("blend.0.label_counts"), "'label_counts' is missing"),
    ("blend-v3", drop("blend.1.trees.feature"), "member 2: tensor 'blend.1.trees.feature' is missing"),
    ("sparse-v3-boosted", drop("rerank.mix"), "rerank.mix must be one number below 6"),
    ("sparse-v3-boosted", put("rerank.mix", np.array([6], np.uint8)), "rerank.mix must be one number below 6"),
    ("sparse-v3-boosted", put("rerank.mix", np.array([np.nan], np.float32)), "must be one number below 6"),
    ("sparse-v3-boosted", put("rerank.mix", np.zeros((1, 1), np.uint8)), "must be one number below 6"),
    ("sparse-v3-boosted", put("rerank.mix", np.array([3], np.uint8)), "'linear.shares' is missing"),
    ("sparse-v3-boosted", put("rerank.mix", np.array([1], np.uint8)), "unknown tensor 'cosine."),
    ("gbdt-sparse-v1", say(keep_raw=None), "'keep_raw' must be int, is None"),
    ("gbdt-sparse-v1", say(keep_raw=2**70), "'keep_raw' must be non-negative"),
    ("gbdt-sparse-v1", say(parameters=3), "'parameters' must be dict, is 3"),
    ("gbdt-sparse-v1", say(format_version=5), "'link' must be str, is None"),
    ("gbdt-mo-v2-regression", say(target_kind=3), "'target_kind' must be str, is 3"),
    ("gbdt-mo-v2-regression", say(link="probit"), "'link' must be one of"),
    ("ldsm-v2", put("base_score", np.zeros(9, np.float32)), "unknown tensor 'base_score'"),
    ("ldsm-v2", put("stages", np.zeros(1, np.uint8)), "unknown tensor 'stages'"),
])  # fmt: skip
def test_old_files_that_lie_are_refused(name, change, match, tmp_path):
    tensors, header = read(name)
    change(tensors, header)
    save_file(tensors, tmp_path / "m.safetensors", {"sparseleaf": json.dumps(header)})
    with pytest.raises(ModelFileError, match=match):
        sparseleaf.load(tmp_path / "m.safetensors")
