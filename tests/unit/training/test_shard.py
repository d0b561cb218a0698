import numpy as np
import pytest
import scipy.sparse as sp

from smalldata import csr_targets, make_set, saved_bytes
from sparseleaf import SparseGBDTClassifier
from sparseleaf._arrays import hash_rows
from sparseleaf.binning import bin_features, find_thresholds
from sparseleaf.training import sparse as sparse_module
from sparseleaf.training import sparse_shard as sparse_shard_module
from sparseleaf.training.sparse_shard import SparseShard


def make_shard(n=300, *, missing=0.0, n_jobs=1, seed=0, **options):
    X, Y = make_set(n, 4, 9, seed=seed, missing=missing)
    thresholds = find_thresholds([X], 16, 0, 1)
    bins = bin_features([X], thresholds, np.uint8, 1)
    return SparseShard(bins, thresholds.missing_bins, csr_targets(Y), 0, n_jobs, **options), X, Y


@pytest.mark.parametrize("block_rows", [64, 1024])
def test_counts(block_rows):
    shard, X, _ = make_shard(missing=0.2, block_rows=block_rows)
    assert shard.missing_features().tolist() == np.isnan(X).sum(axis=0).tolist()


def test_labels_are_kept_by_rank_and_unseen_ones_not_at_all():
    shard, _, Y = make_shard(block_rows=128)
    rank_of = np.array([3, -1, 0, -1, 1, 2, -1, -1, 4])
    shard.start(rank_of, 5)
    assert shard.n_entries() == Y[:, rank_of >= 0].sum()
    assert [len(starts) for starts, *_ in shard._blocks] == [128, 128, 44]
    entries = np.concatenate([labels for _, _, labels, _ in shard._blocks])
    assert (entries >> 31 == 1).all()
    # every row's norm of a label is 1 where it is true
    norms = shard.label_norms()
    order = np.argsort(np.where(rank_of < 0, 99, rank_of))[:5]
    assert norms.tolist() == (Y[:, order].sum(axis=0) * 2**16).tolist()
    for starts, ends, labels, _ in shard._blocks:
        for a, b in zip(starts, ends, strict=True):
            assert (np.diff((labels[a:b] & 0x7FFFFFFF).astype(int)) > 0).all()


def test_sampling_is_keyed_by_the_global_row_number():
    whole, *_ = make_shard(300)
    whole.start_tree(0.4, 1, 2, 3)
    rows = whole._rows.rows.tolist()
    assert 80 < len(rows) < 160
    wanted = np.flatnonzero(hash_rows(300, 1, 2, 3) < np.uint64(int(0.4 * 2.0**64)))
    assert rows == wanted.tolist()
    part, *_ = make_shard(100, first_row=150)
    assert part.start_tree(0.4, 1, 2, 3) == len(part._rows.rows)
    assert (part._rows.rows + 150).tolist() == [row for row in rows if 150 <= row < 250]
    assert sorted([*part._rows.rows, *part._oob.rows]) == list(range(100))
    whole.start_tree(0.4, 1, 2, 4)
    assert whole._rows.rows.tolist() != rows


@pytest.mark.parametrize("share", [1e-300, 1 - 2**-53, 1.0])
def test_extreme_shares(share):
    shard, *_ = make_shard(50)
    n = shard.start_tree(share, 0)
    assert n == (0 if share < 0.5 else 50)
    assert len(shard._rows.rows) + len(shard._oob.rows) == 50


