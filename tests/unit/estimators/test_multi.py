"""MultiGBDTRegressor and MultiGBDTClassifier, from fit to prediction."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import naive
import naive_dense
import sparseleaf
from smalldata import saved_bytes
from sparseleaf import MultiGBDTClassifier, MultiGBDTRegressor, SparseGBDTClassifier
from sparseleaf.estimators import multi_part
from sparseleaf.model import load_model

pd = pytest.importorskip("pandas")


def make(n=160, n_features=4, d=3, *, seed=0, missing=0.0, decimals=1, categories=0):
    """Features on a coarse grid (few bins), smooth targets; the first features may be categories."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n, n_features)), decimals).astype(np.float32)
    for f in range(categories):
        X[:, f] = rng.integers(0, 7, n)
    effects = rng.normal(size=(7, d))
    W = rng.normal(size=(n_features, d))
    Y = np.tanh(X @ W) + 0.1 * rng.normal(size=(n, d))
    for f in range(categories):
        Y += effects[X[:, f].astype(int)]
    if missing:
        X[rng.random(X.shape) < missing] = np.nan
    return X, Y


def classes_of(Y):
    return Y.argmax(axis=1)


def reg(**parameters):
    return MultiGBDTRegressor(**({"n_trees": 6, "learning_rate": 0.3, "min_samples_leaf": 4} | parameters))


def clf(**parameters):
    return MultiGBDTClassifier(**({"n_trees": 6, "learning_rate": 0.3, "min_samples_leaf": 4} | parameters))


def same_trees(a, b):
    for name, wanted in vars(a.model_.trees).items():
        np.testing.assert_array_equal(getattr(b.model_.trees, name), wanted, name)
    np.testing.assert_array_equal(a.model_.base_score, b.model_.base_score)


# --- every cut and every leaf of small models, from scratch

CASES = {
    "mse": (reg(), "mse"),
    "mse, missing values": (reg(), "mse"),
    "mse, l2=0, depth-wise": (reg(l2=0.0, growth="depth-wise", max_depth=3), "mse"),
    "huber": (reg(loss="huber:0.4"), "huber"),
    "poisson": (reg(loss="poisson"), "poisson"),
    "mse, unknown targets": (reg(), "mse"),
    "mse, weights of rows": (reg(), "mse"),
    "mse, weights of pairs": (reg(), "mse"),
    "softmax": (clf(), "softmax"),
    "softmax, weights of rows": (clf(), "softmax"),
    "softmax, exact": (clf(hessian="exact"), "softmax"),
    "softmax, exact, weights of rows": (clf(hessian="exact", l2=0.5), "softmax"),
    "logistic": (clf(), "logistic"),
    "logistic, unknown targets": (clf(), "logistic"),
    "mse, top 1": (reg(leaf_outputs=1, split="topk"), "mse"),
    "softmax, top 2": (clf(leaf_outputs=2, split="topk"), "softmax"),
    "mse, top 1 shared": (reg(leaf_outputs=1), "mse"),
    "softmax, top 2 shared": (clf(leaf_outputs=2, split="topk-shared"), "softmax"),
    "mse, a tree for each output": (reg(tree_per_output=True), "mse"),
    "softmax, a tree for each output": (clf(tree_per_output=True), "softmax"),
    "mse, many leaves": (reg(max_leaves=None, min_samples_leaf=1), "mse"),
}


def audited(case):
    estimator, loss = CASES[case]
    estimator = clone(estimator).set_params(n_jobs=1)
    rng = np.random.default_rng(1)
    X, Y = make(seed=len(case), missing=0.2 if "missing" in case else 0.0)
    weights = None
    if "weights" in case:
        weights = rng.choice([0.5, 1, 2], (160, 3 if "pairs" in case else 1)).astype(np.float32)
    if loss == "softmax":
        y = given = classes_of(Y)
    else:
        y = {"logistic": (Y > 0.2) * 1.0, "poisson": np.floor(np.exp(2 * Y))}.get(loss, Y)
        if "unknown" in case:
            y = np.where(rng.random(y.shape) < 0.3, np.nan, y)
        given = y = y.astype(np.float32)
        if loss == "logistic" and "unknown" not in case:
            given = y.astype(int)
    estimator.fit(
        X, given, sample_weight=None if weights is None else weights if "pairs" in case else weights[:, 0]
    )
    audit = naive_dense.Audit(
        estimator.model_.trees, estimator.model_.base_score, X, y, loss, parameter=0.4, weights=weights,
        l2=estimator.l2, rate=estimator.learning_rate, min_samples=estimator.min_samples_leaf,
        top=estimator.leaf_outputs or 0, shared=estimator.split != "topk" and estimator.leaf_outputs is not None,
        exact=estimator.hessian == "exact", alone=estimator.tree_per_output,
    )  # fmt: skip
    return estimator, audit, [naive.cuts_of(column, 255) for column in X.T]


@pytest.mark.parametrize("case", CASES)
def test_every_cut_is_the_best_and_every_leaf_the_newton_step(case):
    estimator, audit, cuts = audited(case)
    trees = estimator.model_.trees
    gains, inner = np.zeros(4), 0
    for _, tree, rows, g, h, own, _ in audit.replay():
        queue, n_leaves = [(tree, 0)], len(naive_dense.leaves_of(tree))
        assert estimator.max_leaves is None or n_leaves <= estimator.max_leaves
        for node, depth in queue:
            here = rows[node["at"]]
            assert trees.cover[node["at"]] == len(here)
            if "leaf" in node:
                assert len(here) >= estimator.min_samples_leaf
                _check_leaf(audit, estimator, node, here, g, h, own)
                if n_leaves < (estimator.max_leaves or 10**9) and depth < (estimator.max_depth or 10**9):
                    # nothing was left to cut (up to the 16 bits in which gradients are added up)
                    assert audit.best_gain(g, h, here, cuts) <= 2e-3 * max(1.0, audit.score(g, h, here).sum())
                continue
            inner += 1
            gain = audit.gain(g, h, here, audit.goes_left(node, here))
            gains[node["feature"]] += gain
            best = audit.best_gain(g, h, here, cuts)
            whole = audit.score(g, h, here).sum()
            assert gain >= best - 2e-3 * (best + whole) - 1e-6, "a better cut was there"
            queue += [(node["left"], depth + 1), (node["right"], depth + 1)]
    assert inner > 8, "a model without cuts proves nothing"
    np.testing.assert_allclose(trees.feature_gain, gains, rtol=5e-3, atol=1e-2 * gains.max())


