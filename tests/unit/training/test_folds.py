"""Bagged boosting: folds, held-out metrics, the automatic number of rounds, and what can be done with the model."""

import numpy as np
import pytest

from smalldata import saved_bytes
from sparseleaf import GBDTRanker, MultiGBDTClassifier, MultiGBDTRegressor, load
from sparseleaf.checkpoint import CheckpointError
from sparseleaf.objectives import ranking_objective
from sparseleaf.objectives.haste import CLASSES, RANKINGS
from sparseleaf.objectives.softmax import Softmax
from sparseleaf.objectives.targets import NO_CLASSES, NO_VALUES, DenseTargets
from sparseleaf.ranking import make_queries, mean_of, ndcg
from sparseleaf.training.auto import (
    AUTO_VALUES,
    BAGGED_ROWS,
    FEW_ROWS,
    MAX_ROUNDS,
    MIN_HELD_OUT,
    N_FOLDS,
    N_TREES,
    RANKER_VALUES,
    resolve,
)
from sparseleaf.training.cover import leaf_cover
from sparseleaf.training.folds import fold_of
from sparseleaf.training.rounds import n_rounds

QUICK = {"learning_rate": 0.4, "n_models": 4}


def make(n_rows=240, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 5)).astype(np.float32)
    Y = np.stack([X[:, 0] + X[:, 1] ** 2, np.sin(2 * X[:, 2]), X[:, 0] * X[:, 3]], 1)
    return X, (Y + 0.3 * rng.normal(size=Y.shape)).astype(np.float32)


def scores_by_model(estimator, X, n_models, n_rounds):
    """Scores of every bagged model after some rounds, from the trees of the average."""
    scorer, model = estimator.model_.scorer, estimator.model_
    first, weight = scorer.mix.n_forest_trees, scorer.mix.boosted_weight
    leaves = scorer.leaves(_rows(X))
    values = model.trees.leaf_values.reshape(-1, model.n_labels)
    scores = np.repeat(
        np.repeat(scorer.base_score[None], len(X), axis=0)[None].astype(np.float64), n_models, axis=0
    )
    for tree in range(n_rounds * n_models):
        scores[tree % n_models] += n_models * values[leaves[:, first + tree]] / weight
    return scores


def _rows(X):
    from sparseleaf.model import Rows

    return Rows(X, None, 1)


def out_of_fold(estimator, X, keys, n_models, n_rounds, seed=0):
    fold = fold_of(keys, N_FOLDS, seed)
    held = np.flatnonzero(fold < n_models)
    return held, scores_by_model(estimator, X, n_models, n_rounds)[fold[held], held]


def test_folds_are_balanced_and_independent_of_the_partition():
    whole = fold_of(np.arange(800), 8, seed=3)
    assert np.bincount(whole).tolist() == [100] * 8
    for begin in range(0, 800, 8):
        assert sorted(whole[begin : begin + 8]) == list(range(8))
    np.testing.assert_array_equal(fold_of(np.arange(313, 555), 8, seed=3), whole[313:555])
    assert (fold_of(np.arange(800), 8, seed=4) != whole).mean() > 0.5


@pytest.mark.parametrize("standardise", [False, True])
def test_the_held_out_loss_is_that_of_the_models_without_the_rows(standardise):
    X, Y = make()
    Y[:, 1] *= 10
    settings = {**QUICK, "advanced": {"standardise": standardise}}
    model = MultiGBDTRegressor(**settings).fit(X, Y)
    history = model.history_["held-out loss"]
    n_rounds = model.best_iteration_
    assert n_rounds == 1 + int(np.argmin(history))
    assert len(history) > n_rounds  # it stopped before the limit, because the loss rose
    assert model.model_.n_trees == 4 * n_rounds + model.model_.scorer.n_forest_trees
    weights = 1 / Y.var(axis=0) if standardise else np.ones(3)
    for used in (1, n_rounds):
        held, scores = out_of_fold(model, X, np.arange(len(X)), 4, used)
        loss = np.mean((scores - Y[held]) ** 2 * weights)
        assert history[used - 1] == pytest.approx(loss, rel=1e-4)


