"""The forest beside bagged boosted models: its trees, the mixing weights, and where there is none."""

from dataclasses import replace

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from scipy.optimize import nnls

from smalldata import saved_bytes
from sparseleaf import GBDTRanker, ModelFileError, MultiGBDTClassifier, MultiGBDTRegressor, load
from sparseleaf.model import Rows
from sparseleaf.objectives import dense_objective
from sparseleaf.objectives.mixing import BestRatio, HeldOut, LowestLoss
from sparseleaf.objectives.targets import NO_CLASSES, NO_VALUES, DenseTargets
from sparseleaf.training import fold_forest
from sparseleaf.training.auto import AUTO_VALUES, FEW_TARGETS, FOREST_TREES, N_FOLDS, resolve
from sparseleaf.training.fold_forest import FoldSamples
from sparseleaf.training.folds import fold_of

QUICK = {"learning_rate": 0.4, "n_jobs": 1}


def make(n_rows=300, seed=0):
    """Many weak features, for which a forest helps."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 12)).astype(np.float32)
    Y = X[:, :8] @ rng.normal(size=(8, 3)) + 3 * rng.normal(size=(n_rows, 3))
    return X, Y.astype(np.float32)


def values_by_tree(model, X):
    """Values of the leaf of every row in every tree, (n_trees, n_rows, n_outputs)."""
    leaves = model.scorer.leaves(Rows(X, None, 1))
    return model.trees.leaf_values.reshape(-1, model.n_labels).astype(np.float64)[leaves.T]


def unweighted(fitted, X):
    """Scores of the boosted models and the forest by the trees that left out the row, without weights."""
    model, mix = fitted.model_, fitted.model_.scorer.mix
    values, fold = values_by_tree(model, X), fold_of(np.arange(len(X)), N_FOLDS, 0)
    forest, boosted = np.split(values, [mix.n_forest_trees])
    rows = np.arange(len(X))
    by_model = np.stack([boosted[k::N_FOLDS].sum(axis=0) for k in range(N_FOLDS)])
    by_fold = np.stack([forest[k::N_FOLDS].mean(axis=0) for k in range(N_FOLDS)])
    return (
        N_FOLDS * by_model[fold, rows] / mix.boosted_weight,
        mix.n_forest_trees * by_fold[fold, rows] / mix.forest_weight,
    )


def test_samples_leave_out_a_fold_each():
    fold = fold_of(np.arange(50), 8, 0)
    usable = np.delete(np.arange(50), [3, 4, 31])
    samples = FoldSamples(usable, fold, 8)
    for tree in range(16):
        rows, others = samples.rows(tree), samples.oob_rows(tree)
        assert (fold[others] == tree % 8).all()
        assert (fold[rows] != tree % 8).all()
        np.testing.assert_array_equal(np.sort(np.concatenate((rows, others))), usable)
    assert samples.enough
    assert not FoldSamples(usable[:15], fold, 8).enough  # few rows
    assert not FoldSamples(np.flatnonzero(fold == 2), fold, 8).enough
    assert not FoldSamples(usable[:0], fold, 8).enough


def test_leaves_of_the_forest_are_means_of_the_rows_outside_the_fold():
    X, Y = make()
    fitted = MultiGBDTRegressor(**QUICK).fit(X, Y)
    model, mix = fitted.model_, fitted.model_.scorer.mix
    assert mix.n_forest_trees == FOREST_TREES
    leaves, fold = model.scorer.leaves(Rows(X, None, 1)), fold_of(np.arange(len(X)), N_FOLDS, 0)
    values = values_by_tree(model, X) * FOREST_TREES / mix.forest_weight
    for tree in (0, 5, 41):
        inside = fold != tree % N_FOLDS
        for leaf in np.unique(leaves[inside, tree]):
            rows = np.flatnonzero(inside & (leaves[:, tree] == leaf))
            expected = Y[rows].mean(axis=0) - model.base_score
            np.testing.assert_allclose(values[tree, rows[0]], expected, atol=1e-4)


def test_weights_have_the_lowest_squared_error_of_rows_that_all_trees_left_out():
    X, Y = make()
    fitted = MultiGBDTRegressor(**QUICK).fit(X, Y)
    mix, scale = fitted.model_.scorer.mix, 1 / Y.std(axis=0)
    components = [(one * scale).ravel() for one in unweighted(fitted, X)]
    expected, _ = nnls(np.stack(components, 1), ((Y - fitted.model_.base_score) * scale).ravel())
    np.testing.assert_allclose([mix.boosted_weight, mix.forest_weight], expected, atol=0.01)


def test_weights_have_the_lowest_cross_entropy():
    X, Y = make()
    y = Y.argmax(axis=1)
    fitted = MultiGBDTClassifier(**QUICK).fit(X, y)
    mix = fitted.model_.scorer.mix
    assert mix.n_forest_trees
    boosted, forest = unweighted(fitted, X)

    def loss(a, b):
        scores = fitted.model_.base_score + a * boosted + b * forest
        return np.mean(np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(len(y)), y])

    lowest = min(loss(a, b) for a in np.linspace(0.125, 1.5, 56) for b in np.linspace(0, 4, 81))
    assert loss(mix.boosted_weight, mix.forest_weight) <= lowest + 1e-4
    assert loss(mix.boosted_weight, mix.forest_weight) < 0.995 * loss(1, 0)


def held_out(loss, y, boosted, forest):
    n, d = boosted.shape
    classes = y if loss == "softmax" else NO_CLASSES
    values = NO_VALUES if loss == "softmax" else y.astype(np.float32)
    targets = DenseTargets(values, classes, NO_VALUES, d)
    return HeldOut(
        dense_objective(loss), targets, np.arange(n), np.zeros(d, np.float32), boosted, forest, None
    )


@pytest.mark.parametrize("seed", range(5))
def test_weights_of_random_components(seed):
    rng = np.random.default_rng(seed)
    boosted, forest = rng.normal(size=(2, 400, 2))
    truth = rng.uniform(0.2, 2, 2)
    y = truth[0] * boosted + truth[1] * forest + 0.1 * rng.normal(size=boosted.shape)
    weights = LowestLoss().weights(held_out("mse", y, boosted, forest))
    np.testing.assert_allclose(weights, truth, atol=0.02)
    labels = (rng.random(y.shape) < 1 / (1 + np.exp(-y))).astype(np.float32)
    case = held_out("logistic", labels, boosted, forest)
    weights = LowestLoss().weights(case)
    near = [case.metric(weights + step) for step in 0.05 * np.array([[1, 0], [-1, 0], [0, 1], [0, -1]])]
    assert case.metric(weights) < min(near)


def test_no_weights_where_the_forest_does_not_help():
    rng = np.random.default_rng(0)
    boosted, other = rng.normal(size=(2, 400, 1))
    y = boosted + rng.normal(size=boosted.shape)
    assert LowestLoss().weights(held_out("mse", y, boosted, other)) is None
    assert LowestLoss().weights(held_out("mse", y, boosted, -boosted)) is None
    assert LowestLoss().weights(held_out("mse", y, boosted, np.zeros_like(boosted))) is None
    assert LowestLoss().weights(held_out("mse", boosted, boosted, other)) is None  # no loss to reduce
    assert BestRatio().weights(held_out("mse", y, boosted, np.zeros_like(boosted))) is None


def test_perfect_held_out_predictions_keep_weights_finite():
    y = np.repeat(np.arange(3), 40).astype(np.int32)
    scores = np.eye(3)[y]
    weights = LowestLoss().weights(held_out("softmax", y, scores, scores + 0.01))
    assert weights is not None
    assert (weights <= 4).all()


def make_queries(seed=0):
    """Grades of many noisy features in few queries: a forest of grades ranks better than LambdaMART."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(400, 40)).astype(np.float32)
    relevance = X[:, :20] @ rng.normal(size=20) + 4 * rng.normal(size=400)
    return X, np.digitize(relevance, np.quantile(relevance, (0.5, 0.75, 0.9))), np.repeat(np.arange(40), 10)


