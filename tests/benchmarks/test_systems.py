"""Every system that is installed does every kind of task on a tiny set, better than chance."""

from __future__ import annotations

import time
import warnings

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from benchmarks import worker
from benchmarks.sets import Split, read_arff
from benchmarks.suites import SUITES, Job
from benchmarks.systems import SYSTEMS
from benchmarks.systems.base import Task, TimeBudget, TooSlow, folder_bytes, top
from sparseleaf.data import make_xc

pytestmark = pytest.mark.slow

SETTINGS = {
    "n_trees": 8,
    "learning_rate": 0.3,
    "max_depth": 4,
    "max_leaves": 12,
    "max_bins": 32,
    "min_samples_leaf": 5,
    "l2": 1.0,
}
OVERRIDES = {
    "ldsm": {"n_trees": 3},
    "sketch-forest": {"n_trees": 3},
    "sketch-forest-tuned": {"n_trees": 3, "sketch_dim": 16},
    "sketch-forest-trees": {"n_trees": 3, "rerank": None},
    "sketch-forest-bayes": {"n_trees": 3, "rerank": "bayes"},
    "random-forest": {"n_estimators": 9},
    "extra-trees": {"n_estimators": 9},
    "gbrank": {"loss": "gbrank"},
    "smoothdcg": {"loss": "smoothdcg"},
}


def tiny(kind):
    if kind == "multilabel":
        X, Y = make_xc(400, 60, 12, labels_per_row=2, nnz_per_row=10, seed=1, n_topics=4)
        Y.data[Y.indices == 3] = 0  # a label that no row has
        Y.eliminate_zeros()
        return Split(X[:300], Y[:300], X[300:], Y[300:])
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5)).astype(np.float32)
    if kind == "multiclass":
        y = np.digitize(X[:, 0] + X[:, 1], [-1, 1])
        return Split(X[:300], y[:300], X[300:], y[300:])
    if kind == "regression":
        Y = np.c_[X[:, 0], X[:, 1] - X[:, 2]]
        X[::7, 4] = np.nan
        return Split(X[:300], Y[:300], X[300:], Y[300:])
    y = np.digitize(X[:, 0], [0, 1])
    return Split(X[:300], y[:300], X[300:], y[300:], np.full(15, 20), np.full(5, 20))


PAIRS = [(key, kind) for key, system in SYSTEMS.items() for kind in system.kinds if key != "mpi"]
CHANCE = {
    "multilabel": ("P@1", 20),
    "multiclass": ("accuracy", 60),
    "regression": ("aRRMSE", 0.9),
    "ranking": ("NDCG@5", 0.7),
}


@pytest.mark.parametrize(("key", "kind"), PAIRS)
def test_system_learns_something(key, kind, tmp_path):
    system = SYSTEMS[key]
    if system.missing():
        pytest.skip(system.missing())
    budget = TimeBudget(60, may_stop=True)
    settings = SETTINGS | ({"max_depth": None} if kind == "ranking" else {})
    if kind == "ranking":
        settings |= {"subsample": 0.8, "colsample_bytree": 0.8}
    model = system.make(Task(kind, settings, OVERRIDES.get(key, {}), 2, budget))
    split = tiny(kind)
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")  # of the peers
        if hasattr(model, "prepare"):
            (tmp_path / "work").mkdir()
            model.prepare(split, tmp_path / "work")
        model.fit(split)
        found = worker.evaluate(kind, split, model.predict(split.X_test))
        (tmp_path / "saved").mkdir()
        model.save(tmp_path / "saved")
    name, bound = CHANCE[kind]
    assert found[name] < bound if kind == "regression" else found[name] > bound, found
    assert folder_bytes(tmp_path / "saved") > 100
    assert budget.rounds in (None, 8, 9)


def test_top_is_best_first_and_padded():
    assert top(np.array([[0.1, 0.9, 0.9, 0.2, 0.3, 0.0, 0.25]])).tolist() == [[1, 2, 4, 6, 3]]
    assert top(np.array([[0.1, 0.9]])).tolist() == [[1, 0, -1, -1, -1]]


def test_a_training_that_may_stop_stops_at_the_end_of_its_budget(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    budget = TimeBudget(10, may_stop=True)
    now[0] = 9.0
    assert not budget.after_round(3, 100)
    now[0] = 11.0
    assert budget.after_round(4, 100)
    assert (budget.rounds, budget.planned_rounds) == (4, 100)


def test_a_training_that_may_not_stop_is_aborted_with_its_projected_time(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    budget = TimeBudget(10, may_stop=False)
    now[0] = 4.0
    assert not budget.after_round(1, 101)  # the first may have had more to do
    now[0] = 4.5
    assert not budget.after_round(2, 101)
    now[0] = 5.0
    assert not budget.after_round(3, 101)  # few rounds say little
    now[0] = 5.5
    with pytest.raises(TooSlow, match="4 of 101 rounds; all would take about 54 s") as caught:
        budget.after_round(4, 101)
    assert caught.value.seconds == 54
    now[0] = 4.03
    assert not budget.after_round(4, 101)  # 5 s in all
    assert budget.rounds == 4


def test_suites_name_systems_of_their_kind_and_jobs_have_names_of_their_own():
    jobs = [job for suite in SUITES.values() for job in suite.jobs()]
    assert all(job.suite.kind in job.system.kinds for job in jobs)
    assert len({job.name for job in jobs}) == len(jobs)


def test_a_sweep_of_threads_runs_with_them():
    job = Job(SUITES["sweep-threads"], "1", "sparse-gbdt")
    assert (job.threads, job.config["threads"]) == (1, 1)


def test_arff(tmp_path):
    import gzip

    path = tmp_path / "a.arff.gz"
    with gzip.open(path, "wt") as file:
        file.write(
            "% c\n@relation r\n@attribute a numeric\n@attribute b numeric\n@DATA\n 1.5, ?,\n\n% c\n2,3\n"
        )
    np.testing.assert_array_equal(read_arff(path), [[1.5, np.nan], [2, 3]])


def test_regression_metrics_are_relative_to_the_mean():
    split = Split(None, np.array([[0.0, 0], [2, 2]]), None, np.array([[0.0, 1], [2, 1]]))
    found = worker.evaluate("regression", split, np.array([[0.0, 1], [1, 1]]))
    assert found["RMSE"] == pytest.approx(0.5)
    assert found["aRRMSE"] == pytest.approx(np.sqrt(0.5) / 2)  # the second output is its mean