def test_the_held_out_loss_of_classes():
    X, Y = make()
    y = Y.argmax(axis=1)
    model = MultiGBDTClassifier(**QUICK).fit(X, y)
    held, scores = out_of_fold(model, X, np.arange(len(X)), 4, model.best_iteration_)
    probabilities = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    loss = -np.log(probabilities[np.arange(len(held)), y[held]]).mean()
    assert min(model.history_["held-out loss"]) == pytest.approx(loss, rel=1e-4)


def test_the_held_out_ndcg_is_that_of_the_models_without_the_queries():
    X, Y = make(600)
    grades = np.clip(np.round(Y[:, 0]), 0, 4).astype(int)
    query = np.repeat(np.arange(40), 15)
    grades[query == 7] = 0  # undefined: not counted
    ranker = GBDTRanker(**QUICK).fit(X, grades, qid=query)
    held, scores = out_of_fold(ranker, X, query, 4, ranker.best_iteration_)
    wanted = mean_of(ndcg(grades[held], scores[:, 0], query[held]))
    assert max(ranker.history_["held-out ndcg"]) == pytest.approx(wanted, rel=1e-5)


def test_bagged_models_are_models_of_the_rows_outside_their_fold():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 6, (400, 3)).astype(np.float32)  # few values, so that all folds have the same bins
    Y = np.stack([X[:, 0] * X[:, 1], X[:, 2] - X[:, 0]], 1) + rng.normal(size=(400, 2))
    settings = {"n_trees": 3, "learning_rate": 1.0, "l2": 0.0, "min_samples_leaf": 5}
    bagged = MultiGBDTRegressor(n_models=2, **settings).fit(X, Y)
    fold = fold_of(np.arange(400), N_FOLDS, 0)
    # without l2 and shrinkage, leaf values do not depend on the base score, which is that of all rows
    alone = [MultiGBDTRegressor(**settings).fit(X[fold != k], Y[fold != k]).predict(X) for k in range(2)]
    np.testing.assert_allclose(bagged.predict(X), np.mean(alone, axis=0), rtol=1e-3, atol=1e-3)
    assert not bagged.history_


@pytest.mark.parametrize("n_models", [1, 3, 4])
def test_the_same_bytes_for_any_number_of_threads_and_after_a_resumption(n_models, tmp_path):
    X, Y = make()
    settings = {"learning_rate": 0.4, "n_models": n_models}
    wanted = saved_bytes(MultiGBDTRegressor(n_jobs=1, **settings).fit(X, Y), tmp_path)
    assert saved_bytes(MultiGBDTRegressor(n_jobs=2, **settings).fit(X, Y), tmp_path) == wanted

    def stop(state):
        return state.tree == 4

    path = tmp_path / "run.ckpt"
    MultiGBDTRegressor(**settings).fit(X, Y, checkpoint=path, checkpoint_every=2, callbacks=[stop])
    resumed = MultiGBDTRegressor(n_jobs=1, **settings).fit(X, Y, checkpoint=path)
    assert saved_bytes(resumed, tmp_path) == wanted


def test_what_a_bagged_model_supports(tmp_path):
    X, Y = make()
    model = MultiGBDTRegressor(**QUICK).fit(X, Y, eval_set=(X, Y))
    stages = list(model.staged_predict(X))
    assert len(stages) == model.best_iteration_
    np.testing.assert_array_equal(stages[-1], model.predict(X))
    mse = [np.mean((stage - Y) ** 2) for stage in stages]
    assert model.history_["valid loss"][len(stages) - 1] == pytest.approx(mse[-1], rel=1e-4)
    model.save(tmp_path / "m.safetensors")
    again = load(tmp_path / "m.safetensors")
    assert again.best_iteration_ == model.best_iteration_
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    more = MultiGBDTRegressor(n_trees=5).fit(X, Y, init_model=model)
    assert more.model_.n_trees == model.model_.n_trees + 5
    assert more.score(X, Y) > model.score(X, Y)
    new_X, new_Y = make(seed=1)
    for how in ("trees", "leaves"):
        updated = load(tmp_path / "m.safetensors").update(new_X, new_Y, how=how)
        assert updated.score(new_X, new_Y) > model.score(new_X, new_Y)


def test_refreshed_leaves_of_bagged_models_are_averages():
    X, Y = make()
    model = MultiGBDTRegressor(**QUICK).fit(X, Y)
    before = model.predict(X)
    model.update(X, Y, how="leaves", forget=0.5)
    # steps of all models in a round are taken together: without the division they would be four times too long
    assert np.abs(model.predict(X) - before).max() < 0.5 * np.abs(Y).max()
    assert model.score(X, Y) > 0.5


