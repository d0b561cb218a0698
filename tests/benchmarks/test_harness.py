"""The harness, with programs of a few lines in place of systems."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from benchmarks import _common, harness, runner
from benchmarks.harness import Limits, collect, is_done, record_path, run_all, run_job
from benchmarks.runner import run_limited, session_members
from benchmarks.suites import Job, Suite

pytestmark = pytest.mark.slow

linux = pytest.mark.skipif(not Path("/proc").is_dir(), reason="memory is read from /proc")
MANY = 10**12


def program(text):
    return [sys.executable, "-c", textwrap.dedent(text)]


def alive(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# --- one process


def test_a_process_that_ends_well():
    found = run_limited(program("print('hello')"), seconds=60, memory_bytes=MANY)
    assert (found.status, found.exit_code, found.message) == ("ok", 0, "hello\n")


def test_a_process_that_crashes_leaves_its_last_words():
    found = run_limited(program("raise ValueError('x' * 9000 + 'the reason')"), seconds=60, memory_bytes=MANY)
    assert (found.status, found.exit_code) == ("failed", 1)
    assert found.message.endswith("the reason\n")
    assert len(found.message) <= runner.KEPT_CHARACTERS


def test_a_process_that_is_killed_has_failed():
    found = run_limited(program("import os; os.kill(os.getpid(), 9)"), seconds=60, memory_bytes=MANY)
    assert (found.status, found.exit_code) == ("failed", -signal.SIGKILL)


def test_time_is_up():
    found = run_limited(program("import time; time.sleep(600)"), seconds=0.5, memory_bytes=MANY)
    assert found.status == "time limit"
    assert 0.5 <= found.seconds < 60


@linux
def test_memory_of_all_processes_counts_together_and_all_are_ended(tmp_path):
    """One of them has left the group of its parent."""
    text = f"""
        import os, pathlib, subprocess, sys, time
        more = "import time; held = bytearray(b'x' * 60_000_000); time.sleep(600)"
        for own in (0, None):
            child = subprocess.Popen([sys.executable, "-c", more], process_group=own)
            pathlib.Path({str(tmp_path)!r}, str(child.pid)).touch()
        time.sleep(600)
    """
    found = run_limited(program(text), seconds=120, memory_bytes=110_000_000)
    assert found.status == "memory limit"
    assert found.peak_bytes > 110_000_000
    children = [int(path.name) for path in tmp_path.iterdir()]
    assert len(children) == 2
    deadline = time.monotonic() + 60
    while any(map(alive, children)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(map(alive, children))


@linux
def test_memory_that_is_only_mapped_does_not_count():
    text = "import mmap; held = mmap.mmap(-1, 10**10); print(len(held))"
    found = run_limited(program(text), seconds=60, memory_bytes=500_000_000)
    assert found.status == "ok"


@linux
def test_an_interrupted_run_leaves_no_process(tmp_path):
    """The worker's session also ends when the process waiting for it is interrupted."""
    pid_file = tmp_path / "pid"
    text = f"""
        import sys
        from benchmarks.runner import run_limited
        wait = "import os, pathlib, time; pathlib.Path({str(pid_file)!r}).write_text(str(os.getpid())); time.sleep(600)"
        run_limited([sys.executable, "-c", wait], seconds=600, memory_bytes=10**12)
    """
    root = Path(__file__).parents[2]
    waiting = subprocess.Popen(program(text), cwd=root, stderr=subprocess.DEVNULL)
    try:
        while not (pid_file.exists() and pid_file.read_text()):
            assert waiting.poll() is None
            time.sleep(0.02)
        waiting.send_signal(signal.SIGINT)
        assert waiting.wait(60) != 0
    finally:
        waiting.kill()
        waiting.wait()
    worker = int(pid_file.read_text())
    assert not alive(worker)
    assert not list(session_members(worker))


# --- jobs and records


def suite(cases=("one",), systems=("sparse-gbdt", "multi-gbdt"), axis=None, seconds=60, name="fake"):
    return Suite(
        name, "Fake", "multilabel", "", dict.fromkeys(cases), systems, {"n_trees": 1}, seconds, axis=axis
    )


