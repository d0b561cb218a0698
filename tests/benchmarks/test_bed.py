"""The test bed of the defaults: datasets, comparison of systems, records."""

import json

import numpy as np
import pytest
from scipy import stats

from benchmarks.bed import run, tables
from benchmarks.bed.compare import Ranks, holm, outcome, paired_p_value, rank_systems, signed_rank_p_values
from benchmarks.bed.diagram import draw, groups
from benchmarks.bed.errors import error
from benchmarks.bed.sets import DEVELOPMENT, EVALUATION, SETS
from benchmarks.bed.systems import OURS, SYSTEMS, takes
from benchmarks.sets import Split


def test_every_kind_is_on_both_sides():
    for kind in ("regression", "multiclass", "multilabel", "ranking"):
        assert {one.role for one in SETS.values() if one.kind == kind} == {DEVELOPMENT, EVALUATION}
    for named in ("yeast", "inpainting", "wq", "lambdarank", "student-por", "oes97"):
        assert SETS[named].role == EVALUATION


@pytest.mark.parametrize(
    "name", ["additive", "linear", "categories", "labels", "missing", "ranking-wide", "wine"]
)
def test_splits_are_disjoint_and_repeatable(name):
    first, again, other = (SETS[name].load("", seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.X, again.X)
    assert not np.array_equal(first.X, other.X)
    rows = {row.tobytes() for row in first.X}
    assert sum(row.tobytes() in rows for row in first.X_test) <= 0.01 * len(first.X_test)
    if first.group is not None:
        assert (first.group.sum(), first.group_test.sum()) == (len(first.X), len(first.X_test))


def test_errors():
    Y = np.array([[0.0, 0.0], [2.0, 20.0]])
    split = Split(None, Y, None, Y)
    assert error("regression", split, Y) == 0
    assert error("regression", split, np.tile(Y.mean(axis=0), (2, 1))) == 1
    assert error("multiclass", Split(None, None, None, np.array([0, 1, 1, 2])), [0, 1, 2, 2]) == 0.25
    labels = np.array([[1, 0], [0, 1]])
    assert error("multilabel", Split(None, None, None, labels), labels.astype(float)) == 0
    ranked = Split(None, None, None, np.array([2, 0, 0, 1]), group_test=[2, 2])
    assert error("ranking", ranked, np.array([1.0, 0.0, 0.0, 1.0])) == 0


def test_the_paired_test():
    random = np.random.default_rng(0)
    a, b = random.normal(size=(2, 10))
    # without overlap of the training sets it is the usual paired t-test
    assert paired_p_value(a, b, 0.0) == pytest.approx(stats.ttest_rel(a, b).pvalue)
    assert paired_p_value(a, b, 3 / 7) > paired_p_value(a, b, 0.0)
    assert paired_p_value(a, a, 3 / 7) == 1
    assert outcome(a, a + 1 + 0.01 * b, 3 / 7) == "win"
    assert outcome(a + 1 + 0.01 * b, a, 3 / 7) == "loss"
    assert outcome(a, b, 3 / 7) == "tie"


def test_ranks_of_systems():
    errors = {f"set {i}": {"a": [0.1, 0.1], "b": [0.2, 0.2], "c": [0.2, 0.2]} for i in range(12)}
    errors["incomplete"] = {"a": [0.9]}
    ranks = rank_systems(errors, ["a", "b", "c"])
    assert ranks.average == {"a": 1.0, "b": 2.5, "c": 2.5}
    assert ranks.n_sets == 12
    # Demšar (2006), table 5: q at 5 % for three systems is 2.343
    assert ranks.critical == pytest.approx(2.343 * np.sqrt(3 * 4 / (6 * 12)), abs=1e-3)
    assert signed_rank_p_values(errors, "a", ["b"])["b"] < 0.01


def test_holm_correction():
    adjusted = holm({"a": 0.01, "b": 0.04, "c": 0.03})
    assert adjusted == pytest.approx({"a": 0.03, "c": 0.06, "b": 0.06})


def test_the_diagram(tmp_path):
    ranks = Ranks({OURS: 1.0, "b": 1.8, "c": 2.5, "d": 4.0}, 1.0, 0.01, 20)
    assert groups(ranks) == [(1.0, 1.8), (1.8, 2.5)]
    draw(ranks, tmp_path / "diagram.svg")
    drawn = (tmp_path / "diagram.svg").read_text()
    assert all(name in drawn for name in (OURS, "critical difference 1.00"))


class Mean:
    fits = 0

    def __init__(self, kind, seed, n_jobs):
        assert kind == "regression"

    def fit(self, split):
        Mean.fits += 1
        self.mean = split.Y.mean(axis=0)

    def predict(self, X):
        return np.tile(self.mean, (len(X), 1))


def test_fits_are_recorded_and_not_repeated(tmp_path, monkeypatch):
    monkeypatch.setitem(SYSTEMS, "mean", Mean)
    options = run.Options("", tmp_path, 2, 1, 60)
    monkeypatch.setattr(Mean, "fits", 0)
    run.fit_all("additive", "mean", options)
    run.fit_all("additive", "mean", run.Options("", tmp_path, 3, 1, 60))
    assert Mean.fits == 3
    records = run.read(tmp_path, "additive", "mean", 3)
    assert [record["error"] for record in records.values()] == [1.0] * 3
    assert records[0]["n_rows"] == len(SETS["additive"].load("", 0).X)
    assert not list(run.run(["additive"], ["mean"], options))  # nothing is missing


def test_tables_of_the_page(tmp_path):
    random = np.random.default_rng(0)
    for name, bed_set in SETS.items():
        for place, system in enumerate(SYSTEMS):
            for seed in range(3):
                if takes(system, bed_set.kind):
                    record = {
                        "status": "ok",
                        "n_rows": 1_001 if name == "wq" else 1_000,
                        "error": place + random.uniform(),
                        "processor_seconds": 1.0 + 2 * (system == "LightGBM"),
                    }
                    if (name, system) == ("wq", "CatBoost"):
                        record = {"status": "time limit"}
                    path = run.record_path(tmp_path, name, system, seed)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(json.dumps(record))
    results = tables.collect(tmp_path, 3, 1)
    page = tmp_path / "page.md"
    page.write_text(
        "before\n<!-- made by python -m benchmarks.bed: ranks -->\n<!-- end of table -->\n"
        "<!-- made by python -m benchmarks.bed: duels -->\nold\n<!-- end of table -->\nafter\n"
    )
    tables.write_page(results, page)
    tables.write_page(results, page)  # replaces what it wrote
    text = page.read_text()
    assert text.startswith("before\n<!-- made by python -m benchmarks.bed: ranks -->\n| system |")
    assert text.endswith("<!-- end of table -->\nafter\n")
    assert "old" not in text
    assert text.count("| CatBoost |") == 2
    rows = {row[0]: row for row in tables.error_rows(results, EVALUATION)}
    assert rows["wq"][-1] == "time limit"
    assert rows["lambdarank"][4] == "–"
    assert tables.large_rows(results) == [["wq", "1,001", "1.00", "3.00", "0.3 ×"]]
    assert tables.duels(results, EVALUATION)[-1][1:4] != ["0", "0", "0"]