def _check_leaf(audit, estimator, node, here, g, h, own):
    G = g[here].sum(axis=0)
    if audit.exact:
        wanted = -np.linalg.solve(h[here].sum(axis=0) + audit.l2 * np.eye(audit.d), G)
    else:
        wanted = naive_dense.newton_values(G, h[here].sum(axis=0), audit.l2)
    found = node["leaf"][own]
    stored = found != 0
    if audit.top and not audit.alone:
        assert stored.sum() <= audit.top
        if not audit.shared:
            kept = naive_dense.keep_top(audit.score(g, h, here).tolist(), audit.top)
            np.testing.assert_array_equal(stored, kept)
    else:
        stored[:] = True
    np.testing.assert_allclose(found[stored], (audit.rate * wanted)[stored], rtol=2e-4, atol=2e-6)


def test_siblings_share_their_outputs():
    X, Y = make(d=6, seed=3)
    model = reg(leaf_outputs=2, max_leaves=8).fit(X, Y).model_

    def check(node):
        if "leaf" in node:
            return 0
        sides = [node["left"], node["right"]]
        both = 0
        if all("leaf" in side for side in sides):
            assert set(np.flatnonzero(sides[0]["leaf"])) == set(np.flatnonzero(sides[1]["leaf"]))
            both = 1
        return both + sum(check(side) for side in sides)

    assert sum(check(naive_dense.nested(model.trees, t, 6)) for t in range(6)) > 5


@pytest.mark.parametrize("loss", ["absolute", "quantile:0.8"])
@pytest.mark.parametrize("weighted", [False, True])
def test_leaves_of_losses_without_curvature_are_quantiles(loss, weighted):
    X, Y = make(seed=2)
    Y = Y.astype(np.float32)
    weights = np.random.default_rng(0).choice([0.5, 1, 2], (160, 1)).astype(np.float32) if weighted else None
    model = reg(loss=loss).fit(X, Y, sample_weight=None if weights is None else weights[:, 0]).model_
    share = 0.5 if loss == "absolute" else 0.8
    audit = naive_dense.Audit(
        model.trees, model.base_score, X, Y, loss.partition(":")[0], parameter=share, weights=weights,
        l2=1.0, rate=0.3, min_samples=4,
    )  # fmt: skip
    w = np.ones(160) if weights is None else weights[:, 0]
    for _, tree, rows, _, _, _, scores in audit.replay():
        for leaf in naive_dense.leaves_of(tree):
            here = rows[leaf["at"]]
            for j in range(3):
                value = naive_dense.weighted_quantile(
                    (Y[here, j] - scores[here, j]).tolist(), w[here].tolist(), share
                )
                assert leaf["leaf"][j] == pytest.approx(0.3 * value, rel=1e-5, abs=1e-7)


def test_cuts_of_categories_gain_what_is_said():
    X, Y = make(seed=4, categories=2, missing=0.1)
    est = reg(categorical_features=[0, 1]).fit(X, Y)
    trees = est.model_.trees
    assert est.model_.categories == {0: list(range(7)), 1: list(range(7))}
    assert len(trees.sets) > 3
    audit = naive_dense.Audit(
        trees, est.model_.base_score, X, Y.astype(np.float32), "mse", l2=1.0, rate=0.3, min_samples=4
    )
    gains = np.zeros(4)
    for _, tree, rows, g, h, own, _ in audit.replay():
        queue = [tree]
        for node in queue:
            here = rows[node["at"]]
            assert trees.cover[node["at"]] == len(here)
            if "leaf" in node:
                _check_leaf(audit, est, node, here, g, h, own)
            else:
                gains[node["feature"]] += audit.gain(g, h, here, audit.goes_left(node, here))
                queue += [node["left"], node["right"]]
    np.testing.assert_allclose(trees.feature_gain, gains, rtol=2e-3)


def test_categories_beat_an_order_that_means_nothing():
    rng = np.random.default_rng(6)
    X, effects = rng.integers(0, 40, (800, 1)), rng.choice([-1.0, 1.0], (40, 2))
    Y = effects[X[:, 0]]
    plain = reg(max_leaves=4).fit(X, Y).score(X, Y)
    assert reg(max_leaves=4, categorical_features=[0]).fit(X, Y).score(X, Y) > plain + 0.3


# --- other libraries


@pytest.mark.parametrize("parameters", [
    {"max_leaves": 8}, {"max_leaves": None, "max_depth": 4}, {"max_leaves": 12, "l2": 0.0, "min_samples_leaf": 11},
])  # fmt: skip
@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_one_output_agrees_with_scikit_learn(parameters, missing):
    """Few distinct values: the same bins. Gradients are added up in 16 bits, so the tolerance is 1e-3 of the spread."""
    X, Y = make(1500, 5, 1, seed=8, missing=missing)
    y = Y[:, 0]
    common = {"learning_rate": 0.2, "max_depth": None, "min_samples_leaf": 20, "l2": 1.0} | parameters
    ours = MultiGBDTRegressor(n_trees=15, **common).fit(X, y)
    theirs = HistGradientBoostingRegressor(
        max_iter=15, learning_rate=0.2, max_leaf_nodes=common["max_leaves"], max_depth=common["max_depth"],
        min_samples_leaf=common["min_samples_leaf"], l2_regularization=common["l2"], early_stopping=False,
    ).fit(X, y)  # fmt: skip
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-3 * y.std())
    trees = ours.model_.trees
    assert trees.cover[trees.feature < 0].min() >= common["min_samples_leaf"]


def test_min_samples_leaf_holds_with_categories_and_missing_values():
    X, Y = make(400, seed=9, categories=2, missing=0.2)
    trees = reg(min_samples_leaf=25, categorical_features=[0, 1]).fit(X, Y).model_.trees
    assert trees.cover[trees.feature < 0].min() >= 25
    assert (trees.feature >= 0).sum() > 10


# --- one tree for all, or a tree for each


@pytest.mark.parametrize("loss", ["mse", "huber:0.5", "absolute", "quantile:0.7", "poisson"])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_tree_for_each_output_is_a_model_for_each_output(loss, weighted):
    X, Y = make(missing=0.1, seed=3)
    Y = np.abs(Y) if loss == "poisson" else Y
    weights = np.random.default_rng(0).choice([0.5, 1, 2], 160) if weighted else None
    together = reg(loss=loss, tree_per_output=True, subsample=1.0).fit(X, Y, sample_weight=weights)
    assert together.model_.n_trees == 18
    assert together.best_iteration_ == 6
    for j in range(3):
        alone = reg(loss=loss).fit(X, Y[:, j], sample_weight=weights)
        np.testing.assert_array_equal(together.predict(X)[:, j], alone.predict(X))


