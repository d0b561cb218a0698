"""Jobs and their records: which are done, running one with its limits, and what is skipped.

A record is a file ``OUT/suite/case/system.json``, written whole or not at all; a run that is cut off keeps what it has
and goes on where it stopped. What ended at a limit is tried again only with a higher one, what failed only when asked.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks._common import machine, write_results
from benchmarks.runner import run_limited
from benchmarks.suites import GB, Job

Record = dict[str, Any]


@dataclass(frozen=True)
class Limits:
    """``seconds``: of every process, instead of its suite's."""

    memory_gb: float
    seconds: float | None = None

    def seconds_of(self, job: Job) -> float:
        return job.seconds if self.seconds is None else self.seconds


def record_path(out: Path, job: Job) -> Path:
    return out / f"{job.name}.json"


def read_record(path: Path) -> Record | None:
    """None also for a file that is not a record: it is made anew."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and "ended" in found else None


def is_done(record: Record | None, job: Job, limits: Limits) -> bool:
    """Whether there is nothing to learn from running it."""
    if record is None or record["asked"] != job.asked:
        return False
    if record["ended"] == "time limit":
        return bool(record["limits"]["seconds"] >= limits.seconds_of(job))
    if record["ended"] == "memory limit":
        return bool(record["limits"]["memory_gb"] >= limits.memory_gb)
    return record["ended"] in ("ok", "failed")


def worker_command(job: Job, data: str, answer: Path, seconds: float) -> list[str]:
    return [
        sys.executable,
        "-m",
        "benchmarks.worker",
        job.suite.name,
        job.case,
        job.key,
        data,
        str(answer),
        str(seconds),
    ]


def run_job(
    job: Job, data: str, limits: Limits, command: Callable[..., list[str]] = worker_command
) -> Record:
    """Run a job in its process; a record of how it went."""
    seconds = limits.seconds_of(job)
    common = {
        "asked": job.asked,
        "limits": {"seconds": seconds, "memory_gb": limits.memory_gb},
        "machine": machine(),
        "load_before": os.getloadavg()[0],
    }
    missing = job.system.missing()
    if missing:
        return {"ended": "not measured", "said": missing, **common}
    threads = {f"{name}_NUM_THREADS": str(job.threads) for name in ("OMP", "OPENBLAS", "MKL")}
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        outcome = run_limited(
            command(job, data, answer, seconds),
            seconds=seconds,
            memory_bytes=limits.memory_gb * GB,
            environment=os.environ | threads,
        )
        found = read_record(answer) if outcome.ended == "ok" else None
    if found is None:
        ended = "failed" if outcome.ended == "ok" else outcome.ended
        found = {"ended": ended, "exit_code": outcome.exit_code, "said": outcome.said}
    peak = max(outcome.peak_bytes, found.get("train_peak_bytes", 0))
    return {**found, "process_seconds": outcome.seconds, "peak_bytes": peak, **common}


def run_all(
    jobs: Iterable[Job],
    data: str,
    out: Path,
    limits: Limits,
    *,
    again: bool = False,
    command: Callable[..., list[str]] = worker_command,
) -> Iterator[tuple[Job, Record | None, bool]]:
    """Run what is not done: (job, None, False) before a process starts, (job, record, whether it was run) after.

    In a sweep a system that did not manage a case is not tried on the larger ones.
    """
    given_up: dict[tuple[str, str], str] = {}
    for job in jobs:
        path = record_path(out, job)
        record = read_record(path)
        row = (job.suite.name, job.key)
        if job.suite.axis and row in given_up:
            record = {
                "ended": "not tried",
                "said": f"{given_up[row]} already",
                "asked": job.asked,
                "limits": {"seconds": limits.seconds_of(job), "memory_gb": limits.memory_gb},
                "machine": machine(),
            }
            write_results(path, record)
            yield job, record, False
            continue
        ran = again or not is_done(record, job, limits)
        if ran:
            yield job, None, False
            record = run_job(job, data, limits, command)
            write_results(path, record)
        assert record is not None
        if record["ended"] in ("time limit", "memory limit", "failed"):
            given_up[row] = f"{record['ended']} with {int(job.case):,}" if job.suite.axis else ""
        yield job, record, ran


def collect(out: Path, jobs: Iterable[Job]) -> dict[str, Record]:
    """Records that there are of these jobs as they are asked for today, by name."""
    found = {}
    for job in jobs:
        record = read_record(record_path(out, job))
        if record is not None and record["asked"] == job.asked:
            found[job.name] = record
    return found
