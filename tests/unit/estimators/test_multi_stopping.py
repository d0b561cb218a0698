"""What MultiGBDT watches and whom it lets have a say: early stopping, metrics, losses of the user's."""

import numpy as np
import pytest

import sparseleaf
from multi_models import classes_of, clf, make, reg, same_trees

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


@pytest.mark.parametrize("metric", ["loss", "accuracy", "precision@1", "ndcg@3"])
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
    if metric == "precision@1":
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
    with pytest.raises(ValueError, match="eval_set: y must have at least one value that is not NaN"):
        reg().fit(X, Y, eval_set=(X, np.full_like(Y, np.nan)))


@pytest.mark.parametrize(("eval_set", "match"), [
    ((np.zeros((3, 4)),), "must be a tuple"),
    ("Xy", "eval_set"),
    ((np.zeros((3, 3)), np.zeros((3, 3))), "eval_set: .*features"),
    ((np.zeros((3, 4)), np.zeros((2, 3))), "eval_set"),
    ((np.zeros((3, 4)), np.zeros((3, 2))), "eval_set: y must have 3 outputs"),
    ((np.full((3, 4), np.inf), np.zeros((3, 3))), "eval_set: .*infinity"),
])  # fmt: skip
def test_bad_validation_sets_are_named(eval_set, match):
    X, Y = make()
    with pytest.raises(ValueError, match=match):
        reg().fit(X, Y, eval_set=eval_set)


def test_rankings_longer_than_the_classes_are_refused_before_training():
    X, Y = make()
    y = (Y[:, 0] > 0).astype(int)
    with pytest.raises(ValueError, match=r"eval_metric='precision@3' requires at least 3 outputs. Got 2"):
        clf(eval_metric="precision@3").fit(X, y, eval_set=(X, y))


@pytest.mark.parametrize("answer", [1.0, ("error", 1.0), None])
def test_metrics_that_answer_something_else_are_refused(answer):
    X, Y = make()
    with pytest.raises(ValueError, match=r"'eval_metric' must return .* Got"):
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
    with pytest.raises(ValueError, match="loss='custom' stands for a callable"):
        loaded.fit(X, Y)