def test_one_output_needs_no_tree_for_each():
    X, Y = make(d=1)
    same_trees_but_labels = reg(tree_per_output=True).fit(X, Y).predict(X)
    np.testing.assert_array_equal(same_trees_but_labels, reg().fit(X, Y).predict(X))


# --- weights and unknown targets


def test_unknown_targets_are_weights_of_zero():
    X, Y = make(seed=5)
    unknown = np.random.default_rng(0).random(Y.shape) < 0.3
    masked = reg().fit(X, np.where(unknown, np.nan, Y))
    weighed = reg().fit(X, Y, sample_weight=1.0 - unknown)
    same_trees(masked, weighed)


@pytest.mark.parametrize("loss", ["mse", "absolute", "softmax"])
def test_whole_weights_are_repeated_rows(loss):
    X, Y = make(seed=6)
    weights = np.random.default_rng(0).integers(1, 4, 160)
    y = classes_of(Y) if loss == "softmax" else Y
    make_one = clf if loss == "softmax" else reg
    # min_samples_leaf counts rows, so it must not bind
    parameters = {"min_samples_leaf": 1, "max_leaves": 6, "loss": loss}
    weighed = make_one(**parameters).fit(X, y, sample_weight=weights)
    repeated = make_one(**parameters).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights, axis=0))
    predict = "predict_proba" if loss == "softmax" else "predict"
    np.testing.assert_allclose(getattr(weighed, predict)(X), getattr(repeated, predict)(X), atol=2e-4)


def test_equal_weights_change_nothing_but_rounding():
    X, Y = make(seed=6)
    plain = reg(l2=0.0).fit(X, Y)
    np.testing.assert_allclose(
        reg(l2=0.0).fit(X, Y, sample_weight=7.0).predict(X), plain.predict(X), atol=1e-4
    )


# --- the same bytes

BYTES = {
    "mse": reg(),
    "categories, subsample": reg(categorical_features=[0, 1], subsample=0.6, colsample_bynode=0.5),
    "sketch": reg(split="reduced", sketch_dim=2),
    "sampling": reg(split="reduced", reducer="sampling", sketch_dim=2),
    "count sketch": reg(split="reduced", reducer="count-sketch", sketch_dim=2, colsample_bytree=0.5),
    "top outputs": reg(split="reduced", reducer="top-outputs", sketch_dim=2),
    "absolute": reg(loss="absolute"),
    "constraints": reg(monotone_constraints=[1, 0, -1, 0]),
    "tree per output": reg(tree_per_output=True, max_depth=3, growth="depth-wise"),
    "topk": reg(leaf_outputs=1, split="topk"),
    "softmax": clf(),
    "softmax exact": clf(hessian="exact"),
    "logistic": clf(leaf_outputs=2),
}


@pytest.mark.parametrize("case", BYTES)
def test_threads_do_not_change_a_byte(case, tmp_path):
    X, Y = make(3000, 4, 3, seed=7, missing=0.1, categories=2)
    if isinstance(BYTES[case], MultiGBDTClassifier):
        Y = (Y > 0).astype(int) if case == "logistic" else classes_of(Y)
    files = []
    for n_jobs in (1, 2, 3):
        est = clone(BYTES[case]).set_params(n_jobs=n_jobs, n_trees=3)
        est.fit(X, Y, eval_set=(X[:500], Y[:500]), sample_weight=np.arange(3000) % 3 + 1.0)
        files.append(saved_bytes(est, tmp_path))
        if n_jobs == 1:
            predicted = est.predict(X)
        np.testing.assert_array_equal(est.predict(X), predicted)
    assert files[0] == files[1] == files[2]


@pytest.mark.parametrize("case", [*BYTES, "missing"])
@pytest.mark.parametrize("how", ["warm_start", "init_model"])
def test_going_on_is_one_run(case, how):
    X, Y = make(300, 4, 3, seed=7, missing=0.1, categories=2)
    whole = clone(BYTES.get(case, BYTES["mse"]))
    if isinstance(whole, MultiGBDTClassifier):
        Y = (Y > 0).astype(int) if case == "logistic" else classes_of(Y)
    whole.fit(X, Y, eval_set=(X[:90], Y[:90]))
    part = (
        clone(whole)
        .set_params(n_trees=2, warm_start=how == "warm_start")
        .fit(X, Y, eval_set=(X[:90], Y[:90]))
    )
    if how == "warm_start":
        part.set_params(n_trees=6).fit(X, Y, eval_set=(X[:90], Y[:90]))
    else:
        part = clone(whole).set_params(n_trees=4).fit(X, Y, init_model=part, eval_set=(X[:90], Y[:90]))
    same_trees(whole, part)
    assert part.history_ == whole.history_
    np.testing.assert_array_equal(part.predict(X), whole.predict(X))
    assert part.best_iteration_ == whole.best_iteration_ == 6


def test_going_on_from_a_file(tmp_path):
    X, Y = make(categories=1)
    whole = reg(categorical_features=[0]).fit(X, Y)
    first = reg(categorical_features=[0], n_trees=2).fit(X, Y)
    first.save(tmp_path / "exact.safetensors", compact=False)
    first.save(tmp_path / "compact.safetensors")
    for loaded in (
        sparseleaf.load(tmp_path / "exact.safetensors"),
        load_model(tmp_path / "exact.safetensors"),
    ):
        same_trees(whole, reg(categorical_features=[0], n_trees=4).fit(X, Y, init_model=loaded))

    # a compact file's values are rounded: training goes on from the scores that it predicts
    loaded = sparseleaf.load(tmp_path / "compact.safetensors")
    longer = reg(categorical_features=[0], n_trees=4).fit(X, Y, init_model=loaded)
    np.testing.assert_array_equal(
        longer.model_.dense(longer._features(X), 2, 1), loaded.model_.dense(X, 2, 1)
    )
    assert abs(longer.score(X, Y) - whole.score(X, Y)) < 0.01


