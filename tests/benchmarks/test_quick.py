"""The check for performance regressions, with workloads of a few lines."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from benchmarks import quick

pytestmark = pytest.mark.slow

RATIO = quick.ratio


def spin(n):
    """A workload of n units of the clock below."""

    def fn():
        spin.clock += n

    return fn


@pytest.fixture
def clock(monkeypatch):
    spin.clock = 0.0
    monkeypatch.setattr(quick.time, "process_time", lambda: spin.clock)


@pytest.fixture
def guard(clock, monkeypatch, tmp_path):
    """Runs the guard with workloads of the given costs; its code and what it printed."""
    monkeypatch.setattr(quick, "BASELINE", tmp_path / "baseline.json")
    monkeypatch.setattr(quick, "ratio", lambda fn: RATIO(fn, spin(2.0)))

    def run(write=False, **costs):
        monkeypatch.setattr(quick, "workloads", lambda: {name: spin(cost) for name, cost in costs.items()})
        console = Console(record=True, width=120, file=io.StringIO())
        code = quick.main(console, write=write)
        return code, console.export_text()

    return run


def test_a_ratio_is_of_the_fastest_repeats(clock):
    costs = iter([100.0, 9.0, 6.0, 7.0])  # the first is to warm up

    def fn():
        spin.clock += next(costs)

    assert quick.ratio(fn, spin(2.0), repeats=3) == 3.0


def test_regressions_of_more_than_20_percent_are_reported(guard):
    assert guard(write=True, a=10.0, b=10.0)[0] == 0
    assert json.loads(quick.BASELINE.read_text())["ratios"] == {"a": 5.0, "b": 5.0}
    code, text = guard(a=11.9, b=12.5, new=1.0)
    assert code == 1
    assert "Slower: b, 25 % above the baseline." in text
    assert "Slower: a" not in text
    code, text = guard(a=11.9, b=3.0)
    assert code == 0
    assert "Nothing became slower" in text


def test_noise_is_measured_again(guard, monkeypatch):
    guard(write=True, a=10.0)
    found = iter([9.0, 5.5])
    monkeypatch.setattr(quick, "ratio", lambda fn: next(found))
    assert guard(a=10.0)[0] == 0


def test_the_committed_baseline_names_existing_workloads():
    ratios = json.loads(quick.BASELINE.read_text())["ratios"]
    assert ratios
    assert set(ratios) <= set(quick.WORKLOADS)
