"""The GPU's tree builder, its kernels emulated, against the readable loop: node by node and to the bit."""

import dataclasses
import struct
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import naive_growing
from emulated_cuda import EmulatedDevice
from sparseleaf import GBDTRanker, MultiGBDTClassifier, MultiGBDTRegressor, SparseGBDTClassifier
from sparseleaf.cli import run
from sparseleaf.cuda import builder as cuda_builder
from sparseleaf.cuda import device as cuda_device
from sparseleaf.cuda.device import Arguments, CudaDevice
from sparseleaf.data import save_xc
from sparseleaf.distributed.communicator import LocalCommunicator
from sparseleaf.training import boosted, dense
from sparseleaf.training.session import Session
from unit.training.test_builder import ENOUGH, OPTIONS, PLAIN, SIZES, Case, assert_same
from unit.training.test_builder import check as check_workers

OPEN_DEVICE = cuda_device.open_device  # which tests replace


class DeviceCase(Case):
    """What the GPU supports."""

    def trees(self, budget):
        return dataclasses.replace(super().trees(budget), device="cuda")


SUPPORTED = OPTIONS.map(
    lambda options: {
        **options,
        "kind": "diagonal" if options["kind"] == "matrix" else options["kind"],
        "top": 0,
        "categories": False,
    }
)


@pytest.fixture(autouse=True)
def _emulated(monkeypatch):
    monkeypatch.setattr(cuda_device, "open_device", EmulatedDevice)
    monkeypatch.setattr(cuda_builder, "CHUNK_ROWS", 32)
    monkeypatch.setattr(cuda_builder, "MIN_CHUNK_ROWS", 16)


def check(case, budget):
    root = case.wanted()
    assert_same(case, case.build(LocalCommunicator(), True, 2, budget), root)
    return root


@settings(max_examples=60, deadline=None)
@given(SUPPORTED, SIZES, st.integers(1, 7), st.integers(1, 10), st.integers(0, 2**32))
def test_trees_are_those_of_the_oracle(options, n, n_features, d, seed):
    check(DeviceCase(seed, n, n_features, d, options), ENOUGH)


@settings(max_examples=20, deadline=None)
@given(SUPPORTED, SIZES, st.integers(1, 7), st.integers(1, 3), st.integers(0, 2**32))
def test_histograms_that_have_no_room_are_built_again(options, n, n_features, d, seed):
    check(DeviceCase(seed, n, n_features, d, {**options, "max_depth": None}), 0)


@pytest.mark.parametrize("kind", ["count", "shared", "diagonal"])
@pytest.mark.parametrize("growth", ["depth-wise", "best-first"])
def test_columns_and_features_that_need_several_blocks(kind, growth, monkeypatch):
    """45 outputs take two or three blocks of columns, and 8 KB hold the bins of few features."""
    monkeypatch.setattr(EmulatedDevice, "shared_bytes", 8 << 10)
    monkeypatch.setattr(cuda_builder, "PREFIX_BYTES", 1 << 18)
    options = {**PLAIN, "kind": kind, "growth": growth, "min_samples": 5, "bynode": 0.5}
    assert len(naive_growing.level_order(check(DeviceCase(3, 250, 9, 45, options), ENOUGH))) > 9


@settings(max_examples=40, deadline=None)
@given(
    SUPPORTED, SIZES, st.integers(1, 7), st.integers(1, 3), st.integers(0, 2**32), st.sampled_from([2, 3]),
    st.sampled_from([0, ENOUGH]),
)  # fmt: skip
def test_several_workers(options, n, n_features, d, seed, n_workers, budget):
    """Every worker with its rows on a GPU, or all on one."""
    check_workers(DeviceCase(seed, n, n_features, d, options), 1, budget, n_workers)


def test_without_cupy_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(ImportError, match=r"sparseleaf\[cuda\]"):
        CudaDevice()


def test_without_a_driver_the_error_is_one_line(monkeypatch, tmp_path, capsys):
    class CUDARuntimeError(Exception):
        pass

    def count():
        raise CUDARuntimeError("no CUDA-capable device is detected")

    runtime = SimpleNamespace(getDeviceCount=count, CUDARuntimeError=CUDARuntimeError)
    monkeypatch.setitem(
        sys.modules, "cupy", SimpleNamespace(cuda=SimpleNamespace(runtime=runtime, Device=int))
    )
    monkeypatch.setattr(cuda_device, "_worker", type(cuda_device._worker)())
    monkeypatch.setattr(cuda_device, "open_device", OPEN_DEVICE)
    rows = tmp_path / "rows.csv"
    rows.write_text("a,b\n" + "".join(f"{i % 7},{i % 3}\n" for i in range(40)))
    model = tmp_path / "model.safetensors"
    arguments = ["--target", "b", "-m", str(model), "--method", "gbdt-mo", "--device", "cuda"]
    assert run(["train", str(rows), *arguments]) == 2
    error = capsys.readouterr().err
    assert error.splitlines()[-1].startswith(
        'sparseleaf: error: device="cuda" requires an NVIDIA GPU and its driver.'
    )
    assert "Traceback" not in error
    assert not model.exists()