def test_going_on_with_sparse_leaves_from_dense_ones():
    X, Y = make()
    first = reg(n_trees=3).fit(X, Y)
    both = reg(n_trees=2, leaf_outputs=1).fit(X, Y, init_model=first)
    trees = both.model_.trees
    assert len(trees.leaf_labels) == len(trees.leaf_values)
    scores, leaves = naive_dense.predict(X, trees, 3, both.model_.base_score)
    np.testing.assert_array_equal(both.predict(X), scores)
    np.testing.assert_array_equal(both.model_.apply(X, None, 1), leaves)
    again = reg(n_trees=2).fit(X, Y, init_model=both)
    scores, _ = naive_dense.predict(X, again.model_.trees, 3, again.model_.base_score)
    np.testing.assert_array_equal(again.predict(X), scores)


@pytest.mark.parametrize(("change", "match"), [
    (lambda X, Y: reg(n_trees=1).fit(X[:, :3], Y), "found 4 features and 3 outputs; the model has 3 and 3"),
    (lambda X, Y: reg(n_trees=1).fit(X, Y[:, :2]), "the model has 4 and 2"),
    (lambda X, Y: reg(n_trees=1).fit(X, pd.DataFrame(Y, columns=list("abc"))), "other classes or kind"),
    (lambda X, Y: reg(n_trees=1, tree_per_output=True).fit(X, Y), "tree_per_output=False; the model has True"),
    (lambda X, Y: SparseGBDTClassifier(n_trees=1).fit(X, (Y > 0).astype(int)), "wanted one with dense scores"),
])  # fmt: skip
def test_models_that_cannot_be_gone_on_from(change, match):
    X, Y = make()
    with pytest.raises(ValueError, match=match):
        reg().fit(X, Y, init_model=change(X, Y))


def test_warm_start_with_fewer_trees_is_refused_and_with_as_many_is_nothing():
    X, Y = make()
    est = reg(warm_start=True).fit(X, Y)
    before = est.predict(X)
    np.testing.assert_array_equal(est.fit(X, Y).predict(X), before)
    with pytest.raises(ValueError, match=r"n_trees=2: with warm_start, wanted at least the 6"):
        est.set_params(n_trees=2).fit(X, Y)
    with pytest.raises(ValueError, match="tree_per_output=True; the model has False"):
        est.set_params(n_trees=9, tree_per_output=True).fit(X, Y)


# --- early stopping


@pytest.mark.parametrize("metric", ["loss", "rmse", "mae", "r2"])
def test_early_stopping_keeps_the_best_trees(metric):
    X, Y = make(300, seed=1)
    noise = Y + np.random.default_rng(0).normal(size=Y.shape)
    est = reg(n_trees=200, min_samples_leaf=1, early_stopping_rounds=5, eval_metric=metric)
    est.fit(X[:150], noise[:150], eval_set=(X[150:], noise[150:]))
    history = est.history_[f"valid {metric}"]
    best = int(np.argmax(history) if metric == "r2" else np.argmin(history))
    assert est.best_iteration_ == est.model_.n_trees == best + 1 < 200
    assert len(history) == best + 1 + 5
    # the metric of the kept trees is the one that was measured
    predicted, y = est.predict(X[150:]), noise[150:].astype(np.float32)
    wanted = {
        "loss": np.mean((predicted - y) ** 2), "rmse": np.sqrt(np.mean((predicted - y) ** 2)),
        "mae": np.mean(np.abs(predicted - y)), "r2": est.score(X[150:], y),
    }[metric]  # fmt: skip
    assert history[best] == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("metric", ["loss", "accuracy", "P@1", "nDCG@3"])
@pytest.mark.parametrize("labels", [False, True])
def test_early_stopping_of_classifiers(metric, labels):
    X, Y = make(300, seed=1)
    noise = Y + np.random.default_rng(0).normal(size=Y.shape)
    y = (noise > 0).astype(int) if labels else np.array(["a", "b", "c"])[classes_of(noise)]
    est = clf(n_trees=150, min_samples_leaf=1, early_stopping_rounds=4, eval_metric=metric)
    est.fit(X[:150], y[:150], eval_set=(X[150:], y[150:]))
    history = est.history_[f"valid {metric}"]
    best = int(np.argmin(history) if metric == "loss" else np.argmax(history))
    assert est.best_iteration_ == best + 1 < 150
    if metric == "accuracy":
        predicted = est.predict(X[150:])
        assert history[best] == pytest.approx((predicted == y[150:]).mean())
    if metric == "P@1":
        assert history[best] == pytest.approx(est.score(X[150:], y[150:]))


@pytest.mark.parametrize("higher", [False, True])
def test_early_stopping_with_a_function(higher):
    X, Y = make(300, seed=1)
    noise = Y + np.random.default_rng(0).normal(size=Y.shape)
    seen = []

    def error(y, predicted):
        seen.append((y.shape, predicted.shape))
        value = float(np.abs(y - predicted).mean())
        predicted[:] = 1e9  # a function may do what it likes with what it gets
        return "my error", -value if higher else value, higher

    est = reg(n_trees=150, min_samples_leaf=1, early_stopping_rounds=4, eval_metric=error)
    est.fit(X[:150], noise[:150], eval_set=(X[150:], noise[150:]))
    named = reg(n_trees=150, min_samples_leaf=1, early_stopping_rounds=4, eval_metric="mae")
    named.fit(X[:150], noise[:150], eval_set=(X[150:], noise[150:]))
    same_trees(est, named)
    np.testing.assert_allclose(np.abs(est.history_["valid my error"]), named.history_["valid mae"], rtol=1e-5)
    assert set(seen) == {((150, 3), (150, 3))}


def test_early_stopping_counts_rounds_with_a_tree_for_each_output():
    X, Y = make(300, seed=1)
    noise = Y + np.random.default_rng(0).normal(size=Y.shape)
    est = reg(n_trees=150, min_samples_leaf=1, early_stopping_rounds=4, tree_per_output=True)
    est.fit(X[:150], noise[:150], eval_set=(X[150:], noise[150:]))
    history = est.history_["valid loss"]
    assert est.best_iteration_ == np.argmin(history) + 1
    assert est.model_.n_trees == 3 * est.best_iteration_
    assert len(list(est.staged_predict(X))) == est.best_iteration_


