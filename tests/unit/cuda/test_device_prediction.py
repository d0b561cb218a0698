"""Prediction on the GPU, its kernels emulated, against a slow loop and the CPU's: every score to the bit."""

import pickle
import sys
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import sparseleaf
from emulated_cuda import EmulatedDevice
from randommodels import model_of, random_model, random_rows
from sparseleaf import GBDTRanker, MultiGBDTClassifier, MultiGBDTRegressor, SparseGBDTClassifier
from sparseleaf.cli import run
from sparseleaf.cuda import device as cuda_device
from sparseleaf.cuda import predictor as cuda_predictor
from sparseleaf.cuda.device import CudaDevice
from sparseleaf.cuda.predictor import pays
from sparseleaf.data import save_xc

OPEN_DEVICE = cuda_device.open_device  # which tests replace


@pytest.fixture(autouse=True)
def _emulated(monkeypatch):
    """Small chunks of rows, and no batch is too small for the GPU."""
    monkeypatch.setattr(cuda_device, "open_device", EmulatedDevice)
    monkeypatch.setattr(cuda_predictor, "CHUNK_BYTES", 5000)
    monkeypatch.setattr(cuda_predictor, "BLOCK_TREES", 3)
    monkeypatch.setattr(cuda_predictor, "MIN_ROW_TREES", 0)
    monkeypatch.setattr(cuda_predictor, "VALUES_PER_TREE", np.inf)


def naive_scores(model, X, n_trees):
    """Base scores plus the leaves of every row, tree by tree and entry by entry in float32."""
    trees = model.trees
    scores = np.tile(model.base_score, (len(X), 1))
    for row, x in enumerate(X):
        for tree in range(n_trees):
            root = node = trees.tree_offsets[tree]
            while trees.feature[node] >= 0:
                value, feature = x[trees.feature[node]], trees.feature[node]
                left = value <= trees.threshold[node]
                if len(trees.categorical) and trees.categorical[feature]:
                    value = value if 0 <= value < 256 else np.nan
                    chosen = trees.sets[int(trees.threshold[node])]
                    left = not np.isnan(value) and np.unpackbits(chosen, bitorder="little")[int(value)]
                left = trees.missing_left[node] if np.isnan(value) else left
                node = root + trees.child[node] + (not left)
            leaf = trees.child[node]
            scale = trees.value_scale[tree] if len(trees.value_scale) else np.float32(1)
            for number, e in enumerate(range(trees.leaf_indptr[leaf], trees.leaf_indptr[leaf + 1])):
                label = trees.leaf_labels[e] if len(trees.leaf_labels) else number
                scores[row, label] += scale * np.float32(trees.leaf_values[e])
    return scores


def with_base(model, seed):
    """A model whose leaves have some of the labels, with a base score."""
    base = np.random.default_rng(seed).normal(size=model.n_labels).astype(np.float32)
    return model_of(replace(model.scorer, base_score=base), model.n_features)


