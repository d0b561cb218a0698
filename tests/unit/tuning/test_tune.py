"""``sparseleaf.tune``: the best trial, deterministic, resumed, pruned, interrupted."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import optuna
import pytest
import scipy.sparse as sp

import sparseleaf
from smalldata import saved_bytes
from sparseleaf import (
    BlendClassifier,
    GBDTRanker,
    MultiForestClassifier,
    MultiForestRegressor,
    MultiGBDTClassifier,
    MultiGBDTRegressor,
    TextVectorizer,
)
from sparseleaf.data import make_xc
from sparseleaf.estimators import ESTIMATORS
from sparseleaf.tuning import Choice, Range, candidates, refit, search, trials
from sparseleaf.tuning.candidates import make_candidates
from sparseleaf.tuning.halving import SuccessiveHalving
from sparseleaf.tuning.problem import Metric, make_problem
from sparseleaf.tuning.trials import Rung, TrialData, train_rung
from sparseleaf.tuning.validation import make_validation

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 4)).astype(np.float32)
Y = np.c_[X[:, 0] ** 2 + X[:, 1], np.sin(2 * X[:, 2])] + 0.1 * RNG.normal(size=(120, 2))
CLASSES = np.where(X[:, 0] > 0, "yes", "no")
XC = make_xc(150, 40, 8, labels_per_row=2, nnz_per_row=6, seed=1)
QUICK = {"n_jobs": 1, "cv": 2, "params": {"n_trees": 9}}


def tune(X=X, y=Y, **options):
    return sparseleaf.tune(X, y, **(QUICK | options))


def outline(result):
    """Everything that must be equal, but durations."""
    return [{name: value for name, value in trial.items() if name != "seconds"} for trial in result.trials]


def same_models(one, other, folder):
    return saved_bytes(one.best_estimator_, folder, "a") == saved_bytes(other.best_estimator_, folder, "b")


@pytest.fixture(scope="module")
def uninterrupted():
    return tune(n_trials=8)


def test_the_best_trial_is_refitted(uninterrupted, tmp_path):
    result = uninterrupted
    assert result.metric == "rmse"
    assert not result.higher_is_better
    assert {trial["method"] for trial in result.trials} == {"gbdt-mo", "multi-forest"}
    values = [trial["value"] for trial in result.trials if trial["state"] == "complete"]
    assert result.best_score == min(values) <= result.default_score == result.trials[0]["value"]
    assert len(result.trials) == 8
    assert {trial["state"] for trial in result.trials} == {"complete", "pruned"}
    kind = ESTIMATORS[result.best_method]["regression"]
    expected = kind.from_settings({"n_trees": 9, **result.best_params}).fit(X, Y)
    assert saved_bytes(result.best_estimator_, tmp_path, "a") == saved_bytes(expected, tmp_path, "b")


def test_the_first_trial_has_the_defaults():
    """Its score is that of cross-validation with the default parameters."""
    result = sparseleaf.tune(X, Y, n_trials=1, cv=3, metric="rmse", n_jobs=1)
    problem = make_problem(X, Y, None, None, "auto", None, None)
    errors = []
    for split in make_validation(problem, 3, 0).splits:
        model = MultiGBDTRegressor(n_jobs=1).fit(X[split.train], Y[split.train])
        errors.append(np.sqrt(np.mean((Y[split.valid] - model.predict(X[split.valid])) ** 2)))
    assert result.default_score == pytest.approx(np.mean(errors), rel=1e-5)
    assert result.best_params == {}


def test_equal_for_a_seed(uninterrupted, tmp_path):
    again = tune(n_trials=8, n_jobs=2)
    assert outline(again) == outline(uninterrupted)
    assert same_models(again, uninterrupted, tmp_path)
    assert outline(tune(n_trials=8, seed=1)) != outline(uninterrupted)


def test_a_resumed_study_equals_an_uninterrupted_one(uninterrupted, tmp_path):
    study = tmp_path / "study.db"
    tune(n_trials=3, study=study)
    assert len(tune(n_trials=6, study=study).trials) == 6
    resumed = tune(n_trials=8, study=study)
    assert outline(resumed) == outline(uninterrupted)
    assert same_models(resumed, uninterrupted, tmp_path)
    assert [path.name for path in tmp_path.iterdir() if "study" in path.name] == ["study.db"]
    assert outline(tune(n_trials=2, study=study)) == outline(uninterrupted)  # nothing to do


def test_ctrl_c_in_a_trial(uninterrupted, tmp_path, monkeypatch):
    """The best trial so far is refitted; the interrupted one is resumed from its trees by the next run."""
    study, calls = tmp_path / "study.db", 0
    plain = trials.Deadline.__call__

    def press(self, state):
        nonlocal calls
        calls += 1
        if calls == 80:
            raise KeyboardInterrupt
        return plain(self, state)

    monkeypatch.setattr(trials.Deadline, "__call__", press)
    stopped = tune(n_trials=8, study=study)
    assert stopped.interrupted
    assert 1 <= len(stopped.trials) < 8
    assert stopped.best_score == min(t["value"] for t in stopped.trials if t["state"] == "complete")
    assert stopped.best_estimator_.predict(X).shape == (120, 2)
    assert list((tmp_path / "study.db.trials").rglob("*.checkpoint"))
    monkeypatch.undo()
    resumed = tune(n_trials=8, study=study)
    assert not resumed.interrupted
    assert outline(resumed) == outline(uninterrupted)
    assert not (tmp_path / "study.db.trials").exists()


def test_ctrl_c_in_the_first_trial_has_no_result(monkeypatch):
    def press(self, state):
        raise KeyboardInterrupt

    monkeypatch.setattr(trials.Deadline, "__call__", press)
    with pytest.raises(KeyboardInterrupt):
        tune(n_trials=2)


def test_a_killed_process_is_resumed(uninterrupted, tmp_path):
    """Its running trial is trained again."""
    study = tmp_path / "study.db"
    tune(n_trials=3, study=study)
    killed = optuna.load_study(study_name="sparseleaf", storage=f"sqlite:///{study}")
    killed.ask()
    assert outline(tune(n_trials=8, study=study)) == outline(uninterrupted)


def test_timeout(tmp_path, uninterrupted, monkeypatch):
    """By a clock that advances by a second per tree."""
    now, plain = 0.0, trials.Deadline.__call__

    def grown(self, state):
        nonlocal now
        now += 1
        return plain(self, state)

    clock = SimpleNamespace(monotonic=lambda: now)
    monkeypatch.setattr(trials, "time", clock)
    monkeypatch.setattr(search, "time", clock)
    monkeypatch.setattr(trials.Deadline, "__call__", grown)
    study = tmp_path / "study.db"
    assert len(tune(n_trials=8, timeout=5, study=study).trials) == 1  # the first trial is never stopped
    assert now == 18
    stopped = tune(n_trials=8, timeout=30, study=study)
    assert not stopped.interrupted
    assert 1 < len(stopped.trials) < 8
    assert now <= 49
    resumed = tune(n_trials=8, study=study)
    assert outline(resumed) == outline(uninterrupted)


# --- rungs


@pytest.mark.parametrize(
    ("method", "rows"),
    [
        ("gbdt-mo", {"X": X, "y": Y}),
        ("gbdt-sparse", {"X": XC[0], "y": XC[1]}),
        ("forest", {"X": XC[0], "y": XC[1]}),
        ("ldsm", {"X": XC[0], "y": XC[1]}),
        ("multi-forest", {"X": X, "y": Y}),
        ("rank", {"X": X, "y": np.arange(120) % 4, "qid": np.arange(120) // 10}),
    ],
)
def test_rungs_give_the_models_of_training_in_one_go(method, rows, tmp_path, monkeypatch):
    """A trial that is trained rung by rung, from checkpoints, has the same models as one that is not."""
    problem = make_problem(rows["X"], rows["y"], rows.get("qid"), None, "auto", None, None)
    metric = Metric({"gbdt-mo": "rmse", "multi-forest": "rmse", "rank": "ndcg@5"}.get(method, "precision@1"))
    data = TrialData(problem, make_validation(problem, 2, 0), metric)
    kind = {
        "gbdt-mo": MultiGBDTRegressor,
        "gbdt-sparse": sparseleaf.SparseGBDTClassifier,
        "forest": sparseleaf.SketchForestClassifier,
        "ldsm": sparseleaf.LdSMClassifier,
        "multi-forest": MultiForestRegressor,
        "rank": GBDTRanker,
    }[method]
    models, grown = [], []
    plain = trials.fit

    def recorded(estimator, *arguments, **options):
        count = []
        options["callbacks"] = [*options["callbacks"], lambda state: bool(count.append(1))]
        plain(estimator, *arguments, **options)
        models.append(saved_bytes(estimator, tmp_path))
        grown.append(len(count))

    monkeypatch.setattr(trials, "fit", recorded)
    settings = {"random_state": 3}
    patience = 50 if method in ("gbdt-mo", "gbdt-sparse", "rank") else None
    for folder, steps in (("steps", (2, 4, 7)), ("once", (7,))):
        (tmp_path / folder).mkdir()
        results = [
            train_rung(data, Rung(kind, settings, step, patience, 1), tmp_path / folder, None)
            for step in steps
        ]
    assert models[4:6] == models[6:8]
    assert grown == [2, 2, 2, 2, 3, 3, 7, 7]  # no tree was grown twice
    assert results[-1].n_trees <= 7


@pytest.mark.parametrize("task", ["regression", "ranking"])
@pytest.mark.slow
def test_rungs_of_bagged_models_add_splits(task, tmp_path, monkeypatch):
    """A trial of bagged models is trained on more splits at every rung, on each of them once."""
    ranking = {"y": np.arange(120) % 4, "qid": np.arange(120) // 10, "metric": "ndcg@5"}
    rows = ranking if task == "ranking" else {"y": Y, "qid": None, "metric": "rmse"}
    problem = make_problem(X, rows["y"], rows["qid"], None, "auto", None, None)
    data = TrialData(problem, make_validation(problem, 4, 0), Metric(rows["metric"]))
    kinds = {"rank": GBDTRanker} if task == "ranking" else {"gbdt-mo": MultiGBDTRegressor}
    (candidate,) = make_candidates(kinds, problem, None, None, 0).values()
    assert candidate.bagged
    rungs = candidate.rungs({"max_leaves": 4}, 4, 1)
    assert [rung.n_splits for rung in rungs] == [1, 2, 4]
    fitted, plain = [], trials.fit

    def recorded(estimator, *arguments, **options):
        plain(estimator, *arguments, **options)
        fitted.append(estimator)

    monkeypatch.setattr(trials, "fit", recorded)
    values = ()
    for rung in rungs:
        result = train_rung(data, replace(rung, earlier=values), tmp_path, None)
        assert result.values[: len(values)] == values
        values = result.values
        assert result.value == np.mean(values)
        assert len(fitted) == len(values) == rung.n_splits
    # the values of the models that are fitted to the training rows of the splits
    for split, value in zip(data.validation.splits, values, strict=True):
        model = candidate.default_rung({"max_leaves": 4}, 1).estimator(data.metric)
        parts = [
            [part[numbers] for part in (X, problem.y, problem.qid) if part is not None]
            for numbers in (split.train, split.valid)
        ]
        names = {"qid": parts[0].pop()} if task == "ranking" else {}
        model.fit(*parts[0], eval_set=tuple(parts[1]), **names)
        assert model.history_[f"valid {rows['metric']}"][model.best_iteration_ - 1] == value


@pytest.mark.parametrize("params", [{"n_trees": 9}, {"n_models": 2}, {"early_stopping_rounds": 5}])
def test_a_number_of_trees_or_models_turns_bagged_trials_off(params):
    problem = make_problem(X, Y, None, None, "auto", None, None)
    candidate = make_candidates({"gbdt-mo": MultiGBDTRegressor}, problem, params, None, 0)["gbdt-mo"]
    assert not candidate.bagged
    assert [rung.n_splits for rung in candidate.rungs({}, 4, 1)] == [None] * 3


def test_early_stopping_of_the_user_gives_the_default_trial_a_number_of_trees():
    params = {"n_trees": 40, "early_stopping_rounds": 3, "learning_rate": 0.5}
    result = tune(method="gbdt-mo", params=params, n_trials=1, cv=2)
    assert result.best_params["n_trees"] == result.best_estimator_.best_iteration_ < 40
    assert result.best_score == result.default_score


def test_splits_with_few_rows_are_not_bagged_unless_all_rows_are(monkeypatch):
    monkeypatch.setattr(candidates, "BAGGED_ROWS", len(X) - 1)
    result = tune(method="gbdt-mo", n_trials=1, cv=2)
    assert result.best_estimator_.n_models == 1
    problem = make_problem(X, Y, None, None, "auto", None, None)
    kinds = {"gbdt-mo": MultiGBDTRegressor}
    assert make_candidates(kinds, problem, {"n_models": 3}, None, 0)["gbdt-mo"].params["n_models"] == 3
    assert "n_models" in make_candidates(kinds, problem, None, {"n_models": [1, 4]}, 0)["gbdt-mo"].space


def test_early_stopping_ends_a_trial(tmp_path):
    problem = make_problem(X, RNG.normal(size=120), None, None, "auto", None, None)
    data = TrialData(problem, make_validation(problem, 3, 0), Metric("rmse"))
    rung = Rung(MultiGBDTRegressor, {"min_samples_leaf": 1, "learning_rate": 1.0}, 200, 3, 1)
    result = train_rung(data, rung, tmp_path, None)
    assert result.stopped
    assert result.n_trees < 20
    # the best of the mean curve over the splits
    curves = []
    for split in data.validation.splits:
        valid = (X[split.valid], problem.y[split.valid])
        model = rung.estimator(data.metric)
        curves.append(
            model.fit(X[split.train], problem.y[split.train], eval_set=valid).history_["valid rmse"]
        )
    longest = max(map(len, curves))
    mean = np.mean([[*curve, *[curve[-1]] * (longest - len(curve))] for curve in curves], axis=0)
    assert (result.value, result.n_trees) == (mean.min(), mean.argmin() + 1)


def test_pruning_keeps_the_best_third():
    study = optuna.create_study(
        direction="maximize", pruner=SuccessiveHalving(), storage=optuna.storages.InMemoryStorage()
    )
    kept = []
    for number, value in enumerate([0.5, 0.4, 0.6, 0.55, 0.5, 0.58]):
        trial = study.ask()
        trial.set_user_attr("method", "a" if number else "other")
        trial.report(value, 0)
        kept.append(not trial.should_prune())
        study.tell(trial, value)
    # 0.5 is of another method; then 1 of 1, 1 of 2, 1 of 3 is 0.6, 2 of 4 are 0.6 and 0.55, 2 of 5 are 0.6 and 0.58
    assert kept == [True, True, True, False, False, True]


# --- tasks and candidates


def test_candidates_by_task():
    labels = tune(*XC, n_trials=4)
    assert [trial["method"] for trial in labels.trials] == ["forest", "gbdt-sparse", "ldsm", "gbdt-sparse"]
    assert labels.metric == "precision@1"
    dense = tune(XC[0].toarray(), XC[1], n_trials=3)
    assert [trial["method"] for trial in dense.trials] == ["gbdt-mo", "gbdt-sparse", "multi-forest"]
    assert dense.metric == "precision@1"
    classes = tune(y=CLASSES, n_trials=2)
    assert [trial["method"] for trial in classes.trials] == ["gbdt-mo", "multi-forest"]
    assert isinstance(classes.best_estimator_, MultiGBDTClassifier | MultiForestClassifier)
    assert classes.metric == "accuracy"
    assert classes.best_score > 0.8
    ranked = tune(y=np.arange(120) % 4, qid=np.arange(120) // 10, n_trials=2)
    assert isinstance(ranked.best_estimator_, GBDTRanker)
    assert ranked.metric == "ndcg@5"
    counts = tune(y=np.arange(240).reshape(120, 2) % 7, n_trials=1)
    assert isinstance(counts.best_estimator_, MultiGBDTRegressor)


def test_accuracy_of_forests():
    """It is that of cross-validation, though it comes from the history of the model."""
    result = tune(y=CLASSES, method="multi-forest", n_trials=1, cv=3)
    problem = make_problem(X, CLASSES, None, None, "auto", None, None)
    expected = [
        MultiForestClassifier(n_trees=9)
        .fit(X[split.train], CLASSES[split.train])
        .score(X[split.valid], CLASSES[split.valid])
        for split in make_validation(problem, 3, 0).splits
    ]
    assert result.metric == "accuracy"
    assert result.default_score == pytest.approx(np.mean(expected))


@pytest.mark.parametrize(
    ("options", "methods", "metric"),
    [
        ({}, {"gbdt-mo", "multi-forest"}, "rmse"),
        ({"metric": "loss"}, {"gbdt-mo"}, "loss"),
        ({"params": {"n_trees": 2, "loss": "huber"}}, {"gbdt-mo"}, "loss"),
        ({"params": {"n_trees": 2, "splitter": "random"}}, {"multi-forest"}, "rmse"),
        ({"params": {"n_trees": 2, "max_depth": 3}}, {"gbdt-mo", "multi-forest"}, "rmse"),
        ({"space": {"growth": ["depth-wise", "best-first"]}}, {"gbdt-mo"}, "loss"),
        ({"space": {"multi-forest": {"max_depth": [3, 6]}}}, {"gbdt-mo", "multi-forest"}, "rmse"),
    ],
)
def test_candidates_have_what_the_user_sets(options, methods, metric):
    result = tune(**({"params": {"n_trees": 2}} | options), n_trials=2)
    assert {trial["method"] for trial in result.trials} == methods
    assert result.metric == metric


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric": "loss"}, "must be one of {'rmse', .* Got 'loss' instead"),
        ({"params": {"learning_rate": 0.1}}, "MultiForestRegressor has no parameter 'learning_rate'"),
        ({"space": {"l2": [0.0, 1.0]}}, "must have parameters of MultiForestRegressor as keys. Got 'l2'"),
    ],
)
def test_a_list_of_candidates_is_kept(options, message):
    """What one of them does not have is refused."""
    with pytest.raises(ValueError, match=message):
        tune(method=["gbdt-mo", "multi-forest"], **options)


def test_label_names_weights_and_missing_values():
    names = [[f"label {j}" for j in XC[1][i].indices] for i in range(150)]
    result = tune(XC[0], names, method="gbdt-sparse", n_trials=2, sample_weight=np.arange(150) + 1)
    assert result.best_estimator_.classes_[0].startswith("label")
    missing = X.copy()
    missing[::5, 1] = np.nan
    result = tune(missing, (Y > 0).astype(int), n_trials=3)
    assert {trial["method"] for trial in result.trials} == {"gbdt-mo", "gbdt-sparse", "multi-forest"}
    assert all("rerank" not in trial["params"] for trial in result.trials)


def test_texts():
    texts = [" ".join(f"word{j}" for j in XC[0][i].indices) for i in range(150)]
    result = tune(texts, XC[1], method="forest", n_trials=6, params={"n_trees": 3, "rerank": None})
    sampled = [trial["params"] for trial in result.trials if not trial["defaults"]]
    assert len({params["vectorizer__ngram_range"] for params in sampled}) == 2
    assert result.best_estimator_.predict_topk(texts[:2])[0].shape == (2, 5)
    fixed = TextVectorizer(ngram_range=(1, 2))
    result = tune(
        texts, XC[1], method="forest", n_trials=2, params={"n_trees": 3, "rerank": None, "vectorizer": fixed}
    )
    assert all("vectorizer__ngram_range" not in trial["params"] for trial in result.trials)
    assert result.best_estimator_.vectorizer_.ngram_range == (1, 2)


def test_eval_set():
    result = tune(X[:80], Y[:80], cv=None, eval_set=(X[80:], Y[80:]), n_trials=4, metric="rmse")
    model = MultiGBDTRegressor(n_trees=9).fit(X[:80], Y[:80])
    error = np.sqrt(np.mean((Y[80:] - model.predict(X[80:])) ** 2))
    assert result.default_score == pytest.approx(error, rel=1e-5)
    assert result.validation == "the validation set"


def test_space_and_params_of_the_user():
    space = {
        "learning_rate": Range(0.5, 0.9),
        "l2": [3.0, 4.0],
        "growth": Choice(["depth-wise", "best-first"]),
    }
    params = {"n_trees": 4, "max_leaves": 5, "min_gain": 0.5}
    result = tune(n_trials=4, space=space, params=params)
    sampled = [trial["params"] for trial in result.trials if not trial["defaults"]]
    assert all(0.5 <= one["learning_rate"] <= 0.9 and one["l2"] in (3.0, 4.0) for one in sampled)
    assert all("max_leaves" not in one and one["growth"] for one in sampled)
    settings = result.best_estimator_._settings()
    assert (settings.max_leaves, settings.min_gain) == (5, 0.5)
    # the defaults are outside of the space, but still the first trial
    default = tune(n_trials=1, params=params)
    assert result.default_score == default.default_score


@pytest.mark.slow
def test_blend(monkeypatch):
    result = tune(*XC, n_trials=4, blend=True)
    assert isinstance(result.best_estimator_, BlendClassifier) == result.blended
    from sparseleaf.tuning import report

    monkeypatch.setattr(report, "score_blend", lambda data, blend: 1.0)
    result = tune(*XC, n_trials=3, blend=True)
    assert result.blended
    assert result.best_score == 1.0
    assert {type(one).__name__ for one in result.best_estimator_.estimators_} == {
        "SketchForestClassifier",
        "SparseGBDTClassifier",
        "LdSMClassifier",
    }
    monkeypatch.setattr(report, "score_blend", lambda data, blend: 0.0)
    assert not tune(*XC, n_trials=3, blend=True).blended


def test_a_failed_trial_is_reported_and_skipped(monkeypatch):
    plain = trials.fit

    def failing(estimator, *arguments, **options):
        if estimator.learning_rate not in (0.1, "auto"):
            raise MemoryError("too large")
        return plain(estimator, *arguments, **options)

    monkeypatch.setattr(trials, "fit", failing)
    with pytest.warns(UserWarning, match="A trial of gbdt-mo failed: too large"):
        result = tune(method="gbdt-mo", n_trials=4)
    assert [trial["state"] for trial in result.trials] == ["complete", "complete", "fail", "fail"]
    assert result.trials[2]["error"] == "MemoryError: too large"

    def broken(*arguments, **options):
        raise MemoryError("too large")

    monkeypatch.setattr(trials, "fit", broken)
    with pytest.raises(MemoryError, match="too large"):
        tune(n_trials=4)


# --- refusals, before any work


def forbid_training(monkeypatch):
    """Fail if a trial or the final model is trained.

    ``refit`` is imported above: ``tune`` imports it late, and it would keep the function of a patched ``trials``.
    """
    for module in (trials, refit):
        monkeypatch.setattr(module, "fit", lambda *a, **b: pytest.fail("work was done"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"metric": "precision"},
            "The 'metric' parameter must be one of {'rmse', 'mae', 'r2'}.*Got 'precision' instead",
        ),
        ({"method": "forst"}, "The 'method' parameter must be 'auto' or among .* did you mean 'forest'"),
        (
            {"method": "rank"},
            "must be among {'gbdt-mo', 'multi-forest'} for targets .* .regression.. Got 'rank'",
        ),
        ({"method": []}, "empty list"),
        ({"task": "cluster"}, "The 'task' parameter must be one of"),
        ({"task": "ranking"}, "The 'qid' parameter must be the query of each row"),
        ({"n_trials": 0}, "The 'n_trials' parameter must be an int >= 1 or None. Got 0 instead"),
        ({"timeout": -1}, "The 'timeout' parameter must be a number > 0 or None"),
        ({"seed": -1}, "The 'seed' parameter must be an int from 0"),
        ({"blend": True}, "The 'blend' parameter must be False unless"),
        ({"params": {"depth": 3}}, "has no parameter 'depth'; did you mean 'max_depth'"),
        ({"params": {"eval_metric": "rmse"}}, "must not have 'eval_metric', which tune sets; pass 'metric'"),
        ({"params": {"l2": -1}}, "The 'l2' parameter of MultiGBDTRegressor must be a number >= 0"),
        ({"params": 3}, "The 'params' parameter must be a dict"),
        ({"space": {"l2": 3}}, "must have a Range, a Choice or a list .* Got 3 for 'l2'"),
        ({"space": {"l2": Range(-1.0, 1.0)}}, "The 'l2' parameter of MultiGBDTRegressor must be"),
        ({"space": {"n_trees": Range(1, 5)}, "params": {}}, "resource of successive halving"),
        (
            {"space": {"leaves": Range(1, 5)}},
            "must have parameters of MultiGBDTRegressor as keys. Got 'leaves'",
        ),
        ({"space": {"forest": {}}}, "must have candidates as keys: gbdt-mo, multi-forest. Got 'forest'"),
        ({"space": {"vectorizer__min_df": [-1]}}, "The 'min_df' parameter of TextVectorizer must be"),
        ({"eval_set": (X, Y)}, "Either 'cv' or 'eval_set'"),
        ({"y": None}, "requires y to be passed"),
        ({"y": Y[:5]}, "inconsistent numbers of samples"),
        ({"study": "missing/study.db"}, "the directory missing does not exist"),
    ],
)
def test_invalid_arguments(options, message, monkeypatch):
    forbid_training(monkeypatch)
    with pytest.raises(ValueError, match=message):
        tune(**options)


def test_a_study_of_another_problem_is_refused(tmp_path, monkeypatch):
    study = tmp_path / "study.db"
    tune(n_trials=1, study=study)
    forbid_training(monkeypatch)
    changed = X.copy()
    changed[3, 2] += 1
    for options, what in (
        ({"X": changed}, r"expected X 120 × 4 .fingerprint \w+., got X?"),
        ({"y": Y + 1}, "expected y 120 × 2"),
        ({"seed": 5}, "expected validation"),
        ({"metric": "mae"}, "expected metric 'mae', got 'rmse'"),
        ({"cv": 3}, "expected validation 3 folds"),
        ({"space": {"min_samples_leaf": [1, 2]}}, "expected space"),
        ({"params": {"n_trees": 10}}, "expected params"),
    ):
        with pytest.raises(ValueError, match=f"another problem: {what}"):
            tune(study=study, **options)
    (tmp_path / "text.db").write_text("not a database, but some text")
    with pytest.raises(ValueError, match="is not a SQLite database"):
        tune(study=tmp_path / "text.db")


@pytest.mark.parametrize(
    "values",
    [
        ["one text", "another"],
        [{"title": "one"}, {"title": "two"}],
        [["a", "b"], ["c"]],
        np.array(["x", "y"]),
        np.array([True, False]),
        np.array([[1.0, np.nan]]),
        sp.csr_matrix([[0, 1.5]]),
    ],
)
def test_data_of_any_form_has_a_fingerprint(values):
    from sparseleaf.tuning.identity import describe_data

    other = values[:1] if isinstance(values, list) else values[::-1] if values.shape[0] > 1 else values * 2
    assert "fingerprint" in describe_data(values)
    assert describe_data(values) == describe_data(values)
    assert describe_data(values) != describe_data(other)


def test_frames_have_fingerprints_by_column():
    pd = pytest.importorskip("pandas")
    from sparseleaf.tuning.identity import describe_data

    frame = pd.DataFrame({"a": [1.0, 2.0], "b": pd.Categorical(["x", "y"])})
    assert describe_data(frame) == describe_data(frame.copy())
    assert describe_data(frame) != describe_data(frame.assign(b=pd.Categorical(["y", "x"])))
    assert describe_data(frame) != describe_data(frame.rename(columns={"a": "c"}))


def test_optuna_is_imported_by_tune_alone():
    code = "import sys, sparseleaf, sparseleaf.tuning, sparseleaf.cli; print('optuna' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_without_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ImportError, match=r'pip install "sparseleaf\[tune\]"'):
        tune()


def test_plot(uninterrupted, tmp_path):
    pytest.importorskip("matplotlib")
    figure = uninterrupted.plot(tmp_path / "trials.svg")
    assert (tmp_path / "trials.svg").read_text().startswith("<?xml")
    history = figure.axes[0]
    assert history.get_ylabel() == "rmse"
    labels = [text.get_text() for text in history.get_legend().get_texts()]
    assert {"gbdt-mo", "multi-forest", "best so far", "defaults"} <= set(labels)
    (best,) = [line for line in history.lines if line.get_label() == "best so far"]
    assert best.get_ydata()[-1] == uninterrupted.best_score
    with pytest.raises(ValueError, match="must end in"):
        uninterrupted.plot(tmp_path / "trials.txt")


def test_importances(tmp_path):
    result = tune(n_trials=24, method="gbdt-mo", metric="rmse")
    assert sum(result.importances.values()) == pytest.approx(1)
    assert list(result.importances.values()) == sorted(result.importances.values(), reverse=True)
    assert len(result.plot(tmp_path / "trials.svg").axes) == 2


def test_progress(capsys, caplog):
    with caplog.at_level("INFO", "sparseleaf"):
        tune(n_trials=2, verbose=2)
    err = capsys.readouterr().err
    assert (
        "120 rows, 2 outputs (regression); candidates: gbdt-mo, multi-forest; validation by rmse on 2 folds"
        in err
    )
    assert "memory at most" in err
    assert "trial 1: gbdt-mo, rmse" in err
    assert any("trial 2: multi-forest" in record.message for record in caplog.records)
    tune(n_trials=1)
    assert capsys.readouterr() == ("", "")
