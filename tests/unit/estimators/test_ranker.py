"""GBDTRanker, from fit to ranked lists."""

import inspect
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import naive_ranking
import sparseleaf
from smalldata import saved_bytes
from sparseleaf import GBDTRanker, MultiGBDTClassifier, SparseGBDTClassifier
from sparseleaf.estimators.declarations import RANKING_METRICS as METRICS
from sparseleaf.objectives import objectives_of
from sparseleaf.ranking import evaluate, ndcg
from sparseleaf.training.shard import Shard

pd = pytest.importorskip("pandas")

RANKING_LOSSES = tuple(objectives_of("ranking"))
N_QUERIES, DOCUMENTS = 40, 8


def make(n_queries=N_QUERIES, *, seed=0, missing=0.0, features=4):
    """Documents whose grade is a noisy function of the first two features, in blocks of a query."""
    rng = np.random.default_rng(seed)
    n = n_queries * DOCUMENTS
    X = rng.normal(size=(n, features)).astype(np.float32)
    worth = X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.3 * rng.normal(size=n)
    grades = np.digitize(worth, [-0.5, 0.5, 1.2, 2.0])
    if missing:
        X[rng.random(X.shape) < missing] = np.nan
    return X, grades, np.repeat(np.arange(n_queries), DOCUMENTS)


def small(**parameters):
    return GBDTRanker.from_settings({"n_trees": 6, "learning_rate": 0.3, "min_samples_leaf": 5} | parameters)


def same_trees(a, b):
    for name, wanted in vars(a.model_.trees).items():
        np.testing.assert_array_equal(getattr(b.model_.trees, name), wanted, name)


# --- what is learned


@pytest.mark.parametrize("parameters", [
    {"loss": "lambdamart"}, {"loss": "lambdamart", "metric": "map"}, {"loss": "lambdamart", "metric": "pairwise"},
    {"loss": "lambdamart", "normalise": False, "places": 3}, {"loss": "gbrank"}, {"loss": "gbrank", "margin": 0.1},
    {"loss": "smoothdcg"}, {"loss": "smoothdcg", "start_rounds": 3, "sigma": 1.0},
    {"subsample": 0.5}, {"subsample": 0.5, "subsample_by": "query"}, {"growth": "depth-wise", "max_depth": 3},
], ids=str)  # fmt: skip
def test_it_ranks_new_queries_well(parameters):
    X, y, qid = make(80)
    new, grades, queries = make(60, seed=1)
    ranker = small(n_trees=40, **parameters).fit(X, y, qid=qid)
    chance = np.nanmean(ndcg(grades, np.random.default_rng(0).normal(size=len(grades)), queries, k=5))
    found = ranker.score(new, grades, queries)
    assert chance < 0.7
    assert found > 0.82
    assert found == pytest.approx(np.nanmean(ndcg(grades, ranker.predict(new), queries, k=5)))


