"""The automatic choice between shared trees and trees of every output."""

import math

import numpy as np
import pytest

from smalldata import saved_bytes
from sparseleaf import MultiGBDTClassifier, MultiGBDTRegressor, load
from sparseleaf.callbacks import EarlyStopping
from sparseleaf.training import sharing
from sparseleaf.training.auto import AUTO_VALUES, BAGGED_ROWS, FEW_TARGETS, MAX_SEPARATE, resolve

QUICK = {"learning_rate": 0.4, "n_models": 2, "n_jobs": 1}


def make(*, related, n_rows=1_000, seed=0):
    """Three outputs: related ones are multiples of a function, unrelated ones depend on different features."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 9)).astype(np.float32)
    parts = [np.sin(2 * X[:, 3 * j]) + X[:, 3 * j] * X[:, 3 * j + 1] for j in range(3)]
    Y = np.outer(parts[0], [1, -2, 3]) if related else np.stack(parts, axis=1)
    return X, (Y + 0.1 * rng.normal(size=Y.shape)).astype(np.float32)


def separate(fitted):
    """Whether every output has trees of its own, as stored in the model."""
    return fitted.model_.parameters["tree_per_output"] is True


@pytest.mark.parametrize("related", [True, False])
@pytest.mark.parametrize("loss", ["mse", "huber"])
def test_related_outputs_share_trees_and_others_do_not(related, loss):
    X, Y = make(related=related)
    auto, *fixed = (
        MultiGBDTRegressor(**QUICK, loss=loss, advanced={"tree_per_output": value}).fit(X, Y)
        for value in ("auto", not related, related)
    )
    assert separate(auto) is not related
    per_leaf = np.diff(auto.model_.trees.leaf_indptr).max()
    assert per_leaf == (3 if related else 1)
    test_X, test_Y = make(related=related, seed=1)
    errors = [np.mean((one.predict(test_X) - test_Y) ** 2) for one in (auto, *fixed)]
    assert errors[0] == errors[1] < errors[2]


def test_the_decision_by_hand():
    shared, alone = np.array([3.0, 4.0, 2.0, 6.0]), np.array([1.0, 1.0, 1.5, 2.0])
    # differences 2, 3, 0.5, 4: mean 2.375, standard deviation 1.493, standard error 0.747
    assert (shared - alone).mean() / ((shared - alone).std(ddof=1) / 2) == pytest.approx(3.18, abs=0.01)
    assert sharing.prefers_separate_trees(shared, alone)
    assert not sharing.prefers_separate_trees(alone, shared)
    assert not sharing.prefers_separate_trees(shared, shared)
    assert not sharing.prefers_separate_trees(shared[:1], alone[:1])
    assert not sharing.prefers_separate_trees(shared[:0], alone[:0])


def test_the_decision_does_not_depend_on_the_order_of_the_rows(monkeypatch):
    rng = np.random.default_rng(0)
    shared, alone = 1e3 * rng.exponential(size=(2, 500)) ** 3
    lower = shared - alone
    mean = math.fsum(lower) / 500
    border = mean / math.sqrt(math.fsum((lower - mean) ** 2) / 499 / 500)
    for threshold, wanted in ((np.nextafter(border, -9), True), (np.nextafter(border, 9), False)):
        monkeypatch.setattr(sharing, "STANDARD_ERRORS", threshold)
        orders = [rng.permutation(500) for _ in range(20)]
        assert {sharing.prefers_separate_trees(shared[order], alone[order]) for order in orders} == {wanted}


def test_losses_of_the_compared_model_are_those_of_its_best_round():
    values = [5.0, 4.0, 3.0, 3.5, *[3.2] * sharing.PATIENCE]
    grown = []

    class Growth:
        def replay(self, trees):
            assert list(trees) == []

        def next(self):
            grown.append(len(grown))
            n_rounds, rest = divmod(len(grown), 2)
            metrics = {} if rest else {"loss": values[n_rounds - 1]}
            return [type("Grown", (), {"metrics": metrics})()]

        def held_out_losses(self):
            return np.array([values[len(grown) // 2 - 1]])

    assert sharing.held_out_losses(Growth()) == [3.0]
    stops = EarlyStopping("", sharing.PATIENCE, higher_is_better=False, min_improvement=0.005)
    assert len(grown) == 2 * stops.stops_at(values)


def test_what_is_compared():
    settings = MultiGBDTRegressor()._settings()

    def compares(n_rows, n_outputs, settings=settings, *, continues=False, constant_hessian=True):
        params, bagging = resolve(
            settings,
            AUTO_VALUES,
            n_rows,
            n_outputs,
            continues=continues,
            constant_hessian=constant_hessian,
            mixes=True,
        )
        assert params.tree_per_output is False  # until it has been compared
        return bagging.compares_sharing

    assert compares(1_000, 2)
    assert compares(BAGGED_ROWS, FEW_TARGETS // BAGGED_ROWS)
    assert compares(1_000, MAX_SEPARATE)
    assert not compares(1_000, MAX_SEPARATE + 1)
    assert not compares(BAGGED_ROWS, FEW_TARGETS // BAGGED_ROWS + 1)
    assert not compares(BAGGED_ROWS + 1, 2)
    assert not compares(1_000, 1)
    assert not compares(1_000, 2, continues=True)
    assert not compares(1_000, 2, constant_hessian=False)
    for changed in (
        {"n_trees": 10},
        {"n_models": 1},
        {"early_stopping_rounds": 5},
        {"leaf_labels": 1},
        {"monotone_constraints": [1]},
        {"advanced": {"tree_per_output": False}},
        {"advanced": {"split": "full"}},
    ):
        assert not compares(1_000, 2, MultiGBDTRegressor(**changed)._settings())


def test_classes_share_trees():
    X, Y = make(related=False)
    fitted = MultiGBDTClassifier(**QUICK).fit(X, (Y > 0).astype(int))
    assert not separate(fitted)


def test_a_checkpoint_resumes_with_the_same_decision(tmp_path):
    X, Y = make(related=False)
    wanted = saved_bytes(MultiGBDTRegressor(**QUICK).fit(X, Y), tmp_path)
    place = {"checkpoint": tmp_path / "c", "checkpoint_every": 3}
    stopped = MultiGBDTRegressor(**QUICK).fit(X, Y, callbacks=[lambda state: state.tree == 7], **place)
    assert stopped.best_iteration_ <= 7
    resumed = MultiGBDTRegressor(**QUICK).fit(X, Y, **place)
    assert saved_bytes(resumed, tmp_path) == wanted


def test_continuing_takes_the_decision_of_the_model(tmp_path):
    X, Y = make(related=False)
    fitted = MultiGBDTRegressor(**QUICK).fit(X, Y)
    fitted.save(tmp_path / "m.safetensors")
    for before in (fitted, load(tmp_path / "m.safetensors")):
        more = MultiGBDTRegressor(n_trees=5).fit(X, Y, init_model=before)
        assert separate(more)
        assert more.model_.n_trees == fitted.model_.n_trees + 5 * 3
    with pytest.raises(ValueError, match=r"requires tree_per_output=True, as in the model. Got False"):
        MultiGBDTRegressor(advanced={"tree_per_output": False}).fit(X, Y, init_model=fitted)
    updated = fitted.update(X[:50], Y[:50], n_trees=2)
    assert updated.model_.n_trees > 0
    assert separate(updated)


def test_threads_unknown_targets_and_weights(tmp_path):
    X, Y = make(related=False)
    Y[::9, 1] = np.nan
    weights = np.linspace(0.5, 2, len(X))
    files = {
        saved_bytes(MultiGBDTRegressor(**QUICK | {"n_jobs": n}).fit(X, Y, sample_weight=weights), tmp_path)
        for n in (1, 3)
    }
    assert len(files) == 1


def test_a_few_rows():
    X, Y = make(related=False, n_rows=3)
    assert not separate(MultiGBDTRegressor(**QUICK).fit(X, Y))


@pytest.mark.parametrize(("n_rows", "larger"), [(300, "alone"), (1_000, "shared")])
def test_memory_is_that_of_the_larger_kind(n_rows, larger):
    X, Y = make(related=True, n_rows=n_rows)
    auto, shared, alone = (
        MultiGBDTRegressor(advanced={"tree_per_output": value}).estimate_memory(X, Y)
        for value in ("auto", False, True)
    )
    assert auto == (alone if larger == "alone" else shared)
    assert auto.total == max(shared.total, alone.total)