def test_validation_targets_may_be_partly_unknown():
    X, Y = make()
    partly = Y.copy()
    partly[:, 1] = np.nan
    for metric in ("loss", "rmse", "mae", "r2"):
        est = reg(eval_metric=metric).fit(X, Y, eval_set=(X, partly))
        alone = est.history_[f"valid {metric}"][-1]
        y, predicted = Y[:, [0, 2]].astype(np.float32), est.predict(X)[:, [0, 2]]
        wanted = {
            "mae": np.abs(y - predicted).mean(),
            "r2": 1 - (((y - predicted) ** 2).sum(0) / ((y - y.mean(0)) ** 2).sum(0)).mean(),
        }.get(metric, np.mean((y - predicted) ** 2) ** (0.5 if metric == "rmse" else 1))
        assert alone == pytest.approx(wanted, rel=1e-4)
    with pytest.raises(ValueError, match="eval_set: y: found no target that is known"):
        reg().fit(X, Y, eval_set=(X, np.full_like(Y, np.nan)))


@pytest.mark.parametrize(("eval_set", "match"), [
    ((np.zeros((3, 4)),), "wanted a pair"),
    ("Xy", "eval_set"),
    ((np.zeros((3, 3)), np.zeros((3, 3))), "eval_set: .*features"),
    ((np.zeros((3, 4)), np.zeros((2, 3))), "eval_set"),
    ((np.zeros((3, 4)), np.zeros((3, 2))), "eval_set: y: found 2 outputs; wanted 3"),
    ((np.full((3, 4), np.inf), np.zeros((3, 3))), "eval_set: .*infinity"),
])  # fmt: skip
def test_bad_validation_sets_are_named(eval_set, match):
    X, Y = make()
    with pytest.raises(ValueError, match=match):
        reg().fit(X, Y, eval_set=eval_set)


def test_rankings_longer_than_the_classes_are_refused_before_training():
    X, Y = make()
    y = (Y[:, 0] > 0).astype(int)
    with pytest.raises(ValueError, match="eval_metric='P@3': found 2 outputs"):
        clf(eval_metric="P@3").fit(X, y, eval_set=(X, y))


@pytest.mark.parametrize("answer", [1.0, ("error", 1.0), None])
def test_metrics_that_answer_something_else_are_refused(answer):
    X, Y = make()
    with pytest.raises(ValueError, match="eval_metric: found a function that answers"):
        reg(eval_metric=lambda y, p: answer).fit(X, Y, eval_set=(X, Y))


# --- losses of the user's


def test_a_custom_loss_is_the_built_in_one():
    X, Y = make(200)
    X, Y = np.repeat(X, 2, axis=0), np.repeat(Y, 2, axis=0)
    Y[1::2] *= -1  # means are 0, which is where a custom loss starts
    X[1::2, 0] += 3
    custom = reg(loss=lambda y, z: (z - y, np.ones_like(z))).fit(X, Y)
    built_in = reg().fit(X, Y)
    assert np.abs(built_in.model_.base_score).max() < 1e-7
    np.testing.assert_allclose(custom.predict(X), built_in.predict(X), atol=1e-5)
    weights = np.arange(400) // 2 % 3 + 1.0
    custom.fit(X, Y, sample_weight=weights)
    np.testing.assert_allclose(
        custom.predict(X), reg().fit(X, Y, sample_weight=weights).predict(X), atol=1e-4
    )


def test_a_custom_loss_of_classes():
    X, _ = make(150)
    X, y = np.vstack((X, X + 1, X + 2)), np.repeat(np.arange(3), 150)  # equal shares

    def softmax(classes, z):
        p = np.exp(z - z.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        return p - np.eye(3)[classes], p * (1 - p)

    custom, built_in = clf(loss=softmax).fit(X, y), clf().fit(X, y)
    np.testing.assert_allclose(custom.predict_proba(X), built_in.predict_proba(X), atol=1e-4)


def test_a_custom_loss_has_to_be_given_again(tmp_path):
    X, Y = make()
    est = reg(loss=lambda y, z: (z - y, np.ones_like(z))).fit(X, Y, eval_set=(X, Y))
    assert est.history_["valid loss"][-1] < est.history_["valid loss"][0]
    est.save(tmp_path / "m.safetensors", compact=False)
    loaded = sparseleaf.load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(loaded.predict(X), est.predict(X))
    with pytest.raises(ValueError, match="loss='custom' stands for a function"):
        loaded.fit(X, Y)


# --- prediction


@pytest.mark.parametrize("case", BYTES)
def test_predictions_leaves_and_training_scores_agree(case, monkeypatch):
    """The twin on raw values, the model, and the scores that training itself kept: bit for bit."""
    shards = []

    class Watched(multi_part.DenseShard):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            shards.append(self)

    monkeypatch.setattr(multi_part, "DenseShard", Watched)
    X, Y = make(300, 4, 3, seed=7, missing=0.1, categories=2)
    est = clone(BYTES[case])
    if isinstance(est, MultiGBDTClassifier):
        Y = (Y > 0).astype(int) if case == "logistic" else classes_of(Y)
    est.fit(X, Y)
    model = est.model_
    scores, leaves = naive_dense.predict(X, model.trees, 3, model.base_score)
    found = est.decision_function(X) if isinstance(est, MultiGBDTClassifier) else est.predict(X)
    np.testing.assert_array_equal(found, scores)
    np.testing.assert_array_equal(found, shards[0].scores)
    np.testing.assert_array_equal(model.apply(X, None, 2), leaves)
    applied = est.apply(X)
    assert applied.shape == (300, model.n_trees)
    for t in range(model.n_trees):
        first = min(leaf["number"] for leaf in naive_dense.leaves_of(naive_dense.nested(model.trees, t, 3)))
        np.testing.assert_array_equal(applied[:, t], leaves[:, t] - first)
    if not model.categories:
        np.testing.assert_array_equal(est.apply(sp.csr_matrix(X)), applied)


def test_regression_shapes_and_stages():
    X, Y = make()
    est = reg().fit(X, Y)
    stages = list(est.staged_predict(X))
    assert len(stages) == 6
    np.testing.assert_array_equal(stages[-1], est.predict(X))
    assert [len(list(est.staged_predict(X, every=n))) for n in (1, 4, 6, 9)] == [6, 2, 1, 1]
    with pytest.raises(ValueError, match="every"):
        next(est.staged_predict(X, every=0))
    errors = [np.mean((stage - Y) ** 2) for stage in stages]
    assert errors == sorted(errors, reverse=True)
    assert reg().fit(X, Y[:, 0]).predict(X).shape == (160,)
    assert reg().fit(X, Y[:, :1]).predict(X).shape == (160, 1)
    assert np.all(reg(loss="poisson").fit(X, np.exp(Y)).predict(X) > 0)


@pytest.mark.parametrize("loss", ["auto", "logistic"])
def test_classes_are_predicted_by_name(loss):
    X, Y = make()
    y = np.array(["ash", "birch", "elm"])[classes_of(Y)]
    est = clf(loss=loss, n_trees=20).fit(X, y)
    assert est.classes_.tolist() == ["ash", "birch", "elm"]
    proba = est.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-5)
    assert (est.predict(X) == est.classes_[proba.argmax(axis=1)]).all()
    assert est.score(X, y) > 0.9
    labels, scores = est.predict_topk(X, 2)
    assert (labels[:, 0] == est.predict(X)).all()
    np.testing.assert_array_equal(scores, np.sort(est.decision_function(X))[:, ::-1][:, :2])
    assert len(list(est.staged_predict(X, every=10))) == 2
    np.testing.assert_array_equal(list(est.staged_predict_proba(X))[-1], proba)


