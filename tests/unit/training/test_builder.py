"""The compiled tree builder against the readable loop, node by node and to the bit, in every case that there is."""

import signal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive_growing
from smalldata import LOSSES, blocks_of, make_state
from sparseleaf import _kernels
from sparseleaf.distributed.communicator import LocalCommunicator
from sparseleaf.training.builder import (
    BinnedColumns,
    ExactTrees,
    Growth,
    HistogramTrees,
    TreeSample,
    gradient_columns,
)
from sparseleaf.training.columns import COUNT, DIAGONAL, MATRIX, SHARED, Columns, padded_width
from thread_workers import run_workers

KINDS = {"count": COUNT, "shared": SHARED, "diagonal": DIAGONAL, "matrix": MATRIX}
GROWTH = ("depth-wise", "best-first")
ENOUGH = 1 << 30


class Case:
    """Random rows with features of every kind, and rules; ``options`` are those of the strategies below."""

    def __init__(self, seed, n, n_features, d, options):
        rng = np.random.default_rng(seed)
        self.options, self.n, self.n_features, self.d = options, n, n_features, d
        self.kind = options["kind"] if d > 1 or options["kind"] != "matrix" else "diagonal"
        self.key = int(rng.integers(2**63))
        self._make_features(rng)
        self._make_columns(rng)
        count = n_features if options["colsample"] == 1.0 else max(1, round(0.7 * n_features))
        self.features = np.sort(rng.permutation(n_features)[:count]).astype(np.int32)
        self.n_node_features = max(1, round(options["bynode"] * count))
        shuffled = rng.permutation(n).astype(np.int32)
        n_sample = n if options["subsample"] == 1.0 else int(0.6 * n)
        self.rows, self.oob_rows = np.sort(shuffled[:n_sample]), np.sort(shuffled[n_sample:])

    def _make_features(self, rng):
        n, n_features = self.n, self.n_features
        self.n_values = rng.choice([1, 2, 4, 9, 40], n_features)
        self.categorical = ((rng.random(n_features) < 0.3) & (self.options["categories"])).astype(np.uint8)
        bins = rng.integers(0, self.n_values, (n, n_features))
        for f in range(n_features):
            if rng.random() < 0.4:  # one bin in most rows
                bins[rng.random(n) < 0.85, f] = rng.integers(self.n_values[f])
            if rng.random() < 0.3:
                bins[rng.random(n) < 0.2, f] = self.n_values[f]
        self.bins = bins.astype(np.uint8)
        self.missing_bin = self.n_values.astype(np.int32)
        self.has_missing = (bins == self.n_values).any(axis=0).astype(np.uint8)
        self.n_bins = self.n_values + self.has_missing
        self.directions = None
        if self.options["constrained"] and self.kind != "matrix":
            self.directions = rng.integers(-1, 2, (n_features, self.d)).astype(np.int8)

    def _make_columns(self, rng):
        n, d = self.n, self.d
        size = 3 if self.options["ties"] else 300
        g = rng.integers(-size, size + 1, (n, d)) + 20 * (self.bins[:, :1] > 0)
        if self.kind == "count":
            columns = g
        elif self.kind == "matrix":
            v = rng.integers(-9, 9, (n, d, 1))
            across = np.tril_indices(d)
            columns = np.hstack((g, (v * v.transpose(0, 2, 1))[:, across[0], across[1]]))
        else:
            columns = np.hstack((g, rng.integers(0, 90, (n, 1 if self.kind == "shared" else d))))
        self.columns = columns.astype(np.int64)
        self.weight = np.full(d, 0.7) if self.kind == "matrix" else rng.uniform(0.1, 3, d)
        self.lambda_, self.step = rng.uniform(1, 40, d), rng.uniform(0.5, 2, d)

    @property
    def top(self):
        allowed = self.directions is None and self.kind != "matrix"
        return min(self.options["top"], self.d) if allowed else 0

    def naive_rules(self):
        o = self.options
        return naive_growing.Rules(
            self.kind, self.weight.tolist(), self.lambda_.tolist(), self.step.tolist(), self.n_bins.tolist(),
            self.has_missing.tolist(), self.missing_bin.tolist(), self.categorical.tolist(),
            None if self.directions is None else self.directions.tolist(), o["l2"], self.top, o["shared"],
            o["min_samples"], o["min_hessian"], o["min_gain"], o["max_depth"], o["max_leaves"],
            o["growth"] == "best-first",
        )  # fmt: skip

    def wanted(self):
        return naive_growing.grow(
            self.naive_rules(), self.bins, self.columns, self.rows, self.features.tolist(),
            self.n_node_features, self.key,
        )  # fmt: skip

    def trees(self, budget):
        o = self.options
        growth = Growth(o["growth"], o["max_leaves"], o["max_depth"], o["min_samples"], o["min_gain"])
        return HistogramTrees(
            growth, self.n_bins, self.has_missing, self.categorical, self.n, o["l2"], budget, self.n,
            o["min_hessian"], self.directions, self.top, o["shared"],
        )  # fmt: skip

    def build(self, communicator, by_rows, n_jobs, budget):
        """The tree, its leaves' rows and those of the out-of-bag rows, as the worker has them."""
        here = np.arange(self.n)
        if by_rows and communicator.size > 1:  # parts of very different size, and an empty one
            borders = [0, *(self.n * np.linspace(0, 1, communicator.size) ** 2).astype(int)]
            here = np.arange(borders[communicator.rank], borders[communicator.rank + 1])
        binned = BinnedColumns(self.bins[here], self.missing_bin)
        if not by_rows:
            own = self.bins[:, communicator.rank :: communicator.size]
            binned = BinnedColumns(
                np.ascontiguousarray(own), self.missing_bin, communicator.rank, communicator.size
            )
        builder = self.trees(budget).make_builder(binned, n_jobs)
        place = np.full(self.n, -1, np.int32)
        place[here] = np.arange(len(here))
        rows = place[self.rows][place[self.rows] >= 0]
        oob_rows = self.oob_rows.copy() if not by_rows else np.empty(0, np.int32)
        sample = TreeSample(rows, oob_rows, self.features, self.n_node_features, self.key)
        grown = builder.build(self.fitted(here), sample, communicator, by_rows=by_rows)
        leaves = [here[rows[a:b]] for a, b in zip(grown.starts, grown.ends, strict=True)]
        oob = [oob_rows[a:b] for a, b in zip(grown.oob_starts, grown.oob_ends, strict=True)]
        return grown.nodes, leaves, oob

    def fitted(self, here):
        width = self.columns.shape[1]
        padded = padded_width(width + self.options["spare_column"])
        values = np.zeros((len(here), padded), np.int16)
        values[:, :width] = self.columns[here]
        count_column = -1
        if width < padded:
            values[:, -1], count_column = 1, padded - 1
        scales = Columns(KINDS[self.kind], self.weight, self.lambda_, self.step)
        return gradient_columns(values, count_column, scales)


