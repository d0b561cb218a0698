"""The page, from synthetic records."""

from __future__ import annotations

import json

import pytest

from benchmarks import comparison, page, plots, results
from benchmarks.harness import record_path
from benchmarks.suites import SUITES, Job

pytestmark = pytest.mark.slow

MACHINE = {"cpu": "a CPU", "cores": 2, "python": "3.11", "system": "a system", "numpy": "2.0"}


def record(job, status="ok", **figures):
    found = {
        "status": status,
        "config": job.config,
        "limits": {"seconds": 120, "memory_gb": 8.0},
        "machine": MACHINE,
        "load_before": 0.1,
    }
    if status == "ok":
        found |= {
            "metrics": {f"{m}@{k}": 50.0 for m in ("P", "PSP") for k in (1, 3, 5)},
            "train_seconds": 10.0,
            "predict_ms_per_row": 0.1,
            "model_bytes": 2e6,
            "peak_bytes": 1e9,
        }
    scores = {name: value for name, value in figures.items() if "@" in name or name in ("accuracy", "RMSE")}
    for name in scores:
        del figures[name]
    if scores:
        found["metrics"] = found["metrics"] | scores
    return found | figures


def records(suite, case=None, **systems):
    """Records by name; underscores stand for the hyphens of keys."""
    suite = SUITES[suite]
    made = {}
    for key, given in systems.items():
        job = Job(suite, case or next(iter(suite.cases)), key.replace("_", "-"))
        made[job.name] = record(job, **given)
    return made


def rows(text):
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.09997, "0.100"),
        (0.00123456, "0.00123"),
        (7.474, "7.47"),
        (99.96, "100"),
        (12345.6, "12,300"),
    ],
)
def test_three_significant_digits(value, text):
    assert results.significant(value) == text


def test_a_section_is_ranked_and_says_why_there_is_no_result():
    found = records(
        "delicious",
        sparse_gbdt={"P@1": 60.0},
        parabel={"P@1": 70.126, "model_bytes": 1_234_567},
        xgboost={"P@1": 55.0, "rounds": 7, "planned_rounds": 100},
        ldsm={"status": "time limit"},
        lightgbm={"status": "time limit", "projected_seconds": 7300.0},
        random_forest={"status": "memory limit"},
        catboost={"status": "failed", "message": "Traceback\nValueError: a | b\n"},
        plt={"status": "not installed", "message": "napkinxc is not installed"},
    )
    text = page.section(found, SUITES["delicious"])
    body = rows(text)[2:]
    assert [row[0] for row in body[:3]] == ["Parabel (omikuji)", "**SparseGBDT**", "XGBoost †"]
    assert body[0][1:] == ["70.13 / 50.00 / 50.00", "50.00 / 50.00 / 50.00", "10.0", "0.100", "1.23", "1.00"]
    assert {row[0]: row[1] for row in body[3:]} == {
        "**LdSM**": "time limit (120 s)",
        "LightGBM": "time limit (would take about 2 hours)",
        "random forest": "memory limit (8 GB)",
        "CatBoost": "failed: ValueError: a / b",
        "PLT (napkinXC)": "not installed: napkinxc is not installed",
    }
    assert "XGBoost after 7 of 100 rounds" in text
    assert "Limits: 120 s, 8 GB, 2 threads." in text
    assert "images/benchmark-delicious.svg" in text


def test_summary_has_every_system_on_every_dataset():
    found = records(
        "delicious", sparse_gbdt={"P@1": 60.0}, parabel={"P@1": 70.0}, xgboost={"status": "memory limit"}
    )
    found |= records("bibtex", sparse_gbdt={"P@1": 61.0, "rounds": 1, "planned_rounds": 9})
    found |= records(
        "student-por", multi_gbdt={"RMSE": 0.3, "aRRMSE": 1.0}, xgboost={"RMSE": 0.2, "aRRMSE": 1.0}
    )
    body = rows(page.summary(found, list(SUITES.values())).replace(page.NBSP, " "))
    assert ["system", "Delicious", "Bibtex"] in body
    assert ["**SparseGBDT**", "60.00", "61.00 ★ †"] in body
    assert ["Parabel (omikuji)", "70.00 ★", ""] in body
    assert ["XGBoost", "memory", ""] in body
    assert ["**MultiGBDT**", "0.3000"] in body
    assert ["XGBoost", "0.2000 ★"] in body


def lists(text):
    """The bullets of the comparison by the heading above them."""
    parts = text.split("\n## ") + text.split("\n### ")
    return {
        part.split("\n")[0].lstrip("# "): part.partition("\n## ")[0].partition("\n### ")[0] for part in parts
    }


