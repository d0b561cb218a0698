"""Splits and leaves of MultiGBDT: against twins written from scratch, other libraries, and each other."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor

import naive
import naive_dense
from marks import first
from multi_models import classes_of, clf, make, reg, same_trees
from sparseleaf import MultiGBDTRegressor

# --- every split and every leaf of small models, from scratch

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
    "mse, top 1": (reg(leaf_labels=1, split="topk"), "mse"),
    "softmax, top 2": (clf(leaf_labels=2, split="topk"), "softmax"),
    "mse, top 1 shared": (reg(leaf_labels=1), "mse"),
    "softmax, top 2 shared": (clf(leaf_labels=2, split="topk-shared"), "softmax"),
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
    settings = estimator._settings()
    audit = naive_dense.Audit(
        estimator.model_.trees, estimator.model_.base_score, X, y, loss, parameter=0.4, weights=weights,
        l2=estimator.l2, rate=estimator.learning_rate, min_samples=estimator.min_samples_leaf,
        top=estimator.leaf_labels or 0, shared=settings.split != "topk" and estimator.leaf_labels is not None,
        exact=settings.hessian == "exact", alone=settings.tree_per_output is True,
    )  # fmt: skip
    return estimator, audit, [naive.thresholds_of(column, 255) for column in X.T]


@pytest.mark.parametrize(
    "case",
    first(3, [case for case in CASES if "each" not in case and "many" not in case])
    + first(0, [case for case in CASES if "each" in case or "many" in case]),
)
def test_every_split_is_the_best_and_every_leaf_the_newton_step(case):
    estimator, audit, thresholds = audited(case)
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
                    # nothing was left to split (up to the 16 bits in which gradients are added up)
                    assert audit.best_gain(g, h, here, thresholds) <= 2e-3 * max(
                        1.0, audit.score(g, h, here).sum()
                    )
                continue
            inner += 1
            gain = audit.gain(g, h, here, audit.goes_left(node, here))
            gains[node["feature"]] += gain
            best = audit.best_gain(g, h, here, thresholds)
            whole = audit.score(g, h, here).sum()
            assert gain >= best - 2e-3 * (best + whole) - 1e-6, "a better split was there"
            queue += [(node["left"], depth + 1), (node["right"], depth + 1)]
    assert inner > 8, "a model without splits proves nothing"
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
    model = reg(leaf_labels=2, max_leaves=8).fit(X, Y).model_

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
def test_leaves_of_losses_without_hessian_are_quantiles(loss, weighted):
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


def test_splits_of_categories_gain_what_is_said():
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
    ours = MultiGBDTRegressor.from_settings({"n_trees": 15, **common}).fit(X, y)
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
