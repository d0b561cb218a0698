"""Files that claim much, and files that are written to while they are in use."""

import json
import subprocess
import sys

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import sparseleaf
from marks import first
from sparseleaf import LdSMClassifier, ModelFileError, SketchForestClassifier, SparseGBDTClassifier, _kernels
from sparseleaf.data import make_xc
from sparseleaf.model import file as model_file

X, Y = make_xc(400, 60, 30)

CLASSIFIERS = {
    "forest": SketchForestClassifier(n_trees=3, rerank=None),
    "centroid": SketchForestClassifier(n_trees=3, rerank="centroid"),
    "linear": SketchForestClassifier(n_trees=3, rerank="linear"),
    "boosted": SketchForestClassifier(n_trees=3, rerank="boosted"),
    "bayes": SketchForestClassifier(n_trees=3, rerank="bayes"),
    "ldsm": LdSMClassifier(n_trees=3),
    "gbdt": SparseGBDTClassifier(n_trees=3, projection="pca", projection_dim=4),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("models")
    for name, clf in CLASSIFIERS.items():
        clf.fit(X, Y).save(path / name)
    return path


def run(script, *arguments):
    ended = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)], capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    return ended.stdout


USE_A_FILE = """
import resource, sys
import scipy.sparse as sp
import sparseleaf
from sparseleaf.cli.inspect import describe
from pathlib import Path

before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
clf = sparseleaf.load(sys.argv[1])
row = sp.csr_matrix(([1.0, 2.0], ([0, 0], [3, clf.n_features_in_ - 1])), shape=(1, clf.n_features_in_))
clf.set_params(n_jobs=1).predict_topk(row.astype("float32"), 3)
assert describe(Path(sys.argv[1]))["n_features"] == clf.n_features_in_
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.parametrize("name", first(1, ["forest", "centroid", "bayes", "ldsm"]))
def test_a_number_of_features_takes_no_memory(folder, tmp_path, name):
    tensors = load_file(folder / name)
    with safe_open(folder / name, framework="np") as file:
        header = json.loads(file.metadata()["sparseleaf"])
    header["n_features"] = 2**28  # tables for all of them would take gigabytes
    tensors.pop("bayes.feature_counts", None)  # optional; with it, the file has an entry per feature
    save_file(tensors, tmp_path / "wide", {"sparseleaf": json.dumps(header)})
    assert int(run(USE_A_FILE, tmp_path / "wide")) < 300


def test_headers_are_limited(tmp_path, folder):
    path = tmp_path / "m"
    layout = b'{"__metadata__":{"sparseleaf":"' + b" " * model_file.MAX_HEADER + b'"}}'
    path.write_bytes(len(layout).to_bytes(8, "little") + layout)
    with pytest.raises(ModelFileError, match=r"the header has 16,777,2.. bytes, at most 16,777,216"):
        sparseleaf.load(path)
    clf = sparseleaf.load(folder / "gbdt")
    clf.model_.parameters["projection"] = "x" * model_file.MAX_HEADER
    with pytest.raises(ValueError, match="must take less than"):
        clf.save(path)


def test_nodes_must_have_sizes_before_they_get_memory(folder, tmp_path):
    tensors = load_file(folder / "forest")
    with safe_open(folder / "forest", framework="np") as file:
        metadata = file.metadata()
    tensors["routed.n_nodes"] = np.array([2**32 - 1], np.uint32)
    save_file(tensors, tmp_path / "m", metadata)
    with pytest.raises(ModelFileError, match="one bit for each of 4294967295 nodes"):
        sparseleaf.load(tmp_path / "m")
    tensors["routed.inner"] = np.zeros(2**16, np.uint8)
    tensors["routed.n_nodes"] = np.array([2**19], np.uint32)
    save_file(tensors, tmp_path / "m", metadata)
    with pytest.raises(ModelFileError, match="one entry for each of 524288 nodes"):
        sparseleaf.load(tmp_path / "m")


def chain(levels, n_features):
    """A tree in which every left child is a leaf."""
    n_nodes = 2 * levels + 1
    feature = np.full(n_nodes, -1, np.int32)
    inner = np.concatenate(([0], np.arange(2, n_nodes - 1, 2)))
    feature[inner] = np.arange(levels) % n_features
    child = np.empty(n_nodes, np.int32)
    child[inner] = 2 * np.arange(levels) + 1
    child[feature < 0] = np.arange(levels + 1)
    cover = np.ones(n_nodes, np.uint32)
    cover[inner] = levels + 1 - np.arange(levels)
    return [
        np.array([0, n_nodes]), feature, np.zeros(n_nodes, np.float32), np.zeros(n_nodes, np.uint8), child, cover,
        np.empty(0, np.uint8), np.empty((0, 32), np.uint8), np.arange(levels + 2), np.empty(0, np.int32),
        np.ones(levels + 1, np.float32), np.zeros((1, n_features), np.float32), np.zeros((1, n_features, 1)), 1,
    ]  # fmt: skip


def test_shapley_values_of_degenerate_trees_are_refused():
    _kernels.shap_values(*chain(900, 5))
    with pytest.raises(ValueError, match="more than 1,000 levels"):
        _kernels.shap_values(*chain(20_000, 20_000))


WRITE_TO_A_FILE_IN_USE = """
import sys
import numpy as np
import sparseleaf
from sparseleaf.data import make_xc
from sparseleaf.model import file as model_file