def test_two_classes():
    X, Y = make()
    y = Y[:, 0] > 0
    est = clf().fit(X, y)
    assert est.predict(X).dtype == bool
    margin = est.decision_function(X)
    assert margin.shape == (160,)
    np.testing.assert_array_equal(est.predict(X), margin > 0)
    np.testing.assert_allclose(est.predict_proba(X)[:, 1], 1 / (1 + np.exp(-margin.astype(float))), rtol=1e-5)


def test_labels_come_back_as_they_were_given():
    X, Y = make()
    matrix = (Y > 0).astype(int)
    est = clf(n_trees=30).fit(X, matrix)
    dense = est.predict(X)
    assert dense.shape == matrix.shape
    assert (dense == matrix).mean() > 0.9
    np.testing.assert_array_equal(est.predict_proba(X) >= 0.5, dense == 1)
    sparse = clf(n_trees=30).fit(X, sp.csr_matrix(matrix)).predict(X)
    assert sp.issparse(sparse)
    np.testing.assert_array_equal(sparse.toarray(), dense)
    names = np.array(["x", "y", "z"])
    lists = clf(n_trees=30).fit(X, [names[row == 1].tolist() for row in matrix]).predict(X)
    assert [sorted(row) for row in lists] == [names[row == 1].tolist() for row in dense]


def test_labels_partly_known():
    X, Y = make(400)
    y = (Y > 0).astype(float)
    hidden = np.random.default_rng(0).random(y.shape) < 0.4
    est = clf(n_trees=30).fit(X, np.where(hidden, np.nan, y))
    assert (est.predict(X) == y)[hidden].mean() > 0.8


def test_missing_and_unknown_categories_go_the_same_way():
    X, Y = make(300, categories=2, missing=0.1)
    frame = pd.DataFrame(X, columns=list("abcd"))
    for name in "ab":
        frame[name] = frame[name].map(lambda v: None if np.isnan(v) else f"category {int(v)}")
    est = reg().fit(frame, Y)
    assert sorted(est.model_.categories) == [0, 1]
    by_index = reg(categorical_features=[0, 1]).fit(X, Y)
    np.testing.assert_array_equal(est.predict(frame), by_index.predict(X))
    unknown, missing = frame.copy(), frame.copy()
    unknown["a"], missing["a"] = "never seen", None
    np.testing.assert_array_equal(est.predict(unknown), est.predict(missing))
    other = X.copy()
    other[:, 0] = 99
    np.testing.assert_array_equal(by_index.predict(other), est.predict(missing))
    with pytest.raises(ValueError, match="feature names should match"):
        est.predict(frame[["b", "a", "c", "d"]])
    with pytest.raises(ValueError, match="now missing"):
        est.predict(frame[["a", "b"]])
    with pytest.raises(ValueError, match="features"):
        by_index.predict(X[:, :2])


def test_names_of_features_and_outputs_are_kept(tmp_path):
    X, Y = make()
    frame = pd.DataFrame(X, columns=list("abcd"))
    est = reg().fit(frame, pd.DataFrame(Y, columns=["u", "v", "w"]))
    est.save(tmp_path / "m.safetensors")
    loaded = sparseleaf.load(tmp_path / "m.safetensors")
    for one in (est, loaded):
        assert one.feature_names_in_.tolist() == list("abcd")
        assert one.output_names_.tolist() == ["u", "v", "w"]
        with pytest.raises(ValueError, match="feature names"):
            one.predict(frame.rename(columns={"a": "z"}))


def test_sparse_rows_are_dense_rows():
    X, Y = make()
    X[np.random.default_rng(0).random(X.shape) < 0.6] = 0
    dense, sparse = reg().fit(X, Y), reg().fit(sp.csr_matrix(X), Y)
    same_trees(dense, sparse)
    np.testing.assert_array_equal(dense.predict(X), sparse.predict(sp.csr_matrix(X)))


def test_importances():
    X, Y = make(d=2)
    Y = np.c_[X[:, 1], X[:, 2]] + 0.01 * Y
    est = reg(n_trees=20).fit(X, Y)
    assert est.feature_importances_.sum() == pytest.approx(1)
    assert set(np.argsort(-est.feature_importances_)[:2]) == {1, 2}
    shares = est.output_importances_
    assert shares.shape == (4, 2)
    np.testing.assert_allclose(shares.sum(axis=0), 1)
    assert shares[1, 0] > 0.95
    assert shares[2, 1] > 0.95


@pytest.mark.parametrize("sparse_leaves", [False, True])
@pytest.mark.parametrize("compact", [False, True])
def test_output_importances_are_the_twins(sparse_leaves, compact, tmp_path):
    X, Y = make(categories=1)
    est = reg(leaf_outputs=1 if sparse_leaves else None, categorical_features=[0]).fit(X, Y)
    est.save(tmp_path / "m.safetensors", compact=compact)
    est = sparseleaf.load(tmp_path / "m.safetensors")
    trees = est.model_.trees
    moved = np.zeros((4, 3))

    def walk(node):
        rows = float(trees.cover[node["at"]])
        if "leaf" in node:
            return rows, node["leaf"].astype(float)
        sides = [walk(node["left"]), walk(node["right"])]
        mean = sum(n * m for n, m in sides) / rows
        moved[node["feature"]] += sum(n * (m - mean) ** 2 for n, m in sides)
        return rows, mean

    for t in range(trees.n_trees):
        walk(naive_dense.nested(trees, t, 3))
    np.testing.assert_allclose(est.output_importances_, moved / moved.sum(axis=0), rtol=1e-5, atol=1e-9)