def twin(ranker, y, scores, qid, round_number, weights):
    """Gradient and hessian of every row, from the slow twins."""
    g, h = np.zeros(len(y)), np.zeros(len(y))
    settings = ranker._settings()
    for q, name in enumerate(dict.fromkeys(qid.tolist())):
        rows = np.flatnonzero(qid == name)
        grades, own = y[rows].astype(float).tolist(), scores[rows].astype(np.float64).tolist()
        if len(set(grades)) == 1:
            continue
        if ranker.loss == "lambdamart":
            found = naive_ranking.lambdas(
                grades, own, metric=ranker.metric, places=settings.places, normalise=settings.normalise
            )
        elif ranker.loss == "gbrank":
            mean = [score / (round_number + 1) for score in own]
            targets = naive_ranking.gbrank_targets(grades, mean, settings.margin)
            found = [-sum(t) for t in targets], [len(t) for t in targets]
        elif round_number < settings.start_rounds:
            gains = [naive_ranking.gain(grade) for grade in grades]
            found = [s - gain / max(gains) for s, gain in zip(own, gains, strict=True)], [1.0] * len(rows)
        else:
            order = naive_ranking.ranked(own)
            slope = naive_ranking.slope(
                lambda at, grades=grades, order=order: -naive_ranking.smooth_dcg(grades, at, 0.3, order), own
            )
            found = slope, np.abs(slope) / (0.5 * np.sqrt(0.3))
        g[rows], h[rows] = np.array(found) * (1.0 if weights is None else weights[q])
    return g, h


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("parameters", [
    {"loss": "lambdamart"}, {"loss": "lambdamart", "metric": "map", "normalise": False},
    {"loss": "lambdamart", "metric": "pairwise", "places": 4},
    {"loss": "gbrank", "l2": 0.0}, {"loss": "gbrank", "margin": 0.5},
    {"loss": "smoothdcg", "start_rounds": 2}, {"loss": "smoothdcg", "start_rounds": 1, "l2": 0.0},
], ids=str)  # fmt: skip
def test_every_leaf_of_every_tree_is_the_step_of_the_twin(parameters, weighted):
    X, y, qid = make(12, seed=3)
    shuffled = np.random.default_rng(0).permutation(len(qid))
    X, y, qid = X[shuffled], y[shuffled], qid[shuffled]
    weights = np.random.default_rng(1).choice([0.5, 1, 4], 12) if weighted else None
    ranker = small(n_trees=5, min_hessian_leaf=0.0, **parameters).fit(X, y, qid=qid, sample_weight=weights)
    leaves = ranker.apply(X)
    compared = 0
    for tree in range(5):
        before = ranker.model_.dense(X, tree, 1)[:, 0] if tree else np.zeros(len(X), np.float32)
        after = ranker.model_.dense(X, tree + 1, 1)[:, 0]
        g, h = twin(ranker, y, before, qid, tree, weights)
        assert np.abs(g).max() > 0
        for leaf in np.unique(leaves[:, tree]):
            rows = leaves[:, tree] == leaf
            below = h[rows].sum() + ranker.l2
            wanted = -0.3 * g[rows].sum() / below if below > 1e-9 else 0.0
            np.testing.assert_allclose((after - before)[rows], wanted, rtol=2e-4, atol=2e-5)
            compared += 1
    assert compared > 15


def test_gbrank_over_rounds_by_hand():
    # one pair, τ = 1, full steps. f = Σ g / (t + 1):
    # g₁: f = 0, so the better is to be at 0 + 1, the other at 0 − 1         Σ = ±1,   f₁ = ±1/2
    # g₂: they are 1 apart, which is enough: no targets, no step             Σ = ±1,   f₂ = ±1/3
    # g₃: 2/3 apart: −1/3 + 1 = 2/3 for the better                           Σ = ±5/3, f₃ = ±5/12
    # g₄: 5/6 apart: −5/12 + 1 = 7/12                                        Σ = ±9/4
    X, y = np.array([[0.0], [1.0]], np.float32), [0, 1]
    wanted = [1, 1, 5 / 3, 9 / 4]
    for n_trees, value in enumerate(wanted, start=1):
        ranker = GBDTRanker(n_trees=n_trees, learning_rate=1.0, loss="gbrank", min_samples_leaf=1, l2=0.0)
        found = ranker.fit(X, y, qid=[0, 0]).predict(X)
        np.testing.assert_allclose(found, [-value, value], rtol=1e-4)


# --- queries


def test_queries_may_be_interleaved_or_grouped_and_called_anything():
    X, y, qid = make()
    wanted = small().fit(X, y, qid=qid)
    same_trees(wanted, small().fit(X, y, group=[DOCUMENTS] * N_QUERIES))
    same_trees(wanted, small().fit(X, y, group=[0, *[DOCUMENTS] * N_QUERIES, 0]))
    same_trees(wanted, small().fit(X, y, qid=[f"query {q}" for q in qid]))
    same_trees(wanted, small().fit(X, y, qid=pd.Series(qid).astype("category")))
    same_trees(wanted, small().fit(X, y[:, None], qid=-1000.5 * qid))
    # every query's first document, then every query's second, …: the order within a query stays
    interleaved = np.arange(len(qid)).reshape(N_QUERIES, DOCUMENTS).T.ravel()
    found = small().fit(X[interleaved], y[interleaved], qid=qid[interleaved])
    np.testing.assert_array_equal(found.predict(X), wanted.predict(X))