def test_rankings_have_a_forest_if_held_out_queries_are_ranked_better():
    X, grades, qid = make_queries()
    ranker = GBDTRanker(**QUICK, max_bins=15).fit(X, grades, qid=qid)
    mix = ranker.model_.scorer.mix
    assert mix.n_forest_trees == FOREST_TREES
    assert mix.boosted_weight == 1
    # leaves are centred at the score of a constant model, 0: they are mean grades
    values = values_by_tree(ranker.model_, X)[: mix.n_forest_trees] * FOREST_TREES / mix.forest_weight
    assert values.min() >= -1e-5
    assert values.max() <= 3 + 1e-5


@pytest.mark.parametrize("kind", ["regression", "classes", "labels", "ranking"])
@pytest.mark.slow
def test_the_same_bytes_for_threads_and_after_a_resumption(kind, tmp_path):
    X, Y = make()
    rows = {
        "X": X,
        "y": {"regression": Y, "classes": Y.argmax(axis=1), "labels": (Y > 0).astype(int)}.get(kind),
    }
    estimator = MultiGBDTRegressor if kind == "regression" else MultiGBDTClassifier
    if kind == "ranking":
        estimator, (X, grades, qid) = GBDTRanker, make_queries()
        rows = {"X": X, "y": grades, "qid": qid}

    def fit(n_jobs, **options):
        return estimator(learning_rate=0.4, max_bins=15, n_jobs=n_jobs).fit(**rows, **options)

    fitted = fit(1)
    assert fitted.model_.scorer.mix.n_forest_trees
    wanted = saved_bytes(fitted, tmp_path)
    assert saved_bytes(fit(3), tmp_path) == wanted
    path, last = tmp_path / "run.ckpt", len(next(iter(fitted.history_.values())))
    fit(1, checkpoint=path, checkpoint_every=50, callbacks=[lambda state: state.tree == last - 2])
    assert saved_bytes(fit(1, checkpoint=path), tmp_path) == wanted  # the best round is before the resumption
    assert saved_bytes(fit(2, checkpoint=path), tmp_path) == wanted  # complete