def assert_same(case, found, root):
    """Every number of every node."""
    nodes, leaves, oob = found
    order = naive_growing.level_order(root)
    assert nodes.feature.tolist() == [n.split["feature"] if n.children else -1 for n in order]
    inner = [i for i, node in enumerate(order) if node.children]
    for name, values in (("bin", nodes.bin), ("gain", nodes.gain), ("missing_left", nodes.missing_left)):
        assert [values[i] for i in inner] == [order[i].split[name] for i in inner], name
    assert nodes.count.tolist() == [len(node.rows) for node in order]
    unordered = [i for i in inner if case.categorical[order[i].split["feature"]]]
    assert nodes.unordered.tolist() == unordered
    for i, bits in zip(unordered, nodes.sets, strict=True):
        assert np.flatnonzero(np.unpackbits(bits, bitorder="little")).tolist() == order[i].split["set"]
    last = [node for node in order if not node.children]
    for rows, node in zip(leaves, last, strict=True):
        assert sorted(rows.tolist()) == node.rows.tolist()
    if case.directions is not None:
        assert nodes.leaf_bounds.low.tolist() == [node.low for node in last]
        assert nodes.leaf_bounds.high.tolist() == [node.high for node in last]
    assert nodes.child[inner].tolist() == [order.index(order[i].children[0]) for i in inner]
    if len(np.concatenate(oob)):
        assert sorted(np.concatenate(oob).tolist()) == case.oob_rows.tolist()
        for i, rows in enumerate(oob):
            assert sorted(rows.tolist()) == [
                row for row in case.oob_rows if leaf_of(case, root, row) is last[i]
            ]


