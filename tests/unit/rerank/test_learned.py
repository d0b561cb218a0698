"""Learned re-ranking: what is known of candidates, how it is weighed, and that it needs no more than is said."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import naive_rerank as naive
from sparseleaf import LdSMClassifier, SparseGBDTClassifier
from sparseleaf.metrics import precision_at_k
from sparseleaf.model import Role
from sparseleaf.model.candidates import topk_of, true_candidates
from sparseleaf.rerank import neighbours as index_module
from sparseleaf.rerank.boosted import UntunedBoosted, fit_booster, highest
from sparseleaf.rerank.evidence import COLUMNS, COMPONENTS, Candidates, Evidence
from sparseleaf.rerank.linear import LinearReranker, equal_weights
from sparseleaf.rerank.mixing import choose_weights
from sparseleaf.rerank.neighbours import NEIGHBOURS, Neighbours
from sparseleaf.rerank.validation import Validation


def make_tail(n=900, seed=0):
    """Many labels of few rows each, told apart by a few features."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 150, n)
    own = rng.random((150, 80)) < 0.06
    X = (own[labels] & (rng.random((n, 80)) < 0.8)) | (rng.random((n, 80)) < 0.02)
    return sp.csr_matrix(X, dtype=np.float32), sp.csr_matrix(np.eye(150, dtype=np.float32)[labels])


X, Y = make_tail()


@pytest.fixture(scope="module")
def trees():
    return LdSMClassifier(n_trees=3, max_nodes=60).fit(X[:600], Y[:600]).model_


@pytest.fixture(scope="module")
def evidence(trees):
    return Evidence.fit(X[:600], Y[:600], trees, 0, 2)


def untuned(kind, evidence):
    return {"linear": LinearReranker(evidence, equal_weights(None)), "boosted": UntunedBoosted(evidence)}[
        kind
    ]


def unit(rows, weights):
    dense = rows.toarray() * weights
    return dense / np.maximum(1e-30, np.linalg.norm(dense, axis=1, keepdims=True))


def test_the_table_is_what_it_says(trees, evidence):
    weights = np.log(600 / np.maximum(1, np.bincount(X[:600].indices, minlength=80)))
    seen, new = unit(X[:600], weights), unit(X[700:712], weights)
    indexed = evidence.neighbours.postings.unpacked().T.toarray()
    assert indexed == pytest.approx(seen, abs=0.005)  # in 8 bits
    lists = [Y[row].indices for row in range(600)]
    labels, scores = trees.candidates(X[700:712], 100, None, 1)
    found = evidence.candidates(X[700:712], labels, scores, 2)
    means = np.stack([seen[Y[:600, k].toarray().ravel() > 0].sum(axis=0) for k in range(150)])
    weights = evidence.models.weights.unpacked().toarray()
    for i, x in enumerate(new):
        own = slice(found.starts[i], found.starts[i + 1])
        rows, cosines = naive.nearest(indexed, x, NEIGHBOURS)
        wanted = naive.join(labels[i], scores[i], rows, cosines, lists)
        assert found.labels[own].tolist() == sorted(wanted)
        for label, line in zip(found.labels[own].tolist(), found.table[own], strict=True):
            known = dict(zip(COLUMNS, line.tolist(), strict=True))
            assert line[:8] == pytest.approx(wanted[label], rel=1e-3, abs=1e-4)
            length = np.linalg.norm(means[label])
            assert known["cosine"] == pytest.approx(means[label] @ x / length if length else 0, abs=3e-3)
            margin = weights[label] @ x + evidence.models.bias[label]
            assert known["margin"] == pytest.approx(margin, abs=1e-4)
            assert known["log rows"] == pytest.approx(np.log1p(Y[:600, label].nnz))


def test_linear_models_are_of_candidates_alone(evidence):
    # a label that no training row has is refused by its bias; others are learnt
    lonely = np.diff(sp.csc_matrix(Y[:600]).indptr) == 0
    assert (evidence.models.bias[lonely] == -1).all()
    assert (np.diff(evidence.models.weights.indptr)[lonely] == 0).all()
    assert (np.diff(evidence.models.weights.indptr)[~lonely] > 0).all()
    assert np.abs(evidence.models.weights.whole_values).min() >= 0.1 - 1e-2