def test_rank_gives_every_query_its_rows_from_best_to_worst():
    X, y, qid = make(5)
    names = np.array(list("edcba"), object)[qid]
    rows = np.random.default_rng(0).permutation(len(qid))
    ranker = small().fit(X, y, qid=qid)
    found = ranker.rank(X[rows], names[rows])
    assert [name for name, _ in found] == list(dict.fromkeys(names[rows].tolist()))
    scores = ranker.predict(X[rows])
    for name, order in found:
        own = np.flatnonzero(names[rows] == name)
        assert sorted(order.tolist()) == own.tolist()
        assert order.tolist() == own[np.argsort(-scores[own], kind="stable")].tolist()
    empty = ranker.rank(X, group=[len(X), 0])
    assert [name for name, _ in empty] == [0, 1]
    assert len(empty[1][1]) == 0


@pytest.mark.parametrize("loss", RANKING_LOSSES)
@pytest.mark.parametrize("l2", [0.0, 1.0])
@pytest.mark.parametrize("case", ["one document", "equal grades", "no relevant document"])
def test_queries_without_a_better_order_teach_nothing(case, l2, loss):
    X, y, qid = make()
    grades = {"equal grades": np.full(len(y), 2), "no relevant document": np.zeros(len(y))}.get(case, y)
    ranker = small(loss=loss, l2=l2, start_rounds=2)
    ranker.fit(X, grades, qid=np.arange(len(y)) if case == "one document" else qid)
    assert ranker.best_iteration_ == 6
    assert not ranker.predict(X).any()


def test_queries_without_a_better_order_may_stand_among_others():
    X, y, qid = make()
    y = np.where(qid % 3 == 0, 0, np.where(qid % 3 == 1, 2, y))
    for loss in RANKING_LOSSES:
        ranker = small(loss=loss, n_trees=30).fit(X, y, qid=qid)
        new, grades, queries = make(seed=1)
        assert ranker.score(new, grades, queries) > 0.8


@pytest.mark.parametrize("loss", RANKING_LOSSES)
def test_identical_documents_have_the_same_score(loss):
    X, y, qid = make(10)
    X[qid == 3] = X[qid == 3][0]
    scores = small(loss=loss, start_rounds=2).fit(X, y, qid=qid).predict(X)
    assert len(set(scores[qid == 3].tolist())) == 1


def test_grades_may_be_any_numbers_up_to_30():
    X, y, qid = make()
    for grades in (y / 4, y * 7.5, y > 1):
        for loss in RANKING_LOSSES:
            found = small(loss=loss, n_trees=20, start_rounds=5).fit(X, grades, qid=qid).predict(X)
            assert np.isfinite(found).all()
            assert evaluate(grades, found, qid)["pairwise"] > 0.85


def test_weights_by_query_or_by_row():
    X, y, qid = make()
    weights = np.random.default_rng(0).choice([0, 1, 5], N_QUERIES)
    wanted = small().fit(X, y, qid=qid, sample_weight=weights)
    same_trees(wanted, small().fit(X, y, qid=qid, sample_weight=weights[qid]))
    assert not np.array_equal(wanted.predict(X), small().fit(X, y, qid=qid).predict(X))
    same_trees(small().fit(X, y, qid=qid), small().fit(X, y, qid=qid, sample_weight=np.ones(N_QUERIES)))


def test_a_query_of_weight_0_has_no_say():
    X, y, qid = make()
    weights = (np.arange(N_QUERIES) % 2).astype(float)
    other = np.where(qid % 2 == 0, 4 - y, y)  # its grades may be anything
    wanted = small().fit(X, y, qid=qid, sample_weight=weights)
    same_trees(wanted, small().fit(X, other, qid=qid, sample_weight=weights))


def test_missing_values_and_sparse_features():
    X, y, qid = make(missing=0.2)
    ranker = small(n_trees=30).fit(X, y, qid=qid)
    assert ranker.score(X, y, qid) > 0.9
    assert np.isfinite(ranker.predict(np.full((3, 4), np.nan, np.float32))).all()
    sparse = sp.random(320, 30, 0.2, format="csr", random_state=0, dtype=np.float32)
    grades = (np.asarray(sparse.sum(axis=1)).ravel() > 3).astype(int)
    found = small().fit(sparse, grades, qid=qid)
    np.testing.assert_array_equal(
        found.predict(sparse), small().fit(sparse.toarray(), grades, qid=qid).predict(sparse)
    )