def test_early_stopping_on_a_validation_set_replaces_held_out_rows():
    X, Y = make()
    model = MultiGBDTRegressor(learning_rate=0.4, n_models=1, early_stopping_rounds=3)
    model.fit(X[:160], Y[:160], eval_set=(X[160:], Y[160:]))
    assert list(model.history_) == ["valid loss"]
    assert len(model.history_["valid loss"]) == model.best_iteration_ + 3


def test_standardised_splits_do_not_depend_on_the_scale_of_an_output():
    X, Y = make()
    for split in ("full", "sketch"):
        advanced = {"standardise": True, "split": split, "sketch_dim": 2}
        trees = [
            MultiGBDTRegressor(n_trees=4, advanced=advanced).fit(X, Y * [1, scale, 1]).model_.trees
            for scale in (1, 1024)
        ]
        np.testing.assert_array_equal(trees[0].feature, trees[1].feature)
        np.testing.assert_array_equal(trees[0].threshold, trees[1].threshold)
    plain = MultiGBDTRegressor(n_trees=4).fit(X, Y * [1, 1024, 1]).model_.trees
    assert len(plain.feature) != len(trees[0].feature) or (plain.feature != trees[0].feature).any()


def test_an_explicit_number_of_trees_has_the_defaults_of_one_model():
    X, Y = make()
    settings = MultiGBDTRegressor(n_trees=7)._settings()
    params, bagging = resolve(settings, AUTO_VALUES, 100, 3, continues=False, constant_hessian=True)
    assert (bagging.n_models, bagging.n_folds, bagging.stops) == (1, 0, False)
    explicit = {"subsample": 1.0, "min_samples_leaf": 20, "max_leaves": 31, "n_models": 1}
    assert {name: getattr(params, name) for name in explicit} == explicit
    models = [MultiGBDTRegressor(n_trees=7, **others).fit(X, Y) for others in ({}, explicit)]
    np.testing.assert_array_equal(models[0].predict(X), models[1].predict(X))
    assert not models[0].history_


def test_models_are_bagged_up_to_some_rows_only():
    settings = MultiGBDTRegressor()._settings()
    squared = {"continues": False, "constant_hessian": True}
    few, few_bagging = resolve(settings, AUTO_VALUES, BAGGED_ROWS, 3, **squared)
    many, many_bagging = resolve(settings, AUTO_VALUES, BAGGED_ROWS + 1, 3, **squared)
    assert (few_bagging.n_models, many_bagging.n_models) == (N_FOLDS, 1)
    assert few_bagging.stops
    assert many_bagging.stops
    assert (few.split, many.split) == ("sketch", "auto")
    assert many.n_trees == 250
    softmax = {"continues": False, "constant_hessian": False}
    assert resolve(settings, AUTO_VALUES, 100, 3, **softmax)[0].split == "auto"


@pytest.mark.parametrize(("haste", "values"), [(CLASSES, AUTO_VALUES), (RANKINGS, RANKER_VALUES)])
def test_many_rows_of_classes_and_rankings_are_trained_in_haste(haste, values):
    def decided(n_rows, haste, **params):
        settings = MultiGBDTClassifier(**params)._settings()
        options = {"continues": False, "constant_hessian": False, "mixes": True, "haste": haste}
        found, bagging = resolve(settings, values, n_rows, 3, **options)
        return bagging.n_models, found.n_trees, found.learning_rate, bagging.hurries

    slow = (N_FOLDS, MAX_ROUNDS, 0.1, False)
    fast = (N_FOLDS, haste.max_rounds, values["learning_rate"].hasty, True)
    assert decided(FEW_ROWS, haste) == slow
    assert decided(FEW_ROWS + 1, haste) == decided(BAGGED_ROWS, haste) == fast
    assert decided(BAGGED_ROWS, None) == slow
    assert decided(BAGGED_ROWS + 1, haste) == (1, 250, 0.1, False)
    # small steps take their time, and so does a validation set of the user
    assert decided(BAGGED_ROWS, haste, learning_rate=0.05) == (*slow[:2], 0.05, False)
    assert decided(BAGGED_ROWS, haste, early_stopping_rounds=5) == slow
    assert decided(BAGGED_ROWS, haste, n_models=2) == (2, *fast[1:])
    assert decided(BAGGED_ROWS, haste, n_trees=50) == (1, 50, 0.1, False)