def test_the_compiled_ranking_is_that_of_the_table(trees, evidence):
    for weights in ([0.1, 0.2, 0.3, 0.4], [0, 0, 1, 0], [0.5, 0, 0, 0.5]):
        for some in (evidence, replace(evidence, neighbours=None)):
            stage = LinearReranker(some, np.array(weights, np.float32))
            found = trees.candidates(X[700:], 100, None, 1)
            table = some.candidates(X[700:], *found, 1)
            wanted = topk_of(table.starts, table.labels, stage.score(table, 1), 9)
            ids, scores = stage.topk(X[700:], *found, 9, 2)
            assert scores == pytest.approx(wanted[1], abs=1e-5)
            clear = np.abs(np.diff(wanted[1], axis=1, prepend=2, append=-1))
            clear = np.minimum(clear[:, :-1], clear[:, 1:]) > 1e-4  # others may change places
            assert clear.mean() > 0.2
            assert np.array_equal(ids[clear], wanted[0][clear])


def test_components_are_weighed_by_their_shares(trees, evidence):
    labels, scores = trees.candidates(X[700:], 100, None, 1)
    found = evidence.candidates(X[700:], labels, scores, 1)
    components = found.components()
    assert components.shape == (len(found.labels), len(COMPONENTS))
    assert components.min() >= 0
    assert components.max() <= 1
    stage = LinearReranker(evidence, np.array([0.1, 0.2, 0.3, 0.4], np.float32))
    assert stage.score(found, 1) == pytest.approx(components @ [0.1, 0.2, 0.3, 0.4], abs=1e-6)
    assert stage.weight == pytest.approx(0.1)
    alone = replace(stage, weights=np.array([1, 0, 0, 0], np.float32))
    ids, _ = trees.with_stage(Role.RERANKER, alone).topk(X[700:], 3, None, 1)
    own, own_scores = trees.topk(X[700:], 3, None, 1)
    distinct = (np.diff(own_scores, axis=1) < 0).all(axis=1)
    assert np.array_equal(ids[distinct, :2], own[distinct, :2])


@pytest.mark.parametrize("mix", ["linear", "boosted"])
def test_blocks_threads_and_pickling_do_not_matter(trees, evidence, mix, monkeypatch):
    rows = Validation(X[600:700], Y[600:700], trees, 0, 1)
    stage = untuned(mix, evidence).tuned(rows, None)
    assert stage.kind == mix
    model = trees.with_stage(Role.RERANKER, stage)
    whole = model.topk(X[700:], 7, None, 1)
    scores = model.scores(X[700:], None, 1)
    monkeypatch.setattr("sparseleaf.model.candidates.BLOCK_ROWS", 37)
    cut = pickle.loads(pickle.dumps(model)).topk(X[700:], 7, None, 3)
    assert all(np.array_equal(a, b) for a, b in zip(whole, cut, strict=True))
    assert (model.scores(X[700:], None, 2) != scores).nnz == 0
    held = whole[0] >= 0
    listed = np.take_along_axis(scores.toarray(), np.maximum(whole[0], 0), 1)
    assert np.where(held, listed, 0) == pytest.approx(np.where(held, whole[1], 0))
    assert whole[1][held].min() >= 0
    assert whole[1].max() <= 1


def test_it_finds_labels_that_the_trees_do_not_name(trees, evidence):
    rows = Validation(X[600:700], Y[600:700], trees, 0, 1)
    plain = precision_at_k(Y[700:], trees.topk(X[700:], 1, None, 1)[0], 1)
    for mix in ("linear", "boosted"):
        stage = untuned(mix, evidence).tuned(rows, None)
        ids, _ = trees.with_stage(Role.RERANKER, stage).topk(X[700:], 1, None, 1)
        assert precision_at_k(Y[700:], ids, 1) > plain + 0.2