def test_without_a_gpu_no_gradient_is_computed(monkeypatch):
    monkeypatch.setattr(cuda_device, "open_device", CudaDevice)
    monkeypatch.setitem(sys.modules, "cupy", None)
    read = []

    def loss(targets, scores):
        read.append(len(scores))
        return scores - targets, np.ones_like(scores)

    reg = MultiGBDTRegressor(n_trees=2, loss=loss, advanced={"device": "cuda"})
    with pytest.raises(ImportError, match="CuPy"):
        reg.fit(*data("numbers"))
    assert not read


def test_arguments_are_packed_by_the_fields_of_the_source():
    fields = "    i32* to;  // where; to\n    i64 n;\n    double by;\n"
    source = f"struct FillArgs {{\n{fields}}};\nSL_KERNEL(fill, FillArgs) {{}}"
    to = np.zeros(3, np.int32)
    values = {"to": to.ctypes.data, "n": 3, "by": 0.5, "more": 0}
    packed = Arguments(source).pack("fill", values)
    assert struct.unpack("=Qqd", packed.tobytes()) == (to.ctypes.data, 3, 0.5)


def data(kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 8)).astype(np.float32)
    X[rng.random(X.shape) < 0.1] = np.nan
    signal = np.nan_to_num(X[:, :4])
    if kind == "labels":
        return X, sp.csr_matrix(signal + 0.3 * rng.normal(size=(300, 4)) > 0.5)
    numbers, classes = signal @ rng.normal(size=(4, 6)), signal.argmax(axis=1)
    return X, {"numbers": numbers, "classes": classes, "unrelated": np.sin(3 * signal)}[kind]


SETTINGS = {"n_trees": 4, "min_samples_leaf": 5}
ESTIMATORS = [
    (SparseGBDTClassifier, "labels", {}),
    (SparseGBDTClassifier, "labels", {"subsample": 0.7, "advanced": {"colsample_bynode": 1.0}}),
    *(
        (MultiGBDTRegressor, "numbers", {"loss": loss})
        for loss in ("mse", "huber", "quantile:0.7", "log-cosh")
    ),
    (MultiGBDTRegressor, "numbers", {"monotone_constraints": [1, 0, -1, 0, 0, 0, 0, 0]}),
    (MultiGBDTRegressor, "numbers", {"advanced": {"growth": "depth-wise", "tree_per_output": True}}),
    pytest.param(
        MultiGBDTRegressor, "numbers", {"n_trees": "auto", "learning_rate": 0.5}, marks=pytest.mark.slow
    ),
    (MultiGBDTRegressor, "unrelated", {"n_trees": "auto", "n_models": 2, "learning_rate": 0.5}),
    (MultiGBDTClassifier, "classes", {}),
    pytest.param(
        MultiGBDTClassifier, "classes", {"n_trees": "auto", "learning_rate": 0.5}, marks=pytest.mark.slow
    ),
    (MultiGBDTClassifier, "labels", {"colsample_bytree": 0.6, "subsample": 0.8}),
]


@pytest.mark.parametrize(("estimator", "kind", "settings"), ESTIMATORS)
def test_model_files_are_those_of_the_cpu(estimator, kind, settings, tmp_path):
    X, y = data(kind)
    files = []
    for device in ("cpu", "cuda"):
        values = {**SETTINGS, **settings, "advanced": {**settings.get("advanced", {}), "device": device}}
        launched = EmulatedDevice.n_launches
        fitted = estimator(**values).fit(X, y)
        assert (EmulatedDevice.n_launches > launched) == (device == "cuda")
        fitted.save(tmp_path / device)
        files.append((tmp_path / device).read_bytes())
    assert fitted.model_.n_trees > 1
    if kind == "unrelated":
        assert fitted.model_.parameters["tree_per_output"] is True
    assert files[0] == files[1]


def test_rankers_are_those_of_the_cpu():
    X, grades = data("classes")
    scores = [
        GBDTRanker(n_trees=4, advanced={"device": device}).fit(X, grades, group=[50] * 6).predict(X)
        for device in ("cpu", "cuda")
    ]
    assert scores[0].tobytes() == scores[1].tobytes()
    assert len(np.unique(scores[0])) > 5


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"categorical_features": [0]}, "A categorical feature"),
        ({"advanced": {"hessian": "exact"}}, "A matrix of hessians"),
        ({"advanced": {"split": "topk"}, "leaf_labels": 2}, "A top-k split search"),
    ],
)
def test_what_the_gpu_does_not_support_is_refused_before_training(settings, what):
    X, y = data("classes")
    X = np.where(np.arange(8) == 0, np.rint(np.nan_to_num(X)), X)
    settings = {**settings, "advanced": {**settings.get("advanced", {}), "device": "cuda"}}
    with pytest.raises(ValueError, match=f"{what} requires device='cpu'"):
        MultiGBDTClassifier(n_trees=2, **settings).fit(X, y)