def test_models_in_haste_have_a_short_patience():
    random = np.random.default_rng(3)
    X = random.random((FEW_ROWS + 200, 5)).astype(np.float32)
    y = (X[:, 0] + random.normal(0, 0.3, len(X)) > 0.5).astype(int)
    hasty = MultiGBDTClassifier().fit(X, y)
    slow = MultiGBDTClassifier(learning_rate=0.3).fit(X, y)
    waited = [len(one.history_["held-out loss"]) - one.best_iteration_ for one in (hasty, slow)]
    # from the last improvement that is large enough; the best round may be a later one
    assert 0 < waited[0] <= Softmax.haste.patience < waited[1] <= Softmax.held_out_patience
    assert hasty.model_.parameters["learning_rate"] == 0.3


@pytest.mark.parametrize("n_rows", [1, 2, 3, 9])
def test_very_few_rows(n_rows):
    X, Y = make(9)
    assert np.isfinite(MultiGBDTRegressor().fit(X[:n_rows], Y[:n_rows]).predict(X)).all()


def test_continued_training_needs_one_model():
    X, Y = make()
    model = MultiGBDTRegressor(warm_start=True).fit(X, Y)
    assert model.model_.n_trees == 100
    with pytest.raises(ValueError, match=r"requires n_models=1 or 'auto'. Got n_models=4 instead"):
        MultiGBDTRegressor(n_models=4).fit(X, Y, init_model=model)


@pytest.mark.parametrize(
    ("n_rows", "n_queries"), [(60, 1), (60, 4), (BAGGED_ROWS + 40, 1), (BAGGED_ROWS + 40, 20)]
)
def test_too_few_held_out_queries_determine_nothing(n_rows, n_queries):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 2)).astype(np.float32)
    grades, qid = np.digitize(X[:, 0], [0, 1]), np.arange(n_rows) * n_queries // n_rows
    ranker = GBDTRanker(max_leaves=4, random_state=0).fit(X, grades, qid=qid)
    assert ranker.best_iteration_ == N_TREES
    assert not ranker.history_
    assert mean_of(ndcg(grades, ranker.predict(X), qid)) > 0.95


def test_queries_without_relevant_documents_are_not_counted():
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(200, 2)).astype(np.float32), np.arange(200) // 10
    grades = np.where(qid < MIN_HELD_OUT - 1, np.digitize(X[:, 0], [0, 1]), 0)
    assert not GBDTRanker().fit(X, grades, qid=qid).history_
    grades = np.where(qid < MIN_HELD_OUT, np.digitize(X[:, 0], [0, 1]), 0)
    grades[qid == MIN_HELD_OUT - 1] = np.arange(10)
    assert GBDTRanker().fit(X, grades, qid=qid).history_


def test_held_out_ndcg_does_not_depend_on_the_order_of_documents():
    rng = np.random.default_rng(1)
    qid, grades = np.repeat(np.arange(6), 5), rng.integers(0, 3, 30)
    scores = rng.integers(0, 2, 30).astype(np.float32)  # ties
    found = []
    for order in (np.arange(30), np.lexsort((grades, qid)), np.lexsort((-grades, qid))):
        loss = ranking_objective("lambdamart")(make_queries(30, qid[order]))
        targets = DenseTargets(grades[order][:, None].astype(np.float32), NO_CLASSES, NO_VALUES, 1)
        found.append(loss.held_out_parts(targets, scores[order][:, None], np.arange(30), None))
    for values, weights in found:
        np.testing.assert_allclose(values, np.nan_to_num(ndcg(grades, scores, qid)))
        np.testing.assert_array_equal(weights, ~np.isnan(ndcg(grades, scores, qid)))


def test_documents_that_are_sorted_by_grade_do_not_end_training():
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(1_000, 6)), np.repeat(np.arange(20), 50)
    grades = np.digitize(X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=1_000), [0.5, 1.5])
    best = np.lexsort((-grades, qid))
    ranker = GBDTRanker(random_state=0, n_jobs=1).fit(X[best], grades[best], qid=qid[best])
    assert ranker.best_iteration_ > 10