def test_an_interruption_while_the_forest_grows_keeps_the_boosted_models(tmp_path, monkeypatch):
    X, Y = make()
    path = tmp_path / "run.ckpt"
    wanted = saved_bytes(MultiGBDTRegressor(**QUICK).fit(X, Y), tmp_path)

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(fold_forest.FoldForest, "grow", interrupt)
        with pytest.warns(UserWarning, match="the model has the boosted trees only"):
            stopped = MultiGBDTRegressor(**QUICK).fit(X, Y, checkpoint=path)
    assert stopped.interrupted_
    assert stopped.model_.scorer.mix.n_forest_trees == 0
    assert stopped.model_.n_trees == N_FOLDS * stopped.best_iteration_
    again = MultiGBDTRegressor(**QUICK).fit(X, Y, checkpoint=path)
    assert not again.interrupted_
    assert saved_bytes(again, tmp_path) == wanted


def test_what_a_model_with_a_forest_supports(tmp_path):
    X, Y = make()
    valid_X, valid_Y = make(seed=0, n_rows=100)
    fitted = MultiGBDTRegressor(**QUICK).fit(X, Y, eval_set=(valid_X, valid_Y))
    mix, best = fitted.model_.scorer.mix, fitted.best_iteration_
    assert fitted.model_.n_trees == mix.n_forest_trees + N_FOLDS * best
    stages = list(fitted.staged_predict(X))
    assert len(stages) == best
    np.testing.assert_array_equal(stages[-1], fitted.predict(X))
    final = np.mean((fitted.predict(valid_X) - valid_Y) ** 2)
    assert fitted.history_["valid loss"][best - 1] == pytest.approx(final, rel=1e-4)
    values, expected = fitted.shap_values(X[:5])
    np.testing.assert_allclose(values.sum(axis=1) + expected, fitted.predict(X[:5]), atol=1e-3)
    fitted.save(tmp_path / "m.safetensors")
    again = load(tmp_path / "m.safetensors")
    assert again.model_.scorer.mix == mix
    assert again.best_iteration_ == best
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
    more = MultiGBDTRegressor(n_trees=5).fit(X, Y, init_model=fitted)
    assert more.model_.n_trees == fitted.model_.n_trees + 5
    rest = {"n_models": N_FOLDS, "n_continued_trees": N_FOLDS * best}
    assert more.model_.scorer.mix == replace(mix, **rest)
    assert more.best_iteration_ == best + 5


def test_the_forest_has_the_weights_of_the_queries(monkeypatch):
    monkeypatch.setattr(BestRatio, "min_improvement", -1.0)  # it is always kept
    rng = np.random.default_rng(0)
    X, qid, weights = rng.normal(size=(600, 5)), np.repeat(np.arange(30), 20), np.ones(30)
    weights[20:] = 0
    grades = np.digitize(X[:, 0] + rng.normal(size=600), [0, 1])
    others = np.concatenate((grades[:400], 2 - grades[400:]))  # of the queries of weight 0
    rankers = [
        GBDTRanker(**QUICK, max_bins=15, random_state=0).fit(X, y, qid=qid, sample_weight=weights)
        for y in (grades, others)
    ]
    assert all(one.model_.scorer.n_forest_trees for one in rankers)
    np.testing.assert_array_equal(rankers[0].predict(X), rankers[1].predict(X))