def test_peers_ahead_in_accuracy_and_in_cost():
    found = records(
        "delicious",
        sparse_gbdt={"P@1": 60.0, "train_seconds": 8.0},
        parabel={"P@1": 63.0, "train_seconds": 2.0, "model_bytes": 4e6},
        plt={"P@1": 59.6, "predict_ms_per_row": 0.01},
        bonsai={"P@1": 59.4, "train_seconds": 0.001},
    )
    text = lists(comparison.comparison(found))
    assert "(P@1): Parabel (omikuji) 63.00; sparseleaf's best, SparseGBDT 60.00." in text["More accurate"]
    cheaper = text["Cheaper at the same accuracy"]
    assert "Parabel (omikuji) has 4.0 times shorter training" in cheaper
    assert "PLT (napkinXC) has 10 times faster prediction" in cheaper
    assert "Bonsai" not in cheaper  # cheaper, but less accurate
    assert "model" not in cheaper
    assert "None." in text["Level"]
    assert "None." in text["Where sparseleaf is ahead"]


def test_the_best_system_of_ours_is_compared():
    found = records("delicious", sparse_gbdt={"P@1": 60.0}, parabel={"P@1": 59.0}, ldsm={"P@1": 61.0})
    text = lists(comparison.comparison(found))
    assert "(P@1): LdSM 61.00; best peer, Parabel (omikuji) 59.00." in text["Where sparseleaf is ahead"]
    assert "None." in text["More accurate"]


def test_differences_within_the_noise_are_level():
    def heading(name, metric, ours, theirs, **both):
        found = records(name, multi_gbdt={metric: ours, **both}, lightgbm={metric: theirs, **both})
        text = lists(comparison.comparison(found))
        return [
            key for key in ("More accurate", "Level", "Where sparseleaf is ahead") if "LightGBM" in text[key]
        ]

    error = {"standard_errors": {"accuracy": 0.3}}
    assert heading("yeast", "accuracy", 60.0, 60.4, **error) == ["Level"]
    assert heading("yeast", "accuracy", 60.0, 60.5, **error) == ["More accurate"]
    assert heading("yeast", "accuracy", 60.0, 59.5, **error) == ["Where sparseleaf is ahead"]
    assert heading("mnist", "accuracy", 60.0, 60.4) == ["Level"]  # one split: half a point
    assert heading("mnist", "accuracy", 60.0, 60.6) == ["More accurate"]


def test_errors_are_better_when_lower():
    found = records(
        "student-por", multi_gbdt={"RMSE": 0.3, "aRRMSE": 1.0}, xgboost={"RMSE": 0.2, "aRRMSE": 1.0}
    )
    for given in found.values():
        given["metrics"]["aRRMSE"] = 1.0
    text = lists(comparison.comparison(found))["More accurate"]
    assert "(RMSE): XGBoost 0.2000; sparseleaf's best, MultiGBDT 0.3000." in text
    assert [row[0] for row in rows(page.section(found, SUITES["student-por"]))[2:]] == [
        *("XGBoost", "**MultiGBDT**"),
    ]


def test_a_sweep_has_a_row_for_a_system_and_a_column_for_a_size():
    found = records("sweep-rows", "2000", sparse_gbdt={"train_seconds": 3.0}, parabel={"train_seconds": 1.0})
    found |= records("sweep-rows", "20000", sparse_gbdt={"status": "memory limit"}, parabel={})
    found |= records("sweep-rows", "200000", sparse_gbdt={"status": "skipped", "message": "x"})
    text = page.page(found)
    assert ["**SparseGBDT**", "3.00", "memory limit (8 GB)", "–"] in rows(text)
    assert ["Parabel (omikuji)", "1.00", "10.0", ""] in rows(text)
    assert "shorter training than our fastest system with 2,000 rows: Parabel (omikuji)" in text


def test_the_page_states_the_run_time():
    found = records("delicious", sparse_gbdt={"process_seconds": 200.0}, parabel={"process_seconds": 100.0})
    assert "total run time of all processes: 5 minutes" in page.page(found)


def test_load_of_other_processes_is_reported():
    found = records("delicious", sparse_gbdt={})
    assert "load average" not in page.page(found)
    found["delicious/delicious/sparse-gbdt"]["load_before"] = 4.0
    assert (
        "load average above 1.5 per core before some runs, whose times may be too long: Delicious"
        in page.page(found)
    )


def test_two_machines_are_listed_with_their_suites():
    found = records("delicious", sparse_gbdt={}) | records(
        "bibtex", sparse_gbdt={"machine": MACHINE | {"cpu": "B"}}
    )
    text = page.page(found)
    assert "- machine: a CPU, 2 cores, Python 3.11, numpy 2.0 (Delicious)" in text
    assert "- machine: B, 2 cores, Python 3.11, numpy 2.0 (Bibtex)" in text


def test_versions_and_the_commit_are_stated():
    machine = MACHINE | {"omikuji": "0.5"}
    found = records(
        "delicious", parabel={"machine": machine, "commit": "a" * 40}, sparse_gbdt={"commit": "a" * 40}
    )
    text = page.page(found)
    assert "sparseleaf is measured at commit `aaaaaaa`.\n" in text
    assert ["Parabel (omikuji)", "0.5", "omikuji's defaults"] in rows(text)
    found |= records("delicious", catboost={})  # a peer from before commits were recorded
    assert "1 of 2 results of other systems, and what exceeded a limit, are from an earlier run" in page.page(
        found
    )
    found |= records("delicious", ldsm={"commit": "b" * 40})
    assert "sparseleaf is measured at commits `aaaaaaa` and `bbbbbbb`." in page.page(found)
    found |= records("delicious", multi_gbdt={})
    text = page.page(found)
    assert (
        "sparseleaf is measured at commits `aaaaaaa` and `bbbbbbb`. 1 of 3 results of sparseleaf are from"
        in text
    )