@pytest.mark.parametrize("kind", ["linear", "boosted", "auto"])
@pytest.mark.parametrize("classifier", [
    LdSMClassifier(n_trees=3, max_nodes=60),
    SparseGBDTClassifier(n_trees=5, projection=None, leaf_labels=30, max_depth=4),
], ids=lambda clf: clf.method)  # fmt: skip
def test_every_classifier_can_end_with_it(classifier, kind):
    clf = classifier.set_params(rerank=kind).fit(X[:700], Y[:700])
    stage = clf.model_.rerank
    assert kind == "auto" or stage.kind == kind
    assert clf.score(X[700:], Y[700:]) > 0.6
    if stage.kind in ("linear", "boosted"):  # evidence is of all rows
        assert stage.evidence.neighbours.labels.n_lists == 700
        assert stage.evidence.label_counts.sum() == 700
    again = classifier.set_params(n_jobs=1).fit(X[:700], Y[:700])
    assert np.array_equal(again.predict_topk(X, 5)[1], clf.predict_topk(X, 5)[1])


def test_given_weights_and_sets_too_small_to_spare_rows():
    clf = LdSMClassifier(n_trees=2, rerank="linear", advanced={"rerank_weight": 0.4}).fit(X[:200], Y[:200])
    assert clf.model_.rerank.weights == pytest.approx([0.4, 0.2, 0.2, 0.2])
    with pytest.warns(FutureWarning, match="use 'weights'"):
        assert clf.model_.rerank.shares is clf.model_.rerank.weights
    assert clf.rerank_weight_ == pytest.approx(0.4)
    for kind in ("linear", "boosted"):
        clf = LdSMClassifier(n_trees=2, rerank=kind).fit(X[:20], Y[:20])
        assert clf.model_.rerank.kind == "linear"
        assert clf.model_.rerank.weights == pytest.approx([0.25] * 4)
    assert LdSMClassifier(n_trees=2, rerank="auto").fit(X[:20], Y[:20]).model_.rerank.kind == "cosine"
    for kind in ("boosted", "auto"):
        with pytest.raises(ValueError, match=f"rerank_weight is not supported for rerank={kind!r}"):
            LdSMClassifier(rerank=kind, advanced={"rerank_weight": 0.5}).fit(X, Y)


def test_precision_is_that_of_what_the_model_returns(trees, evidence):
    rows = Validation(X[600:700], Y[600:700], trees, 0, 1)
    stages = [untuned("linear", evidence), untuned("boosted", evidence), evidence.centroids]
    tuned = [stage.tuned(rows, None) for stage in stages]
    for stage in [*tuned, None]:
        ids, _ = trees.with_stage(Role.RERANKER, stage).topk(X[600:700], 5, None, 1)
        expected = sum(precision_at_k(Y[600:700], ids, k) for k in (1, 3, 5))
        assert rows.precision(stage).mean() == pytest.approx(expected)


def test_the_first_stage_is_taken_unless_another_is_clearly_better(trees, evidence, monkeypatch):
    rows = Validation(X[600:700], Y[600:700], trees, 0, 1)
    linear, boosted = untuned("linear", evidence), untuned("boosted", evidence)
    assert rows.best_of([boosted]).kind == "boosted"  # better than the trees alone
    assert rows.best_of([evidence.centroids, linear]).kind == "linear"
    noise = np.random.default_rng(0).normal(size=100)
    noise -= noise.mean()
    first = np.full(100, 0.5)
    monkeypatch.setattr(Validation, "_unbiased", lambda *_: [(np.arange(100), first)])
    for lead, chosen in ((0.05, "boosted"), (0.2, "linear")):  # the standard error is about 0.1
        of = {None: first - 1, "linear": first + lead + noise}
        monkeypatch.setattr(Validation, "precision", lambda _, stage, of=of: of[getattr(stage, "kind", None)])
        assert rows.best_of([boosted, linear]).kind == chosen
    monkeypatch.setattr(Validation, "precision", lambda *_: first + 0.2 + noise)
    assert rows.best_of([boosted]) is None