def launches(function):
    """Result of a function, and whether it launched kernels."""
    before = EmulatedDevice.n_launches
    result = function()
    return result, EmulatedDevice.n_launches > before


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32), st.integers(0, 9), st.sampled_from([1, 3, 40]), st.sampled_from([1, 2, 300]),
    st.integers(0, 2**32), st.booleans(), st.booleans(), st.booleans(),
)  # fmt: skip
def test_scores_are_those_of_the_loop_and_of_the_cpu(
    seed, n_trees, n_rows, n_labels, rows_seed, dense, categories, small
):
    """Of all trees and of the first ones, for leaves with all labels or some, in one chunk or several."""
    model = random_model(seed, n_trees, 4, n_labels, dense=dense, categories=categories, small=small)
    model = model if dense else with_base(model, seed)
    X = random_rows(rows_seed, n_rows, model)
    for used in {n_trees, n_trees // 2}:
        expected = naive_scores(model, X, used)
        assert model.outputs(X, used, 2).tobytes() == expected.tobytes()
        scores, launched = launches(lambda used=used: model.outputs(X, used, 2, "cuda"))
        assert launched == (used > 0)
        assert scores.tobytes() == expected.tobytes()


def test_rows_are_predicted_in_chunks(monkeypatch):
    model = random_model(1, 5, 4, 3)
    X = random_rows(2, 1000, model)
    expected, n_chunks = model.outputs(X, None, 1), []
    for chunk_bytes in (1, 5000, 1 << 20):
        monkeypatch.setattr(cuda_predictor, "CHUNK_BYTES", chunk_bytes)
        before = EmulatedDevice.n_launches
        assert model.outputs(X, None, 1, "cuda").tobytes() == expected.tobytes()
        n_chunks.append((EmulatedDevice.n_launches - before) // 2)
    assert n_chunks == [1000, 10, 1]


def test_a_leaf_with_two_values_of_a_label():
    """Files may have it; the values are added one after the other."""
    model = random_model(0, 20, 4, 3, dense=False)
    labels = np.zeros_like(model.trees.leaf_labels)
    model = with_base(model_of(replace(model.scorer, trees=replace(model.trees, leaf_labels=labels)), 4), 0)
    X = random_rows(0, 50, model)
    assert model.outputs(X, None, 1, "cuda").tobytes() == model.outputs(X, None, 1).tobytes()


@pytest.mark.parametrize("k", [1, 2, 5])
def test_best_labels_are_those_of_the_cpu(k):
    model = random_model(3, 5, 4, 3)
    X = random_rows(4, 200, model)
    n_trees = np.int64(4)
    best, launched = launches(lambda: model.topk(X, k, n_trees, 1, "cuda"))
    assert launched
    for one, other in zip(best, model.topk(X, k, 4, 1), strict=True):
        assert one.tobytes() == other.tobytes()


def test_prediction_does_not_change_the_model():
    model = random_model(5, 5, 4, 3, categories=True)
    X = random_rows(6, 100, model)
    model.outputs(X, None, 1)  # makes the CPU's predictor
    before, names = pickle.dumps(model), set(vars(model.scorer))
    model.outputs(X, None, 1, "cuda")
    assert pickle.dumps(model) == before
    assert set(vars(model.scorer)) == names


def test_what_stays_on_the_cpu():
    """Sparse rows, sparse scores, and small batches."""
    model, sparse_scores = random_model(7, 5, 4, 3), random_model(7, 5, 4, 3, dense=False)
    X = np.nan_to_num(random_rows(8, 100, model))
    for one, rows in ((model, sp.csr_matrix(X)), (sparse_scores, X)):
        scores, launched = launches(lambda one=one, rows=rows: one.outputs(rows, None, 1, "cuda"))
        assert not launched
        assert scores.tobytes() == one.outputs(rows, None, 1).tobytes()


def test_the_gpu_takes_large_batches_of_enough_trees(monkeypatch):
    monkeypatch.undo()
    assert pays(50_000, 100, 400)
    assert not pays(49_999, 100, 400)
    assert not pays(50_000, 100, 401)
    monkeypatch.setattr(cuda_device, "open_device", CudaDevice)
    monkeypatch.setitem(sys.modules, "cupy", None)
    model = random_model(9, 5, 4, 3)
    X = random_rows(9, 1000, model)
    assert model.outputs(X, None, 1, "cuda").tobytes() == model.outputs(X, None, 1).tobytes()


def test_without_cupy_the_error_names_the_extra(monkeypatch):
    monkeypatch.setattr(cuda_device, "_worker", type(cuda_device._worker)())
    monkeypatch.setattr(cuda_device, "open_device", OPEN_DEVICE)
    monkeypatch.setitem(sys.modules, "cupy", None)
    model = random_model(9, 5, 4, 3)
    with pytest.raises(ImportError, match=r"sparseleaf\[cuda\]"):
        model.outputs(random_rows(9, 10, model), None, 1, "cuda")


def test_memory_limits_the_chunks_and_the_model(monkeypatch):
    model = random_model(1, 5, 4, 3)
    X = random_rows(2, 100, model)
    monkeypatch.setattr(EmulatedDevice, "free_bytes", 2000)
    monkeypatch.setattr(cuda_predictor, "CHUNK_BYTES", 1 << 28)
    assert model.outputs(X, None, 1, "cuda").tobytes() == model.outputs(X, None, 1).tobytes()
    monkeypatch.setattr(EmulatedDevice, "free_bytes", 100)
    message = r'Prediction needs 0\.0 GiB on the GPU, but 0\.0 GiB are free\. Use device="cpu"\.'
    with pytest.raises(MemoryError, match=message):
        model.outputs(X, None, 1, "cuda")


@pytest.mark.parametrize("allocation", ["upload", "empty"])
def test_memory_that_others_take_meanwhile(allocation, monkeypatch):
    model = random_model(1, 5, 4, 3)
    X = random_rows(2, 100, model)

    def full(*arguments):
        raise MemoryError("Training needs more")

    monkeypatch.setattr(EmulatedDevice, allocation, full)
    with pytest.raises(MemoryError, match="Prediction needs"):
        model.outputs(X, None, 1, "cuda")


def data(kind, n=400):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 6)).astype(np.float32)
    X[rng.random(X.shape) < 0.1] = np.nan
    signal = np.nan_to_num(X[:, :3])
    if kind == "labels":
        return X, sp.csr_matrix(signal + 0.3 * rng.normal(size=(n, 3)) > 0.5)
    return X, {"numbers": signal @ rng.normal(size=(3, 4)), "classes": signal.argmax(axis=1)}[kind]


