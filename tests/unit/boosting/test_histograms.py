"""The pool of histograms: how much room there is must never show in the model."""

import numpy as np
import pytest

from smalldata import make_set, saved_bytes
from sparseleaf import SparseGBDTClassifier
from sparseleaf.boosting import histograms
from sparseleaf.boosting.histograms import (
    CutFinder,
    CutRules,
    HistogramPool,
    HistogramSearch,
    best_of,
    cut_type,
)
from sparseleaf.boosting.splits import SplitLimits
from sparseleaf.boosting.tree import Node
from sparseleaf.engine.shard import Shard
from sparseleaf.engine.shards import LocalShards


@pytest.fixture
def counted_pools(monkeypatch):
    """Slots of the pool for every tree, and how often a waiting node gave up its slot."""
    pools, evictions = [], []

    def use(self, features, n_slots):
        plain_use(self, features, n_slots)
        pools.append(len(self.sums))

    def evict(self, keep):
        evictions.append(keep)
        plain_evict(self, keep)

    plain_use, plain_evict = HistogramPool.use, HistogramSearch._evict
    monkeypatch.setattr(HistogramPool, "use", use)
    monkeypatch.setattr(HistogramSearch, "_evict", evict)
    return pools, evictions


@pytest.mark.parametrize("parameters", [
    {},
    {"growth": "best-first"},
    {"growth": "best-first", "max_leaves": 20},
    {"max_leaves": 20},
    {"colsample_bytree": 0.5, "max_leaves": 20},
    {"subsample": 0.6, "split": "full"},
])  # fmt: skip
def test_a_pool_of_few_slots_gives_the_same_model(parameters, counted_pools, monkeypatch, tmp_path):
    pools, evictions = counted_pools
    X, Y = make_set(900, 6, 10, seed=1, missing=0.1)
    parameters = {"n_trees": 4, "min_samples_leaf": 2, "max_depth": None, **parameters}
    large = saved_bytes(SparseGBDTClassifier.from_settings(parameters).fit(X, Y), tmp_path)
    assert all(n_slots > histograms.MIN_SLOTS for n_slots in pools)
    assert not evictions
    plain = HistogramSearch.__init__
    monkeypatch.setattr(
        HistogramSearch,
        "__init__",
        lambda self, rules, budget, max_nodes: plain(self, rules, 0, max_nodes),
    )
    pools.clear()
    small = saved_bytes(SparseGBDTClassifier.from_settings(parameters).fit(X, Y), tmp_path)
    assert all(n_slots == histograms.MIN_SLOTS for n_slots in pools)
    assert evictions, "the case must make slots scarce"
    assert small == large


def test_slots_are_given_back_when_the_features_change():
    limits = SplitLimits(None, 1, 1.0, 0.0)
    none = np.zeros(6, np.uint8)
    search = HistogramSearch(CutRules(np.full(6, 5), none, 16, limits, none), 1 << 16, 100)
    shard = Shard(np.zeros((9, 6), np.uint8), np.full(6, 4, np.int32), 1)
    search.prepare(LocalShards(shard))
    for features in (np.arange(6), np.array([0, 2, 5]), np.array([0, 2, 5]), np.array([1])):
        search.start_tree(LocalShards(shard), features, None)
        assert sorted(search._free) == list(range(len(shard.own_pool().sums)))
        # a node that waits when the tree is complete, as with max_leaves
        node = Node(3, 1, 50, slot=search._free.pop())
        search._waiting[node.id] = node


def test_trees_do_not_depend_on_the_trees_before_them(tmp_path, monkeypatch):
    """With features drawn for every tree and nodes left waiting, each tree starts with a whole pool."""
    X, Y = make_set(600, 8, 10, seed=2)
    parameters = {"n_trees": 6, "colsample_bytree": 0.5, "max_leaves": 20, "min_samples_leaf": 2}
    found = saved_bytes(SparseGBDTClassifier.from_settings(parameters).fit(X, Y), tmp_path)

    def start_afresh(self, *args):
        self.pool = HistogramPool(self.rules.n_bins, self.rules.width)
        plain(self, *args)

    plain = CutFinder.start_tree
    monkeypatch.setattr(CutFinder, "start_tree", start_afresh)
    assert saved_bytes(SparseGBDTClassifier.from_settings(parameters).fit(X, Y), tmp_path) == found


def test_of_equal_cuts_the_lowest_feature_is_the_best_whoever_holds_it():
    shares = [np.zeros(3, cut_type(False, 1)) for _ in range(2)]
    shares[0]["feature"], shares[0]["gain"] = [4, 2, -1], [1.0, 1.0, 9.0]
    shares[1]["feature"], shares[1]["gain"] = [3, 5, 7], [1.0, 2.0, 0.0]
    for found in (shares, shares[::-1]):
        assert best_of(found)["feature"].tolist() == [3, 5, 7]
