"""Growth by priority: the order of expansion, its limit, and that splitting ahead changes nothing."""

from __future__ import annotations

import heapq

import numpy as np
import pytest

from sparseleaf.routed import growth
from sparseleaf.routed.ensemble import freeze_tree, join_trees
from sparseleaf.routed.growth import GrowingTree, Histogram, Split, grow_trees, shuffled_rows

LABELS = np.random.default_rng(0).integers(0, 20, 400)


def histogram(rows):
    labels, counts = np.unique(LABELS[rows], return_counts=True)
    return Histogram(labels.astype(np.int32), counts)


class RandomSplitter:
    """Splits rows by a draw from the node's key; refuses some nodes."""

    def __init__(self, arity=2):
        self.arity = arity
        self.n_split = 0

    def split(self, rows, keys):
        return [self._one(own, key) for own, key in zip(rows, keys, strict=True)]

    def _one(self, rows, key):
        self.n_split += 1
        rng = np.random.default_rng(int(key))
        if rng.random() < 0.1 or len(rows) < 4:
            return None
        to = rng.integers(0, self.arity, len(rows))
        parts = [rows[(to == j) | (rng.random(len(rows)) < 0.05)] for j in range(self.arity)]
        weights = rng.normal(size=(1, self.arity)).astype(np.float32)
        bias = np.zeros(self.arity, np.float32)
        histograms = [histogram(part) for part in parts]
        return Split(np.array([0], np.int32), weights, bias, parts, histograms, np.array([0.0]), 0.0, 0.0)


def root(tree):
    rows = shuffled_rows(len(LABELS), 0, tree)
    return rows, histogram(rows)


def grown(n_jobs=1, n_trees=3, max_nodes=61, arity=2):
    return list(grow_trees(RandomSplitter(arity), root, n_trees, max_nodes, 7, n_jobs))


def one_by_one(splitter, key, arity, max_nodes, rows):
    """Algorithm 1, as it is written: priorities and parents of all nodes."""
    nodes = [(histogram(rows).priority, -1, rows)]
    queue = [(-nodes[0][0], 0)]
    while queue and len(nodes) + arity <= max_nodes:
        _, number = heapq.heappop(queue)
        node_key = growth.mix64(np.array([key], np.uint64) ^ np.array([number], np.uint64))
        split = splitter.split([nodes[number][2]], node_key)[0]
        if split is None:
            continue
        for part, own in zip(split.rows, split.histograms, strict=True):
            nodes.append((own.priority, number, part))
            if own.priority > 0:
                heapq.heappush(queue, (-own.priority, len(nodes) - 1))
    return [(priority, parent, len(part)) for priority, parent, part in nodes]


@pytest.mark.parametrize("arity", [2, 3])
def test_splitting_ahead_gives_the_tree_of_one_by_one(arity):
    for number, tree in enumerate(grown(n_jobs=3, arity=arity)):
        wanted = one_by_one(RandomSplitter(arity), tree.key, arity, 61, root(number)[0])
        parents = {
            child: at
            for at, node in enumerate(tree.nodes)
            if node.split
            for child in range(node.first_child, node.first_child + arity)
        }
        found = [(parents.get(at, -1), node.n_rows) for at, node in enumerate(tree.nodes)]
        assert found == [(parent, n_rows) for _, parent, n_rows in wanted]
        for node, (priority, *_) in zip(tree.nodes, wanted, strict=True):
            assert node.histogram is None if node.split else node.histogram.priority == priority


def test_trees_do_not_depend_on_threads():
    a, b = grown(n_jobs=1), grown(n_jobs=4)
    for one, other in zip(a, b, strict=True):
        assert [node.n_rows for node in one.nodes] == [node.n_rows for node in other.nodes]


@pytest.mark.parametrize("max_nodes", [1, 2, 3, 4, 10, 60])
def test_nodes_are_limited(max_nodes):
    for tree in grown(max_nodes=max_nodes):
        assert len(tree.nodes) <= max_nodes
        assert len(tree.nodes) >= min(max_nodes, 3) - (max_nodes == 2)
        assert all(node.rows is None for node in tree.nodes)


def test_trees_differ_from_each_other_and_by_seed():
    a, b, c = grown()
    assert len({tuple(node.n_rows for node in tree.nodes) for tree in (a, b, c)}) == 3
    assert a.key != next(grow_trees(RandomSplitter(), root, 1, 61, 8, 1)).key
    zero, one = (next(grow_trees(RandomSplitter(), root, 1, 61, seed, 1)) for seed in (0, 1))
    assert [n.n_rows for n in zero.nodes] != [n.n_rows for n in one.nodes]


def test_a_pure_node_is_left_alone():
    pure = Histogram(np.array([3], np.int32), np.array([50]))
    assert pure.priority == 0
    tree = GrowingTree.rooted(1, 2, 100, np.arange(50, dtype=np.int32), pure)
    assert tree.done


def test_priority_is_all_but_the_most_frequent():
    assert Histogram(np.array([1, 2, 5]), np.array([4, 9, 2])).priority == 6
    assert Histogram(np.array([], np.int32), np.array([], int)).priority == 0


@pytest.mark.parametrize("arity", [2, 3])
def test_frozen_trees_are_in_level_order_with_the_same_leaves(arity):
    trees = grown(arity=arity)
    frozen = [freeze_tree(tree, 20) for tree in trees]
    joined = join_trees(frozen, 0.5, None)
    for number, tree in enumerate(trees):
        first = joined.tree_offsets[number]
        waiting = [(0, 0)]
        while waiting:  # both trees side by side
            grown_at, frozen_at = waiting.pop()
            node = tree.nodes[grown_at]
            inner, child = joined.inner[first + frozen_at], joined.child[first + frozen_at]
            assert (node.split is not None) == (inner >= 0)
            if node.split is not None:
                size = float(np.abs(node.split.weights).max())
                assert joined.whole_weights[joined.router_indptr[inner]] == pytest.approx(
                    node.split.weights[0], abs=size / 2**15
                )
                waiting += [(node.first_child + j, child + j) for j in range(arity)]
            else:
                part = slice(joined.leaf_indptr[child], joined.leaf_indptr[child + 1])
                assert np.array_equal(joined.leaf_labels[part], node.histogram.labels)
                shares = node.histogram.counts / max(1, node.histogram.counts.sum())
                assert joined.leaf_values[part] == pytest.approx(shares, rel=2**-11)
    deepest = [max(node.depth for node in tree.nodes) for tree in trees]
    assert joined.depths().tolist() == deepest


def test_leaves_keep_their_largest_shares():
    frozen = [freeze_tree(tree, 20) for tree in grown()]
    whole, cut = join_trees(frozen, 0.5, None), join_trees(frozen, 0.5, 2)
    sizes = np.diff(whole.leaf_indptr)
    assert np.array_equal(np.diff(cut.leaf_indptr), np.minimum(sizes, 2))
    for leaf, (begin, end) in enumerate(zip(whole.leaf_indptr[:-1], whole.leaf_indptr[1:], strict=True)):
        kept = cut.leaf_values[cut.leaf_indptr[leaf] : cut.leaf_indptr[leaf + 1]]
        assert np.sort(kept).tolist() == np.sort(whole.leaf_values[begin:end])[-2:].tolist()
