"""The page, from records that are made up."""

from __future__ import annotations

import json

import pytest

from benchmarks import losses, numbers, page, pictures
from benchmarks.harness import record_path
from benchmarks.suites import SUITES, Job

pytestmark = pytest.mark.slow

MACHINE = {"cpu": "a CPU", "cores": 2, "python": "3.11", "system": "a system", "numpy": "2.0"}


def record(job, ended="ok", **figures):
    found = {
        "ended": ended,
        "asked": job.asked,
        "limits": {"seconds": 120, "memory_gb": 8.0},
        "machine": MACHINE,
        "load_before": 0.1,
    }
    if ended == "ok":
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
def test_three_digits_that_count(value, text):
    assert numbers.significant(value) == text


def test_a_section_is_ranked_and_says_how_the_others_ended():
    found = records(
        "delicious",
        sparse_gbdt={"P@1": 60.0},
        parabel={"P@1": 70.126, "model_bytes": 1_234_567},
        xgboost={"P@1": 55.0, "rounds": 7, "wanted_rounds": 100},
        ldsm={"ended": "time limit"},
        lightgbm={"ended": "time limit", "projected_seconds": 7300.0},
        random_forest={"ended": "memory limit"},
        catboost={"ended": "failed", "said": "Traceback\nValueError: a | b\n"},
        plt={"ended": "not measured", "said": "napkinxc is not installed"},
    )
    text = page.section(found, SUITES["delicious"])
    body = rows(text)[2:]
    assert [row[0] for row in body[:3]] == [
        *("Parabel (omikuji)", "**SparseGBDT**", "XGBoost (one per output) †"),
    ]
    assert body[0][1:] == ["70.13 / 50.00 / 50.00", "50.00 / 50.00 / 50.00", "10.0", "0.100", "1.23", "1.00"]
    ended = {row[0]: row[1] for row in body[3:]}
    assert ended == {
        "**LdSM**": "not done in 120 s",
        "LightGBM": "would take about 2 hours",
        "random forest": "more than 8 GB",
        "CatBoost": "failed: ValueError: a / b",
        "PLT (napkinXC)": "not measured: napkinxc is not installed",
    }
    assert "XGBoost (one per output) after 7 of 100 rounds" in text
    assert "120 s, 8 GB and 2 threads" in text
    assert "images/benchmark-delicious.svg" in text


def test_where_we_lose_in_accuracy_and_in_cost():
    found = records(
        "delicious",
        sparse_gbdt={"P@1": 60.0, "train_seconds": 8.0},
        parabel={"P@1": 63.0, "train_seconds": 2.0, "model_bytes": 4e6},
        plt={"P@1": 59.6, "predict_ms_per_row": 0.01},
        bonsai={"P@1": 59.4, "train_seconds": 0.001},
    )
    told = losses.losses(found)
    assert "Ahead of our best, SparseGBDT: Parabel (omikuji), P@1 63.00 against 60.00." in told
    assert "Parabel (omikuji) with 1/4.0 of the training time" in told
    assert "PLT (napkinXC) with 1/10 of the prediction time" in told
    assert "Bonsai" not in told  # it is cheaper, but not as good
    assert "size" not in told


def test_where_nobody_is_ahead():
    found = records("delicious", sparse_gbdt={"P@1": 60.0}, parabel={"P@1": 59.0}, ldsm={"P@1": 61.0})
    assert "No peer reaches LdSM; next is Parabel (omikuji), P@1 59.00 against 61.00." in losses.losses(found)


def test_a_difference_within_its_standard_error_is_no_lead():
    def told(theirs):
        both = {"standard_errors": {"accuracy": 0.3}}
        return losses.losses(
            records("yeast", multi_gbdt={"accuracy": 60.0, **both}, lightgbm={"accuracy": theirs, **both})
        )

    assert "Level with our best, MultiGBDT: LightGBM, accuracy 60.40 ± 0.30 against 60.00 ± 0.30" in told(
        60.4
    )
    assert "Ahead of our best" in told(60.5)
    assert "No peer reaches" in told(59.5)


def test_errors_are_better_when_lower():
    found = records(
        "student-por", multi_gbdt={"RMSE": 0.3, "aRRMSE": 1.0}, xgboost={"RMSE": 0.2, "aRRMSE": 1.0}
    )
    for given in found.values():
        given["metrics"]["aRRMSE"] = 1.0
    assert "Ahead of our best, MultiGBDT: XGBoost (one per output), RMSE 0.2000" in losses.losses(found)
    assert [row[0] for row in rows(page.section(found, SUITES["student-por"]))[2:]] == [
        *("XGBoost (one per output)", "**MultiGBDT**"),
    ]


