"""Re-ranking by naive Bayes: against its slow twin, and what it finds that trees do not."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import naive_rerank as naive
import sparseleaf
from sparseleaf import LdSMClassifier, MultiGBDTClassifier, SketchForestClassifier, SparseGBDTClassifier
from sparseleaf import _kernels as kernels
from sparseleaf._vectors import PackedVectors
from sparseleaf.data.weights import TrainingWeights
from sparseleaf.metrics import precision_at_k
from sparseleaf.model import Role
from sparseleaf.rerank import bayes as module
from sparseleaf.rerank.bayes import FLOOR, POWERS, DiscriminativeFeatures, fit_platt


def make_told(n=1200, n_labels=150, seed=0):
    """Labels with three features of their own each, among features that say nothing."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_labels, (n, 2))
    own = rng.integers(0, 300, (n_labels, 3))
    X = rng.random((n, 300)) < 0.02
    for j in range(2):
        there = rng.random((n, 3)) < 0.6
        X[np.arange(n)[:, None].repeat(3, 1)[there], own[labels[:, j]][there]] = True
    Y = np.zeros((n, n_labels), np.float32)
    Y[np.arange(n)[:, None], labels] = 1
    return sp.csr_matrix(X, dtype=np.float32), sp.csr_matrix(Y)


X, Y = make_told()


@pytest.fixture(scope="module")
def trees():
    return LdSMClassifier(n_trees=2, max_nodes=40).fit(X[:800], Y[:800]).model_