def leaf_of(case, node, row):
    while node.children:
        left = naive_growing.goes_left(case.naive_rules(), node.split, case.bins[[row]].astype(np.int64))[0]
        node = node.children[0 if left else 1]
    return node


OPTIONS = st.fixed_dictionaries({
    "kind": st.sampled_from(list(KINDS)),
    "growth": st.sampled_from(GROWTH),
    "max_leaves": st.sampled_from([None, 2, 3, 7, 31]),
    "max_depth": st.sampled_from([None, 1, 4]),
    "min_samples": st.sampled_from([1, 2, 10]),
    "min_gain": st.sampled_from([0.0, 0.0, 50.0, -1.0]),
    "min_hessian": st.sampled_from([0.0, 0.0, 200.0]),
    "l2": st.sampled_from([0.0, 1.0]),
    "top": st.sampled_from([0, 0, 1, 2]),
    "shared": st.booleans(),
    "constrained": st.sampled_from([False, False, True]),
    "categories": st.booleans(),
    "colsample": st.sampled_from([1.0, 0.7]),
    "bynode": st.sampled_from([1.0, 0.5, 0.3]),
    "subsample": st.sampled_from([1.0, 0.6]),
    "ties": st.booleans(),
    "spare_column": st.booleans(),
})  # fmt: skip
SIZES = st.one_of(st.integers(0, 30), st.integers(31, 250))


def check(case, n_jobs, budget, n_workers=1, by_rows=True):
    root = case.wanted()
    if n_workers == 1:
        assert_same(case, case.build(LocalCommunicator(), True, n_jobs, budget), root)
        return root
    found = run_workers(n_workers, lambda comm: case.build(comm, by_rows, n_jobs, budget))
    if by_rows:  # every worker has the rows of its part
        rows = [
            np.concatenate(parts).astype(int) for parts in zip(*(own for _, own, _ in found), strict=True)
        ]
        found = [(nodes, rows, oob) for nodes, _, oob in found]
    for one in found:
        assert_same(case, one, root)
    return root


@settings(max_examples=150, deadline=None)
@given(
    OPTIONS, SIZES, st.integers(1, 7), st.integers(1, 10), st.integers(0, 2**32), st.sampled_from([1, 3, 8])
)
def test_one_worker(options, n, n_features, d, seed, n_jobs):
    check(Case(seed, n, n_features, min(d, 4) if options["kind"] == "matrix" else d, options), n_jobs, ENOUGH)


@settings(max_examples=60, deadline=None)
@given(
    OPTIONS, SIZES, st.integers(1, 7), st.integers(1, 3), st.integers(0, 2**32), st.sampled_from([1, 3, 8])
)
def test_histograms_that_have_no_room_are_built_again(options, n, n_features, d, seed, n_jobs):
    check(Case(seed, n, n_features, d, {**options, "max_depth": None}), n_jobs, 0)


@pytest.mark.parametrize("by_rows", [True, False])
@settings(max_examples=60, deadline=None)
@given(
    OPTIONS, SIZES, st.integers(1, 7), st.integers(1, 3), st.integers(0, 2**32), st.sampled_from([2, 3]),
    st.sampled_from([0, ENOUGH]),
)  # fmt: skip
def test_several_workers(by_rows, options, n, n_features, d, seed, n_workers, budget):
    check(Case(seed, n, n_features, d, options), 1, budget, n_workers, by_rows)


@settings(max_examples=12, deadline=None)
@given(
    OPTIONS, st.sampled_from([3000, 9000]), st.sampled_from([3, 12]), st.integers(1, 9), st.integers(0, 2**32)
)
def test_threads_share_rows_and_features_of_large_nodes(options, n, n_features, d, seed):
    d = min(d, 4) if options["kind"] == "matrix" else d
    check(Case(seed, n, n_features, d, {**options, "min_samples": 200}), 5, ENOUGH)


