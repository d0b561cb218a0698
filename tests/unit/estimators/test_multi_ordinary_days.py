"""What MultiGBDT refuses, and sets in which there is little to learn."""

import numpy as np
import pytest
from sklearn.base import clone

from multi_models import classes_of, clf, make, reg, same_trees

# --- what is refused

REFUSED = [
    (
        reg(n_trees=0),
        "The 'n_trees' parameter of MultiGBDTRegressor must be an int >= 1 or 'auto'. Got 0 instead",
    ),
    (reg(loss="softmax"), "must be one of {.*}.* or a callable. Got 'softmax'"),
    (reg(loss="huber:0"), "Got 'huber:0'"),
    (reg(loss="quantile:1"), "Got 'quantile:1'"),
    (reg(loss="quantile:nan"), "loss"),
    (reg(loss="mse:2"), "loss"),
    (reg(split="exact"), "split"),
    (reg(sketch="none"), "sketch"),
    (reg(hessian="full"), "hessian"),
    (reg(hessian="exact"), "hessian across outputs. Got loss='mse'"),
    (reg(eval_metric="accuracy"), "eval_metric"),
    (reg(tree_per_output=2), "tree_per_output"),
    (reg(max_bins=256), "max_bins"),
    (reg(n_jobs=1.5), "n_jobs"),
    (reg(split="topk"), "requires leaf_labels, the number of outputs"),
    (reg(split="topk-shared"), "requires leaf_labels, the number of outputs"),
    (reg(tree_per_output=True, split="topk", leaf_labels=1), "tree_per_output=True requires split='full'"),
    (reg(monotone_constraints=[1, 0, 0, 0], leaf_labels=1), "leaf_labels=None and leaf_min_gain=0"),
    (reg(monotone_constraints=[1, 0, 0, 0], leaf_min_gain=1.0), "leaf_labels=None and leaf_min_gain=0"),
    (
        reg(monotone_constraints=[1, 0, 0, 0], split="sketch", sketch_dim=2),
        "leaf_labels=None and leaf_min_gain=0",
    ),
    (reg(monotone_constraints=[1, 0, 0, 0], loss="absolute"), "is not supported for loss='absolute'"),
    (reg(early_stopping_rounds=3), "requires a validation set, eval_set="),
    (reg(categorical_features="all"), "categorical_features"),
    (
        reg(categorical_features=[9]),
        "'categorical_features' parameter must have column names of X, or numbers below",
    ),
    (reg(loss="poisson"), "loss='poisson' requires non-negative y. Got -"),
]


@pytest.mark.parametrize(("estimator", "match"), REFUSED)
def test_parameters_that_are_refused(estimator, match):
    X, Y = make()
    with pytest.raises(ValueError, match=match):
        clone(estimator).fit(X, Y)


@pytest.mark.parametrize(("estimator", "match"), [
    (clf(hessian="exact", leaf_labels=1), "requires split='full'"),
    (clf(hessian="exact", tree_per_output=True), "requires split='full'"),
    (clf(hessian="exact", monotone_constraints=[1, 0, 0, 0]), "requires split='full'"),
    (clf(hessian="exact", loss="logistic"), "hessian across outputs. Got loss='logistic'"),
    (clf(loss="mse"), "must be one of {.*}.* or a callable. Got 'mse'"),
])  # fmt: skip
def test_parameters_that_classifiers_refuse(estimator, match):
    X, Y = make()
    with pytest.raises(ValueError, match=match):
        clone(estimator).fit(X, classes_of(Y))


def test_exact_hessians_have_limits():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(330, 2))
    with pytest.raises(ValueError, match=r"at most 32 outputs. Got 33 instead"):
        clf(hessian="exact", split="full").fit(X, np.arange(330) % 33)
    X, Y = make()
    with pytest.raises(ValueError, match="requires one sample_weight per row"):
        clf(hessian="exact").fit(X, classes_of(Y), sample_weight=np.ones((160, 3)))
    with pytest.raises(ValueError, match="requires one class per row"):
        clf(loss="softmax").fit(X, (Y > 0).astype(int))


def test_numbers_beyond_float32_are_refused_by_name():
    X, Y = make()
    with pytest.raises(ValueError, match="exceed the range of float32"):
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


@pytest.mark.parametrize("sketch", ["random-projection", "count-sketch", "top-outputs", "sampling"])
def test_sketched_gradients_learn(sketch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 5)).astype(np.float32)
    Y = np.tanh(X @ rng.normal(size=(5, 60)))
    est = reg(sketch=sketch, sketch_dim=8, n_trees=40).fit(X, Y, sample_weight=np.ones(600))
    assert est.score(X, Y) > 0.5
    same = reg(sketch=sketch, sketch_dim=8, n_trees=40).fit(X, Y, sample_weight=np.ones(600))
    same_trees(est, same)


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
    assert est.interrupted_ is False

    def interrupt(state):
        if state.tree == 3:
            raise KeyboardInterrupt

    with pytest.warns(UserWarning, match="interrupted; the model has the 3 rounds"):
        est = reg(n_trees=50, tree_per_output=True).fit(X, Y, callbacks=[interrupt])
    assert est.model_.n_trees == 9
    assert est.interrupted_ is True


def test_memory_is_estimated_and_refused_before_it_is_taken(monkeypatch):
    X, Y = make()
    found = reg().estimate_memory(X, Y)
    assert found.bins == 160 * 4
    assert found.scores == 8 * 160 * 3
    assert found.residuals == 160 * (4 * 3 + 2 * 4)
    monkeypatch.setattr("sparseleaf.memory.available_memory", lambda: 100)
    with pytest.raises(MemoryError, match="Use fewer rows or outputs"):
        reg().fit(X, Y)