# --- files, copies, scikit-learn


@pytest.mark.parametrize("case", BYTES)
@pytest.mark.parametrize("compact", [False, True])
def test_files(case, compact, tmp_path):
    X, Y = make(300, 4, 3, seed=7, missing=0.1, categories=2)
    est = clone(BYTES[case])
    if isinstance(est, MultiGBDTClassifier):
        Y = (Y > 0).astype(int) if case == "logistic" else classes_of(Y)
    est.fit(X, Y)
    est.save(tmp_path / "m.safetensors", compact=compact)
    loaded = sparseleaf.load(tmp_path / "m.safetensors")
    assert type(loaded) is type(est)
    assert loaded.get_params() == est.get_params()
    name = "decision_function" if isinstance(est, MultiGBDTClassifier) else "predict"
    found, wanted = getattr(loaded, name)(X), getattr(est, name)(X)
    if compact:
        np.testing.assert_allclose(found, wanted, atol=2e-4)
    else:
        np.testing.assert_array_equal(found, wanted)
        assert saved_bytes(loaded, tmp_path, "again.safetensors") == (tmp_path / "m.safetensors").read_bytes()
    np.testing.assert_array_equal(loaded.apply(X), est.apply(X))
    np.testing.assert_array_equal(loaded.feature_importances_, est.feature_importances_)
    again = pickle.loads(pickle.dumps(est))
    np.testing.assert_array_equal(getattr(again, name)(X), wanted)


def test_scikit_learns_tools():
    X, Y = make()
    est = reg(monotone_constraints=[1, 0, 0, 0], categorical_features=None)
    assert clone(est).get_params() == est.get_params()
    pipe = make_pipeline(StandardScaler(), reg()).fit(X, Y)
    assert pipe.score(X, Y) > 0.5
    search = GridSearchCV(
        reg(), {"max_leaves": [2, 15], "split": ["full", "topk"], "leaf_outputs": [2]}, cv=2
    )
    assert search.fit(X, Y).best_params_["max_leaves"] == 15
    y = classes_of(Y)
    assert (
        GridSearchCV(clf(), {"learning_rate": [1e-6, 0.3]}, cv=2).fit(X, y).best_params_["learning_rate"]
        == 0.3
    )


# --- constraints


@pytest.mark.parametrize("given", [
    [1, 0, -1, 0], np.array([1, 0, -1, 0]), {0: 1, 2: -1}, {"0": 1, "2": -1},
    [[1, 1, 1], [0, 0, 0], [-1, -1, -1], [0, 0, 0]], {0: [1, 1, 1], 2: -1},
])  # fmt: skip
def test_forms_of_constraints(given):
    X, Y = make(seed=2)
    wanted = reg(monotone_constraints=[1, 0, -1, 0]).fit(X, Y)
    same_trees(wanted, reg(monotone_constraints=given).fit(X, Y))
    assert not np.array_equal(wanted.predict(X), reg().fit(X, Y).predict(X)), "the constraints must bind"


def test_constraints_by_name():
    X, Y = make(seed=2)
    frame = pd.DataFrame(X, columns=list("abcd"))
    same_trees(
        reg(monotone_constraints=[1, 0, -1, 0]).fit(X, Y),
        reg(monotone_constraints={"a": 1, "c": -1}).fit(frame, Y),
    )


def test_no_constraint_is_none():
    X, Y = make()
    same_trees(reg(monotone_constraints=[0, 0, 0, 0]).fit(X, Y), reg().fit(X, Y))


def test_a_tree_for_each_output_takes_that_outputs_constraints():
    X, Y = make(seed=2)
    matrix = np.array([[1, -1, 0], [0, 0, 1], [0, 0, 0], [-1, 0, 0]])
    together = reg(monotone_constraints=matrix, tree_per_output=True).fit(X, Y)
    for j in range(3):
        alone = reg(monotone_constraints=matrix[:, j]).fit(X, Y[:, j])
        np.testing.assert_array_equal(together.predict(X)[:, j], alone.predict(X))


@pytest.mark.parametrize(("given", "match"), [
    ([1, 0], r"found shape \(2, 3\)"),
    ([2, 0, 0, 0], "wanted -1, 0 or 1"),
    ([[1, 0]] * 4, r"found shape \(4, 2\)"),
    ({"q": 1}, "feature 'q', which X does not have"),
    ({4: 1}, "feature 4"),
    ({-1: 1}, "feature -1"),
    ({0: [1, 0]}, r"found \[1, 0\] for feature 0"),
    (["up", 0, 0, 0], "wanted -1, 0 or 1"),
    ([[1], [1, 2], 0, 0], "wanted -1, 0 or 1"),
    ([np.nan, 0, 0, 0], "wanted -1, 0 or 1"),
])  # fmt: skip
def test_constraints_that_make_no_sense_are_refused(given, match):
    X, Y = make()
    with pytest.raises(ValueError, match=f"monotone_constraints: .*{match}"):
        reg(monotone_constraints=given).fit(X, Y)


def test_categories_have_no_direction():
    X, Y = make(categories=1)
    with pytest.raises(ValueError, match="feature 0 has categories, which have no order"):
        reg(monotone_constraints=[1, 0, 0, 0], categorical_features=[0]).fit(X, Y)


# --- what is refused