PLAIN = {
    "kind": "count", "growth": "best-first", "max_leaves": None, "max_depth": None, "min_samples": 1, "min_gain": 0.0,
    "min_hessian": 0.0, "l2": 0.0, "top": 0, "shared": False, "constrained": False, "categories": False,
    "colsample": 1.0, "bynode": 1.0, "subsample": 1.0, "ties": False, "spare_column": False,
}  # fmt: skip


@pytest.mark.parametrize("n_jobs", [1, 2, 8])
@pytest.mark.parametrize("budget", [0, ENOUGH])
def test_nodes_that_wait_long_for_their_turn_leave_room_for_others(n_jobs, budget):
    """A chain peels off one block after the other, and of the blocks the newest is always the best to split.

    So with every link of the chain one more block is split ahead of its turn, which comes only when the chain ends:
    with a slot for each of their children there would soon be none left.
    """
    n_blocks, size = 40, 16
    block = np.repeat(np.arange(n_blocks), size)
    a, b = np.arange(len(block)) // 2 % 2, np.arange(len(block)) % 2
    case = Case(0, len(block), n_blocks + 2, 1, {**PLAIN, "max_leaves": n_blocks})
    case.bins = np.column_stack([block[:, None] == np.arange(n_blocks), a, b]).astype(np.uint8)
    case.n_bins = np.full(n_blocks + 2, 2)
    case.missing_bin, case.has_missing = np.full(n_blocks + 2, 2, np.int32), np.zeros(n_blocks + 2, np.uint8)
    case.columns = (200 * block + (10 + block) * a + 5 * b)[:, None]  # blocks leave in their order
    case.weight = np.ones(1)
    assert len(naive_growing.level_order(check(case, n_jobs, budget))) == 2 * n_blocks - 1


def test_draws_of_nodes_depend_on_the_path_alone():
    """Depth-wise and best-first growth make nodes in different orders; complete trees are the same."""
    trees = []
    for growth in GROWTH:
        case = Case(5, 200, 6, 2, {**PLAIN, "growth": growth, "bynode": 0.4, "min_samples": 10})
        trees.append(case.build(LocalCommunicator(), True, 2, ENOUGH)[0])
    assert len(trees[0].feature) > 9
    for name in ("feature", "bin", "gain", "child", "count"):
        assert getattr(trees[0], name).tolist() == getattr(trees[1], name).tolist()


def test_drawn_features_are_as_many_as_wanted_and_change_from_node_to_node():
    draws = [tuple(naive_growing.drawn(list(range(0, 60, 3)), 5, key)) for key in range(200)]
    assert {len(set(one)) for one in draws} == {5}
    counts = np.bincount(np.concatenate(draws), minlength=60)[::3]
    assert counts.min() > 25, "each of 20 features in about a quarter of the draws"


@pytest.mark.parametrize("by_rows", [True, False])
def test_the_number_of_messages_grows_with_batches_not_with_nodes(by_rows):
    case = Case(7, 250, 5, 2, {**PLAIN, "max_leaves": 41})
    calls = []

    def build(comm):
        nodes = case.build(comm, by_rows, 1, ENOUGH)[0]
        calls.append(comm.n_calls)
        return nodes

    nodes = run_workers(2, build)[0]
    assert len(nodes.feature) == 81
    assert max(calls) < 2 * 40, "two collectives for every batch, of up to eight of 40 splits"