def test_the_exact_search_is_refused_before_training():
    X, y = data("labels")
    clf = SparseGBDTClassifier(n_trees=2, advanced={"split": "exact", "device": "cuda"})
    with pytest.raises(ValueError, match="split='exact' requires device='cpu'"):
        clf.fit(np.nan_to_num(X), y)


def test_the_command_line_trains_on_the_device(tmp_path):
    X, y = data("labels")
    save_xc(tmp_path / "train.txt", sp.csr_matrix(np.nan_to_num(X)), y)
    files = []
    for device in ("cpu", "cuda"):
        model = tmp_path / f"{device}.safetensors"
        arguments = [
            "train",
            tmp_path / "train.txt",
            "-m",
            model,
            "--method",
            "gbdt-sparse",
            "-s",
            "n_trees=3",
        ]
        assert run([*map(str, arguments), "--device", device, "--quiet"]) == 0
        files.append(model.read_bytes())
    assert files[0] == files[1]


def test_a_worker_opens_its_device_once(monkeypatch):
    """Trainings one after the other share it; another number is another GPU."""
    opened = []
    monkeypatch.setattr(cuda_device, "_worker", threading.local())
    monkeypatch.setattr(cuda_device, "open_device", OPEN_DEVICE)
    monkeypatch.setattr(cuda_device, "CudaDevice", lambda number: opened.append(number) or EmulatedDevice())
    cuda_device.use_gpu(None)
    for number in (0, 0, 1, 1):
        cuda_device.use_gpu(number)
        assert cuda_device.open_device() is cuda_device.open_device()
    assert opened == [0, 1]


def test_workers_of_a_machine_take_its_gpus_in_turn(monkeypatch):
    machines, visible = ["a", "b", "a", "b", "a"], [None] * 5

    def numbers():
        found = []
        for rank in range(5):
            comm = SimpleNamespace(rank=rank, allgather=lambda _: list(zip(machines, visible, strict=True)))
            monkeypatch.setattr(cuda_device.platform, "node", lambda: machines[rank])  # noqa: B023
            found.append(cuda_device.assigned_gpu("cuda", comm))
        return found

    assert numbers() == [0, 0, 1, 1, 2]
    visible[:] = ["0,1", None, "2,3", None, "0,1"]
    assert numbers() == [0, 0, 0, 1, 1]
    visible[:] = ["0,1,2", None, "1,2,0", None, "2,0,1"]
    assert numbers() == [0, 0, 0, 1, 0]
    assert cuda_device.assigned_gpu("cpu", None) is None


def test_every_step_of_a_training_is_on_the_gpu_of_its_worker(monkeypatch):
    """Dask runs every step in a new thread."""
    monkeypatch.setattr(cuda_device, "_worker", threading.local())
    monkeypatch.setattr(cuda_device, "open_device", OPEN_DEVICE)
    opened = []
    monkeypatch.setattr(cuda_device, "CudaDevice", lambda number: opened.append(number) or EmulatedDevice())
    monkeypatch.setattr(cuda_device, "assigned_gpu", lambda name, comm: 3 if name == "cuda" else None)
    for module in (boosted, dense):
        monkeypatch.setattr(module, "assigned_gpu", cuda_device.assigned_gpu)
    step, steps = Session.__dict__["next"], []

    def in_a_thread(*arguments):
        steps.append(None)
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(step, *arguments).result()

    monkeypatch.setattr(Session, "next", in_a_thread)
    X, y = data("numbers")
    models = [
        MultiGBDTRegressor(n_trees=3, n_jobs=1, advanced={"device": device}).fit(X, y)
        for device in ("cpu", "cuda")
    ]
    assert len(steps) >= 6
    assert set(opened) == {3}
    assert len(opened) >= 4
    np.testing.assert_array_equal(models[0].predict(X), models[1].predict(X))


@pytest.mark.parametrize(("shared", "n_outputs"), [(64 << 10, 40), (48 << 10, 28)])
def test_the_search_fits_small_shared_memory(shared, n_outputs, monkeypatch):
    """The emulated device refuses more; these sizes once needed 4 % too much."""
    monkeypatch.setattr(EmulatedDevice, "shared_bytes", shared)
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(1_000, 6)), rng.normal(size=(1_000, n_outputs)) > 0.5
    params = {"n_trees": 1, "max_bins": 64, "n_jobs": 1}
    models = [
        MultiGBDTClassifier(**params, advanced={"device": device, "split": "full"}).fit(X, Y.astype(float))
        for device in ("cpu", "cuda")
    ]
    np.testing.assert_array_equal(models[0].decision_function(X), models[1].decision_function(X))


def test_a_failed_allocation_leaves_the_staging_memory_as_it_was():
    class Device(CudaDevice):
        def __init__(self):
            self._staged = SimpleNamespace(synchronize=lambda: None)
            self._staging, self._small = np.empty(4, np.uint8), "small"

        def empty(self, shape, dtype):
            raise MemoryError

    device = Device()
    with pytest.raises(MemoryError):
        device.stage(np.zeros(100, np.uint8))
    assert len(device._staging) == 4
    assert device._small == "small"