REFUSED = [
    (reg(n_trees=0), "n_trees=0 is not allowed in MultiGBDTRegressor; wanted an int >= 1"),
    (reg(loss="softmax"), "loss='softmax' is not allowed"),
    (reg(loss="huber:0"), "loss='huber:0'"),
    (reg(loss="quantile:1"), "loss='quantile:1'"),
    (reg(loss="quantile:nan"), "loss"),
    (reg(loss="mse:2"), "loss"),
    (reg(split="exact"), "split"),
    (reg(reducer="none"), "reducer"),
    (reg(hessian="full"), "hessian"),
    (reg(hessian="exact"), "loss 'mse' has no curvature across outputs"),
    (reg(eval_metric="accuracy"), "eval_metric"),
    (reg(tree_per_output=2), "tree_per_output"),
    (reg(max_bins=256), "max_bins"),
    (reg(n_jobs=0), "n_jobs"),
    (reg(split="topk"), "wanted leaf_outputs=k"),
    (reg(split="topk-shared"), "wanted leaf_outputs=k"),
    (reg(tree_per_output=True, split="topk", leaf_outputs=1), "one output at a time wants 'full'"),
    (reg(monotone_constraints=[1, 0, 0, 0], leaf_outputs=1), "leaves that keep all outputs"),
    (reg(monotone_constraints=[1, 0, 0, 0], leaf_min_gain=1.0), "leaves that keep all outputs"),
    (reg(monotone_constraints=[1, 0, 0, 0], split="reduced", sketch_dim=2), "leaves that keep all outputs"),
    (reg(monotone_constraints=[1, 0, 0, 0], loss="absolute"), "not with loss='absolute'"),
    (reg(early_stopping_rounds=3), "needs rows to measure on; wanted eval_set"),
    (reg(categorical_features="all"), "categorical_features"),
    (reg(categorical_features=[9]), "categorical_features: found 9"),
    (reg(loss="poisson"), "y: found a negative number"),
]


@pytest.mark.parametrize(("estimator", "match"), REFUSED)
def test_parameters_that_are_refused(estimator, match):
    X, Y = make()
    with pytest.raises(ValueError, match=match):
        clone(estimator).fit(X, Y)


@pytest.mark.parametrize(("estimator", "match"), [
    (clf(hessian="exact", leaf_outputs=1), "wanted split='full'"),
    (clf(hessian="exact", tree_per_output=True), "wanted split='full'"),
    (clf(hessian="exact", monotone_constraints=[1, 0, 0, 0]), "wanted split='full'"),
    (clf(hessian="exact", loss="logistic"), "no curvature across outputs"),
    (clf(loss="mse"), "loss='mse' is not allowed"),
])  # fmt: skip
def test_parameters_that_classifiers_refuse(estimator, match):
    X, Y = make()
    with pytest.raises(ValueError, match=match):
        clone(estimator).fit(X, classes_of(Y))


def test_exact_curvatures_have_limits():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(330, 2))
    with pytest.raises(ValueError, match="found 33 outputs; wanted at most 32"):
        clf(hessian="exact", split="full").fit(X, np.arange(330) % 33)
    X, Y = make()
    with pytest.raises(ValueError, match="found a sample_weight per output; wanted one a row"):
        clf(hessian="exact").fit(X, classes_of(Y), sample_weight=np.ones((160, 3)))
    with pytest.raises(ValueError, match="wants one class a row"):
        clf(loss="softmax").fit(X, (Y > 0).astype(int))


def test_numbers_beyond_float32_are_refused_by_name():
    X, Y = make()
    with pytest.raises(ValueError, match="pass float32"):
        reg().fit(X, Y, sample_weight=np.full(160, 3e38))


@pytest.mark.parametrize("scale", [1e-33, 1e-20, 1e30])
def test_tiny_and_huge_targets(scale):
    X, Y = make()
    usual = reg(l2=0.0).fit(X, Y).predict(X)
    np.testing.assert_allclose(reg(l2=0.0).fit(X, Y * scale).predict(X) / scale, usual, rtol=1e-2, atol=1e-2)


# --- ordinary days


def test_one_row_one_feature_and_nothing_to_learn():
    assert reg().fit([[1.0]], [2.0]).predict([[5.0], [np.nan]]).tolist() == [2, 2]
    X, Y = make()
    constant = reg().fit(np.ones((160, 1)), Y)
    np.testing.assert_allclose(constant.predict([[1.0]])[0], Y.mean(axis=0), rtol=1e-4, atol=1e-6)
    assert constant.model_.trees.n_trees == 6
    flat = reg().fit(X, np.full((160, 2), 3.5))
    assert (flat.predict(X) == 3.5).all()
    one = clf().fit(X, np.full(160, "only"))
    assert set(one.predict(X)) == {"only"}
    assert one.predict_proba(X).tolist() == [[1.0]] * 160


def test_tiny_samples_of_rows():
    X, Y = make()
    est = reg(subsample=1e-12, l2=0.0).fit(X, Y)
    np.testing.assert_array_equal(est.predict(X), np.repeat(est.model_.base_score[None], 160, axis=0))


@pytest.mark.parametrize("reducer", ["random-projection", "count-sketch", "top-outputs", "sampling"])
def test_reduced_gradients_learn(reducer):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 5)).astype(np.float32)
    Y = np.tanh(X @ rng.normal(size=(5, 60)))
    est = reg(reducer=reducer, sketch_dim=8, n_trees=40).fit(X, Y, sample_weight=np.ones(600))
    assert est.score(X, Y) > 0.5
    same = reg(reducer=reducer, sketch_dim=8, n_trees=40).fit(X, Y, sample_weight=np.ones(600))
    same_trees(est, same)


def test_a_sketch_as_wide_as_the_outputs_is_the_full_search():
    X, Y = make()
    same_trees(reg(split="reduced", sketch_dim=3).fit(X, Y), reg(split="full").fit(X, Y))


def test_leaf_min_gain_drops_entries():
    X, Y = make()
    all_kept, few = reg().fit(X, Y).model_.trees, reg(leaf_min_gain=2.0).fit(X, Y).model_.trees
    assert 0 < len(few.leaf_values) < len(all_kept.leaf_values)
    assert len(few.leaf_labels) == len(few.leaf_values)


def test_callbacks_and_interrupts():
    X, Y = make()
    seen = []
    est = reg(n_trees=50).fit(X, Y, callbacks=[lambda state: seen.append(state.tree) or state.tree == 4])
    assert seen == [1, 2, 3, 4]
    assert est.best_iteration_ == 4

    def interrupt(state):
        if state.tree == 3:
            raise KeyboardInterrupt

    with pytest.warns(UserWarning, match="interrupted: the model has the 3 rounds"):
        est = reg(n_trees=50, tree_per_output=True).fit(X, Y, callbacks=[interrupt])
    assert est.model_.n_trees == 9


def test_memory_is_estimated_and_refused_before_it_is_taken(monkeypatch):
    X, Y = make()
    found = reg().estimate_memory(X, Y)
    assert found.bins == 160 * 4
    assert found.scores == 8 * 160 * 3
    assert found.residuals == 160 * (4 * 3 + 2 * 4)
    monkeypatch.setattr("sparseleaf.memory.available_memory", lambda: 100)
    with pytest.raises(MemoryError, match="Fewer rows or outputs"):
        reg().fit(X, Y)