def test_trees_do_not_depend_on_the_trees_before_them():
    """A builder keeps memory from one tree to the next, whatever their features and columns."""
    case = Case(5, 250, 6, 3, {**PLAIN, "bynode": 0.5, "min_samples": 5})
    other = Case(4, 250, 6, 9, {**PLAIN, "kind": "diagonal", "max_leaves": 9})
    builder = case.trees(1 << 14).make_builder(BinnedColumns(case.bins, case.missing_bin), 2)
    nothing, everything = np.empty(0, np.int32), np.arange(case.n)

    def build(fitted, features):
        sample = TreeSample(case.rows.copy(), nothing, features, max(1, len(features) // 2), case.key)
        return builder.build(fitted.fitted(everything), sample, LocalCommunicator(), by_rows=True).nodes

    features = np.array([0, 2, 5], np.int32)
    first, smaller = build(case, case.features), build(case, features)
    build(other, case.features)
    for found, wanted in ((build(case, features), smaller), (build(case, case.features), first)):
        assert found.feature.tolist() == wanted.feature.tolist()
        assert found.gain.tobytes() == wanted.gain.tobytes()
    assert len(first.feature) > len(smaller.feature) > 1


# --- signals, misuse


def test_a_long_tree_hears_signals():
    """2^15 leaves, one split after the other, take far longer than it takes to ask."""
    n_features = 15
    n = 2**n_features
    case = Case(0, 4, n_features, 1, {**PLAIN, "min_gain": -1.0})
    case.n, case.rows = n, np.arange(n, dtype=np.int32)
    case.bins = ((np.arange(n)[:, None] >> np.arange(n_features)) & 1).astype(np.uint8)
    case.n_bins, case.missing_bin = np.full(n_features, 2), np.full(n_features, 2, np.int32)
    case.has_missing = np.zeros(n_features, np.uint8)
    case.columns = np.random.default_rng(0).integers(-99, 99, (n, 1))
    builder = case.trees(ENOUGH).make_builder(BinnedColumns(case.bins, case.missing_bin), 2)
    sample = TreeSample(case.rows.copy(), np.empty(0, np.int32), case.features, n_features, 0)

    class HeardError(Exception):
        pass

    def hear(*_):
        raise HeardError

    before = signal.signal(signal.SIGALRM, hear)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        with pytest.raises(HeardError):
            builder.build(case.fitted(np.arange(n)), sample, LocalCommunicator(), by_rows=True)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    assert np.array_equal(np.sort(sample.rows), np.arange(n)), "no row is lost"
    sample = TreeSample(case.rows[:64].copy(), np.empty(0, np.int32), case.features, n_features, 0)
    grown = builder.build(case.fitted(np.arange(n)), sample, LocalCommunicator(), by_rows=True)
    assert grown.nodes.count[0] == 64, "the builder can be used again"


@pytest.mark.parametrize(("change", "match"), [
    ({"rows": np.array([0, 99], np.int32)}, "rows"),
    ({"rows": np.array([0, -1], np.int32)}, "rows"),
    ({"oob_rows": np.array([99], np.int32)}, "rows"),
    ({"features": np.array([3], np.int32)}, "features"),
    ({"features": np.array([1, 0], np.int32)}, "features"),
    ({"features": np.empty(0, np.int32)}, "features"),
    ({"n_node_features": 0}, "n_node_features"),
])  # fmt: skip
def test_samples_that_do_not_fit_are_refused(change, match):
    case = Case(1, 20, 3, 1, PLAIN)
    builder = case.trees(ENOUGH).make_builder(BinnedColumns(case.bins, case.missing_bin), 1)
    plain = {
        "rows": case.rows,
        "oob_rows": np.empty(0, np.int32),
        "features": case.features,
        "n_node_features": 3,
    }
    with pytest.raises(ValueError, match=match):
        builder.build(
            case.fitted(np.arange(20)),
            TreeSample(**{**plain, **change}, key=1),
            LocalCommunicator(),
            by_rows=True,
        )


@pytest.mark.parametrize(("change", "match"), [
    ({"values": np.zeros((19, 4), np.int16)}, "gradients"),
    ({"values": np.zeros((20, 3), np.int16)}, "gradients"),
    ({"count_column": 4}, "gradients"),
    ({"hessian": 4}, "columns"),
    ({"hessian": -1}, "columns"),
    ({"hessian": DIAGONAL, "weight": np.ones(3), "lambda_": np.ones(3), "step": np.ones(3)}, "columns"),
    ({"weight": np.empty(0), "lambda_": np.empty(0), "step": np.empty(0)}, "columns"),
    ({"lambda_": np.ones(3)}, "one entry per output"),
    ({"step": np.ones(3)}, "one entry per output"),
])  # fmt: skip
def test_gradients_that_do_not_fit_are_refused(change, match):
    case = Case(1, 20, 3, 1, PLAIN)
    builder = case.trees(ENOUGH).make_builder(BinnedColumns(case.bins, case.missing_bin), 1)
    plain = {
        "values": np.zeros((20, 4), np.int16), "count_column": 3, "hessian": COUNT, "weight": np.ones(1),
        "lambda_": np.ones(1), "step": np.ones(1), "first_output": 0,
    }  # fmt: skip
    sample = TreeSample(case.rows, np.empty(0, np.int32), case.features, 3, 1)
    with pytest.raises(ValueError, match=match):
        builder.build(
            _kernels.GradientColumns(**{**plain, **change}), sample, LocalCommunicator(), by_rows=True
        )


@pytest.mark.parametrize(("change", "match"), [
    ({"n_bins": np.array([2, 2], np.int32)}, "one entry per feature"),
    ({"n_bins": np.array([2, 2, 0], np.int32)}, "n_bins: must be at least 1"),
    ({"has_missing": np.ones(3, np.uint8), "n_bins": np.ones(3, np.int32)}, "n_bins: must be at least 1"),
    ({"categorical": np.ones(3, np.uint8), "n_bins": np.full(3, 257, np.int32)}, "categorical"),
    ({"directions": np.zeros((2, 1), np.int8)}, "directions"),
])  # fmt: skip
def test_tables_that_do_not_fit_are_refused(change, match):
    plain = {
        "n_bins": np.full(3, 2, np.int32), "missing_bin": np.full(3, 2, np.int32), "has_missing": np.zeros(3, np.uint8),
        "categorical": np.zeros(3, np.uint8), "directions": np.empty((0, 0), np.int8),
    }  # fmt: skip
    with pytest.raises(ValueError, match=match):
        _kernels.FeatureTable(**{**plain, **change})


def test_workers_that_the_features_are_not_dealt_out_to_are_refused():
    case = Case(1, 20, 4, 1, PLAIN)
    binned = BinnedColumns(np.ascontiguousarray(case.bins[:, 1::2]), case.missing_bin, 1, 2)
    builder = case.trees(ENOUGH).make_builder(binned, 1)
    sample = TreeSample(case.rows, np.empty(0, np.int32), case.features, 4, 1)
    with pytest.raises(ValueError, match="communicator"):
        builder.build(case.fitted(np.arange(20)), sample, LocalCommunicator(), by_rows=False)
    with pytest.raises(ValueError, match="bins: must have one column"):
        case.trees(ENOUGH).make_builder(BinnedColumns(case.bins, case.missing_bin, 1, 2), 1)


# --- the exact search


@pytest.mark.parametrize("growth", GROWTH)
@pytest.mark.parametrize("n_workers", [2, 3])
def test_the_exact_search_of_several_workers_is_that_of_one(growth, n_workers):
    n, n_labels, n_features = 120, 8, 5
    truth, scores, stored = make_state(n, n_labels, seed=3)
    residuals = _kernels.ResidualBlocks(blocks_of(truth, scores, stored), n_labels, LOSSES["squared"])
    bins = np.random.default_rng(4).integers(0, 20, (n, n_features)).astype(np.uint32)
    missing_bin = np.full(n_features, 20, np.int32)
    trees = ExactTrees(Growth(growth, 12, None, 3, 0.0), 3, 1.0, 1.0, n)
    rows, oob_rows = np.arange(0, n, dtype=np.int32)[:100], np.arange(100, n, dtype=np.int32)

    def build(comm):
        first, step = (comm.rank, comm.size) if comm.size > 1 else (0, 1)
        binned = BinnedColumns(np.ascontiguousarray(bins[:, first::step]), missing_bin, first, step)
        own = TreeSample(rows.copy(), oob_rows.copy(), np.arange(n_features, dtype=np.int32), 3, 11)
        grown = trees.make_builder(binned, 2).build(residuals, own, comm, by_rows=False)
        leaves = [
            sorted(own.rows[a:b].tolist()) + sorted(own.oob_rows[c:d].tolist())
            for a, b, c, d in zip(grown.starts, grown.ends, grown.oob_starts, grown.oob_ends, strict=True)
        ]
        return [grown.nodes.feature.tolist(), grown.nodes.bin.tolist(), grown.nodes.gain.tolist()], leaves

    wanted, leaves = build(LocalCommunicator())
    assert len(wanted[0]) == 23
    for found, own in run_workers(n_workers, build):
        assert found == wanted
        assert [rows for leaf in own for rows in leaf if rows < 100] == [
            row for leaf in leaves for row in leaf if row < 100
        ]
        assert sorted(row for leaf in own for row in leaf) == list(range(n))