def test_a_loss_of_which_only_gradients_are_known_has_a_fixed_number_of_rounds():
    X, Y = make()
    model = MultiGBDTRegressor(loss=lambda y, z: (np.sign(z - y), np.ones_like(z))).fit(X, Y)
    assert (model.best_iteration_, model.model_.n_trees) == (N_TREES, N_TREES)
    assert not model.history_


@pytest.mark.parametrize("how", ["fit", "update"])
@pytest.mark.parametrize("separate", [False, True])
def test_a_model_that_continues_bagged_ones_knows_which_trees_are_theirs(how, separate, tmp_path):
    X, Y = make()
    advanced = {"tree_per_output": separate}
    bagged = MultiGBDTRegressor(**QUICK, random_state=0, advanced=advanced).fit(X, Y)
    rounds, n_bagged = bagged.best_iteration_, bagged.model_.n_trees - bagged.model_.scorer.n_forest_trees
    if how == "fit":
        params = {"n_trees": 3, "learning_rate": 0.4, "advanced": advanced}
        more = MultiGBDTRegressor(**params, random_state=0).fit(X, Y, init_model=bagged)
    else:
        bagged.save(tmp_path / "bagged")
        more = load(tmp_path / "bagged").update(X, Y, how="trees", n_trees=3)
    assert n_rounds(more.model_) == more.best_iteration_ == rounds + 3
    assert (more.model_.scorer.mix.n_models, more.model_.scorer.mix.n_continued_trees) == (4, n_bagged)
    stages, before = list(more.staged_predict(X)), list(bagged.staged_predict(X))
    assert len(stages) == rounds + 3
    np.testing.assert_array_equal(stages[:rounds], before)
    np.testing.assert_array_equal(stages[-1], more.predict(X))
    more.save(tmp_path / "more")
    again = load(tmp_path / "more")
    assert again.model_.scorer.mix == more.model_.scorer.mix
    np.testing.assert_array_equal(list(again.staged_predict(X)), stages)
    onwards = MultiGBDTRegressor(n_trees=2, advanced=advanced).fit(X, Y, init_model=again)
    assert onwards.best_iteration_ == rounds + 5


def test_refreshed_leaves_of_a_continued_model():
    """Bagged trees are refreshed as without the others, and these by the residuals of all trees before them."""
    X, Y = make()
    new_X, new_Y = make(60, seed=1)
    new_Y = new_Y + 1
    bagged = MultiGBDTRegressor(**QUICK, random_state=0).fit(X, Y)
    n_before, rate = bagged.model_.n_trees, 0.25
    more = MultiGBDTRegressor(n_trees=1, l2=0.0, learning_rate=rate).fit(X, Y, init_model=bagged)
    # the same learning rate and l2, which are those of the model that is refreshed
    bagged.model_.parameters.update(learning_rate=rate, l2=0.0)
    old = more.model_.trees.leaf_values.reshape(-1, 3)
    more.update(new_X, new_Y, how="leaves")
    bagged.update(new_X, new_Y, how="leaves")
    values, before = (one.model_.trees.leaf_values.reshape(-1, 3) for one in (more, bagged))
    np.testing.assert_allclose(values[: len(before)], before, rtol=1e-5, atol=1e-6)
    residuals = new_Y - bagged.predict(new_X)
    leaves = more.model_.scorer.leaves(_rows(new_X))[:, n_before]
    cover = leaf_cover(more.model_.trees, 300)
    for leaf in np.unique(leaves):
        rows = leaves == leaf
        weight = rows.sum() / np.rint(cover[leaf])  # of old and new rows
        expected = old[leaf] + weight * (rate * residuals[rows].mean(axis=0) - old[leaf])
        np.testing.assert_allclose(values[leaf], expected, atol=1e-4)


def test_a_warm_start_counts_rounds():
    X, Y = make()
    model = MultiGBDTRegressor(**QUICK, random_state=0).fit(X, Y)
    rounds = model.best_iteration_
    model.set_params(warm_start=True, n_models=1, n_trees=rounds + 4).fit(X, Y)
    assert model.best_iteration_ == rounds + 4
    with pytest.raises(ValueError, match=f"at least the {rounds + 4} rounds of the fitted model"):
        model.set_params(n_trees=rounds).fit(X, Y)