def test_the_introduction_lists_what_is_measured_and_what_is_not():
    text = page.page(records("delicious", sparse_gbdt={}, parabel={}, neighbours={}))
    assert "- **Systems**: Parabel (omikuji); as baselines k nearest neighbours.\n" in text
    assert (
        "multi-label: Delicious, Bibtex, tibkat-gnd, German titles, English titles; multi-class: MNIST"
        in text
    )
    assert "- **Not measured**: PECOS" in text


def test_without_results_the_page_says_so():
    assert "Nothing has been measured yet." in page.page({})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "docs" / "images").mkdir(parents=True)
    (tmp_path / "docs" / "images" / "benchmark-old.svg").touch()
    (tmp_path / "README.md").write_text(f"before\n{page.BEGIN}old\n{page.END}after\n")
    monkeypatch.setattr(page, "DOCS", tmp_path / "docs")
    monkeypatch.setattr(page, "PAGE", tmp_path / "docs" / "benchmarks.md")
    monkeypatch.setattr(results, "RECORDS", tmp_path / "docs" / "results" / "benchmarks.json")
    monkeypatch.setattr(page, "README", tmp_path / "README.md")
    return tmp_path


def test_update_writes_the_page_its_plots_and_the_readme(folder):
    pytest.importorskip("matplotlib")
    found = records("delicious", sparse_gbdt={"P@1": 61.5}, parabel={})
    found |= records(
        "mnist", multi_gbdt={"accuracy": 97.0}, lightgbm={"accuracy": 96.0, "train_seconds": 25.0}
    )
    for name, given in found.items():
        suite, case, key = name.split("/")
        path = record_path(folder / "out", Job(SUITES[suite], case, key))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(given))
    page.update(folder / "out")
    assert results.read_records() == found
    assert page.PAGE.read_text() == page.page(found)
    plot_path = folder / "docs" / "images" / "benchmark-delicious.svg"
    drawing = plots.plots(found)["benchmark-delicious.svg"]
    assert f"data {drawing.digest}" in plot_path.read_text()
    assert "SparseGBDT" in plot_path.read_text()
    assert plot_path.stat().st_size < 100_000
    assert not (folder / "docs" / "images" / "benchmark-old.svg").exists()
    text = page.README.read_text()
    assert text.startswith(f"before\n{page.BEGIN}")
    assert text.endswith(f"{page.END}after\n")
    assert "MultiGBDT has accuracy 97.0 %, LightGBM 96.0 %. Training is 2.5× faster" in text
    assert "old" not in text
    # later records are merged into the committed ones
    before = plot_path.read_bytes()
    page.update(folder / "nothing")
    assert results.read_records() == found
    assert plot_path.read_bytes() == before
    assert page.README.read_text() == text


def test_labels_of_plots_overlap_neither_each_other_nor_points():
    pytest.importorskip("matplotlib")
    for name, plot in plots.plots(results.read_records()).items():
        figure, labels = plot.draw()
        figure.draw_without_rendering()
        boxes = {(label.axes, label.get_text()): label.get_window_extent() for label in labels}
        for (ax, text), box in boxes.items():
            others = [other for key, other in boxes.items() if key != (ax, text)]
            assert not any(box.overlaps(other) for other in others), (name, text)
            points = [ax.transData.transform(scatter.get_offsets()) for scatter in ax.collections]
            assert not any(box.contains(*point) for part in points for point in part), (name, text)


def test_only_systems_near_the_best_are_drawn():
    found = records(
        "delicious",
        sparse_gbdt={"P@1": 60.0},
        parabel={"P@1": 46.0},
        plt={"P@1": 44.0},
        neighbours={"P@1": 59.0},
    )
    (plot,) = plots.plots(found).values()
    assert [point["key"] for point in plot.points] == ["sparse-gbdt", "parabel"]
    assert "k nearest neighbours (59.0), PLT (napkinXC) (44.0)" in page.section(found, SUITES["delicious"])


def test_a_plot_of_other_data_has_another_digest():
    names = ("delicious", "sweep-rows")
    for name in names:
        case = next(iter(SUITES[name].cases))
        (first,) = plots.plots(records(name, case, sparse_gbdt={})).values()
        (second,) = plots.plots(records(name, case, sparse_gbdt={"train_seconds": 11.0})).values()
        assert first.digest != second.digest


def test_records_of_other_settings_are_left_out(folder):
    found = records("delicious", sparse_gbdt={}, parabel={})
    found["delicious/delicious/parabel"]["config"] = {"other": 1}
    results.RECORDS.parent.mkdir()
    results.RECORDS.write_text(json.dumps({"records": found | {"gone/gone/gone": {}}}))
    assert list(results.read_records()) == ["delicious/delicious/sparse-gbdt"]