def test_dataframes_with_categories():
    X, y, qid = make()
    frame = pd.DataFrame(X, columns=list("abcd")).assign(
        kind=np.array(["x", "y", "z"], object)[y.clip(max=2)]
    )
    ranker = small(n_trees=20).fit(frame, pd.Series(y), qid=pd.Series(qid))
    assert ranker.feature_names_in_.tolist() == [*"abcd", "kind"]
    assert ranker.feature_importances_.argmax() == 4
    assert ranker.score(frame, y, qid) > 0.95


def test_constraints_hold():
    X, y, qid = make()
    ranker = small(n_trees=20, monotone_constraints=[-1, 0, 0, 0]).fit(X, y, qid=qid)
    grid = np.repeat(X[:20], 30, axis=0)
    grid[:, 0] = np.tile(np.linspace(-3, 3, 30), 20)
    assert (np.diff(ranker.predict(grid).reshape(20, 30), axis=1) <= 0).all()


# --- stochastic boosting


def planted(monkeypatch, **parameters):
    """The rows that every tree was grown on."""
    found, start_tree = [], Shard.start_tree

    def watched(self, *args):
        n = start_tree(self, *args)
        found.append(self._rows.rows.copy())
        return n

    monkeypatch.setattr(Shard, "start_tree", watched)
    X, y, qid = make()
    shuffled = np.random.default_rng(0).permutation(len(qid))
    small(n_trees=20, **parameters).fit(X[shuffled], y[shuffled], qid=qid[shuffled])
    return found, qid[shuffled]


def test_queries_are_sampled_whole(monkeypatch):
    found, qid = planted(monkeypatch, subsample=0.5, subsample_by="query")
    sampled = np.zeros((20, N_QUERIES))
    for tree, rows in enumerate(found):
        counts = np.bincount(qid[rows], minlength=N_QUERIES)
        assert set(counts.tolist()) <= {0, DOCUMENTS}
        sampled[tree] = counts > 0
    assert 0.4 < sampled.mean() < 0.6
    assert sampled.sum(axis=0).min() > 0
    assert sampled.sum(axis=0).max() < 20


def test_rows_are_sampled_one_by_one(monkeypatch):
    found, qid = planted(monkeypatch, subsample=0.5)
    counts = np.array([np.bincount(qid[rows], minlength=N_QUERIES) for rows in found])
    assert 0.4 < counts.mean() / DOCUMENTS < 0.6
    assert ((counts > 0) & (counts < DOCUMENTS)).mean() > 0.8


@pytest.mark.parametrize("l2", [0.0, 1.0])
@pytest.mark.parametrize("loss", RANKING_LOSSES)
def test_a_tree_for_which_no_query_was_drawn_is_no_error(loss, l2):
    X, y, qid = make(1)
    ranker = small(loss=loss, l2=l2, subsample=0.2, subsample_by="query", n_trees=12, min_samples_leaf=1)
    assert np.isfinite(ranker.fit(X, y, qid=qid).predict(X)).all()


# --- threads, files, going on


@pytest.mark.parametrize("parameters", [
    {}, {"loss": "gbrank"}, {"loss": "smoothdcg", "start_rounds": 2},
    {"metric": "map", "subsample": 0.6, "subsample_by": "query", "colsample_bytree": 0.7, "colsample_bynode": 0.7},
], ids=str)  # fmt: skip
def test_threads_do_not_change_a_byte(parameters, tmp_path):
    X, y, qid = make(missing=0.1)
    found = {
        n_jobs: saved_bytes(small(n_jobs=n_jobs, **parameters).fit(X, y, qid=qid), tmp_path)
        for n_jobs in (1, 2, 3)
    }
    assert found[1] == found[2] == found[3]


@pytest.mark.parametrize("compact", [True, False])
@pytest.mark.parametrize("loss", RANKING_LOSSES)
def test_a_saved_model_ranks_the_same(loss, compact, tmp_path):
    X, y, qid = make()
    ranker = small(loss=loss, sigma=0.5, subsample_by="query", subsample=0.9).fit(X, y, qid=qid)
    ranker.save(tmp_path / "m", compact=compact)
    loaded = sparseleaf.load(tmp_path / "m")
    assert type(loaded) is GBDTRanker
    given, found = ranker.get_params(), loaded.get_params()
    assert {k: v for k, v in found.items() if k not in ("n_jobs", "verbose")} == {
        k: v for k, v in given.items() if k not in ("n_jobs", "verbose")
    }
    np.testing.assert_array_equal(loaded.predict(X), ranker.predict(X))
    assert loaded.score(X, y, qid) == ranker.score(X, y, qid)