model_file.MAP_FROM = 0
X, _ = make_xc(400, 60, 30)
for path in sys.argv[1:]:
    with open(path, "rb") as file:
        good = file.read()
    start = 8 + int.from_bytes(good[:8], "little")
    for seed, fill in enumerate((None, None, 0, 255, 127)):
        clf = sparseleaf.load(path).set_params(n_jobs=1)
        bad = np.random.default_rng(seed).integers(0, 256, len(good) - start, np.uint8)
        if fill is not None:
            bad[:] = fill
        with open(path, "r+b") as file:  # in place, as cp does
            file.seek(start)
            file.write(bad.tobytes())
        try:
            clf.predict_topk(X, 5)
            clf.decision_function(X)
            clf.predict_topk(X[:1], 5)
        except ValueError:
            pass
        with open(path, "r+b") as file:
            file.write(good)
"""


@pytest.mark.slow
def test_a_mapped_file_that_is_written_to_changes_numbers_and_no_walk(folder, tmp_path):
    paths = []
    for name in CLASSIFIERS:
        for compact in (True, False):
            paths.append(tmp_path / f"{name}-{compact}")
            sparseleaf.load(folder / name).save(paths[-1], compact=compact)
    run(WRITE_TO_A_FILE_IN_USE, *paths)


def test_a_small_file_is_read_and_may_be_replaced_in_any_way(folder, tmp_path):
    for name in CLASSIFIERS:
        path = tmp_path / name
        path.write_bytes((folder / name).read_bytes())
        assert path.stat().st_size < model_file.MAP_FROM
        clf = sparseleaf.load(path)
        wanted = clf.predict_topk(X, 5)
        with path.open("r+b") as file:
            file.truncate(10)
        for a, b in zip(clf.predict_topk(X, 5), wanted, strict=True):
            assert np.array_equal(a, b)


def test_a_large_file_is_mapped(folder, monkeypatch):
    monkeypatch.setattr(model_file, "MAP_FROM", 0)

    def mapped(array):
        while array is not None and not isinstance(array, np.memmap):
            array = getattr(array, "base", None)
        return array is not None

    model = sparseleaf.load(folder / "linear").model_
    linear = model.rerank.evidence.models.weights
    for array in (model.trees.router_steps, model.trees.router_weights, model.trees.leaf_values):
        assert mapped(array)
    assert mapped(linear.steps)
    assert mapped(linear.values)
    for array in (model.trees.router_scale, model.trees.router_bias, model.label_counts, linear.scale):
        assert not mapped(array)