@given(st.integers(0, 10**6), st.integers(1, 30), st.integers(1, 6), st.integers(1, 8), st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_discriminative_features_are_those_of_the_twin(seed, n, n_labels, most, n_jobs):
    rng = np.random.default_rng(seed)
    there, having = rng.random((n, 7)) < rng.random(7), rng.random((n, n_labels)) < 0.4
    values = there * rng.choice([-2.5, 0.1, 3], (n, 7))
    found = DiscriminativeFeatures.fit(
        sp.csr_matrix(values, dtype=np.float32), sp.csr_matrix(having), n_jobs, most
    )
    for label, wanted in enumerate(naive.discriminative(there, having, most)):
        held = found.features[label] >= 0
        assert held.sum() == len(wanted)
        # worths that are equal but for rounding may change places
        got = dict(
            zip(found.features[label][held].tolist(), found.weights[label][held].tolist(), strict=True)
        )
        if set(got) == {f for f, _, _ in wanted}:
            assert [got[f] for f, _, _ in wanted] == pytest.approx([w for _, w, _ in wanted], rel=1e-5)
        else:
            assert len(wanted) == most
        assert (found.weights[label][held] > 0).all()
        assert (found.absent[label][held] < 0).all()
        assert (found.absent[label][~held] == 0).all()
    assert found.log_priors == pytest.approx(np.log((having.sum(axis=0) + 0.5) / (n + 1)), rel=1e-5)


def test_candidates_and_margins_are_those_of_the_twin(trees):
    dense = X.toarray()
    stage = DiscriminativeFeatures.fit(X[:800], Y[:800], 2).stage(6, 1.5, 0.25)
    wanted = naive.discriminative(dense[:800], Y[:800].toarray(), 6)
    shares = np.log((Y[:800].toarray().sum(axis=0) + 0.5) / 801)
    labels, scores = trees.candidates(X[800:830], 20, None, 1)
    starts, joined, logs, evidence = stage.candidates(X[800:830], labels, scores, 2)
    for i in range(30):
        told = np.array([naive.told(dense[800 + i], f, 1.5, s) for f, s in zip(wanted, shares, strict=True)])
        touched = [k for k, features in enumerate(wanted) if any(dense[800 + i, f] for f, _, _ in features)]
        best = sorted(touched, key=lambda k: (-told[k], k))[: module.MAX_ADDED]
        own = slice(starts[i], starts[i + 1])
        assert joined[own].tolist() == sorted({*best, *labels[i][labels[i] >= 0].tolist()})
        assert evidence[own] == pytest.approx(told[joined[own]], abs=0.05)  # weights are in 8 bits
        by_label = dict(zip(labels[i].tolist(), scores[i].tolist(), strict=True))
        relative = np.array([by_label.get(k, 0.0) for k in joined[own].tolist()]) / max(by_label.values())
        assert logs[own] == pytest.approx(np.log(relative + FLOOR), abs=1e-5)
    assert stage.margins(logs, evidence) == pytest.approx(0.25 * logs + 0.75 * evidence, abs=1e-4)


def test_one_label_by_hand():
    # feature 0 is in 2 of 8 rows, both of label 0, which has these two rows alone
    rows = sp.csr_matrix(np.c_[[1, 1, 0, 0, 0, 0, 0, 0], np.ones(8)], dtype=np.float32)
    having = sp.csr_matrix(np.c_[[1, 1, 0, 0, 0, 0, 0, 0]].astype(np.float32))
    found = DiscriminativeFeatures.fit(rows, having, 1, 4)
    p, q = (2 + 2 * 0.25) / (2 + 2), 0.25
    assert found.features.tolist() == [[0, -1, -1, -1]]  # a feature of all rows tells nothing
    assert found.weights[0, 0] == pytest.approx(np.log(p / q) - np.log((1 - p) / (1 - q)))
    stage = found.stage(4, 1.0, 0.0)
    nothing = np.full((2, 1), -1, np.int32), np.zeros((2, 1), np.float32)
    starts, joined, _, evidence = stage.candidates(rows[[0, 7]], *nothing, 1)
    assert starts.tolist() == [0, 1, 1]
    assert joined.tolist() == [0]
    assert evidence == pytest.approx([np.log(p / q) + np.log(2.5 / 9)])
    # trees may propose it all the same: then absence counts
    _, joined, logs, evidence = stage.candidates(
        rows[[7]], np.zeros((1, 1), np.int32), np.ones((1, 1), np.float32), 1
    )
    assert evidence == pytest.approx([np.log((1 - p) / (1 - q)) + np.log(2.5 / 9)])
    assert logs == pytest.approx([np.log(1.01)])


@pytest.mark.parametrize(("n", "label_rows"), [(103, 103), (206, 103), (100, 100), (45, 45)])
def test_what_is_above_chance_by_rounding_alone_tells_nothing(n, label_rows):
    # 103 · (1 / 103) is below 1: each feature has exactly as many of the label's rows as chance would have
    rows = sp.csr_matrix(np.eye(n // (n // label_rows), dtype=np.float32).repeat(n // label_rows, axis=0))
    having = sp.csr_matrix(np.c_[np.arange(n) % (n // label_rows) == 0].astype(np.float32))
    found = DiscriminativeFeatures.fit(rows, having, 1)
    assert (found.features == -1).all()
    assert (found.absent == 0).all()
    assert found.stage(8, 1.5, 0.5).kernel is not None


def test_it_finds_labels_that_the_trees_do_not_name(trees):
    plain = precision_at_k(Y[1000:], trees.topk(X[1000:], 1, None, 1)[0], 1)
    clf = LdSMClassifier(n_trees=2, max_nodes=40, rerank="bayes").fit(X[:1000], Y[:1000])
    stage = clf.model_.rerank
    assert precision_at_k(Y[1000:], clf.predict_topk(X[1000:], 1)[0], 1) > plain + 0.3
    assert clf.rerank_weight_ == stage.weight
    assert stage.most in module.FEATURES
    assert stage.power in POWERS
    assert np.diff(stage.log_odds.indptr).max() <= stage.most
    assert stage.log_priors == pytest.approx(np.log((Y[:1000].toarray().sum(axis=0) + 0.5) / 1001), rel=1e-5)


def test_blocks_threads_pickling_and_the_file_do_not_matter(monkeypatch, tmp_path):
    clf = SketchForestClassifier(n_trees=2, rerank="bayes").fit(X[:800], Y[:800])
    whole = clf.predict_topk(X[800:], 7)
    scores = clf.decision_function(X[800:])
    clf.save(tmp_path / "exact.safetensors", compact=False)
    clf.save(tmp_path / "compact.safetensors")
    monkeypatch.setattr("sparseleaf.model.candidates.BLOCK_ROWS", 37)
    loaded = [sparseleaf.load(tmp_path / f"{name}.safetensors") for name in ("exact", "compact")]
    for other in (pickle.loads(pickle.dumps(clf)), *loaded):
        cut = other.set_params(n_jobs=3).predict_topk(X[800:], 7)
        assert all(np.array_equal(a, b) for a, b in zip(whole, cut, strict=True))
    held = whole[0] >= 0
    listed = np.take_along_axis(scores.toarray(), np.maximum(whole[0], 0), 1)
    assert np.where(held, listed, 0) == pytest.approx(np.where(held, whole[1], 0))
    assert 0 < whole[1][held].min() <= whole[1].max() <= 1
    assert loaded[1].model_.rerank.most == clf.model_.rerank.most
    again = SketchForestClassifier(n_trees=2, rerank="bayes", n_jobs=1).fit(X[:800], Y[:800])
    assert np.array_equal(again.predict_topk(X[800:], 7)[1], whole[1])


@pytest.mark.parametrize("classifier", [
    SparseGBDTClassifier(n_trees=5, projection=None, leaf_labels=30, max_depth=4),
    LdSMClassifier(n_trees=2, max_nodes=40),
], ids=lambda clf: clf.method)  # fmt: skip
def test_every_classifier_can_end_with_it(classifier):
    plain = classifier.fit(X[:1000], Y[:1000]).score(X[1000:], Y[1000:])
    assert classifier.set_params(rerank="bayes").fit(X[:1000], Y[:1000]).score(X[1000:], Y[1000:]) > plain


def test_it_can_be_added_and_given_a_weight():
    clf = MultiGBDTClassifier(n_trees=3).fit(X[:300].toarray(), Y[:300, :8].toarray())
    clf.fit_rerank(X[:300].toarray(), Y[:300, :8].toarray(), rerank="bayes", weight=0.25)
    assert (clf.model_.rerank.most, clf.model_.rerank.power, clf.model_.rerank.weight) == (
        *module.DEFAULTS,
        0.25,
    )
    clf = LdSMClassifier(n_trees=2, rerank="bayes", advanced={"rerank_weight": 1.0}).fit(X[:800], Y[:800])
    alone = LdSMClassifier(n_trees=2).fit(X[:800], Y[:800])
    ids, ranked = alone.predict_topk(X[800:], 3)
    distinct = (np.diff(ranked, axis=1) < 0).all(axis=1) & (ids >= 0).all(axis=1)
    assert np.array_equal(clf.predict_topk(X[800:], 3)[0][distinct], ids[distinct])


def test_rows_and_labels_that_say_nothing(trees):
    stage = DiscriminativeFeatures.fit(X[:800], Y[:800], 1).stage(8, 1.5, 0.5)
    model = trees.with_stage(Role.RERANKER, stage)
    for rows in (sp.csr_matrix((2, 300), dtype=np.float32), np.full((2, 300), 3e38, np.float32)):
        labels, scores = model.topk(rows, 3, None, 1)
        assert np.isfinite(scores[labels >= 0]).all()
    for n_labels in (1, 5):
        clf = LdSMClassifier(n_trees=1, rerank="bayes")
        clf.fit(X[:100], sp.csr_matrix((100, n_labels), dtype=np.float32))
        assert (clf.predict_topk(X[:3], 1)[0] == -1).all()
    tiny = SketchForestClassifier(n_trees=1, rerank="bayes").fit(
        np.ones((1, 1)), sp.csr_matrix(np.ones((1, 1)))
    )
    assert tiny.predict_topk(np.ones((1, 1)), 1)[0].tolist() == [[0]]


def test_platt_keeps_the_order():
    rng = np.random.default_rng(0)
    margins = rng.normal(size=500).astype(np.float32)
    slope, offset = fit_platt(margins, rng.random(500) < 1 / (1 + np.exp(-(2 * margins - 1))))
    assert slope == pytest.approx(2, abs=0.5)
    assert offset == pytest.approx(-1, abs=0.5)
    assert fit_platt(margins, margins < 0) == (1.0, 0.0)
    assert fit_platt(margins, np.ones(500, bool)) == (1.0, 0.0)
    assert fit_platt(margins[:0], np.zeros(0, bool)) == (1.0, 0.0)


@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 5), st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_features_from_counts_are_those_from_rows(seed, n, most, n_jobs):
    rng = np.random.default_rng(seed)
    rows = sp.random(n, 9, 0.4, "csr", np.float32, random_state=rng)
    having = sp.csr_matrix((rng.random((n, 5)) < 0.4).astype(np.float32))
    of_rows = rng.integers(1, 5, n).astype(np.float32) / 4 if seed % 2 else None
    weights = TrainingWeights(of_rows)
    found = DiscriminativeFeatures.fit(rows, having, n_jobs, most, weights)
    there = module.presence(rows)
    common = sp.csr_matrix(weights.weighted(having).T @ there)
    counts = np.asarray(weights.weighted(there).sum(axis=0)).ravel()
    again = DiscriminativeFeatures.of_counts(
        common, weights.counts(having).astype(np.float64), weights.total(n), counts, n_jobs, most
    )
    for name, wanted in vars(again).items():
        assert np.array_equal(getattr(found, name), wanted), name


@given(st.integers(0, 10**6), st.integers(1, 6))
@settings(max_examples=40, deadline=None)
def test_the_stage_has_the_first_features_sorted(seed, n_jobs):
    rng = np.random.default_rng(seed)
    n_labels, most = 40, int(rng.integers(0, 7))
    features = np.array([rng.permutation(50)[:6] for _ in range(n_labels)], np.int32)
    features[rng.random(features.shape) < 0.3] = -1
    weights = rng.random(features.shape).astype(np.float32)
    indptr, indices, data = kernels.first_features(features, weights, most, n_jobs)
    for label, (begin, end) in enumerate(pairwise(indptr.tolist())):
        kept = {f: w for f, w in zip(features[label][:most], weights[label][:most], strict=True) if f >= 0}
        assert indices[begin:end].tolist() == sorted(kept)
        assert data[begin:end].tolist() == [kept[f] for f in sorted(kept)]


def test_postings_with_another_bias_are_those_of_another_power(trees):
    found = DiscriminativeFeatures.fit(X[:800], Y[:800], 2)
    best = trees.candidates(X[800:], 20, None, 1)
    moved, fresh = found.stage(6, 1.5, 0.0).with_mix(0.5, 0.25), found.stage(6, 0.5, 0.25)
    for a, b in zip(moved.candidates(X[800:], *best, 2), fresh.candidates(X[800:], *best, 1), strict=True):
        assert np.array_equal(a, b)


def test_the_kernels_refuse_what_is_not_sound():
    i64, i32, f32 = np.int64, np.int32, np.float32
    vectors = kernels.PackedVectors(
        np.array([0, 1, 1], i64),
        np.zeros(1, np.uint8),
        np.empty((0, 2), np.uint32),
        np.ones(1, f32),
        np.empty(0, f32),
        1,
    )
    index = kernels.DiscriminativeIndex(vectors, np.zeros(2, f32), 1)
    for make in (index.with_bias, lambda bias: kernels.DiscriminativeIndex(vectors, bias, 2)):
        with pytest.raises(ValueError, match="bias must be finite"):
            make(np.full(2, np.inf, f32))
        with pytest.raises(ValueError, match="one entry per label"):
            make(np.zeros(1, f32))
    negative = PackedVectors.of(sp.csr_matrix(np.array([[1, -1]], f32)))
    with pytest.raises(ValueError, match="non-negative and finite"):
        kernels.DiscriminativeIndex(negative.kernel, np.zeros(1, f32), 1)
    row = [np.array([0, 1], i64), np.zeros(1, i32), np.ones(1, f32)]
    none = [np.full((1, 1), -1, i32), np.zeros((1, 1), f32)]
    assert index.join(*row, *none, 5, 0.01, 1)[1].tolist() == [0]
    with pytest.raises(ValueError, match="a feature that the model does not have"):
        index.join(row[0], np.ones(1, i32), row[2], *none, 5, 0.01, 1)
    with pytest.raises(ValueError, match="no such label"):
        index.join(*row, np.full((1, 1), 2, i32), none[1], 5, 0.01, 1)
    out = [np.empty((1, 1), i32), np.empty((1, 1), f32), np.empty((1, 1), f32)]
    rates = np.ones(1), np.ones(1), 2.0
    with pytest.raises(ValueError, match="no such feature"):
        kernels.select_discriminative(row[0], np.ones(1, i32), row[2], *rates, *out, 1)
    with pytest.raises(ValueError, match="no such feature"):
        kernels.fit_discriminative(
            row[0], np.ones(1, i32), row[2], row[0], row[1], np.empty(0), *rates, *out, 1
        )
    with pytest.raises(ValueError, match="no such row"):
        kernels.fit_discriminative(*row, row[0], np.ones(1, i32), np.empty(0), *rates, *out, 1)
    with pytest.raises(ValueError, match="at most the number of columns"):
        kernels.first_features(out[0], out[1], 2, 1)