ESTIMATORS = [
    (MultiGBDTRegressor, "numbers", {"n_trees": 5}),
    (MultiGBDTRegressor, "numbers", {"n_trees": 5, "leaf_labels": 2}),
    (MultiGBDTRegressor, "numbers", {"n_trees": 3, "advanced": {"tree_per_output": True}}),
    (MultiGBDTRegressor, "numbers", {"n_trees": "auto", "learning_rate": 0.5}),
    (MultiGBDTClassifier, "classes", {"n_trees": 5}),
    (MultiGBDTClassifier, "classes", {"n_trees": "auto", "learning_rate": 0.5}),
    (MultiGBDTClassifier, "labels", {"n_trees": 5}),
    (GBDTRanker, "classes", {"n_trees": 5}),
]


@pytest.mark.parametrize(("kind", "form", "values"), ESTIMATORS)
def test_estimators_predict_on_the_device(kind, form, values, tmp_path):
    """Every method of prediction, with float64 features, too; some models are bagged, with a forest."""
    X, y = data(form)
    X = X.astype(np.float64)
    rows = {"group": [50] * 8} if kind is GBDTRanker else {}
    fitted = kind(**values).fit(X, y, **rows)
    bagged = values["n_trees"] == "auto"
    assert (fitted.model_.scorer.n_forest_trees > 0) == bagged
    fitted.save(tmp_path / "model.safetensors")
    loaded = sparseleaf.load(tmp_path / "model.safetensors", device="cuda")
    assert loaded.advanced["device"] == "cuda"
    for name in ("predict", "predict_proba", "decision_function", "predict_topk"):
        if not hasattr(kind, name):
            continue
        expected, launched = launches(lambda name=name: getattr(fitted, name)(X))
        assert not launched
        predicted, launched = launches(lambda name=name: getattr(loaded, name)(X))
        assert launched
        assert pickle.dumps(predicted) == pickle.dumps(expected)
    if hasattr(kind, "staged_predict"):
        every = 100 if bagged else 1
        stages = zip(
            fitted.staged_predict(X, every=every), loaded.staged_predict(X, every=every), strict=True
        )
        assert all(pickle.dumps(one) == pickle.dumps(other) for one, other in stages)