@pytest.mark.parametrize("parameters", [
    {},
    {"subsample": 0.5, "loss": "squared_hinge"},
    {"split": "exact", "exact_step": 0.1},
    {"sketch": "sampling", "growth": "best-first"},
])  # fmt: skip
def test_block_size_does_not_change_a_byte(parameters, monkeypatch, tmp_path):
    X, Y = make_set(1500, 5, 12, seed=3, missing=0.1)
    files = []
    for block_rows in (64, 1024, 16_384):

        def make(*args, rows=block_rows, **kwargs):
            return SparseShard(*args, block_rows=rows, **kwargs)

        monkeypatch.setattr(sparse_module, "SparseShard", make)
        clf = SparseGBDTClassifier.from_settings({"n_trees": 4, **parameters})
        files.append(saved_bytes(clf.fit(X, Y, eval_set=(X[:700], Y[:700])), tmp_path))
    assert files[0] == files[1] == files[2]


@pytest.mark.parametrize("parameters", [
    {},
    {"subsample": 0.5},
    {"learning_rate": 1.0, "l2": 0.0, "leaf_labels": 2},
    {"split": "exact", "exact_step": 1, "loss": "squared_hinge", "learning_rate": 1.0},
    {"projection": "pca", "projection_dim": 3},
    {"projection": "random", "projection_dim": 4},
])  # fmt: skip
@pytest.mark.parametrize("sparse", [False, True])
def test_predictions_of_training_rows_are_the_scores_of_training(parameters, sparse, monkeypatch):
    shards = []

    class Watched(SparseShard):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            shards.append(self)

    monkeypatch.setattr(sparse_module, "SparseShard", Watched)
    X, Y = make_set(400, 6, 10, seed=4, decimals=1, missing=0 if "projection" in parameters else 0.2)
    X[:, 2] = np.abs(X[:, 2]) > 1
    X = sp.csr_matrix(X) if sparse else X
    clf = SparseGBDTClassifier.from_settings({"n_trees": 8, "min_samples_leaf": 2, **parameters}).fit(X, Y)
    counts = np.asarray(Y).sum(axis=0)
    ids = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)].astype(np.int32)
    in_training = shards[0].topk(6, ids)
    labels, _ = clf.predict_topk(X, 6)
    np.testing.assert_array_equal(labels, in_training)
    # and the scores themselves, bit for bit
    wanted = np.zeros(Y.shape, np.float32)
    row = 0
    for starts, ends, entries, values in shards[0]._blocks:
        for a, b in zip(starts, ends, strict=True):
            wanted[row, ids[entries[a:b] & 0x7FFFFFFF]] = values[a:b]
            row += 1
    np.testing.assert_array_equal(clf.decision_function(X).toarray(), wanted)


def test_blocks_are_a_power_of_two():
    assert sparse_shard_module.BLOCK_ROWS & (sparse_shard_module.BLOCK_ROWS - 1) == 0


def test_a_block_of_many_labels_does_not_leave_its_room_to_the_others(monkeypatch):
    # every block is rebuilt into the room of the one before it: the first, rich one must not size them all
    monkeypatch.setattr(sparse_shard_module, "SPARE_ENTRIES", 0)
    n_labels, block_rows, shards = 200, 64, []
    Y = np.zeros((640, n_labels), bool)
    Y[:block_rows] = True
    Y[block_rows:, 0] = True
    plain = SparseShard.__init__

    def remembered(self, *args, **options):
        plain(self, *args, **options | {"block_rows": block_rows})
        shards.append(self)

    monkeypatch.setattr(SparseShard, "__init__", remembered)
    X = np.random.default_rng(0).normal(size=(640, 3))
    SparseGBDTClassifier(n_trees=25, leaf_labels=3).fit(X, sp.csr_matrix(Y))
    rich, *others = shards[0]._buffers
    assert rich.touched > 100 * block_rows
    for room in (*others, shards[0]._spare):
        assert room.touched <= 4 * 20 * block_rows


@pytest.mark.parametrize(("counts", "growth"), [(False, 8), (True, 2)])
def test_buffers_are_large_where_pages_that_are_never_written_take_no_memory(counts, growth, monkeypatch):
    monkeypatch.setattr(sparse_shard_module, "untouched_memory_counts", lambda: counts)
    assert len(sparse_shard_module._Buffer.of(100).labels) == 100 * growth