def test_a_sweep_has_a_row_for_a_system_and_a_column_for_a_size():
    found = records("sweep-rows", "2000", sparse_gbdt={"train_seconds": 3.0}, parabel={"train_seconds": 1.0})
    found |= records("sweep-rows", "20000", sparse_gbdt={"ended": "memory limit"}, parabel={})
    found |= records("sweep-rows", "200000", sparse_gbdt={"ended": "not tried", "said": "x"})
    text = page.page(found)
    assert ["**SparseGBDT**", "3.00", "more than 8 GB", "–"] in rows(text)
    assert ["Parabel (omikuji)", "1.00", "10.0", ""] in rows(text)
    assert "2,000 rows by Parabel (omikuji) (ours: SparseGBDT)" in text


def test_the_page_says_what_it_took():
    found = records("delicious", sparse_gbdt={"process_seconds": 200.0}, parabel={"process_seconds": 100.0})
    assert "All processes together took 5 minutes." in page.page(found)


def test_a_machine_that_others_used_is_named():
    found = records("delicious", sparse_gbdt={})
    assert "Others used" not in page.page(found)
    found["delicious/delicious/sparse-gbdt"]["load_before"] = 4.0
    assert "Others used the machine during Delicious" in page.page(found)


def test_results_of_two_machines_are_told_apart():
    found = records("delicious", sparse_gbdt={}) | records(
        "bibtex", sparse_gbdt={"machine": MACHINE | {"cpu": "B"}}
    )
    text = page.page(found)
    assert "- Delicious: a CPU, 2 cores" in text
    assert "- Bibtex: B, 2 cores" in text


def test_without_results_the_page_says_so():
    assert "Nothing has been measured yet." in page.page({})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "docs" / "images").mkdir(parents=True)
    (tmp_path / "docs" / "images" / "benchmark-old.svg").touch()
    (tmp_path / "README.md").write_text(f"before\n{page.BEGIN}old\n{page.END}after\n")
    monkeypatch.setattr(page, "DOCS", tmp_path / "docs")
    monkeypatch.setattr(page, "PAGE", tmp_path / "docs" / "benchmarks.md")
    monkeypatch.setattr(numbers, "NUMBERS", tmp_path / "docs" / "results" / "benchmarks.json")
    monkeypatch.setattr(page, "README", tmp_path / "README.md")
    return tmp_path


def test_the_page_is_written_with_its_pictures_and_the_block_of_the_readme(folder):
    pytest.importorskip("matplotlib")
    found = records("delicious", sparse_gbdt={"P@1": 61.5}, parabel={})
    for name, given in found.items():
        suite, case, key = name.split("/")
        path = record_path(folder / "out", Job(SUITES[suite], case, key))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(given))
    page.update(folder / "out")
    assert numbers.read_numbers() == found
    assert page.PAGE.read_text() == page.page(found)
    picture = folder / "docs" / "images" / "benchmark-delicious.svg"
    drawing = pictures.pictures(found)["benchmark-delicious.svg"]
    assert f"data {drawing.digest}" in picture.read_text()
    assert "SparseGBDT" in picture.read_text()
    assert picture.stat().st_size < 100_000
    assert not (folder / "docs" / "images" / "benchmark-old.svg").exists()
    text = page.README.read_text()
    assert text.startswith(f"before\n{page.BEGIN}")
    assert text.endswith(f"{page.END}after\n")
    assert "docs/images/benchmark-delicious.svg" in text
    assert "old" not in text
    # a part that is measured later is added to what is there
    before = picture.read_bytes()
    page.update(folder / "nothing")
    assert numbers.read_numbers() == found
    assert picture.read_bytes() == before
    assert page.README.read_text() == text


def test_a_picture_of_other_data_has_another_digest():
    names = ("delicious", "sweep-rows")
    for name in names:
        case = next(iter(SUITES[name].cases))
        (first,) = pictures.pictures(records(name, case, sparse_gbdt={})).values()
        (second,) = pictures.pictures(records(name, case, sparse_gbdt={"train_seconds": 11.0})).values()
        assert first.digest != second.digest


def test_numbers_of_settings_that_are_no_longer_asked_for_are_left_out(folder):
    found = records("delicious", sparse_gbdt={}, parabel={})
    found["delicious/delicious/parabel"]["asked"] = {"other": 1}
    numbers.NUMBERS.parent.mkdir()
    numbers.NUMBERS.write_text(json.dumps({"records": found | {"gone/gone/gone": {}}}))
    assert list(numbers.read_numbers()) == ["delicious/delicious/sparse-gbdt"]