class Commands:
    """Returns the command of a job and records that it was started."""

    def __init__(self, **texts):
        self.texts, self.started = texts, []

    def __call__(self, job, data, output, seconds):
        self.started.append(job.name)
        good = {"status": "ok", "metrics": {"P@1": 50.0}, "train_seconds": 1.0}
        text = f"import pathlib; pathlib.Path({str(output)!r}).write_text({json.dumps(good)!r})"
        return program(self.texts.get(job.case, self.texts.get(job.key.replace("-", "_"), text)))


LIMITS = Limits(memory_gb=4.0)


def run(jobs, out, command, limits=LIMITS, **more):
    """Records of the jobs by name."""
    steps = run_all(jobs, "", out, limits, command=command, **more)
    return {job.name: record for job, record, _ in steps if record is not None}


def test_records_are_kept_and_done_jobs_are_not_repeated(tmp_path):
    jobs = list(suite().jobs())
    first = Commands()
    records = run(jobs, tmp_path, first)
    assert first.started == ["fake/one/sparse-gbdt", "fake/one/multi-gbdt"]
    assert all(record["status"] == "ok" for record in records.values())
    record = json.loads((tmp_path / "fake/one/sparse-gbdt.json").read_text())
    assert record["metrics"] == {"P@1": 50.0}
    assert record["machine"]["python"]
    assert record["limits"] == {"seconds": 60, "memory_gb": 4.0}
    assert record["commit"] == _common.commit()
    assert record["peak_bytes"] >= 0
    second = Commands()
    assert run(jobs, tmp_path, second) == records
    assert second.started == []
    third = Commands()
    run(jobs, tmp_path, third, again=True)
    assert len(third.started) == 2
    assert collect(tmp_path, jobs).keys() == {job.name for job in jobs}
    assert not list(tmp_path.rglob("*.tmp"))


