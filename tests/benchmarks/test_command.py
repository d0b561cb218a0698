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
    ("given", "told"),
    [
        (["--time-limit", "0"], "--time-limit 0: must be above 0"),
        (["--memory-limit", "-1"], "--memory-limit -1: must be above 0"),
        (["--minutes", "0"], "--minutes 0: must be above 0"),
        (["--data", "/no/such/folder"], "--data /no/such/folder: there is no such folder"),
        (["--suite", "nothing"], "invalid choice: 'nothing'"),
        (["--only", "nothing"], "invalid choice: 'nothing'"),
    ],
)
def test_what_is_wrong_is_told_before_anything_runs(given, told, capsys):
    with pytest.raises(SystemExit):
        command.parse(given)
    assert told in capsys.readouterr().err


def test_suites_without_their_set_are_left_out_with_a_word(tmp_path, console):
    (tmp_path / "mnist").mkdir()
    arguments = command.parse(["--data", str(tmp_path), "--suite", "mnist", "yeast", "sweep-rows"])
    jobs = command.wanted(arguments, console)
    assert {job.suite.name for job in jobs} == {"mnist", "sweep-rows"}
    assert "yeast: left out, there is no yeast in" in console.export_text()
    jobs = command.wanted(command.parse(["--suite", "yeast"]), console)
    assert jobs == []
    assert "say where with --data" in console.export_text()


def test_only_the_systems_that_are_asked_for(console):
    arguments = command.parse(["--suite", "sweep-rows", "--only", "parabel"])
    assert [job.name for job in command.wanted(arguments, console)] == [
        f"sweep-rows/{case}/parabel" for case in SUITES["sweep-rows"].cases
    ]


def test_a_record_in_a_line():
    good = {
        "ended": "ok",
        "metrics": {"P@1": 61.23456},
        "train_seconds": 1.23,
        "predict_ms_per_row": 0.01234,
        "model_bytes": 1_500_000,
        "peak_bytes": 2e9,
        "rounds": 3,
        "wanted_rounds": 10,
    }
    assert command.in_words(good) == (
        "P@1 61.23, train 1.2 s, predict 0.0123 ms, 1.50 MB, peak 2.00 GB, stopped after 3 of 10 rounds"
    )
    assert (
        command.in_words({"ended": "failed", "said": "Traceback\nValueError: why\n"})
        == "failed: ValueError: why"
    )
    assert command.in_words({"ended": "time limit", "said": ""}) == "time limit"


def test_nothing_is_started_when_the_minutes_are_over(tmp_path, console, monkeypatch):
    now = iter([0.0, 30.0, 90.0])
    monkeypatch.setattr(command, "time", SimpleNamespace(monotonic=lambda: next(now)))
    started = []

    def run_job(job, *_):
        started.append(job.case)
        return {"ended": "failed", "said": "", "asked": job.asked}

    monkeypatch.setattr(harness, "run_job", run_job)
    arguments = command.parse(
        ["--suite", "multitarget", "--only", "multi-gbdt", "--minutes", "1", "--out", str(tmp_path)]
    )
    jobs = list(SUITES["multitarget"].jobs())[:3]
    command.run(arguments, jobs, console)
    assert started == ["atp1d"]
    assert "1 minutes are over" in console.export_text()


def test_listing_runs_nothing_and_draws_nothing(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["benchmarks", "--list", "--suite", "yeast"])
    monkeypatch.setattr(page, "update", lambda out: pytest.fail("drawn"))
    monkeypatch.setattr(command.signal, "signal", lambda *_: None)
    assert command.main() == 0
    printed = capsys.readouterr().out
    assert f"yeast/yeast/multi-gbdt  {SUITES['yeast'].seconds:.0f} s" in printed
