"""The boosting round of the GPU, its kernels emulated, against the CPU's: every array to the bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulated_cuda import EmulatedDevice
from sparseleaf.cuda import builder as cuda_builder
from sparseleaf.cuda import dense_shard as cuda_dense_shard
from sparseleaf.cuda import device as cuda_device
from sparseleaf.cuda.dense_shard import DeviceDenseShard
from sparseleaf.objectives import OBJECTIVES, RowObjective
from sparseleaf.objectives.targets import NO_CLASSES, NO_VALUES, DenseTargets
from sparseleaf.training.dense_shard import DenseShard
from sparseleaf.training.tree import FlatTree, LeafVectors

LOSSES = sorted(name for name, loss in OBJECTIVES.items() if issubclass(loss, RowObjective))


@pytest.fixture(autouse=True)
def _emulated(monkeypatch):
    monkeypatch.setattr(cuda_device, "open_device", EmulatedDevice)
    monkeypatch.setattr(cuda_builder, "CHUNK_ROWS", 32)
    monkeypatch.setattr(cuda_dense_shard, "BLOCK_ROWS", 16)


def make_targets(rng, loss, n, d, weight_columns, unknown):
    weights = rng.uniform(0, 2, (n, weight_columns)).astype(np.float32) if weight_columns else NO_VALUES
    if loss.needs_classes:
        classes = rng.integers(-1 if unknown else 0, d, n).astype(np.int32)
        return DenseTargets(NO_VALUES, classes, weights, d)
    values = rng.uniform(0, 1, (n, d)).astype(np.float32)
    values[rng.random((n, d)) < 0.2 * unknown] = np.nan
    return DenseTargets(values, NO_CLASSES, weights, d)


def both_shards(seed, name, n, d, weighted, unknown):
    """A shard on the CPU, and one on the GPU."""
    rng = np.random.default_rng(seed)
    loss = OBJECTIVES[name](parameter=0.7)
    targets = make_targets(rng, loss, n, d, {"no": 0, "rows": 1, "pairs": d}[weighted], unknown)
    bins = rng.integers(0, 5, (n, 3)).astype(np.uint8)
    scores = rng.normal(0, 3, (n, d)).astype(np.float32)
    missing = np.full(3, 4, np.int32)
    return [
        shard(bins, missing, targets, scores.copy(), loss, 1, first_row=7)
        for shard in (DenseShard, DeviceDenseShard)
    ]


def host(array):
    """An array of the GPU, or of the CPU."""
    return array.get() if hasattr(array, "get") else np.asarray(array)


def same(one, other):
    return host(one).tobytes() == host(other).tobytes()


CASES = (
    st.integers(0, 2**32),
    st.sampled_from(LOSSES),
    st.sampled_from([1, 2, 5, 40, 100]),
    st.sampled_from([2, 3, 10, 33]),
    st.sampled_from(["no", "rows", "pairs"]),
    st.booleans(),
)


@settings(max_examples=150, deadline=None)
@given(*CASES)
def test_gradients_are_those_of_the_cpu(seed, name, n, d, weighted, unknown):
    shards = both_shards(seed, name, n, d, weighted, unknown)
    for largest, expected in zip(*(shard.gradients(0) for shard in shards[::-1]), strict=True):
        assert same(largest, expected)
    cpu, gpu = shards
    assert same(gpu._g, cpu._g)
    assert same(gpu._h, cpu._h)


@settings(max_examples=60, deadline=None)
@given(*CASES, st.sampled_from([None, 5, 2**64 - 1]))
def test_quantised_gradients_are_those_of_the_cpu(seed, name, n, d, weighted, unknown, key):
    """Rounded to nearest, and stochastically with a key."""
    rng = np.random.default_rng(seed)
    shards = both_shards(seed, name, n, d, weighted, unknown)
    g_scale, sums = 2.0 ** rng.integers(-3, 9, d), []
    for shard in shards:
        shard.gradients(0)
        h_scale = np.full(shard._h.shape[1] if len(shard._h) else 0, 64.0)
        sums.append(shard.quantise(g_scale, h_scale, key, 0))
    assert same(*sums)
    assert same(shards[0]._residuals, shards[1]._residuals)


@settings(max_examples=60, deadline=None)
@given(*CASES, st.booleans())
def test_leaf_sums_and_scores_are_those_of_the_cpu(seed, name, n, d, weighted, unknown, sparse):
    """Of a tree of two leaves whose vectors have all outputs, or some."""
    rng = np.random.default_rng(seed)
    shards = both_shards(seed, name, n, d, weighted, unknown)
    g_scale = 2.0 ** rng.integers(20, 40, d).astype(float)
    rows = rng.permutation(n).astype(np.int32)
    middle = n // 2
    shards[1]._device_rows = shards[1]._device.upload(rows)
    shards[0]._rows = shards[0]._rows.sorted_as(rows)
    sums = []
    for shard in shards:
        shard.gradients(0)
        starts, ends = np.array([0, middle]), np.array([middle, n])
        sums.append(shard._sum_rows(shard._g, g_scale, starts, ends))
    assert same(*sums)
    none = np.zeros(3, np.int32)
    tree = FlatTree(
        feature=np.array([1, -1, -1], np.int32),
        bin=np.array([1, 0, 0], np.int32),
        threshold=none.astype(np.float32),
        missing_bin=np.array([4, 0, 0], np.int32),
        missing_left=np.array([seed % 2, 0, 0], np.uint8),
        child=np.array([1, 0, 1], np.int32),
        gain=np.zeros(3),
        leaf_nodes=np.arange(2),
        count=np.array([n, 0, n]),
        set_of=np.full(3, -1, np.int32),
        sets=np.empty((0, 32), np.uint8),
    )
    stored = [np.flatnonzero(rng.random(d) < (0.5 if sparse else 1)).astype(np.uint32) for _ in range(2)]
    vectors = LeafVectors(
        np.cumsum([0, *map(len, stored)]),
        np.concatenate(stored),
        rng.normal(size=sum(map(len, stored))).astype(np.float32),
    )
    for shard in shards:
        shard.apply_tree(tree, vectors)
    assert same(shards[0].scores, shards[1].scores)
    some = np.flatnonzero(rng.random(n) < 0.5)
    assert same(*(shard._take(shard.scores, some) for shard in shards))


def test_memory_is_checked_before_anything_is_allocated(monkeypatch):
    monkeypatch.setattr(EmulatedDevice, "free_bytes", 1000)
    allocated = []
    monkeypatch.setattr(EmulatedDevice, "upload", lambda _, array: allocated.append(array))
    with pytest.raises(MemoryError, match=r"0\.0 GiB on the GPU, but 0\.0 GiB are free\. Use fewer rows"):
        both_shards(0, "mse", 100, 10, "no", False)
    assert not allocated
