"""Properties of the engine that hold for any data."""

import itertools

import numpy as np
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import naive
import naive_dense
from smalldata import add_leaves, blocks_of, entries_of
from sparseleaf import SparseGBDTClassifier
from sparseleaf.binning import bin_features, find_thresholds
from stumps import find_splits

quick = settings(max_examples=60, deadline=None)

# adversarial float32: neighbours, subnormals, huge values, both zeros, missing
SPECIAL = [0.0, -0.0, 1.0, -1.0, 3.4028235e38, -3.4028235e38, 1e-45, -1e-45, 1.1754944e-38, 0.1, np.nan]
SPECIAL = [float(np.float32(v)) for v in SPECIAL]  # exactly, as hypothesis asks
SPECIAL += [float(np.nextafter(np.float32(v), np.float32(w))) for v in (0.1, 1.0, -1.0) for w in (-9, 9)]
values = st.one_of(st.sampled_from(SPECIAL), st.floats(width=32, allow_nan=False, allow_infinity=False))


@quick
@given(
    hnp.arrays(np.float32, st.tuples(st.integers(1, 40), st.integers(1, 3)), elements=values),
    st.sampled_from([2, 3, 8, 255]),
    st.booleans(),
)
def test_binned_routing_is_raw_routing(X, max_bins, sparse):
    matrix = sp.csr_matrix(X) if sparse else X
    thresholds = find_thresholds([matrix], max_bins, 0, 1)
    bins = bin_features([matrix], thresholds, np.uint8, 1)
    for f in range(X.shape[1]):
        own = thresholds.values[thresholds.offsets[f] : thresholds.offsets[f + 1]]
        assert len(own) <= max_bins - 1
        assert all(a < b for a, b in itertools.pairwise(own))
        known = ~np.isnan(X[:, f])
        assert (bins[~known, f] == thresholds.missing_bins[f]).all()
        # bins rise with values
        order = np.argsort(X[known, f], kind="stable")
        assert (np.diff(bins[known, f][order].astype(int)) >= 0).all()
        # and `bin <= b` is `x <= threshold`, for rows of training and at the thresholds themselves
        around = np.concatenate(
            [X[known, f], own, *(np.nextafter(own, np.float32(w)) for w in (-np.inf, np.inf))]
        ).astype(np.float32)
        around = around[np.isfinite(around)]
        wide = np.zeros((len(around), X.shape[1]), np.float32)
        wide[:, f] = around
        found = bin_features([wide], thresholds, np.uint8, 1)[:, f]
        for b in range(len(own) + 1):
            threshold = thresholds.at(np.array([f]), np.array([b]))[0]
            np.testing.assert_array_equal(found <= b, around <= threshold)


@quick
@given(
    st.integers(0, 2**32 - 1),
    st.integers(2, 30),
    st.integers(1, 4),
    st.booleans(),
    st.sampled_from([0.0, 1.0, 5.5]),
)
def test_no_split_is_better_than_the_one_found(seed, n, n_features, missing, l2):
    rng = np.random.default_rng(seed)
    n_bins = int(rng.integers(1, 6))
    bins = rng.integers(0, n_bins + missing, (n, n_features)).astype(np.uint8)
    sketched = rng.integers(-3, 4, (n, 3))  # small numbers: many ties
    min_samples = int(rng.integers(1, 4))
    has_missing = np.array([(bins[:, f] == n_bins).any() for f in range(n_features)], np.uint8)
    rows = rng.permutation(n).tolist()
    scoring = naive_dense.Scoring(3, "count", l2=l2)
    (found,) = find_splits(bins, sketched, [rows], [n_bins] * n_features, scoring, min_samples=min_samples)
    wanted = naive.best_split(
        bins, sketched, range(n), range(n_features), [n_bins] * n_features, l2, min_samples
    )
    assert (found is None) == (wanted is None)
    if found is not None:
        gain, f, bin_, missing_left, left = wanted
        if not has_missing[f]:  # missing values go the way of most
            missing_left = 2 * left > n
        names = ("gain", "feature", "bin", "missing_left", "left")
        assert tuple(found[name] for name in names) == (gain, f, bin_, missing_left, left)


@quick
@given(st.integers(0, 2**32 - 1), st.integers(1, 50), st.integers(1, 40))
def test_merging_keeps_every_entry_and_its_sum(seed, n, n_labels):
    rng = np.random.default_rng(seed)
    truth = rng.random((n, n_labels)) < 0.2
    scores = np.where(rng.random((n, n_labels)) < rng.random(), rng.normal(size=(n, n_labels)), 0).astype(
        np.float32
    )
    stored = truth | (scores != 0)
    leaf = np.where(rng.random((3, n_labels)) < rng.random(), rng.normal(size=(3, n_labels)), 0).astype(
        np.float32
    )
    leaf_of_row = rng.integers(0, 3, n).astype(np.int32)
    rows, labels = np.nonzero(leaf)
    indptr = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=3)))).astype(np.int64)
    (block,) = blocks_of(truth, scores, stored)
    found = add_leaves(*block, leaf_of_row, indptr, labels.astype(np.uint32), leaf[rows, labels], 2)
    (wanted,) = blocks_of(truth, scores + leaf[leaf_of_row], stored | (leaf[leaf_of_row] != 0))
    assert entries_of(*found) == entries_of(*wanted)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([{}, {"split": "full"}, {"split": "exact", "exact_step": 1}, {"growth": "best-first"}]),
)
def test_the_order_of_rows_does_not_matter(seed, parameters):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(5, 120))
    X = np.round(rng.normal(size=(n, 4)), int(rng.integers(0, 3)))
    X[rng.random(X.shape) < 0.1] = np.nan
    Y = sp.csr_matrix(rng.random((n, 9)) < 0.25)
    order = rng.permutation(n)
    clf = SparseGBDTClassifier.from_settings({"n_trees": 3, "min_samples_leaf": 2, "n_jobs": 1, **parameters})
    trees = clf.fit(X, Y).model_.trees
    permuted = clf.fit(X[order], Y[order]).model_.trees
    for name, array in vars(trees).items():
        np.testing.assert_array_equal(getattr(permuted, name), array, name)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_every_leaf_lowers_the_loss_of_its_rows(seed):
    """One tree at full rate without λ: the squared loss cannot rise, and a split's gain is never negative."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 80))
    X, Y = rng.normal(size=(n, 3)), (rng.random((n, 6)) < 0.3).astype(int)
    clf = SparseGBDTClassifier(
        n_trees=4, learning_rate=1.0, l2=0.0, min_samples_leaf=1, leaf_labels=2, n_jobs=1
    )
    clf.fit(X, Y)
    losses = [float(Y.sum())]
    for n_trees in range(1, 5):
        scores = clf.model_.scores(X.astype(np.float32), n_trees, 1).toarray()
        losses.append(float(((Y - scores) ** 2).sum()))
    assert all(b <= a + 1e-5 for a, b in itertools.pairwise(losses))
    assert (clf.model_.trees.feature_gain >= 0).all()