@pytest.mark.parametrize("loss", RANKING_LOSSES)
def test_going_on_is_as_one_run(loss, tmp_path):
    X, y, qid = make()
    settings = {"loss": loss, "start_rounds": 4, "subsample": 0.8}
    warm = small(n_trees=5, warm_start=True, **settings).fit(X, y, qid=qid)
    warm.set_params(n_trees=9).fit(X, y, qid=qid)
    first = small(n_trees=5, **settings).fit(X, y, qid=qid)
    more = small(n_trees=4, **settings).fit(X, y, qid=qid, init_model=first)
    one = small(n_trees=9, **settings).fit(X, y, qid=qid)
    for ranker in (warm, more):
        same_trees(one, ranker)
    first.save(tmp_path / "first", compact=False)
    from_file = small(n_trees=4, **settings).fit(
        X, y, qid=qid, init_model=sparseleaf.load(tmp_path / "first")
    )
    same_trees(one, from_file)
    with pytest.raises(ValueError, match=r"at least the 9 rounds .* Got 3 instead"):
        warm.set_params(n_trees=3, warm_start=True).fit(X, y, qid=qid)


def test_what_cannot_be_gone_on_from_is_told():
    X, y, qid = make()
    with pytest.raises(
        ValueError, match=r"'init_model' parameter must be a model with dense scores. Got 'gbdt-sparse'"
    ):
        small().fit(X, y, qid=qid, init_model=SparseGBDTClassifier(n_trees=2).fit(X, y))
    with pytest.raises(ValueError, match=r"Got loss=.lambdamart. of .rank."):
        small().fit(X, y, qid=qid, init_model=MultiGBDTClassifier(n_trees=2).fit(X, y))


@pytest.mark.parametrize("metric", METRICS)
def test_early_stopping_keeps_the_best_trees(metric):
    X, y, qid = make(15)
    new, grades, queries = make(30, seed=1)
    ranker = small(n_trees=300, eval_metric=metric, early_stopping_rounds=4, learning_rate=0.5)
    ranker.fit(X, y, qid=qid, eval_set=(new, grades, queries))
    history = ranker.history_[f"valid {metric}"]
    assert len(history) < 300
    assert ranker.best_iteration_ == 1 + int(np.argmax(history)) == ranker.model_.n_trees
    assert len(history) - ranker.best_iteration_ == 4
    found = evaluate(grades, ranker.predict(new), queries)[metric]
    assert found == pytest.approx(max(history), abs=1e-6)


def test_the_history_is_that_of_the_trees():
    X, y, qid = make(15)
    new, grades, queries = make(seed=1)
    ranker = small(eval_metric="map").fit(X, y, qid=qid, eval_set=(new, grades, [f"q{q}" for q in queries]))
    found = [evaluate(grades, ranker.model_.dense(new, n, 1)[:, 0], queries)["map"] for n in range(1, 7)]
    assert ranker.history_["valid map"] == pytest.approx(found)


def test_2500_small_trees(tmp_path):
    X, y, qid = make(10)
    ranker = GBDTRanker(n_trees=2_500, learning_rate=0.02, max_leaves=6, min_samples_leaf=5, subsample=0.7)
    ranker.fit(X, y, qid=qid)
    assert ranker.model_.n_trees == 2_500
    assert ranker.score(X, y, qid) > 0.97
    ranker.save(tmp_path / "m", compact=False)
    np.testing.assert_array_equal(sparseleaf.load(tmp_path / "m").predict(X), ranker.predict(X))


def test_a_callback_stops():
    X, y, qid = make()
    ranker = small().fit(X, y, qid=qid, callbacks=[lambda state: state.tree == 3])
    assert ranker.best_iteration_ == 3


# --- as an estimator


def test_clone_pickle_and_parameters():
    X, y, qid = make()
    ranker = small(loss="gbrank", margin=0.5, metric="map")
    copy = clone(ranker)
    assert copy.get_params() == ranker.get_params()
    assert set(ranker.get_params()) == set(inspect.signature(GBDTRanker).parameters)
    ranker.fit(X, y, qid=qid)
    again = pickle.loads(pickle.dumps(ranker))
    np.testing.assert_array_equal(again.predict(X), ranker.predict(X))
    same_trees(ranker, copy.fit(X, y, qid=qid))
    with pytest.raises(NotFittedError):
        small().predict(X)