def test_a_model_trained_on_the_device_predicts_there():
    X, y = data("numbers")
    reg = MultiGBDTRegressor(n_trees=3, advanced={"device": "cuda"}).fit(X, y)
    predicted, launched = launches(lambda: reg.predict(X))
    assert launched
    on_cpu, launched = launches(lambda: reg.set_params(advanced__device="cpu").predict(X))
    assert not launched
    assert predicted.tobytes() == on_cpu.tobytes()
    with pytest.raises(ValueError, match="'device' parameter of MultiGBDTRegressor must be one of"):
        reg.set_params(advanced__device="gpu").predict(X)


def test_calibrated_and_reranked_models_have_the_scores_of_the_cpu():
    X, y = data("labels", 1000)
    X = np.nan_to_num(X)
    clf = MultiGBDTClassifier(n_trees=5).fit(X, y).fit_rerank(X, y, weight=0.5).fit_calibration(X, y)
    expected = [clf.predict_proba(X, 2), clf.predict(X), clf.predict_topk(X, 2)]
    clf.set_params(advanced__device="cuda")
    for name, wanted in zip(("predict_proba", "predict", "predict_topk"), expected, strict=True):
        arguments = () if name == "predict" else (2,)
        got, launched = launches(lambda name=name, arguments=arguments: getattr(clf, name)(X, *arguments))
        assert launched
        assert pickle.dumps(got) == pickle.dumps(wanted)


def test_categories_are_predicted_on_the_device():
    """Training with them is not supported there."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 20, (300, 2)).astype(np.float32)
    reg = MultiGBDTRegressor(n_trees=4, categorical_features=[0]).fit(X, X[:, 0] % 3)
    assert len(reg.model_.trees.sets)
    X[::7, 0] = 30
    X[::11, 0] = np.nan
    expected = reg.predict(X)
    predicted, launched = launches(lambda: reg.set_params(advanced__device="cuda").predict(X))
    assert launched
    assert predicted.tobytes() == expected.tobytes()


def test_models_that_predict_on_the_cpu_are_refused(tmp_path, capsys):
    X, y = data("labels")
    path = tmp_path / "model.safetensors"
    SparseGBDTClassifier(n_trees=2).fit(X, y).save(path)
    with pytest.raises(ValueError, match="Got one of SparseGBDTClassifier, which predicts on the CPU"):
        sparseleaf.load(path, device="cuda")
    with pytest.raises(ValueError, match="'device' parameter of load must be one of"):
        sparseleaf.load(path, device="gpu")
    save_xc(tmp_path / "rows.txt", sp.csr_matrix(np.nan_to_num(X)), y)
    assert run(["predict", str(path), str(tmp_path / "rows.txt"), "--device", "cuda"]) != 0
    assert "requires a model of MultiGBDTRegressor" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("form", ["numbers", "classes"])
def test_the_command_line_predicts_on_the_device(form, tmp_path):
    X, y = data(form, 50)
    names = [f"x{f}" for f in range(X.shape[1])]
    lines = [",".join("" if np.isnan(x) else repr(float(x)) for x in row) for row in X]
    (tmp_path / "rows.csv").write_text("\n".join([",".join(names), *lines]) + "\n")
    kind = MultiGBDTRegressor if form == "numbers" else MultiGBDTClassifier
    kind(n_trees=3, min_samples_leaf=2).fit(X, y).save(tmp_path / "model.safetensors")
    written = []
    for device in ("cpu", "cuda"):
        output = tmp_path / f"{device}.txt"
        arguments = ["predict", tmp_path / "model.safetensors", tmp_path / "rows.csv", "-o", output]
        status, launched = launches(
            lambda arguments=arguments, device=device: run([*map(str, arguments), "--device", device])
        )
        assert status == 0
        assert launched == (device == "cuda")
        written.append(output.read_bytes())
    assert written[0] == written[1]
    assert len(written[0].splitlines()) >= 50