@pytest.mark.parametrize("changed", [{"n_trees": 100}, {"early_stopping_rounds": 5}])
def test_a_checkpoint_is_of_automatic_or_of_chosen_parameters(changed, tmp_path):
    X, Y = make()
    path, rows = tmp_path / "run.ckpt", {"eval_set": (X, Y)}
    MultiGBDTRegressor(learning_rate=1.0, n_jobs=1, **changed).fit(X, Y, checkpoint=path, **rows)
    with pytest.raises(CheckpointError, match="expected automatic parameters 'n_models=8"):
        MultiGBDTRegressor(learning_rate=1.0, n_jobs=1).fit(X, Y, checkpoint=path, **rows)
    path.unlink()
    MultiGBDTRegressor(learning_rate=1.0, n_jobs=1).fit(X, Y, checkpoint=path, **rows)
    with pytest.raises(CheckpointError, match="expected automatic parameters"):
        MultiGBDTRegressor(learning_rate=1.0, n_jobs=1, **changed).fit(X, Y, checkpoint=path, **rows)


def test_drift_is_not_measured_against_the_held_out_loss():
    X, Y = make()
    Y = Y * [100, 50, 1]  # the held-out loss has the variances divided out
    new_X, new_Y = make(60, seed=1)
    new_Y = new_Y * [100, 50, 1]
    plain = MultiGBDTRegressor(**QUICK).fit(X, Y).update(new_X, new_Y, how="leaves")
    assert np.isnan(plain.drift_.expected_value)
    assert not plain.drift_.reasons
    model = MultiGBDTRegressor(**QUICK).fit(X, Y, eval_set=(new_X, new_Y))
    at_best = model.history_["valid loss"][model.best_iteration_ - 1]
    assert model.update(new_X, new_Y, how="leaves").drift_.expected_value == at_best


def test_rounds_go_on_from_those_of_bagged_models(monkeypatch):
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(100, 3)), np.arange(100) // 10
    grades = np.digitize(X[:, 0], [0, 1])
    bagged = GBDTRanker(loss="gbrank", n_trees=3, n_models=4).fit(X, grades, qid=qid)
    loss = ranking_objective("gbrank")
    rounds, at = [], loss.at
    monkeypatch.setattr(loss, "at", lambda self, number: rounds.append(number) or at(self, number))
    GBDTRanker(loss="gbrank", n_trees=2).fit(X, grades, qid=qid, init_model=bagged)
    assert sorted(set(rounds)) == [3, 4]


def test_a_checkpoint_of_many_rows_with_early_stopping_has_automatic_parameters(tmp_path):
    X, Y = make(BAGGED_ROWS + 1)
    path, rows = tmp_path / "run.ckpt", {"eval_set": (X[:100], Y[:100])}
    params = {"max_leaves": 2, "n_jobs": 1}
    MultiGBDTRegressor(early_stopping_rounds=1, learning_rate=1.0, **params).fit(
        X, Y, checkpoint=path, **rows
    )
    with pytest.raises(CheckpointError, match="expected automatic parameters None, got 'n_models=1"):
        MultiGBDTRegressor(n_trees=3, learning_rate=1.0, **params).fit(X, Y, checkpoint=path, **rows)


@pytest.mark.parametrize("how", ["fit", "update"])
def test_the_history_of_a_continued_model_is_that_of_its_rounds(how):
    X, Y = make()
    new_X, new_Y = make(60, seed=1)
    valid = {"eval_set": (new_X, new_Y)}
    params = {"n_trees": 40, "learning_rate": 1.0, "early_stopping_rounds": 5, "max_leaves": 31}
    model = MultiGBDTRegressor(**params).fit(X, Y, **valid)
    best, values = model.best_iteration_, model.history_["valid loss"]
    assert len(values) > best
    if how == "fit":
        more = MultiGBDTRegressor(n_trees=2, learning_rate=0.1).fit(X, Y, init_model=model, **valid)
        assert len(more.history_["valid loss"]) == more.best_iteration_ == best + 2
        at_best = np.mean((more.predict(new_X) - new_Y) ** 2)
        assert more.history_["valid loss"][-1] == pytest.approx(at_best, rel=1e-4)
    else:
        more = model.update(X, Y, how="trees", n_trees=2)
        assert more.history_["valid loss"] == values[:best]
    drift = more.update(new_X, new_Y, how="leaves").drift_
    assert drift.expected_value == more.history_["valid loss"][-1]