def test_the_commit_is_that_of_the_checkout(tmp_path, monkeypatch):
    checkout = tmp_path / "checkout"
    (checkout / "benchmarks").mkdir(parents=True)
    monkeypatch.setattr(_common, "__file__", str(checkout / "benchmarks" / "_common.py"))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    assert _common.commit() == "unknown"
    git = ["git", "-C", str(checkout), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    log = subprocess.run([*git, "log", "--format=%H"], capture_output=True, text=True, check=True)
    assert _common.commit() == log.stdout.strip()
    monkeypatch.setenv("PATH", str(tmp_path))  # without git
    assert _common.commit() == "unknown"


def test_an_interrupted_run_resumes_where_it_stopped(tmp_path):
    jobs = list(suite(("one", "two", "three"), ("sparse-gbdt",)).jobs())
    steps = run_all(jobs, "", tmp_path, LIMITS, command=Commands())
    for job, record, _ in steps:
        if job.case == "two" and record is None:
            steps.close()  # cut off before the second process
            break
    assert [path.parent.name for path in tmp_path.rglob("*.json")] == ["one"]
    rest = Commands()
    run(jobs, tmp_path, rest)
    assert rest.started == ["fake/two/sparse-gbdt", "fake/three/sparse-gbdt"]


def test_a_damaged_record_is_made_anew(tmp_path):
    (job,) = suite(systems=("sparse-gbdt",)).jobs()
    for damage in ('{"status": "ok", "metr', "[]", '{"no": 1}'):
        path = record_path(tmp_path, job)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(damage)
        again = Commands()
        assert run([job], tmp_path, again)[job.name]["status"] == "ok"
        assert len(again.started) == 1


def test_other_settings_are_another_result(tmp_path):
    (job,) = suite(systems=("sparse-gbdt",)).jobs()
    run([job], tmp_path, Commands())
    changed = Job(Suite(**{**vars(job.suite), "settings": {"n_trees": 2}}), job.case, job.key)
    assert collect(tmp_path, [changed]) == {}
    again = Commands()
    run([changed], tmp_path, again)
    assert len(again.started) == 1


def test_how_a_process_ended_is_the_result(tmp_path):
    texts = {
        "crash": "raise RuntimeError('no such thing')",
        "silent": "pass",
        "slow": "import time; time.sleep(600)",
    }
    jobs = list(suite(tuple(texts), ("sparse-gbdt",), seconds=1.5).jobs())
    records = {job.case: run_job(job, "", LIMITS, Commands(**texts)) for job in jobs}
    assert records["crash"]["status"] == "failed"
    assert "no such thing" in records["crash"]["message"]
    assert records["silent"]["status"] == "failed"  # exit code 0, but no result
    assert records["slow"]["status"] == "time limit"


@linux
def test_a_process_over_its_memory_is_a_result(tmp_path):
    (job,) = suite(("big",), ("sparse-gbdt",)).jobs()
    command = Commands(big="import time; held = bytearray(b'x' * 200_000_000); time.sleep(600)")
    record = run_job(job, "", Limits(memory_gb=0.1), command)
    assert record["status"] == "memory limit"
    assert record["peak_bytes"] > 1e8


def test_jobs_that_hit_a_limit_are_repeated_with_a_higher_one_only():
    (job,) = suite(systems=("sparse-gbdt",)).jobs()
    base = {"config": job.config, "limits": {"seconds": 60, "memory_gb": 4.0}}
    late, large = {**base, "status": "time limit"}, {**base, "status": "memory limit"}
    assert is_done(late, job, Limits(4.0))
    assert is_done(late, job, Limits(4.0, seconds=30))
    assert not is_done(late, job, Limits(4.0, seconds=61))
    assert is_done(late, job, Limits(8.0))
    assert is_done(large, job, Limits(4.0, seconds=61))
    assert not is_done(large, job, Limits(5.0))
    assert is_done({**base, "status": "failed"}, job, Limits(5.0))
    assert not is_done({**base, "status": "not installed"}, job, LIMITS)
    assert not is_done({**base, "status": "skipped"}, job, LIMITS)
    assert not is_done(None, job, LIMITS)


def test_a_sweep_skips_larger_sizes_after_a_failure(tmp_path):
    jobs = list(suite(("10", "100", "1000"), ("sparse-gbdt",), axis="outputs").jobs())
    command = Commands(**{"100": "raise SystemExit(1)"})
    records = run(jobs, tmp_path, command)
    assert command.started == ["fake/10/sparse-gbdt", "fake/100/sparse-gbdt"]
    assert records["fake/1000/sparse-gbdt"]["status"] == "skipped"
    assert records["fake/1000/sparse-gbdt"]["message"] == "failed with 100"
    repaired = Commands()  # the larger one is tried once the smaller one is managed
    records = run(jobs, tmp_path, repaired, again=True)
    assert records["fake/1000/sparse-gbdt"]["status"] == "ok"


def test_without_a_sweep_cases_are_tried_one_and_all(tmp_path):
    jobs = list(suite(("one", "two"), ("sparse-gbdt",)).jobs())
    command = Commands(one="raise SystemExit(1)")
    assert run(jobs, tmp_path, command)["fake/two/sparse-gbdt"]["status"] == "ok"


def test_a_system_that_is_not_installed_is_not_measured(tmp_path, monkeypatch):
    (job,) = suite(systems=("mpi",)).jobs()
    monkeypatch.setattr(
        "benchmarks.systems.base.program", lambda name: None
    )  # no mpiexec, wherever this runs
    command = Commands()
    record = run([job], tmp_path, command)[job.name]
    assert record["status"] == "not installed"
    assert command.started == []


def test_threads_of_a_job_reach_the_libraries(tmp_path):
    (job,) = suite(("1",), ("sparse-gbdt",), axis="threads").jobs()
    command = Commands(**{"1": "import os; print(os.environ['OMP_NUM_THREADS']); raise SystemExit(1)"})
    assert run_job(job, "", LIMITS, command)["message"] == "1\n"
    assert harness.worker_command(job, "d", Path("a"), 5)[1:] == [
        *("-m", "benchmarks.worker", "fake", "1", "sparse-gbdt", "d", "a", "5"),
    ]
