"""The command line of the benchmark page."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from benchmarks import __main__ as command
from benchmarks import harness, page
from benchmarks.suites import SUITES

pytestmark = pytest.mark.slow


@pytest.fixture
def console():
    return Console(record=True, width=200, file=io.StringIO())


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--time-limit", "0"], "--time-limit must be greater than 0. Got 0 instead."),
        (["--memory-limit", "-1"], "--memory-limit must be greater than 0. Got -1 instead."),
        (["--minutes", "0"], "--minutes must be greater than 0. Got 0 instead."),
        (["--data", "/no/such/folder"], "--data /no/such/folder is not a folder."),
        (["--suite", "nothing"], "invalid choice: 'nothing'"),
        (["--only", "nothing"], "invalid choice: 'nothing'"),
    ],
)
def test_invalid_arguments_are_reported_before_anything_runs(argv, message, capsys):
    with pytest.raises(SystemExit):
        command.parse(argv)
    assert message in capsys.readouterr().err


def test_suites_without_their_dataset_are_skipped(tmp_path, console):
    (tmp_path / "mnist").mkdir()
    arguments = command.parse(["--data", str(tmp_path), "--suite", "mnist", "yeast", "sweep-rows"])
    jobs = command.selected_jobs(arguments, console)
    assert {job.suite.name for job in jobs} == {"mnist", "sweep-rows"}
    assert "yeast: skipped, there is no folder yeast in" in console.export_text()
    jobs = command.selected_jobs(command.parse(["--suite", "yeast"]), console)
    assert jobs == []
    assert "yeast: skipped, it needs --data." in console.export_text()


def test_only_the_selected_systems_run(console):
    arguments = command.parse(["--suite", "sweep-rows", "--only", "parabel"])
    assert [job.name for job in command.selected_jobs(arguments, console)] == [
        f"sweep-rows/{case}/parabel" for case in SUITES["sweep-rows"].cases
    ]


def test_a_record_in_one_line():
    good = {
        "status": "ok",
        "metrics": {"P@1": 61.23456},
        "train_seconds": 1.23,
        "predict_ms_per_row": 0.01234,
        "model_bytes": 1_500_000,
        "peak_bytes": 2e9,
        "rounds": 3,
        "planned_rounds": 10,
    }
    assert command.summary(good) == (
        "P@1 61.23, train 1.2 s, predict 0.0123 ms, 1.50 MB, peak 2.00 GB, stopped after 3 of 10 rounds"
    )
    assert (
        command.summary({"status": "failed", "message": "Traceback\nValueError: why\n"})
        == "failed: ValueError: why"
    )
    assert command.summary({"status": "time limit", "message": ""}) == "time limit"


def test_nothing_is_started_after_the_given_minutes(tmp_path, console, monkeypatch):
    now = iter([0.0, 30.0, 90.0])
    monkeypatch.setattr(command, "time", SimpleNamespace(monotonic=lambda: next(now)))
    started = []

    def run_job(job, *_):
        started.append(job.case)
        return {"status": "failed", "message": "", "config": job.config}

    monkeypatch.setattr(harness, "run_job", run_job)
    arguments = command.parse(
        ["--suite", "multitarget", "--only", "multi-gbdt", "--minutes", "1", "--out", str(tmp_path)]
    )
    jobs = list(SUITES["multitarget"].jobs())[:3]
    command.run(arguments, jobs, console)
    assert started == ["atp1d"]
    assert "Stopped after 1 minutes" in console.export_text()


def test_listing_runs_nothing_and_draws_nothing(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["benchmarks", "--list", "--suite", "yeast"])
    monkeypatch.setattr(page, "update", lambda out: pytest.fail("drawn"))
    monkeypatch.setattr(command.signal, "signal", lambda *_: None)
    assert command.main() == 0
    printed = capsys.readouterr().out
    assert f"yeast/yeast/multi-gbdt  {SUITES['yeast'].seconds:.0f} s" in printed