def test_refreshed_leaves_of_the_forest_are_means_of_old_and_new_rows():
    X, Y = make()
    fitted = MultiGBDTRegressor(**QUICK).fit(X, Y)
    model, mix = fitted.model_, fitted.model_.scorer.mix
    before, leaves = values_by_tree(model, X), model.scorer.leaves(Rows(X, None, 1))
    fitted.update(X, Y + 1, how="leaves", forget=0.5)
    after = values_by_tree(fitted.model_, X)
    for tree in (0, 17):
        for leaf in np.unique(leaves[:, tree])[:20]:
            rows = np.flatnonzero(leaves[:, tree] == leaf)
            mean = mix.forest_weight / FOREST_TREES * ((Y[rows] + 1).mean(axis=0) - model.base_score)
            change = after[tree, rows[0]] - before[tree, rows[0]]
            towards = mean - before[tree, rows[0]]
            used = np.abs(towards) > 1e-3
            assert ((change / towards)[used] > 0.3).all()
            assert ((change / towards)[used] <= 1 + 1e-3).all()
    # boosted models, which do not see the forest, take steps of their own length
    assert fitted.score(X, Y + 1) > 0.3


def test_a_shift_of_the_targets_shifts_predictions_by_a_refresh_and_by_more_trees():
    X, Y = make()
    for how in ("leaves", "trees"):
        fitted = MultiGBDTRegressor(**QUICK).fit(X, Y)
        wrong = fitted.score(X, Y + 3)
        assert fitted.update(X, Y + 3, how=how).score(X, Y + 3) > wrong


@pytest.mark.parametrize(
    "settings",
    [
        {"loss": "huber"},
        {"loss": "quantile:0.7"},
        {"loss": "absolute"},
        {"n_trees": 5},
        {"n_models": 1},
        {"leaf_labels": 2},
        {"monotone_constraints": [1] + [0] * 11},
        {"advanced": {"tree_per_output": True}},
    ],
)
def test_models_without_a_forest(settings):
    X, Y = make(80)
    fitted = MultiGBDTRegressor(**{**QUICK, **settings}).fit(X, Y)
    assert fitted.model_.scorer.mix.n_forest_trees == 0


def test_a_forest_is_grown_for_small_data_only():
    settings, loss = MultiGBDTRegressor()._settings(), {"constant_hessian": True, "mixes": True}

    def trees(n_rows, n_outputs, **others):
        options = {"continues": False, **loss, **others}
        return resolve(settings, AUTO_VALUES, n_rows, n_outputs, **options)[1].n_forest_trees

    assert trees(1_000, 10) == FOREST_TREES
    assert FOREST_TREES % N_FOLDS == 0
    assert trees(5_001, 1) == 0
    assert trees(1_000, FEW_TARGETS // 1_000 + 1) == 0
    assert trees(1_000, 10, continues=True) == 0
    assert trees(1_000, 10, mixes=False) == 0


def test_memory_of_the_forest_is_estimated():
    X, Y = make()
    shared = {"tree_per_output": False}
    auto, fixed = (
        MultiGBDTRegressor(n_trees=n, advanced=shared).estimate_memory(X, Y) for n in ("auto", 1_000)
    )
    assert auto.bins > fixed.bins
    assert auto.total > fixed.total


def test_weights_and_samples_do_not_count_rows_without_weight_or_target():
    X, Y = make()
    Y[::7, 1] = np.nan
    Y[5] = np.nan
    weights = np.ones(len(X))
    weights[10:20] = 0
    changed = Y.copy()
    changed[10:20] = 99
    models = [
        MultiGBDTRegressor(**QUICK, advanced={"standardise": False}).fit(X, y, sample_weight=weights)
        for y in (Y, changed)
    ]
    assert models[0].model_.scorer.mix.n_forest_trees
    np.testing.assert_array_equal(models[0].predict(X), models[1].predict(X))


@pytest.mark.parametrize(
    "numbers",
    [
        [96.0, 1.0],
        [0.0, 1.0, 1.0],
        [1.5, 1.0, 1.0],
        [1e9, 1.0, 1.0],
        [96.0, 0.0, 1.0],
        [96.0, 1.0, -1.0],
        [np.nan] * 3,
        [96.0, 1.0, 1.0, 8.0],
        [96.0, 1.0, 1.0, 1.0, 8.0],
        [96.0, 1.0, 1.0, 8.5, 8.0],
        [96.0, 1.0, 1.0, 8.0, 0.0],
        [96.0, 1.0, 1.0, 8.0, 1e9],
        [0.0, 1.0, 1.0, 8.0, 8.0],
        [0.0, 2.0, 0.0, 8.0, 8.0],
    ],
)
def test_wrong_weights_in_a_file_are_refused(numbers, tmp_path):
    X, Y = make(100)
    path = tmp_path / "m.safetensors"
    MultiGBDTRegressor(**QUICK).fit(X, Y).save(path)
    with safe_open(path, "numpy") as file:
        metadata = file.metadata()
    save_file(load_file(path) | {"trees.mix": np.array(numbers)}, path, metadata)
    with pytest.raises(ModelFileError, match="mix"):
        load(path)