def test_shapley_values_add_up_to_scores():
    X, y, qid = make()
    ranker = small().fit(X, y, qid=qid)
    values, expected = ranker.shap_values(X)
    assert values.shape == (len(X), 4, 1)
    np.testing.assert_allclose(values.sum(axis=1)[:, 0] + expected, ranker.predict(X), atol=1e-5)


def test_memory_is_estimated():
    X, y, _ = make()
    few, many = (GBDTRanker(max_leaves=n).estimate_memory(X, y) for n in (4, 31))
    assert 0 < few.total < many.total


WRONG = {
    "n_trees": [0, 1.5], "loss": ["mse", None, lambda y, s: (y, s)], "metric": ["ndcg@5", None, "mrr"],
    "places": [0, 2.5, None], "normalise": ["yes", None, 1], "averaged": ["no", 0],
    "margin": [-1, None, np.inf, np.nan],
    "sigma": [0, -1, np.inf, "a"], "start_rounds": [0, 1.5, None], "subsample_by": ["document", None],
    "eval_metric": ["ndcg@2", "loss", None], "subsample": [0, 1.5], "max_leaves": [1],
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in WRONG.items() for value in values]
)
def test_a_wrong_value_is_refused_by_name(name, value):
    X, y, qid = make(2)
    with pytest.raises(ValueError, match=rf"The '{name}' parameter of GBDTRanker must be .* Got .* instead"):
        small(**{name: value}).fit(X, y, qid=qid)


def test_more_places_than_documents_are_all():
    X, y, qid = make()
    same_trees(small(places=DOCUMENTS).fit(X, y, qid=qid), small(places=10**30).fit(X, y, qid=qid))


@pytest.mark.parametrize(("change", "message"), [
    ({"qid": None}, "Either 'qid' or 'group' must be given"),
    ({"group": [DOCUMENTS] * N_QUERIES}, "Either 'qid' or 'group' must be given"),
    ({"qid": [1, 2]}, r"'qid' parameter must have shape \(320,\). Got \(2,\)"),
    ({"qid": None, "group": [3, 4]}, "'group' parameter must be integers >= 0 that sum to 320"),
    ({"y": None}, "requires y to be passed"),
    ({"y": np.full(320, np.nan)}, "y must not have missing"),
    ({"y": np.full(320, -1)}, r"y must have grades in the range \[0, 30\]"),
    ({"y": np.full(320, 31)}, r"y must have grades in the range \[0, 30\]"),
    ({"y": np.zeros((320, 2))}, r"y must have shape .* Got \(320, 2\)"),
    ({"y": np.zeros(7)}, r"y must have shape .* Got \(7,\)"),
    ({"y": ["good"] * 320}, "y must be an array of numbers"),
    ({"sample_weight": np.ones(3)}, "'sample_weight' parameter must have shape"),
    ({"eval_set": (np.zeros((3, 4)), [0, 1, 1])}, r"'eval_set' parameter must be a tuple \(X, y, qid\)"),
    ({"eval_set": (np.zeros((3, 4)), [0, 1, 1], [1])}, "eval_set: The 'qid' parameter must have shape"),
    ({"eval_set": (np.zeros((3, 4)), [0, 1, -1], [1, 1, 1])}, "eval_set: y must have grades"),
    ({"eval_set": (np.zeros((3, 5)), [0, 1, 1], [1, 1, 1])}, "eval_set: X has 5 features"),
    ({"eval_set": (np.zeros((3, 4)), [0, 0, 0], [1, 1, 1])}, "eval_metric='ndcg@5' is undefined on every query"),
])  # fmt: skip
def test_what_is_wrong_is_told_before_training(change, message, monkeypatch):
    monkeypatch.setattr(Shard, "start_tree", lambda *_: pytest.fail("work began"))
    X, y, qid = make()
    given = {"X": X, "y": y, "qid": qid} | change
    with pytest.raises(ValueError, match=message):
        small().fit(**given)


def test_early_stopping_needs_rows():
    X, y, qid = make(2)
    with pytest.raises(
        ValueError, match=r"early_stopping_rounds=3 requires a validation set, eval_set=\(X, y, qid\)"
    ):
        small(early_stopping_rounds=3).fit(X, y, qid=qid)