def test_cross_validation_ends_when_the_first_stage_is_ahead(trees, evidence, monkeypatch):
    rows = Validation(X[600:700], Y[600:700], trees, 0, 1)
    boosted, plain, fitted = untuned("boosted", evidence), Validation.rows, []

    def part(self, chosen):
        fitted.append(int(chosen.sum()))
        return plain(self, chosen)

    monkeypatch.setattr(Validation, "rows", part)
    assert rows.best_of([boosted]).kind == "boosted"
    assert fitted == [80, 20]  # one of five folds: the trees alone are far behind


@pytest.mark.parametrize(("n_rows", "n_trees"), [(100, 30), (3000, 50), (9000, 60)])
def test_a_booster_of_few_rows_has_few_trees(n_rows, n_trees):
    rng = np.random.default_rng(0)
    table = rng.random((2 * n_rows, len(COLUMNS))).astype(np.float32)
    found = Candidates(np.arange(n_rows + 1) * 2, np.tile(np.arange(2, dtype=np.int32), n_rows), table)
    promise = found.components().mean(axis=1)
    assert fit_booster(found, np.tile([True, False], n_rows), promise, 0, 1).n_trees == n_trees


def test_the_booster_is_trained_on_the_best_candidates_of_each_row():
    scores = np.array([0.1, 0.9, 0.5, 0.5, 0.7, 0.2], np.float32)
    kept = highest(scores, np.array([0, 4, 4, 6]), 2)
    assert kept.tolist() == [False, True, True, False, True, True]


def test_rows_without_features_or_labels_and_huge_values(trees, evidence):
    validation = Validation(X[600:700], Y[600:700], trees, 0, 1)
    for mix in ("linear", "boosted"):
        stage = untuned(mix, evidence).tuned(validation, None)
        model = trees.with_stage(Role.RERANKER, stage)
        for rows in (sp.csr_matrix((2, 80), dtype=np.float32), np.full((2, 80), 3e38, np.float32)):
            labels, scores = model.topk(rows, 3, None, 1)
            assert np.isfinite(scores[labels >= 0]).all()
    clf = LdSMClassifier(n_trees=1, rerank="boosted")
    clf.fit(X[:100], sp.csr_matrix((100, 5), dtype=np.float32))
    assert (clf.predict_topk(X[:3], 2)[0] == -1).all()


def test_no_neighbours_where_looking_up_would_take_too_long(monkeypatch):
    rows = sp.csr_matrix(np.ones((50, 4), np.float32))
    assert Neighbours.fit(rows, Y[:50]) is not None
    monkeypatch.setattr(index_module, "MAX_POSTINGS", 199)
    assert Neighbours.fit(rows, Y[:50]) is None
    clf = LdSMClassifier(n_trees=3, max_nodes=60, rerank="linear").fit(X[:700], Y[:700])
    assert clf.model_.rerank.evidence.neighbours is None
    assert clf.score(X[700:], Y[700:]) > 0.3


def test_shares_follow_the_component_that_is_right():
    rng = np.random.default_rng(0)
    starts = np.arange(41) * 10
    truth = np.tile(np.arange(10) == 3, 40)
    components = rng.random((400, 4)).astype(np.float32)
    components[:, 2] = truth
    weights = choose_weights(components, starts, truth)
    assert weights.sum() == pytest.approx(1)
    assert weights[2] >= 0.5
    fixed = choose_weights(components, starts, truth, 0.3)
    assert fixed[0] == pytest.approx(0.3)
    assert fixed.sum() == pytest.approx(1)
    assert fixed[2] == fixed[1:].max()


def test_small_helpers():
    starts, labels = np.array([0, 2, 2, 5]), np.array([1, 4, 0, 2, 3], np.int32)
    truth = sp.csr_matrix(([1, 1, 1], ([0, 1, 2], [4, 4, 2])), shape=(3, 5))
    assert true_candidates(starts, labels, truth).tolist() == [False, True, False, True, False]
    ids, scores = topk_of(starts, labels, np.array([0.5, 0.5, 0.1, 0.9, 0.9], np.float32), 2)
    assert ids.tolist() == [[1, 4], [-1, -1], [2, 3]]
    assert np.isneginf(scores[1]).all()
